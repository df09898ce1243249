//! Queues, dead letters, flows, schedules, records and the rest by way of the API.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_core::JobId;

use super::{Scene, request};
use crate::access::Role;

/// A job that has died, in a queue.
async fn dead(scene: &Scene, queue: &str, payload: Value) -> JobId {
    let job = json!({"kind": "k", "queue": queue, "payload": payload, "expires_in": "1us"});
    let id: JobId = scene.post("/api/v1/jobs", &job).await.json()["id"].as_str().unwrap().parse().unwrap();
    // A sweep finds that it is too late.
    loop {
        scene.client.store().promote(100).await.unwrap();
        if scene.client.job(id).await.unwrap().unwrap().state.is_terminal() {
            return id;
        }
    }
}

#[tokio::test]
async fn a_definition_that_was_answered_can_be_sent_again() {
    let scene = Scene::open();
    let sent = json!({
        "concurrency": 3, "rate": "500/1m", "rate_shape": "bucket:10", "capacity": 900, "aging": "10s",
        "keys": {"concurrency": 1, "rate": "10/1s", "weights": {"acme": 5}},
        "keep": {"completed": {"age": "1h", "count": 7}, "dead": {}},
        "caps": {"payload": 1000, "output": 1000, "error": 100},
        "defaults": {"retry": {"attempts": 3, "backoff": "linear:5s"}, "timeout": "30s", "priority": 2,
                     "on_dead": {"kind": "lost"}, "forward_dead": "graves"},
        "masked": true,
    });
    let first = scene.call(Method::PUT, "/api/v1/queues/mail", &sent).await;
    assert_eq!(first.status, StatusCode::OK, "{}", first.text);
    let definition = &first.json()["definition"];
    for (field, value) in [("rate", "500/1m"), ("rate_shape", "bucket:10"), ("aging", "10s")] {
        assert_eq!(definition[field], value);
    }
    let again = scene.call(Method::PUT, "/api/v1/queues/mail", definition).await;
    assert_eq!(&again.json()["definition"], definition, "{}", again.text);
    for (bad, path) in [
        (json!({"rate": "fast"}), "rate"),
        (json!({"keep": {"dead": {"age": 3}}}), "keep.dead.age"),
        (json!({"defaults": {"on_dead": {"kind": "windlass.tick"}}}), "defaults.on_dead.kind"),
        (json!({"concurency": 1}), "concurency"),
    ] {
        let reply = scene.call(Method::PUT, "/api/v1/queues/mail", &bad).await;
        assert_eq!((reply.code().as_str(), &reply.json()["path"]), ("invalid", &json!(path)), "{bad}");
    }
    assert_eq!(
        scene.call(Method::PUT, "/api/v1/queues/mail", &json!({"concurrency": 0})).await.code(),
        "invalid"
    );
}

#[tokio::test]
async fn a_queue_is_paused_and_resumed_and_says_what_binds() {
    let scene = Scene::open();
    scene.post("/api/v1/jobs", &json!({"kind": "k", "queue": "mail"})).await;
    let paused = scene.post("/api/v1/queues/mail/pause", &json!({"why": "ill", "for": "1h"})).await.json();
    assert_eq!((&paused["paused"]["by"], &paused["paused"]["why"]), (&json!("local"), &json!("ill")));
    let binds: Vec<_> = paused["binds"].as_array().unwrap().iter().map(|bind| bind["what"].clone()).collect();
    assert_eq!(binds, ["paused", "no_worker"]);
    scene.post("/api/v1/queues/mail/pause", &json!({"kinds": ["k"], "keys": ["acme"]})).await;
    scene.call(Method::PUT, "/api/v1/queues/mail", &json!({"concurrency": 1})).await;
    let kept = scene.get("/api/v1/queues/mail").await.json();
    assert!(!kept["paused"].is_null() && !kept["paused_kinds"]["k"].is_null(), "a definition keeps pauses");
    scene.post("/api/v1/queues/mail/resume", &json!({"kinds": ["k"], "keys": ["acme"]})).await;
    let resumed = scene.post("/api/v1/queues/mail/resume", &json!({})).await.json();
    assert!(resumed["paused"].is_null() && resumed["paused_kinds"] == json!({}), "{resumed}");
    assert_eq!(scene.get("/api/v1/queues?backlog=true").await.json()["items"][0]["backlog"]["overdue"], 0);
    assert_eq!(scene.call(Method::DELETE, "/api/v1/queues/mail", &json!({})).await.code(), "refused");
    assert_eq!(scene.get("/api/v1/queues/nothing").await.code(), "not_found");
}

