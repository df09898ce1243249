//! Hostile text in every field: refused with a problem, or kept as it is and given back as JSON. Never a 5xx.

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};

use super::{Reply, Scene, request};

/// Sixty texts that have hurt other programs.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        " ",
        "\0",
        "a\0b",
        "\u{1b}[31mred",
        "\u{202e}gpj.exe",
        "\u{feff}",
        "\u{200b}",
        "\r\nSet-Cookie: a=b",
        "\n",
        "\t",
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "javascript:alert(1)",
        "\"><svg onload=alert(1)>",
        "'; DROP TABLE jobs; --",
        "' OR '1'='1",
        "\\'; SELECT pg_sleep(9)--",
        "1; SELECT 1",
        "$1",
        "$$",
        "%s%s%n",
        "{{7*7}}",
        "${jndi:ldap://x}",
        "$(reboot)",
        "`id`",
        "| cat /etc/passwd",
        "../../etc/passwd",
        "..\\..\\windows",
        "%2e%2e%2f",
        "/etc/passwd",
        "file:///etc/passwd",
        "C:\\con",
        "nul",
        "con",
        "=cmd()",
        "+1",
        "-1",
        "@SUM(A1)",
        "{wl:x}",
        "wl:{a}:b",
        "windlass.server",
        "windlass.tick",
        "token/x",
        "null",
        "undefined",
        "NaN",
        "1e131071",
        "9223372036854775808",
        "true",
        "[]",
        "{}",
        "\"",
        "\\",
        "\u{10ffff}",
        "é",
        "e\u{301}",
        "𝒳",
        "\u{fffd}",
        "☃",
    ]
    .map(str::to_owned)
    .into();
    texts.extend(["x".repeat(129), "y".repeat(5_000), "z".repeat(300_000)]);
    texts
}

#[track_caller]
fn well(reply: &Reply, what: &str) {
    assert!(!reply.status.is_server_error(), "{what}: {}", reply.text);
    let kind = reply.headers["content-type"].to_str().unwrap();
    let is_known = if reply.status.is_success() { "application/json" } else { "application/problem+json" };
    assert_eq!(kind, is_known, "{what}");
    assert_eq!(reply.headers["x-content-type-options"], "nosniff");
    assert!(serde_json::from_str::<Value>(&reply.text).is_ok(), "{what}: {}", reply.text);
}

#[tokio::test]
async fn text_in_every_field_of_a_body_is_refused_or_kept() {
    let scene = Scene::open();
    for text in texts() {
        let job = |field: &str, value: Value| {
            let mut job = json!({"kind": "k"});
            job[field] = value;
            ("/api/v1/jobs", Method::POST, job)
        };
        let fields = [
            "kind",
            "queue",
            "id",
            "key",
            "delay",
            "at",
            "timeout",
            "trace",
            "forward_dead",
            "payload_encoding",
        ];
        let mut calls: Vec<_> = fields.iter().map(|field| job(field, json!(text))).collect();
        calls.extend([
            job("payload", json!(text)),
            job("tags", json!([text])),
            job("meta", json!({(text.clone()): text})),
            job("unique", json!({"key": text})),
            job("unique", json!({"fields": [text]})),
            job("retry", json!({"backoff": text, "jitter": text})),
            job("on_dead", json!({"kind": text, "queue": text})),
            job(&text, json!(1)),
            ("/api/v1/queues/q/pause", Method::POST, json!({"why": text})),
            ("/api/v1/queues/q/pause", Method::POST, json!({"kinds": [text], "for": text})),
            ("/api/v1/queues/q", Method::PUT, json!({"rate": text, "rate_shape": text})),
            ("/api/v1/queues/q/records/r", Method::PUT, json!({"value": text})),
            ("/api/v1/queues/q/records/r", Method::PUT, json!({"value": 1, "if_version": text})),
            ("/api/v1/tokens", Method::POST, json!({"name": text, "role": "viewer", "ttl": "1s"})),
            ("/api/v1/session", Method::POST, json!({"token": text})),
            (
                "/api/v1/dead/replay",
                Method::POST,
                json!({"filter": {"error": text, "fields": {(text.clone()): text}}}),
            ),
            ("/api/v1/dead/rules/q/r", Method::PUT, json!({"error": text, "fingerprint": text})),
            (
                "/api/v1/preview/schedule",
                Method::POST,
                json!({"rules": {"cron": text, "tz": text, "except": [text]}}),
            ),
        ]);
        for (path, method, body) in calls {
            let reply = scene.call(method, path, &body).await;
            well(&reply, &format!("{path} with {:?}", text.chars().take(40).collect::<String>()));
        }
        let stored =
            scene.post("/api/v1/jobs", &json!({"kind": "k", "payload": text, "meta": {"m": text}})).await;
        if stored.status.is_success() {
            let id = stored.json()["id"].as_str().unwrap().to_owned();
            let shown = scene.get(&format!("/api/v1/jobs/{id}")).await.json();
            assert_eq!(
                (&shown["payload"], &shown["meta"]["m"]),
                (&json!(text), &json!(text)),
                "it is kept as it is"
            );
        }
    }
}

