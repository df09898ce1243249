//! A server on a real socket: slow callers, too many of them, TLS, and the stop.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass_server::{Access, Bounds, NewToken, Role, ServeError, Server, Tokens};
use windlass_store_memory::MemoryStore;
use windlass_worker::Client;

/// A server that runs until it is told to stop.
struct Scene {
    client: Client,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

fn client() -> Client {
    Client::new(Arc::new(MemoryStore::new()))
}

async fn scene(bounds: impl FnOnce(&mut Bounds)) -> Scene {
    let client = client();
    let mut set = Bounds::default();
    bounds(&mut set);
    let server = Server::new(&client).access(Access::Open).bounds(set);
    let serving = server.listen(([127, 0, 0, 1], 0).into(), None).await.unwrap();
    let (address, (stop, stopped)) = (serving.address(), oneshot::channel());
    let running = tokio::spawn(serving.run(async move { drop(stopped.await) }));
    Scene { client, address, stop, running }
}

/// Sends this, and reads until the server closes.
async fn exchange(address: SocketAddr, sent: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    all_of(&mut stream).await
}

/// What comes until the end, also where that is a reset.
async fn all_of(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

fn post(path: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn what_comes_too_slowly_is_ended() {
    let scene = scene(|bounds| {
        bounds.head_time = Duration::from_millis(50);
        bounds.body_time = Duration::from_millis(50);
    })
    .await;
    let answer = exchange(scene.address, "GET /api/v1 HTTP/1.1\r\nHost: loc").await;
    assert!(!answer.contains(" 200 "), "a head that does not come has no answer: {answer}");
    let begun = "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{\"kind\"";
    let answer = exchange(scene.address, begun).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("\"timeout\""), "{answer}");
    let silent = exchange(scene.address, "").await;
    assert_eq!(silent, "", "a connection on which nothing comes is closed");
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_a_place() {
    let scene = scene(|bounds| bounds.connections = 2).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(scene.address).await.unwrap();
        // It has a place once it is answered, and keeps it.
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut first = [0_u8; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        held.push(stream);
    }
    let mut waiting = TcpStream::connect(scene.address).await.unwrap();
    waiting.write_all(get("/healthz").as_bytes()).await.unwrap();
    let mut one = [0_u8; 1];
    let early = tokio::time::timeout(Duration::from_millis(100), waiting.read_exact(&mut one)).await;
    assert!(early.is_err(), "there is no place for it");
    held.pop();
    assert!(all_of(&mut waiting).await.contains("TTP/1.1 200 OK"), "now there is one");
}

#[tokio::test]
async fn a_caller_that_does_not_read_loses_its_place() {
    let scene = scene(|bounds| {
        bounds.connections = 1;
        bounds.read_time = Duration::from_millis(50);
    })
    .await;
    let job = windlass_core::NewJob::new("k", "x".repeat(1_000_000), windlass_core::Options::new()).unwrap();
    let id = job.id;
    scene.client.enqueue_new(job).await.unwrap();
    let mut deaf = TcpStream::connect(scene.address).await.unwrap();
    // More answers than any buffer holds.
    for _ in 0..100 {
        let again = get(&format!("/api/v1/jobs/{id}")).replace("Connection: close\r\n", "");
        if deaf.write_all(again.as_bytes()).await.is_err() {
            break;
        }
    }
    assert!(exchange(scene.address, &get("/healthz")).await.ends_with("ok\n"), "the place is free again");
    drop(deaf);
}

#[tokio::test]
async fn large_and_deep_bodies_are_refused_before_they_are_read() {
    let scene = scene(|_| {}).await;
    let declared = "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n";
    let answer = exchange(scene.address, declared).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let chunked = "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    stream.write_all(chunked.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x1_0000));
    // 1 GiB, of which the server takes little more than it may before it answers.
    let (mut reading, mut writing) = stream.into_split();
    let sending = tokio::spawn(async move {
        for sent in 0..16_384_u32 {
            if writing.write_all(chunk.as_bytes()).await.is_err() {
                return sent;
            }
        }
        16_384
    });
    let mut start = [0_u8; 12];
    reading.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
    drop(reading);
    assert!(sending.await.unwrap() < 1_000, "it has not read on");
    let deep = format!("{{\"kind\":\"k\",\"payload\":{}", "[".repeat(100_000));
    let sent = post("/api/v1/jobs", &json!(null))
        .replace("Content-Length: 4", &format!("Content-Length: {}", deep.len()));
    let answer = exchange(scene.address, &(sent.trim_end_matches("null").to_owned() + &deep)).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("too_deep"), "{answer}");
    assert!(exchange(scene.address, &get("/healthz")).await.ends_with("ok\n"));
}

#[tokio::test]
async fn streams_beyond_the_bound_are_refused_and_end_with_the_server() {
    let scene = scene(|bounds| bounds.streams = 1).await;
    let made = exchange(scene.address, &post("/api/v1/jobs", &json!({"kind": "k"}))).await;
    let body: Value = serde_json::from_str(made.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let id = body["id"].as_str().unwrap().to_owned();
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    stream.write_all(get(&format!("/api/v1/jobs/{id}/events")).as_bytes()).await.unwrap();
    let mut start = [0_u8; 12];
    stream.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    let refused = exchange(scene.address, &get(&format!("/api/v1/jobs/{id}?wait=1m"))).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("\"busy\""), "{refused}");
    scene.stop.send(()).unwrap();
    assert!(all_of(&mut stream).await.contains("event: state"), "the stream ends");
    scene.running.await.unwrap();
    assert!(TcpStream::connect(scene.address).await.is_err(), "it takes no more");
}

#[tokio::test]
async fn a_long_poll_is_answered_when_the_server_stops() {
    let scene = scene(|_| {}).await;
    let job = windlass_core::NewJob::new("k", "1", windlass_core::Options::new()).unwrap();
    let id = job.id;
    scene.client.enqueue_new(job).await.unwrap();
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    stream.write_all(get(&format!("/api/v1/jobs/{id}?wait=1m")).as_bytes()).await.unwrap();
    // It is under way once another request on a later connection is answered.
    exchange(scene.address, &get("/healthz")).await;
    scene.stop.send(()).unwrap();
    let answer = all_of(&mut stream).await;
    assert!(answer.is_empty() || answer.contains("\"ready\""), "{answer}");
    scene.running.await.unwrap();
}

#[tokio::test]
async fn a_server_keeps_the_store_in_order() {
    let scene = scene(|_| {}).await;
    let options = windlass_core::Options::new().expires_in(Duration::from_micros(1));
    let job = windlass_core::NewJob::new("k", "1", options).unwrap();
    let id = job.id;
    scene.client.enqueue_new(job).await.unwrap();
    // No worker is there to find that it is too late.
    let ended = exchange(scene.address, &get(&format!("/api/v1/jobs/{id}?wait=1m"))).await;
    assert!(ended.contains("\"expired\""), "{ended}");
    scene.stop.send(()).unwrap();
    scene.running.await.unwrap();
}

#[tokio::test]
async fn other_hosts_are_refused_on_the_wire() {
    let scene = scene(|_| {}).await;
    for head in [
        "GET /api/v1 HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        "GET /api/v1 HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        "GET http://evil.example/api/v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /api/v1 HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /api/v1 HTTP/1.0\r\n\r\n",
    ] {
        let answer = exchange(scene.address, head).await;
        assert!(answer.contains(" 421 ") || answer.contains(" 400 "), "{head}{answer}");
    }
}

#[tokio::test]
async fn a_server_that_others_could_reach_does_not_start_without_tokens() {
    let (client, any) = (client(), SocketAddr::from(([0, 0, 0, 0], 0)));
    let listen = async |server: Server, address| server.listen(address, None).await.map(drop);
    let open = Server::new(&client).access(Access::Open);
    assert!(matches!(listen(open.clone(), any).await, Err(ServeError::Open { .. })));
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    assert!(matches!(
        listen(open.hosts(["jobs.example.com"]), here).await,
        Err(ServeError::OpenHosts { .. })
    ));
    assert!(matches!(listen(Server::new(&client), any).await, Err(ServeError::NoTokens)));
    Tokens::new(&client).create(NewToken::new("ada", Role::Viewer)).await.unwrap();
    assert!(listen(Server::new(&client), any).await.is_ok());
}
