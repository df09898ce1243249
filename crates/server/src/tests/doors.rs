//! Who gets in: every line of the table without a token, with each role, by other verbs, from another site, for another host.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::json;

use super::{Scene, request};
use crate::access::Role;
use crate::routes::{Reach, table};

const ROLES: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

/// A path with something in place of its parts: the queue that limited tokens reach, where it is one.
fn concrete(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{queue}" => "mail",
        part if part.starts_with('{') => "x",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn nothing_answers_without_a_token() {
    let scene = Scene::closed();
    let others =
        ["/api", "/api/v1/", "/api/v1/nothing", "/api/v1/jobs/../..", "/nothing", "/"].map(str::to_owned);
    for path in table().iter().map(|route| concrete(&route.path)).chain(others) {
        for method in [
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
            Method::TRACE,
        ] {
            for token in [
                None,
                Some("Bearer"),
                Some("Bearer x"),
                Some("Basic YTpi"),
                Some(&*format!("Bearer wl_{}_{}", "0".repeat(16), "A".repeat(43))),
            ] {
                let mut request = request(&method, &path);
                if let Some(token) = token {
                    request = request.header("authorization", token);
                }
                let is_login = (&method, path.as_str()) == (&Method::POST, "/api/v1/session");
                let reply = scene.send(request.body(Body::empty()).unwrap()).await;
                let wanted =
                    if is_login { StatusCode::UNSUPPORTED_MEDIA_TYPE } else { StatusCode::UNAUTHORIZED };
                assert_eq!(reply.status, wanted, "{method} {path} {token:?}");
            }
        }
    }
    assert_eq!(scene.get("/healthz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn each_route_needs_its_role() {
    let scene = Scene::closed();
    for role in ROLES {
        let (all, some) = (scene.token(role, &[]).await, scene.token(role, &["mail"]).await);
        for route in table() {
            let path = concrete(&route.path);
            for (token, is_limited) in [(&all, false), (&some, true)] {
                let request = request(&route.method, &path)
                    .header("authorization", format!("Bearer {token}"))
                    .header("content-type", "application/json");
                let reply = scene.send(request.body(Body::from("[]")).unwrap()).await;
                let is_refused = role < route.role || (is_limited && route.reach == Reach::Store);
                let what =
                    format!("{} {path} as {role:?}, limited: {is_limited}: {}", route.method, reply.text);
                assert_eq!(reply.status == StatusCode::FORBIDDEN, is_refused, "{what}");
                assert!(
                    !reply.status.is_server_error() && reply.status != StatusCode::UNAUTHORIZED,
                    "{what}"
                );
            }
        }
    }
}

#[tokio::test]
async fn other_verbs_are_refused() {
    let scene = Scene::open();
    let table = table();
    for route in &table {
        for method in [
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
            Method::TRACE,
        ] {
            if table.iter().any(|other| other.path == route.path && other.method == method) {
                continue;
            }
            let path = concrete(&route.path);
            let reply = scene.send(request(&method, &path).body(Body::empty()).unwrap()).await;
            assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(reply.code(), "method");
            assert!(reply.headers.contains_key("allow"), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn pages_of_other_sites_are_refused_where_no_token_is_sent() {
    let scene = Scene::open();
    for route in table() {
        let path = concrete(&route.path);
        for (name, value) in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:9999"),
        ] {
            let request = request(&route.method, &path).header(name, value);
            let reply = scene.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (StatusCode::FORBIDDEN, "cross_site"),
                "{name}: {value} {path}"
            );
            assert!(!reply.headers.contains_key("access-control-allow-origin"));
        }
    }
    let own = request(&Method::GET, "/api/v1")
        .header("sec-fetch-site", "same-origin")
        .header("origin", "http://localhost:8080");
    assert_eq!(scene.send(own.body(Body::empty()).unwrap()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_session_is_held_by_a_cookie_and_its_writes_by_a_token() {
    let scene = Scene::closed();
    let token = scene.token(Role::Operator, &[]).await;
    let login = scene.post("/api/v1/session", &json!({"token": token})).await;
    assert_eq!(login.status, StatusCode::OK, "{}", login.text);
    let set = login.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(
        set.contains("; HttpOnly") && set.contains("; SameSite=Strict") && !set.contains(&token),
        "{set}"
    );
    let cookie = set.split(';').next().unwrap().to_owned();
    let csrf = login.json()["csrf"].as_str().unwrap().to_owned();
    let send = async |method: Method, path: &str, headers: &[(&str, &str)]| {
        let request = request(&method, path).header("cookie", format!("theme=dark; {cookie}"));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        scene
            .send(
                request
                    .header("content-type", "application/json")
                    .body(Body::from("{\"kind\":\"k\"}"))
                    .unwrap(),
            )
            .await
    };
    assert_eq!(send(Method::GET, "/api/v1/session", &[]).await.json()["role"], "operator");
    let own = ("sec-fetch-site", "same-origin");
    for (headers, wanted) in [
        (vec![own, ("x-csrf-token", csrf.as_str())], StatusCode::CREATED),
        (vec![own], StatusCode::FORBIDDEN),
        (vec![own, ("x-csrf-token", "x")], StatusCode::FORBIDDEN),
        (vec![("sec-fetch-site", "cross-site"), ("x-csrf-token", csrf.as_str())], StatusCode::FORBIDDEN),
        (vec![("origin", "http://evil.example"), ("x-csrf-token", csrf.as_str())], StatusCode::FORBIDDEN),
    ] {
        assert_eq!(send(Method::POST, "/api/v1/jobs", &headers).await.status, wanted, "{headers:?}");
    }
    assert_eq!(
        send(Method::GET, "/api/v1/tokens", &[own]).await.status,
        StatusCode::FORBIDDEN,
        "an operator"
    );
    let ended = send(Method::DELETE, "/api/v1/session", &[own, ("x-csrf-token", &csrf)]).await;
    assert_eq!(ended.status, StatusCode::OK);
    assert_eq!(send(Method::GET, "/api/v1/session", &[]).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_revoked_token_ends_its_sessions_and_failed_logins_wait() {
    let scene = Scene::closed();
    let (admin, token) = (scene.token(Role::Admin, &[]).await, scene.token(Role::Viewer, &[]).await);
    let login = scene.post("/api/v1/session", &json!({"token": token})).await;
    let cookie = login.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let look = async || {
        let request = request(&Method::GET, "/api/v1").header("cookie", &cookie);
        scene.send(request.body(Body::empty()).unwrap()).await.status
    };
    assert_eq!(look().await, StatusCode::OK);
    let id = token.split('_').nth(1).unwrap();
    let revoke = request(&Method::DELETE, &format!("/api/v1/tokens/{id}"))
        .header("authorization", format!("Bearer {admin}"));
    assert_eq!(scene.send(revoke.body(Body::empty()).unwrap()).await.status, StatusCode::OK);
    assert_eq!(look().await, StatusCode::UNAUTHORIZED);
    for _ in 0..10 {
        assert_eq!(scene.post("/api/v1/session", &json!({"token": token})).await.code(), "unauthorized");
    }
    let late = scene.post("/api/v1/session", &json!({"token": admin})).await;
    assert_eq!((late.code().as_str(), late.status), ("too_many", StatusCode::TOO_MANY_REQUESTS));
}

#[tokio::test]
async fn other_hosts_are_refused_on_every_route() {
    let scene = Scene::open();
    for path in
        table().iter().map(|route| concrete(&route.path)).chain(["/healthz", "/api", "/x"].map(str::to_owned))
    {
        let request = axum::http::Request::builder().uri(&path).header("host", "evil.example");
        let reply = scene.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(reply.status, StatusCode::MISDIRECTED_REQUEST, "{path}");
    }
}

#[tokio::test]
async fn every_answer_says_how_it_may_be_used() {
    let scene = Scene::closed();
    for path in ["/healthz", "/api/v1", "/nothing"] {
        let headers = scene.get(path).await.headers;
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["referrer-policy"], "no-referrer");
        assert_eq!(headers["x-frame-options"], "DENY");
        assert_eq!(headers["cross-origin-resource-policy"], "same-origin");
        assert!(headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    }
}

#[tokio::test]
async fn changes_are_written_down_with_their_outcome() {
    let scene = Scene::open();
    let id =
        scene.post("/api/v1/jobs", &json!({"kind": "k"})).await.json()["id"].as_str().unwrap().to_owned();
    scene.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({"why": "a slip"})).await;
    scene.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).await;
    let audit = scene.get("/api/v1/audit").await.json();
    let items = audit["items"].as_array().unwrap();
    let seen: Vec<_> =
        items.iter().map(|item| (item["action"].as_str().unwrap(), item["status"].as_u64())).collect();
    assert_eq!(
        seen,
        [("cancel_job", Some(409)), ("cancel_job", Some(200))],
        "the newest first; enqueues are not kept"
    );
    assert_eq!((&items[1]["actor"], &items[1]["means"]), (&json!("local"), &json!("open")));
    assert_eq!(items[1]["request"], format!("POST /api/v1/jobs/{id}/cancel"));
}