/// Every byte that is not plain, percent-encoded.
fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[tokio::test]
async fn text_in_paths_and_queries_is_refused_or_finds_nothing() {
    let scene = Scene::open();
    for text in texts().iter().filter(|text| text.len() < 10_000) {
        let part = encoded(text);
        for path in [
            format!("jobs/{part}"),
            format!("jobs/{part}/logs"),
            format!("queues/{part}"),
            format!("queues/q/records/{part}"),
            format!("schedules/{part}"),
            format!("flows/{part}"),
            format!("jobs?queue={part}"),
            format!("jobs?after={part}"),
            format!("jobs?limit={part}"),
            format!("jobs?{part}=1"),
            format!("queues?after={part}"),
            format!("queues/q/records?prefix={part}"),
            format!("queues/q/records?after={part}"),
            format!("dead?error={part}&since={part}"),
            format!("dead/groups?fingerprint={part}"),
            format!("schedules?after={part}"),
            format!("audit?after={part}"),
            format!("flows?after={part}"),
            part.clone(),
        ] {
            let reply = scene.get(&format!("/api/v1/{path}")).await;
            well(&reply, &path.chars().take(60).collect::<String>());
        }
    }
}

#[tokio::test]
async fn no_path_leads_out() {
    let scene = Scene::open();
    for dots in
        ["..", "%2e%2e", ".%2e", "%2E.", "%252e%252e", "..%00", "..;", "%c0%ae%c0%ae", "%uff0e%uff0e", "...."]
    {
        for slash in ["/", "%2f", "%5c", "\\", "%252f"] {
            let path = format!("/api/v1/jobs/{dots}{slash}{dots}{slash}{dots}{slash}etc{slash}passwd");
            let Ok(request) = Request::get(&path).header("host", "localhost").body(Body::empty()) else {
                continue;
            };
            let reply = scene.send(request).await;
            assert!(
                reply.status.is_client_error() && !reply.text.contains("root:"),
                "{path}: {}",
                reply.text
            );
        }
    }
}

#[tokio::test]
async fn bodies_that_are_not_what_they_say_are_refused() {
    let scene = Scene::open();
    for (body, kind) in [
        ("{\"kind\":\"k\"}", "text/plain"),
        ("{\"kind\":\"k\"}", "application/x-www-form-urlencoded"),
        ("{\"kind\":\"k\"}", "multipart/form-data"),
        ("", "application/json"),
        ("{", "application/json"),
        ("[]", "application/json"),
        ("null", "application/json"),
        ("{\"kind\":\"k\"}x", "application/json"),
        ("{\"kind\":\"k\",\"kind\":\"l\"}", "application/json"),
        ("{\"kind\":\"\\ud800\"}", "application/json"),
        ("{\"kind\":\"k\",\"priority\":1e400}", "application/json"),
        ("{\"kind\":\"k\",\"priority\":40000}", "application/json"),
        ("{\"kind\":\"k\",\"max_stalls\":-1}", "application/json"),
        ("{\"kind\":\"k\",\"delay\":\"99999999999999999999y\"}", "application/json"),
    ] {
        let request = request(&Method::POST, "/api/v1/jobs").header("content-type", kind);
        let reply = scene.send(request.body(Body::from(body)).unwrap()).await;
        assert!(reply.status.is_client_error(), "{body} as {kind}: {}", reply.text);
        well(&reply, body);
    }
    let packed = request(&Method::POST, "/api/v1/jobs")
        .header("content-type", "application/json")
        .header("content-encoding", "gzip");
    assert_eq!(scene.send(packed.body(Body::from("x")).unwrap()).await.code(), "media_type");
    let far = json!({"kind": "k", "delay": "500000y", "at": "9999-12-31T23:59:59Z"});
    well(&scene.post("/api/v1/jobs", &far).await, "a delay and an instant");
    well(
        &scene.post("/api/v1/jobs", &json!({"kind": "k", "delay": "500000y", "timeout": "500000y"})).await,
        "far",
    );
}
