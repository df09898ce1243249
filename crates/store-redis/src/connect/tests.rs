//! Connections on real servers: what breaks, what is told about it, and that it comes back.

mod cluster;
mod open;
mod sentinel;

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tokio::time::Instant;
use windlass_core::store::StoreResult;
use windlass_core::{StoreError, StoreErrorKind};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

use super::*;
use crate::RedisOptions;
use crate::error::Effect;
use crate::script::Script;

/// Reads one of our keys, without writing.
static READ: Script = Script::new("tests/read", &["return redis.call('HGET', KEYS[1], ARGV[1])"]);
/// Its first write is one that needs memory, as in an enqueue.
static GROW: Script = Script::new("tests/grow", &["return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])"]);
/// Its first write removes, as in a settle.
static REMOVE: Script = Script::new(
    "tests/remove",
    &["redis.call('HDEL', KEYS[1], '') return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])"],
);
/// Runs for a while of the server's clock.
static LONG: Script = Script::new(
    "tests/long",
    &["local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end \
     local until_ = now() + ARGV[1] while now() < until_ do end return 1"],
);

pub(crate) async fn open(url: &str) -> Server {
    open_with(&RedisOptions::parse(url).unwrap()).await
}

pub(crate) async fn open_with(options: &RedisOptions) -> Server {
    let server = start(options).await.unwrap();
    probe(&server).await.unwrap();
    server
}

fn key(number: u32) -> Vec<Bytes> {
    vec![Bytes::from(format!("wl:{{t:{number}}}:x"))]
}

/// Runs a script about a key of the tests.
pub(crate) async fn run(
    server: &Server,
    effect: Effect,
    script: &'static Script,
    args: &[&str],
) -> StoreResult<Value> {
    run_at(server, 0, effect, script, args).await
}

async fn run_at(
    server: &Server,
    number: u32,
    effect: Effect,
    script: &'static Script,
    args: &[&str],
) -> StoreResult<Value> {
    let args = args.iter().map(|arg| Bytes::from((*arg).to_owned())).collect();
    let work = async move |_, session: Session| session.run(script, key(number), args).await;
    server.call(Call { effect, ..Call::WRITE }, work).await
}

async fn grow(server: &Server) -> StoreResult<Value> {
    run(server, Effect::Write, &GROW, &["a", "b"]).await
}

async fn read(server: &Server) -> StoreResult<Value> {
    run(server, Effect::Read, &READ, &["a"]).await
}

/// Calls until it works; a call that does not must not say that nobody knows.
async fn until_it_works(server: &Server) {
    let began = Instant::now();
    while let Err(error) = read(server).await {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(began.elapsed() < Duration::from_secs(20), "{error}");
    }
}

async fn refusal(url: &str) -> StoreError {
    let server = start(&RedisOptions::parse(url).unwrap()).await.unwrap();
    probe(&server).await.unwrap_err()
}

#[tokio::test]
async fn a_server_that_forgets_its_scripts_gets_them_again() {
    let redis = RedisServer::start(&RedisSettings::default());
    let server = open(&redis.url()).await;
    for _ in 0..3 {
        redis.command(&["SCRIPT", "FLUSH"]);
        grow(&server).await.unwrap();
        assert_eq!(read(&server).await.unwrap(), Value::BulkString(b"b".to_vec()));
    }
}