#[tokio::test]
async fn what_is_masked_is_shown_to_those_who_reveal_it_and_that_is_written_down() {
    let scene = Scene::closed();
    let (viewer, operator) = (scene.token(Role::Viewer, &[]).await, scene.token(Role::Operator, &[]).await);
    let admin = scene.token(Role::Admin, &[]).await;
    let send = async |token: &str, method: Method, path: &str, body: Value| {
        let request = request(&method, path)
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"));
        scene.send(request.body(Body::from(body.to_string())).unwrap()).await
    };
    send(&operator, Method::PUT, "/api/v1/queues/pay", json!({"masked": true})).await;
    let job = json!({"kind": "k", "queue": "pay", "payload": {"card": "canary-4711"}});
    let id =
        send(&operator, Method::POST, "/api/v1/jobs", job).await.json()["id"].as_str().unwrap().to_owned();
    let one = format!("/api/v1/jobs/{id}");
    for path in [&*one, "/api/v1/jobs?queue=pay", "/api/v1/dead", "/api/v1/queues/pay"] {
        for token in [&viewer, &operator, &admin] {
            assert!(!send(token, Method::GET, path, json!({})).await.text.contains("canary"), "{path}");
        }
    }
    assert_eq!(send(&viewer, Method::GET, &one, json!({})).await.json()["payload_encoding"], "masked");
    let reveal = format!("{one}?reveal=true");
    assert_eq!(send(&viewer, Method::GET, &reveal, json!({})).await.status, StatusCode::FORBIDDEN);
    assert!(send(&operator, Method::GET, &reveal, json!({})).await.text.contains("canary-4711"));
    let audit = send(&admin, Method::GET, "/api/v1/audit?limit=1", json!({})).await.json();
    assert_eq!(audit["items"][0]["action"], "reveal_job");
    assert_eq!(
        send(&viewer, Method::GET, "/api/v1/queues/pay/records", json!({})).await.status,
        StatusCode::FORBIDDEN
    );
}

