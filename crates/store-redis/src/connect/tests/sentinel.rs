//! A primary that sentinels know, and that another one follows.

use std::fs;
use std::process::{Child, Command, Stdio};

use super::*;

/// A sentinel, gone with this.
struct Sentinel {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Sentinel {
    fn watch(primary: &RedisServer, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let settings = format!(
            "port {port}\nsentinel monitor main 127.0.0.1 {} 1\nsentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 5000\n{more}\n",
            primary.port()
        );
        let file = folder.path().join("sentinel.conf");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new("redis-server");
        let process = command.arg(&file).arg("--sentinel").stdout(Stdio::null()).spawn().unwrap();
        Self { process, port, _folder: folder }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn the_primary_is_followed_wherever_the_sentinels_say() {
    let primary = RedisServer::start(&RedisSettings::default());
    let replica = RedisServer::start(&RedisSettings::default().replica_of(&primary));
    let sentinel = Sentinel::watch(&primary, "");
    // Of two that are named only one is there.
    let url = format!("redis-sentinel://127.0.0.1:{},127.0.0.1:1/main", sentinel.port);
    let server = start(&RedisOptions::parse(&url).unwrap()).await.unwrap();
    let began = Instant::now();
    while let Err(error) = probe(&server).await {
        assert!(began.elapsed() < Duration::from_secs(20), "{error}");
    }
    grow(&server).await.unwrap();
    assert_eq!(primary.info("role").as_deref(), Some("master"));
    // The sentinel must have heard of the replica before it can promote it.
    let known = redis::Client::open(format!("redis://127.0.0.1:{}", sentinel.port)).unwrap();
    let mut known = known.get_multiplexed_async_connection().await.unwrap();
    loop {
        let replicas: Vec<Value> =
            redis::cmd("SENTINEL").arg("REPLICAS").arg("main").query_async(&mut known).await.unwrap();
        if !replicas.is_empty() {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(40), "the sentinel finds the replica");
    }
    primary.kill();
    let began = Instant::now();
    while let Err(error) = grow(&server).await {
        assert_ne!(error.kind(), StoreErrorKind::Fatal, "{error}");
        assert!(began.elapsed() < Duration::from_secs(60), "{error}");
    }
    assert_eq!(replica.info("role").as_deref(), Some("master"));
    let unknown = url.replace("/main", "/other");
    let error = refusal(&unknown).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    let error = refusal(&format!("redis://127.0.0.1:{}", sentinel.port)).await;
    assert!(error.to_string().contains("redis-sentinel://"), "{error}");
    let error = refusal(&format!("redis-sentinel://127.0.0.1:{}/main", replica.port())).await;
    assert_eq!(error.kind(), StoreErrorKind::Fatal, "{error}");
    assert!(error.to_string().contains("is not a Sentinel"), "{error}");
}

#[tokio::test]
async fn a_sentinel_with_a_password_says_that_it_gets_none() {
    let primary = RedisServer::start(&RedisSettings::default());
    let sentinel = Sentinel::watch(&primary, "requirepass other");
    let url = format!("redis-sentinel://:secret@127.0.0.1:{}/main", sentinel.port);
    let began = Instant::now();
    let error = loop {
        let error = refusal(&url).await;
        if error.kind() == StoreErrorKind::Fatal {
            break error;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{error}");
    };
    assert!(error.to_string().contains("asked without one"), "{error}");
}