#[tokio::test]
async fn a_server_that_is_away_fails_fast_and_is_found_again() {
    let redis = RedisServer::start(&RedisSettings::default());
    let server = open(&redis.url()).await;
    grow(&server).await.unwrap();
    redis.kill();
    for call in 0..20 {
        let began = Instant::now();
        let error = grow(&server).await.unwrap_err();
        // The first may still be written into the connection of the killed server, before its end is noticed: then
        // nobody can tell what became of it.
        let is_sent = call == 0 && error.kind() == StoreErrorKind::Unknown;
        assert!(is_sent || error.kind() == StoreErrorKind::Unavailable, "{error}");
        // Long before its deadline.
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
    redis.restart();
    until_it_works(&server).await;
    grow(&server).await.unwrap();
}

#[tokio::test]
async fn many_who_want_a_connection_at_once_share_one_attempt() {
    let redis = RedisServer::start(&RedisSettings::default());
    let server = open(&redis.url()).await;
    redis.stop();
    redis.restart();
    let before = redis.info("total_connections_received").unwrap().parse::<u64>().unwrap();
    let calls = (0..200).map(|_| read(&server));
    let failed = futures_util::future::join_all(calls).await.into_iter().filter(Result::is_err).count();
    assert_eq!(failed, 0);
    let after = redis.info("total_connections_received").unwrap().parse::<u64>().unwrap();
    // One of ours; two that asked for these numbers.
    assert!(after - before <= 3, "{} connections", after - before);
}

#[tokio::test]
async fn a_server_that_hangs_runs_into_the_deadline_and_recovers() {
    let redis = RedisServer::start(&RedisSettings::default());
    let options = RedisOptions::parse(&redis.url()).unwrap().timeout(Duration::from_millis(1_500)).unwrap();
    let server = open_with(&options.connect_timeout(Duration::from_millis(500)).unwrap()).await;
    grow(&server).await.unwrap();
    redis.pause();
    let (began, both) = (Instant::now(), tokio::join!(grow(&server), read(&server)));
    assert_eq!(both.0.unwrap_err().kind(), StoreErrorKind::Unknown);
    assert_eq!(both.1.unwrap_err().kind(), StoreErrorKind::Unavailable);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let (began, error) = (Instant::now(), grow(&server).await.unwrap_err());
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "nothing was sent: {error}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    redis.resume();
    until_it_works(&server).await;
    grow(&server).await.unwrap();
}

/// An answer that took long is an answer: to connect anew each time would only add to the load.
#[tokio::test]
async fn a_slow_answer_does_not_cost_the_connection() {
    let redis = RedisServer::start(&RedisSettings::default());
    let server = open(&redis.url()).await;
    let endpoint = server.connections().router.endpoint(Purpose::Work, None).await.ok().unwrap();
    let before = endpoint.connection().await.unwrap().number;
    run(&server, Effect::Read, &LONG, &["1100"]).await.unwrap();
    assert_eq!(endpoint.connection().await.unwrap().number, before);
}

#[tokio::test]
async fn a_connection_that_breaks_after_sending_leaves_a_write_unknown() {
    let redis = RedisServer::start(&RedisSettings::default());
    let server = open(&redis.url()).await;
    grow(&server).await.unwrap();
    read(&server).await.unwrap();
    let endpoint = server.connections().router.endpoint(Purpose::Work, None).await.ok().unwrap();
    let before = endpoint.sent.load(Ordering::Relaxed);
    redis.pause();
    let (writing, reading) = (server.clone(), server.clone());
    let writing = tokio::spawn(async move { grow(&writing).await });
    let reading = tokio::spawn(async move { read(&reading).await });
    while endpoint.sent.load(Ordering::Relaxed) < before + 2 {
        tokio::task::yield_now().await;
    }
    redis.kill();
    assert_eq!(writing.await.unwrap().unwrap_err().kind(), StoreErrorKind::Unknown);
    assert_eq!(reading.await.unwrap().unwrap_err().kind(), StoreErrorKind::Unavailable);
}

#[tokio::test]
async fn a_lease_does_not_wait_behind_work() {
    let redis = RedisServer::start(&RedisSettings::default());
    let server = open(&redis.url()).await;
    let work = server
        .connections()
        .router
        .endpoint(Purpose::Work, None)
        .await
        .ok()
        .unwrap()
        .connection()
        .await
        .unwrap();
    let lease = server
        .connections()
        .router
        .endpoint(Purpose::Lease, None)
        .await
        .ok()
        .unwrap()
        .connection()
        .await
        .unwrap();
    assert_ne!(work.number, lease.number);
}

#[tokio::test]
async fn a_replica_is_waited_for_and_then_said_to_be_read_only() {
    let primary = RedisServer::start(&RedisSettings::default());
    let replica = RedisServer::start(&RedisSettings::default().replica_of(&primary));
    let server = open(&replica.url()).await;
    let error = grow(&server).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("read-only"), "{error}");
    let promoting = server.clone();
    let waiting = tokio::spawn(async move { grow(&promoting).await });
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    waiting.await.unwrap().expect("the call tries again by itself");
}

