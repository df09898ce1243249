//! Who may call what, and what is left out of answers.

use serde_json::{Value, json};
use windlass_core::queue::QueueConfig;
use windlass_core::store::{Jobs, Queues};
use windlass_core::{NewJob, Options};
use windlass_store_memory::MemoryStore;

use super::*;
use crate::wire::verbs::NAMES;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn grant(may: Allowed, queues: Option<&[&str]>) -> Grant {
    let queues = queues.map(|queues| queues.iter().map(|queue| name(queue)).collect());
    Grant { may, queues, closed: name("own") }
}

async fn call(store: &MemoryStore, grant: &Grant, verb: &str, body: Value) -> Result<Value, Refusal> {
    let answer = answer(store, grant, verb, body.to_string().as_bytes()).await?;
    Ok(serde_json::from_slice(&answer).unwrap())
}

/// A store with a job in each of these queues, and their ids.
async fn filled<const N: usize>(queues: [&str; N]) -> (MemoryStore, [JobId; N]) {
    let store = MemoryStore::new();
    let jobs = queues.map(|queue| NewJob::new("k", "\"secret\"", Options::new().queue(queue)).unwrap());
    let ids = jobs.each_ref().map(|job| job.id);
    Jobs::enqueue(&store, jobs.into()).await.unwrap();
    (store, ids)
}

fn is_forbidden(answer: &Result<Value, Refusal>) -> bool {
    matches!(answer, Err(Refusal::Forbidden(_)))
}

#[tokio::test]
async fn each_call_needs_its_role() {
    let store = MemoryStore::new();
    for verb in NAMES {
        let needed = match sort(verb).unwrap() {
            Sort::Read => Allowed::Look,
            Sort::Work | Sort::Lease | Sort::Change => Allowed::Change,
            Sort::Remove => Allowed::Remove,
        };
        for may in [Allowed::Look, Allowed::Change, Allowed::Remove] {
            // What is asked for is tested after who asks.
            let answered = call(&store, &grant(may, None), verb, json!({"no": "such field"})).await;
            assert_eq!(is_forbidden(&answered), may < needed, "{verb} by {may:?}: {answered:?}");
        }
    }
    assert!(matches!(
        call(&store, &grant(Allowed::Remove, None), "drop", json!({})).await,
        Err(Refusal::NoVerb)
    ));
}

#[tokio::test]
async fn a_token_of_some_queues_reaches_no_other() {
    let (store, [mine, other]) = filled(["mine", "other"]).await;
    let limited = grant(Allowed::Remove, Some(&["mine"]));
    for verb in ["cancel", "retry", "delete", "withdraw", "states"] {
        let foreign = call(&store, &limited, verb, json!({"ids": [mine, other]})).await;
        assert!(is_forbidden(&foreign), "{verb}: {foreign:?}");
    }
    assert!(is_forbidden(&call(&store, &limited, "remove", json!({"queue": "other"})).await));
    assert!(is_forbidden(&call(&store, &limited, "examine", json!({"depth": "quick"})).await));
    let job = NewJob::new("k", "", Options::new().queue("other")).unwrap();
    let enqueue = json!({"call": windlass_core::CallId::new(), "jobs": [job]});
    assert!(is_forbidden(&call(&store, &limited, "enqueue", enqueue).await));

    let got = call(&store, &limited, "get", json!({"ids": [mine, other]})).await.unwrap();
    assert_eq!((&got[0]["id"], &got[1]), (&json!(mine), &Value::Null));
    let page =
        call(&store, &limited, "list", json!({"filter": {}, "after": null, "limit": 9})).await.unwrap();
    assert_eq!(page["jobs"].as_array().unwrap().len(), 1, "{page}");
    let queues = call(&store, &limited, "queues", json!({"after": null, "limit": 1})).await.unwrap();
    assert_eq!(queues["next"], "mine", "a page says where it ended, whatever was left out: {queues}");
    call(&store, &limited, "cancel", json!({"ids": [mine]})).await.unwrap();
}

#[tokio::test]
async fn the_servers_own_records_are_closed_for_all() {
    let store = MemoryStore::new();
    let all = grant(Allowed::Remove, None);
    let list = json!({"queue": "own", "prefix": "", "after": null, "limit": 9});
    assert!(is_forbidden(&call(&store, &all, "list_records", list).await));
    assert!(is_forbidden(&call(&store, &all, "totals", json!({"queue": "own"})).await));
}

#[tokio::test]
async fn what_is_masked_is_kept_from_those_who_only_look() {
    let (store, [masked, plain]) = filled(["masked", "plain"]).await;
    store.define(&name("masked"), &QueueConfig { masked: true, ..QueueConfig::default() }).await.unwrap();
    let ids = json!({"ids": [masked, plain]});
    let looked = call(&store, &grant(Allowed::Look, None), "get", ids.clone()).await.unwrap();
    assert_eq!(
        (&looked[0]["payload"], &looked[1]["payload"]),
        (&json!("\"(masked)\""), &json!("\"secret\""))
    );
    let page = json!({"filter": {"queue": "masked"}, "after": null, "limit": 9});
    let page = call(&store, &grant(Allowed::Look, None), "list", page).await.unwrap();
    assert!(!page.to_string().contains("secret"), "{page}");
    let records = json!({"queue": "masked", "prefix": "", "after": null, "limit": 9});
    assert!(is_forbidden(&call(&store, &grant(Allowed::Look, None), "list_records", records).await));
    let worked = call(&store, &grant(Allowed::Change, None), "get", ids).await.unwrap();
    assert_eq!(worked[0]["payload"], "\"secret\"");
}

#[tokio::test]
async fn what_no_program_of_ours_sends_is_refused() {
    let (store, [id]) = filled(["q"]).await;
    let all = grant(Allowed::Remove, None);
    let malformed = |answer: &Result<Value, Refusal>| matches!(answer, Err(Refusal::Malformed(_)));
    for body in [json!({}), json!({"ids": "all"}), json!({"ids": [], "more": 1}), json!([]), json!(null)] {
        let answered = call(&store, &all, "cancel", body.clone()).await;
        assert!(malformed(&answered), "{body}: {answered:?}");
    }
    let deep = "[".repeat(100_000);
    assert!(matches!(answer(&store, &all, "cancel", deep.as_bytes()).await, Err(Refusal::Malformed(_))));
    let refused =
        |answer: &Result<Value, Refusal>| matches!(answer, Err(Refusal::Store(StoreError::Refused(_))));
    let many = call(&store, &all, "cancel", json!({"ids": vec![id; 10_001]})).await;
    assert!(refused(&many), "{many:?}");
}