#[tokio::test]
async fn dead_letters_are_found_sent_back_and_removed_as_many_as_expected() {
    let scene = Scene::open();
    let ids = [dead(&scene, "mail", json!({"n": 1})).await, dead(&scene, "mail", json!({"n": 2})).await];
    dead(&scene, "other", json!(null)).await;
    let page = scene.get("/api/v1/dead?queue=mail&limit=1").await.json();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["complete"]), (1, &json!(false)));
    let groups = scene.get("/api/v1/dead/groups?queue=mail").await.json();
    assert_eq!((&groups["items"][0]["count"], &groups["complete"]), (&json!(2), &json!(true)));
    assert_eq!(scene.get("/api/v1/dead/sample?limit=2").await.json()["items"].as_array().unwrap().len(), 2);
    let filter = json!({"queue": "mail", "fields": {"n": 1}});
    let counted = scene.post("/api/v1/dead/replay", &json!({"filter": filter})).await.json();
    assert_eq!((&counted["matched"], &counted["replayed"]), (&json!(1), &json!(0)));
    let wrong = scene.post("/api/v1/dead/replay", &json!({"filter": filter, "expected": 2})).await;
    assert_eq!(wrong.code(), "unexpected");
    let edited = scene
        .post(&format!("/api/v1/jobs/{}/edit", ids[0]), &json!({"payload": {"n": 3}, "why": "a slip"}))
        .await;
    assert_eq!(edited.status, StatusCode::OK, "{}", edited.text);
    let done = scene.post("/api/v1/dead/replay", &json!({"filter": filter, "expected": 1})).await.json();
    assert_eq!(done["replayed"], 1, "{done}");
    let purge = json!({"filter": {"queue": "mail"}, "expected": 1});
    let purged = scene.post("/api/v1/dead/purge", &purge).await.json();
    assert_eq!((&purged["matched"], &purged["removed"]), (&json!(1), &json!(1)), "{purged}");
    assert_eq!(scene.get(&format!("/api/v1/jobs/{}", ids[1])).await.code(), "not_found");
    let rule = "/api/v1/dead/rules/mail/timeouts";
    assert_eq!(
        scene.call(Method::PUT, rule, &json!({"error": "timed out", "after": "10m"})).await.status,
        StatusCode::OK
    );
    assert_eq!(scene.get("/api/v1/dead/rules").await.json()["items"][0]["after"], "10m");
    assert_eq!(scene.call(Method::DELETE, rule, &json!({})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn records_are_written_on_a_condition_and_the_servers_own_are_closed() {
    let scene = Scene::open();
    let path = "/api/v1/queues/mail/records/a%2Fb";
    let first = scene
        .call(Method::PUT, path, &json!({"value": {"n": 10_000_000_000_000_000_000_u64}, "if_absent": true}))
        .await;
    let version = first.json()["version"].as_str().unwrap().to_owned();
    assert_eq!(
        scene.call(Method::PUT, path, &json!({"value": 1, "if_absent": true})).await.code(),
        "conflict"
    );
    assert_eq!(
        scene.call(Method::PUT, path, &json!({"value": 2, "if_version": version, "ttl": "1h"})).await.status,
        StatusCode::OK
    );
    assert_eq!(
        scene.call(Method::PUT, path, &json!({"value": 3, "if_version": version})).await.code(),
        "conflict"
    );
    assert_eq!(
        (&scene.get(path).await.json()["key"], &scene.get(path).await.json()["value"]),
        (&json!("a/b"), &json!(2))
    );
    assert_eq!(
        scene.get("/api/v1/queues/mail/records?prefix=a/").await.json()["items"].as_array().unwrap().len(),
        1
    );
    assert_eq!(
        scene.call(Method::DELETE, &format!("{path}?if_version={version}"), &json!({})).await.code(),
        "conflict"
    );
    assert_eq!(scene.call(Method::DELETE, path, &json!({})).await.status, StatusCode::OK);
    scene.token(Role::Admin, &[]).await;
    for queue in ["windlass.server", "windlass.dead"] {
        for (method, rest) in [
            (Method::GET, "/records"),
            (Method::PUT, "/records/token%2Fx"),
            (Method::PUT, ""),
            (Method::DELETE, ""),
        ] {
            let body = if rest.is_empty() { json!({}) } else { json!({"value": 1}) };
            let reply = scene.call(method.clone(), &format!("/api/v1/queues/{queue}{rest}"), &body).await;
            assert_eq!(reply.code(), "forbidden", "{method} {queue}{rest}");
        }
    }
    let job = json!({"kind": "windlass.tick", "payload": {}});
    assert_eq!(scene.post("/api/v1/jobs", &job).await.code(), "invalid", "kinds of the engine are its own");
    assert_eq!(
        scene.post("/api/v1/jobs", &json!({"kind": "k", "queue": "windlass.server"})).await.code(),
        "forbidden"
    );
}

#[tokio::test]
async fn a_schedule_is_set_looked_at_paused_run_and_removed() {
    let scene = Scene::open();
    let path = "/api/v1/schedules/nightly";
    let rules =
        json!({"cron": "0 3 * * *", "tz": "Europe/Madrid", "overlap": "wait_one", "catch_up": "all:5"});
    let sent =
        json!({"rules": rules, "job": {"kind": "report", "payload": 1, "queue": "reports", "tags": ["a"]}});
    let made = scene.call(Method::PUT, path, &sent).await;
    assert_eq!((made.status, &made.json()["set"]), (StatusCode::CREATED, &json!("created")), "{}", made.text);
    let answered = made.json()["schedule"]["rules"].clone();
    let again = json!({"rules": answered, "job": sent["job"]});
    assert_eq!(scene.call(Method::PUT, path, &again).await.json()["set"], "unchanged");
    assert_eq!(
        scene.get(&format!("{path}/slots?limit=3")).await.json()["items"].as_array().unwrap().len(),
        3
    );
    assert_eq!(scene.call(Method::POST, &format!("{path}/pause"), &json!({})).await.json()["paused"], true);
    assert_eq!(scene.call(Method::POST, &format!("{path}/resume"), &json!({})).await.json()["paused"], false);
    let job = scene.call(Method::POST, &format!("{path}/run"), &json!({})).await.json()["job"].clone();
    assert_eq!(scene.get(&format!("/api/v1/jobs/{}", job.as_str().unwrap())).await.json()["kind"], "report");
    assert_eq!(scene.get("/api/v1/schedules").await.json()["items"][0]["id"], "nightly");
    assert_eq!(scene.call(Method::DELETE, path, &json!({})).await.json()["deleted"], true);
    assert_eq!(scene.get(path).await.code(), "not_found");
    let preview = json!({"rules": {"every": "1h"}, "after": "2026-01-01T00:00:00Z", "limit": 2});
    let slots = scene.post("/api/v1/preview/schedule", &preview).await.json();
    assert_eq!(slots["items"][1]["at"], "2026-01-01T02:00:00.000000Z");
    for bad in [
        json!({}),
        json!({"cron": "0 25 * * *"}),
        json!({"cron": "@daily", "every": "1h"}),
        json!({"every": "1ms"}),
    ] {
        let reply = scene.call(Method::PUT, path, &json!({"rules": bad, "job": {"kind": "k"}})).await;
        assert_eq!(reply.code(), "invalid", "{bad}");
    }
}

#[tokio::test]
async fn the_store_and_its_jobs_explain_themselves() {
    let scene = Scene::open();
    let id = scene.post("/api/v1/jobs", &json!({"kind": "k", "delay": "1h"})).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let why = scene.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    assert_eq!(why["causes"][0]["cause"], "not_due", "{why}");
    assert!(why["causes"][0]["facts"]["due_at"].is_string());
    assert_eq!(scene.get("/api/v1/doctor").await.json()["problems"], 0);
    assert_eq!(scene.get("/api/v1/workers").await.json()["complete"], true);
    for rest in ["logs", "attempts"] {
        assert_eq!(scene.get(&format!("/api/v1/jobs/{id}/{rest}")).await.json()["items"], json!([]));
    }
    let moved = scene.post(&format!("/api/v1/jobs/{id}/move"), &json!({"queue": "other"})).await.json();
    let new = moved["new_id"].as_str().unwrap();
    scene.post(&format!("/api/v1/jobs/{new}/cancel"), &json!({})).await;
    let again = scene.call(Method::POST, &format!("/api/v1/jobs/{new}/again"), &json!({})).await;
    assert_eq!(again.status, StatusCode::OK, "{}", again.text);
    let events = scene.get(&format!("/api/v1/jobs/{new}/events")).await;
    assert!(
        events.headers["content-type"] == "text/event-stream" && events.text.contains("event: ended"),
        "{}",
        events.text
    );
    assert_eq!(scene.get(&format!("/api/v1/flows/{new}")).await.code(), "not_found");
    assert_eq!(scene.get("/api/v1/flows?ended=true").await.json()["items"], json!([]));
}
