//! What monitoring and autoscalers are told, against jobs that were enqueued and run.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_store_memory::MemoryStore;
use windlass_worker::{Client, Ctx, Job, JobError, Metrics, Worker};

use super::Scene;
use crate::access::Access;
use crate::server::Server;

#[derive(Serialize, Deserialize)]
struct Send;

impl Job for Send {
    const KIND: &'static str = "send";
    type Output = ();
}

async fn send(_job: Send, _ctx: Ctx) -> Result<(), JobError> {
    Ok(())
}

/// A scene whose clock stands at the beginning of a minute.
fn timed() -> (Scene, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_micros(1_800_000_000_000_000));
    let client = Client::new(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));
    let router = Server::new(&client).access(Access::Open).hosts(Vec::<String>::new()).router();
    (Scene { client, router }, clock)
}

async fn enqueue(scene: &Scene, job: serde_json::Value) {
    let reply = scene.post("/api/v1/jobs", &job).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
}

#[tokio::test]
async fn metrics_say_what_came_by_the_server_and_what_the_store_holds() {
    let scene = Scene::open();
    enqueue(&scene, json!({"kind": "send", "queue": "mail"})).await;
    let reply = scene.get("/metrics").await;
    assert_eq!(reply.headers["content-type"], Metrics::CONTENT_TYPE);
    for line in [
        r#"windlass_enqueued_total{queue="mail",kind="send",result="new"} 1"#,
        r#"windlass_jobs{queue="mail",state="ready"} 1"#,
        "windlass_store_up 1",
    ] {
        assert!(reply.text.contains(line), "{line}: {}", reply.text);
    }
}

#[tokio::test]
async fn a_client_that_counts_goes_on_counting_where_it_did() {
    let metrics = Metrics::new();
    let client = Client::new(Arc::new(MemoryStore::new())).with_metrics(&metrics);
    let router = Server::new(&client).access(Access::Open).hosts(Vec::<String>::new()).router();
    enqueue(&Scene { client, router }, json!({"kind": "send", "queue": "mail"})).await;
    let line = r#"windlass_enqueued_total{queue="mail",kind="send",result="new"} 1"#;
    assert!(metrics.encode().contains(line), "{}", metrics.encode());
}

#[tokio::test]
async fn readiness_is_open_and_says_nothing_else() {
    let scene = Scene::closed();
    let reply = scene.get("/readyz").await;
    assert_eq!((reply.status, reply.text.as_str()), (StatusCode::OK, "ready\n"));
    for path in ["/metrics", "/workz"] {
        assert_eq!(scene.get(path).await.status, StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[tokio::test]
async fn jobs_that_no_worker_comes_for_are_not_working() {
    let idle = Scene::open().get("/workz").await;
    assert_eq!((idle.status, &idle.json()["working"]), (StatusCode::OK, &json!(true)));
    let scene = Scene::open();
    enqueue(&scene, json!({"kind": "send", "queue": "mail"})).await;
    let stuck = scene.get("/workz").await;
    assert_eq!(stuck.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(stuck.json(), json!({"working": false, "store_answers": true, "unserved": ["mail"]}));
    let paused = Scene::open();
    enqueue(&paused, json!({"kind": "send", "queue": "mail"})).await;
    paused.post("/api/v1/queues/mail/pause", &json!({"why": "ill"})).await;
    assert_eq!(paused.get("/workz").await.status, StatusCode::OK, "it is meant to stand still");
}

#[tokio::test]
async fn a_backlog_says_what_is_open_and_when_it_is_gone() {
    let (scene, clock) = timed();
    let path = "/api/v1/queues/default/backlog";
    let nothing = scene.get(path).await.json();
    assert_eq!((&nothing["open"], &nothing["oldest_age_seconds"]), (&json!(0), &json!(0.0)), "{nothing}");
    assert!(nothing["drain_seconds"].is_null() && nothing["ended_per_second"].is_null(), "{nothing}");
    for _ in 0..5 {
        enqueue(&scene, json!({"kind": "send", "payload": null})).await;
    }
    let stands = scene.get(path).await.json();
    assert_eq!((&stands["open"], &stands["drain_seconds"]), (&json!(5), &json!(null)), "none has ended");
    Worker::new(&scene.client).handle(send).drain().await.unwrap();
    clock.advance(Duration::from_secs(10));
    enqueue(&scene, json!({"kind": "send", "payload": null})).await;
    enqueue(&scene, json!({"kind": "send", "payload": null, "delay": "5s"})).await;
    enqueue(&scene, json!({"kind": "send", "payload": null, "delay": "1h"})).await;
    clock.advance(Duration::from_secs(10));
    let backlog = scene.get(path).await.json();
    let wanted = json!({
        "queue": "default", "paused": false, "ready": 1, "overdue": 1, "running": 0, "open": 2,
        "oldest_age_seconds": 10.0, "partial": false,
        "accepted_per_second": 0.4, "ended_per_second": 0.25, "drain_seconds": 8.0,
    });
    assert_eq!(backlog, wanted, "eight came and five ended in twenty seconds");
}

#[tokio::test]
async fn tallies_say_what_happened_by_time_and_kind() {
    let (scene, clock) = timed();
    for _ in 0..3 {
        enqueue(&scene, json!({"kind": "send", "payload": null})).await;
    }
    clock.advance(Duration::from_secs(60));
    Worker::new(&scene.client).handle(send).drain().await.unwrap();
    enqueue(&scene, json!({"kind": "other", "payload": null})).await;
    let path = "/api/v1/queues/default/tallies";
    let all = scene.get(path).await.json();
    assert_eq!(all["total"]["counts"], json!({"accepted": 4, "started": 3, "completed": 3}), "{all}");
    assert_eq!(all["total"]["wait_ms"]["p50"], 65_536, "a minute, by powers of two");
    let rows: Vec<_> =
        all["rows"].as_array().unwrap().iter().map(|row| &row["tally"]["counts"]["accepted"]).collect();
    assert_eq!(rows, [&json!(3), &json!(1)]);
    let kinds: Vec<_> = all["kinds"].as_array().unwrap().iter().map(|kind| &kind["kind"]).collect();
    assert_eq!(kinds, ["other", "send"]);
    let one = scene.get(&format!("{path}?kind=other&since=1h&step=1h")).await.json();
    assert_eq!((&one["total"]["counts"], &one["rows"][0]["minutes"]), (&json!({"accepted": 1}), &json!(60)));
    for (query, path_of) in [("since=91d", "since"), ("step=2m", "step"), ("kind=", "kind")] {
        let reply = scene.get(&format!("{path}?{query}")).await;
        assert_eq!((reply.code().as_str(), &reply.json()["path"]), ("invalid", &json!(path_of)), "{query}");
    }
    let unknown = scene.get(&format!("{path}?steps=1m")).await;
    assert!(unknown.code() == "invalid" && unknown.text.contains("steps"), "{}", unknown.text);
}