#[tokio::test]
async fn a_long_script_makes_others_wait_a_while() {
    let redis = RedisServer::start(&RedisSettings::default().set("busy-reply-threshold", 50));
    let server = open(&redis.url()).await;
    read(&server).await.unwrap();
    let long = server.clone();
    let long = tokio::spawn(async move { run(&long, Effect::Read, &LONG, &["800"]).await });
    // Over the connection of its own, so that it is not behind the script.
    let busy = server
        .call(Call::LEASE, async |_, session| {
            session.run(&GROW, key(0), vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")]).await
        })
        .await;
    busy.expect("the call tries again until the script is over");
    long.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_full_server_refuses_what_grows_and_lets_the_rest_go_on() {
    let redis = RedisServer::start(&RedisSettings::default());
    let server = open(&redis.url()).await;
    grow(&server).await.unwrap();
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = grow(&server).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("memory is full (maxmemory)"), "{error}");
    run(&server, Effect::Write, &REMOVE, &["c", "d"]).await.expect("it began by removing something");
    read(&server).await.unwrap();
}

#[tokio::test]
async fn a_loading_server_is_waited_for() {
    // It would load for 20 s, unless it is told to go faster, and looks up every 200 ms.
    let settings = RedisSettings::default().set("save", "3600 1").set("key-load-delay", 1_000);
    let redis = Arc::new(RedisServer::start(&settings.set("loading-process-events-interval-bytes", 1_024)));
    let server = open(&redis.url()).await;
    redis.command(&["EVAL", "for i = 1, 20000 do redis.call('SET', i, i) end", "0"]);
    grow(&server).await.unwrap();
    redis.stop();
    let restart = std::thread::spawn({
        let redis = Arc::clone(&redis);
        move || redis.restart()
    });
    let endpoint = server.connections().router.endpoint(Purpose::Work, None).await.ok().unwrap();
    let (began, mut has_waited) = (Instant::now(), false);
    let answer = loop {
        let before = endpoint.sent.load(Ordering::Relaxed);
        // A call that is sent again and again has met the server while it loads.
        let until_waiting = async {
            while endpoint.sent.load(Ordering::Relaxed) - before <= 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let call = read(&server);
        tokio::pin!(call);
        let answer = tokio::select! {
            answer = &mut call => answer,
            () = until_waiting => {
                has_waited = true;
                redis.command(&["CONFIG", "SET", "key-load-delay", "0"]);
                call.await
            }
        };
        match answer {
            Ok(answer) => break answer,
            // Nothing listens yet, or the patience of this call has come to its end first.
            Err(error) => {
                assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
                assert!(began.elapsed() < Duration::from_secs(60), "{error}");
            }
        }
    };
    assert!(has_waited, "a call that meets it while it loads waits for it");
    assert_eq!(answer, Value::BulkString(b"b".to_vec()));
    restart.join().unwrap();
}

#[tokio::test]
async fn a_write_that_too_few_replicas_have_is_unknown() {
    let primary = RedisServer::start(&RedisSettings::default());
    let options = RedisOptions::parse(&primary.url()).unwrap().wait(1).unwrap();
    let server = open_with(&options.wait_timeout(Duration::from_millis(300)).unwrap()).await;
    let acknowledged = |server: Server| async move {
        let args = vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")];
        let work = async move |_, session: Session| session.run_acknowledged(&[], &GROW, key(0), args).await;
        server.call(Call::WRITE, work).await
    };
    let error = acknowledged(server.clone()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unknown);
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    assert!(error.to_string().contains("failover"), "no connection broke: {error}");
    assert_eq!(read(&server).await.unwrap(), Value::BulkString(b"b".to_vec()), "it is there all the same");
    let _replica = RedisServer::start(&RedisSettings::default().replica_of(&primary));
    let began = Instant::now();
    while acknowledged(server.clone()).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "the replica has it soon");
    }
}
