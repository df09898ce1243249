//! Jobs by way of the API.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_core::State;

use super::{Scene, request};
use crate::access::Role;

#[tokio::test]
async fn a_job_is_enqueued_with_every_option_and_looked_at() {
    let scene = Scene::open();
    let job = json!({
        "kind": "mail.send", "payload": {"to": "ada", "n": 12_345_678_901_234_567_890_u64}, "queue": "mail",
        "priority": 7, "delay": "1h", "expires_in": "2h", "key": "acme", "timeout": "30s", "max_stalls": 5,
        "unique": {"key": "k1", "until": "start", "replace": true}, "tags": ["a", "b"], "meta": {"who": "me"},
        "retry": {"attempts": 4, "backoff": "fixed:10s", "backoff_max": "1m", "jitter": "none", "ambiguous": 1},
        "trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "on_dead": {"kind": "mail.lost"}, "forward_dead": "lost",
    });
    let reply = scene.post("/api/v1/jobs", &job).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
    let accepted = reply.json();
    assert_eq!((&accepted["new"], &accepted["state"]), (&json!(true), &json!("scheduled")));
    let shown = scene.get(&format!("/api/v1/jobs/{}", accepted["id"].as_str().unwrap())).await;
    assert!(shown.text.contains("12345678901234567890"), "no digit is lost");
    let shown = shown.json();
    for field in
        ["kind", "payload", "queue", "priority", "key", "timeout", "max_stalls", "tags", "meta", "trace"]
    {
        assert_eq!(shown[field], job[field], "{field}");
    }
    for field in ["attempts", "backoff", "jitter", "ambiguous"] {
        assert_eq!(shown["retry"][field], job["retry"][field], "{field}");
    }
    assert_eq!(shown["payload_encoding"], "json");
}

#[tokio::test]
async fn the_same_request_twice_is_one_job() {
    let scene = Scene::open();
    let send = async |key: &str, payload: &Value| {
        let body = json!({"kind": "k", "payload": payload}).to_string();
        let request = request(&Method::POST, "/api/v1/jobs")
            .header("content-type", "application/json")
            .header("idempotency-key", key);
        scene.send(request.body(Body::from(body)).unwrap()).await
    };
    let (first, again) = (send("order 1", &json!(1)).await, send("order 1", &json!(1)).await);
    assert_eq!((first.status, again.status), (StatusCode::CREATED, StatusCode::OK));
    assert_eq!(first.json()["id"], again.json()["id"]);
    let other = send("order 1", &json!(2)).await;
    assert_eq!((other.status, other.code().as_str()), (StatusCode::CONFLICT, "taken"));
    assert_eq!(send("order 2", &json!(2)).await.status, StatusCode::CREATED);
    assert_eq!(send("", &json!(2)).await.code(), "invalid");
}

#[tokio::test]
async fn many_jobs_are_accepted_all_or_none() {
    let scene = Scene::open();
    let jobs: Vec<_> = (0..1_000).map(|n| json!({"kind": "k", "payload": n})).collect();
    let reply = scene.post("/api/v1/jobs/bulk", &json!({"jobs": jobs})).await;
    assert_eq!((reply.status, reply.json()["items"].as_array().unwrap().len()), (StatusCode::CREATED, 1_000));
    let bad = scene
        .post("/api/v1/jobs/bulk", &json!({"jobs": [{"kind": "k"}, {"kind": "k", "retry": {"atempts": 1}}]}))
        .await;
    assert_eq!((bad.code().as_str(), &bad.json()["path"]), ("invalid", &json!("jobs[1].retry.atempts")));
    for jobs in [json!([]), json!(vec![json!({"kind": "k"}); 1_001])] {
        assert_eq!(scene.post("/api/v1/jobs/bulk", &json!({"jobs": jobs})).await.code(), "invalid");
    }
    assert_eq!(scene.client.queue("default").unwrap().counts().await.unwrap().of(State::Ready), 1_000);
}

#[tokio::test]
async fn pages_follow_one_another_to_the_end() {
    let scene = Scene::open();
    let jobs: Vec<_> = (0..120).map(|n| json!({"kind": "k", "payload": n})).collect();
    scene.post("/api/v1/jobs/bulk", &json!({"jobs": jobs})).await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = scene.get(&format!("/api/v1/jobs?queue=default&limit=50{after}")).await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|job| job["payload"].as_u64().unwrap()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break assert_eq!(page["complete"], true),
        }
    }
    assert_eq!(seen, (0..120).rev().collect::<Vec<_>>());
    for limit in ["1000000000", "18446744073709551615", "0"] {
        assert_eq!(scene.get(&format!("/api/v1/jobs?limit={limit}")).await.status, StatusCode::OK);
    }
    for bad in ["limit=-1", "limit=x", "stat=dead", "state=odd", "queue=a%20b", "after=x", "queue=a&queue=b"]
    {
        assert_eq!(scene.get(&format!("/api/v1/jobs?{bad}")).await.code(), "invalid", "{bad}");
    }
}

#[tokio::test]
async fn a_token_reaches_its_queues_only() {
    let scene = Scene::closed();
    let (all, mail) = (scene.token(Role::Operator, &[]).await, scene.token(Role::Operator, &["mail"]).await);
    let send = async |token: &str, method: Method, path: &str, body: Value| {
        let request = request(&method, path)
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"));
        scene.send(request.body(Body::from(body.to_string())).unwrap()).await
    };
    let enqueue = async |token: &str, queue: &str| {
        send(token, Method::POST, "/api/v1/jobs", json!({"kind": "k", "queue": queue})).await
    };
    let other = enqueue(&all, "other").await.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(enqueue(&mail, "mail").await.status, StatusCode::CREATED);
    assert_eq!(enqueue(&mail, "other").await.status, StatusCode::FORBIDDEN);
    for (method, path) in [
        (Method::GET, format!("/api/v1/jobs/{other}")),
        (Method::DELETE, format!("/api/v1/jobs/{other}")),
        (Method::POST, format!("/api/v1/jobs/{other}/cancel")),
        (Method::POST, format!("/api/v1/jobs/{other}/retry")),
        (Method::GET, "/api/v1/jobs?queue=other".to_owned()),
    ] {
        assert_eq!(
            send(&mail, method.clone(), &path, json!({})).await.status,
            StatusCode::FORBIDDEN,
            "{method} {path}"
        );
    }
    assert_eq!(send(&mail, Method::GET, "/api/v1/jobs?queue=mail", json!({})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_caller_waits_until_a_job_has_ended() {
    let scene = Scene::open();
    let id =
        scene.post("/api/v1/jobs", &json!({"kind": "k"})).await.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/jobs/{id}?wait=1m");
    let (waited, ()) = tokio::join!(scene.get(&path), async {
        scene.client.cancel(id.parse().unwrap()).await.unwrap();
    });
    assert_eq!(waited.json()["state"], "cancelled");
    assert_eq!(
        scene.get(&format!("/api/v1/jobs/{id}?wait=soon")).await.status,
        StatusCode::OK,
        "it has ended: there is nothing to wait for"
    );
}
