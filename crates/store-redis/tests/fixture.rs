//! Keys that earlier programs left behind: `tests/fixtures/layout-N.txt`, one per layout since the first, never written
//! anew. With a new layout, `WINDLASS_FIXTURE=layout-4.txt cargo test -p windlass-store-redis --test fixture` writes the
//! next one. A line is a command that makes a key, its words in hexadecimal, so that any server can read it.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use windlass_store_redis::RedisStore;
use windlass_store_testkit::fixture;
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

type Words = Vec<Vec<u8>>;

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

async fn open(server: &RedisServer) -> Arc<RedisStore> {
    Arc::new(RedisStore::open(&server.url()).await.unwrap())
}

async fn connect(server: &RedisServer) -> MultiplexedConnection {
    redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
}

async fn ask<T: redis::FromRedisValue>(connection: &mut MultiplexedConnection, words: &[&[u8]]) -> T {
    let mut command = redis::Cmd::new();
    words.iter().for_each(|word| {
        command.arg(*word);
    });
    command.query_async(connection).await.unwrap()
}

/// The command that makes a key as it is.
async fn maker(connection: &mut MultiplexedConnection, key: &[u8]) -> Words {
    let kind: String = ask(connection, &[b"TYPE", key]).await;
    let (make, mut content): (&[u8], Words) = match kind.as_str() {
        "string" => (b"SET", vec![ask(connection, &[b"GET", key]).await]),
        "hash" => (b"HSET", ask(connection, &[b"HGETALL", key]).await),
        "list" => (b"RPUSH", ask(connection, &[b"LRANGE", key, b"0", b"-1"]).await),
        "set" => (b"SADD", ask(connection, &[b"SMEMBERS", key]).await),
        "zset" => (b"ZADD", ask(connection, &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]).await),
        other => panic!("a key of type {other}"),
    };
    if make == b"ZADD" {
        // Written as member and score, read as score and member.
        content.chunks_mut(2).for_each(<[_]>::reverse);
    }
    [make.to_vec(), key.to_vec()].into_iter().chain(content).collect()
}

async fn dumped(server: &RedisServer) -> String {
    let mut connection = connect(server).await;
    let mut keys: Words = ask(&mut connection, &[b"KEYS", b"*"]).await;
    keys.sort_unstable();
    let mut text = String::new();
    for key in keys {
        // What runs out by itself is of no use to a later program.
        if ask::<i64>(&mut connection, &[b"PTTL", &key]).await >= 0 {
            continue;
        }
        for word in maker(&mut connection, &key).await {
            word.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text.push(' ');
        }
        text.push('\n');
    }
    text
}

async fn restore(server: &RedisServer, text: &str) {
    let mut connection = connect(server).await;
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    let read = |word: &str| word.as_bytes().chunks(2).map(byte).collect::<Vec<_>>();
    for line in text.lines() {
        let words: Words = line.trim_end().split(' ').map(read).collect();
        let words: Vec<_> = words.iter().map(Vec::as_slice).collect();
        ask::<redis::Value>(&mut connection, &words).await;
    }
}

#[tokio::test]
async fn what_this_program_leaves_is_worked_off() {
    let server = RedisServer::start(&RedisSettings::default());
    fixture::write(open(&server).await).await;
    if let Some(name) = std::env::var_os("WINDLASS_FIXTURE") {
        let to = kept().join(name);
        assert!(!to.exists(), "{} is kept as it is", to.display());
        fs::write(to, dumped(&server).await).unwrap();
    }
    let store = open(&server).await;
    fixture::check(store.clone()).await;
    fixture::drain(store).await;
}

#[tokio::test]
async fn what_earlier_programs_left_is_worked_off() {
    let mut files = 0;
    for file in fs::read_dir(kept()).unwrap() {
        let server = RedisServer::start(&RedisSettings::default());
        restore(&server, &fs::read_to_string(file.unwrap().path()).unwrap()).await;
        let store = open(&server).await;
        fixture::check(store.clone()).await;
        fixture::drain(store).await;
        files += 1;
    }
    assert!(files > 0, "a file of every layout is kept");
}
