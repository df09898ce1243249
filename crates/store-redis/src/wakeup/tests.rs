//! Wake-ups on real servers.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use windlass_core::bell::{Listener as BellListener, Topic};
use windlass_store_server::tell::To;
use windlass_store_testkit::servers::{RedisCluster, RedisServer, RedisSettings};

use super::*;
use crate::RedisOptions;
use crate::connect::tests::{open, open_with};

const SOON: Duration = Duration::from_secs(20);

/// The URL of the shared server with a namespace that no other test names.
fn url_of_own() -> String {
    format!("{}?namespace=t{:016x}", RedisServer::shared().url(), fastrand::u64(..))
}

async fn until(wakeups: &Wakeups, mode: WakeMode) {
    let began = Instant::now();
    while wakeups.mode() != mode {
        assert!(began.elapsed() < SOON, "it is still {}", wakeups.mode());
        sleep(Duration::from_millis(1)).await;
    }
}

/// Listens, and has heard the ring for what may have been missed before.
async fn listening(wakeups: &Wakeups) -> [BellListener; 3] {
    // Before anybody asks for the bell: from then on that ring may come at any moment.
    let mut ears = Topic::ALL.map(|topic| wakeups.teller.bell().listen(topic));
    wakeups.bell();
    until(wakeups, WakeMode::Listening).await;
    for ear in &mut ears {
        timeout(SOON, ear.rung()).await.expect("it rings for what was missed");
    }
    ears
}

#[tokio::test]
async fn a_ring_reaches_another_handle_by_topic_within_milliseconds() {
    let url = url_of_own();
    let (one, two) = (Wakeups::new(&open(&url).await), Wakeups::new(&open(&url).await));
    let [mut work, mut cancel, _] = listening(&two).await;
    let mut took = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        one.ring(Rings::about(Topic::Work));
        timeout(SOON, work.rung()).await.expect("the other hears it");
        took.push(began.elapsed());
    }
    took.sort();
    assert!(took[10] < Duration::from_millis(250), "half of them took longer than {:?}", took[10]);
    one.ring(Rings::about(Topic::Cancel));
    timeout(SOON, cancel.rung()).await.expect("the other hears it");
}

#[tokio::test]
async fn a_burst_of_rings_is_a_handful_of_notes_and_the_last_ring_is_among_them() {
    let server = open(&url_of_own()).await;
    let (heard, mut notes) = mpsc::unbounded_channel();
    let target = &server.connections().options.targets[0];
    let wakeups = Wakeups::new(&server);
    let connection = server.connections().connector.connect_listening(target, heard).await.unwrap();
    let everyone = wakeups.teller.voice().of(To::Everyone);
    connection.multiplexed.clone().subscribe(&everyone[..]).await.unwrap();
    let began = Instant::now();
    for _ in 0..10_000 {
        wakeups.ring(Rings::about(Topic::Work));
        tokio::task::yield_now().await;
    }
    wakeups.ring(Rings::about(Topic::Finish));
    let (mut count, mut is_last) = (0, false);
    while !is_last {
        let note = timeout(SOON, notes.recv()).await.expect("the last ring is told").unwrap();
        if let Some(redis::Value::BulkString(text)) = note.data.last() {
            count += 1;
            is_last = text.ends_with(b"f");
        }
    }
    // Between any two there is the shortest pause at least, however the machine shares out its time.
    let most = began.elapsed().as_millis() / 2 + 2;
    assert!(count <= most, "{count} notes, {most} are allowed");
}

#[tokio::test]
async fn a_ring_right_before_the_end_is_still_told() {
    let url = url_of_own();
    let other = Wakeups::new(&open(&url).await);
    let [mut work, ..] = listening(&other).await;
    let server = open(&url).await;
    let wakeups = Wakeups::new(&server);
    wakeups.ring(Rings::about(Topic::Work));
    drop((wakeups, server));
    timeout(SOON, work.rung()).await.expect("somebody is told");
}

#[tokio::test]
async fn a_dropped_store_leaves_no_thread_and_no_connection() {
    let redis = RedisServer::start(&RedisSettings::default());
    let server = open(&redis.url()).await;
    let wakeups = Wakeups::new(&server);
    listening(&wakeups).await;
    let shared = Arc::downgrade(server.connections());
    let ours = || redis.command(&["CLIENT", "LIST"]).contains("name=windlass ");
    assert!(ours());
    drop((wakeups, server));
    let began = Instant::now();
    // All of it ends with the runtime of the thread.
    while shared.upgrade().is_some() || ours() {
        assert!(began.elapsed() < SOON, "something is left");
    }
}

#[tokio::test]
async fn a_lost_listener_comes_back_and_rings_for_what_it_may_have_missed() {
    let redis = RedisServer::start(&RedisSettings::default());
    let wakeups = Wakeups::new(&open(&redis.url()).await);
    let [.., mut finish] = listening(&wakeups).await;
    assert_eq!(redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).trim(), "1");
    timeout(SOON, finish.rung()).await.expect("it listens again");
    until(&wakeups, WakeMode::Listening).await;
    redis.kill();
    until(&wakeups, WakeMode::Polling).await;
    redis.restart();
    timeout(SOON, finish.rung()).await.expect("it listens again");
    until(&wakeups, WakeMode::Listening).await;
}

#[tokio::test]
async fn who_may_not_use_the_channel_polls_and_does_not_try_all_the_time() {
    for rules in ["~wl:* +@all resetchannels", "~wl:* +@all &wl:* -publish"] {
        let redis = RedisServer::start(&RedisSettings::default().user("app", "pass", rules));
        let wakeups = Wakeups::new(&open(&redis.url()).await);
        assert_eq!(wakeups.mode(), WakeMode::Starting);
        wakeups.bell();
        until(&wakeups, WakeMode::Polling).await;
        let connections = || redis.info("total_connections_received").unwrap().parse::<u64>().unwrap();
        let before = connections();
        // As long as the pauses after a connection that only broke are at first.
        sleep(Duration::from_millis(500)).await;
        assert_eq!(connections(), before + 1, "the second look is the only one: {rules}");
    }
}

#[tokio::test]
async fn the_connection_that_listens_has_a_name() {
    let redis = RedisServer::start(&RedisSettings::default());
    let wakeups = Wakeups::new(&open(&redis.url()).await);
    listening(&wakeups).await;
    let clients = redis.command(&["CLIENT", "LIST", "TYPE", "pubsub"]);
    assert!(clients.contains("name=windlass "), "{clients}");
}

#[tokio::test]
async fn who_does_not_want_to_listen_has_no_connection_for_it() {
    let redis = RedisServer::start(&RedisSettings::default());
    let options = RedisOptions::parse(&redis.url()).unwrap().listen(Listen::Never);
    let wakeups = Wakeups::new(&open_with(&options).await);
    let mut work = wakeups.bell().listen(Topic::Work);
    assert_eq!(wakeups.mode(), WakeMode::Polling);
    wakeups.ring(Rings::about(Topic::Work));
    work.rung().await;
    assert_eq!(redis.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).trim(), "");
}

#[tokio::test]
async fn on_a_cluster_a_ring_reaches_who_listens_at_any_node() {
    let url = format!("{}?namespace=t{:016x}", RedisCluster::shared().url(), fastrand::u64(..));
    let one = Wakeups::new(&open(&url).await);
    for _ in 0..3 {
        let two = Wakeups::new(&open(&url).await);
        let [mut work, ..] = listening(&two).await;
        one.ring(Rings::about(Topic::Work));
        timeout(SOON, work.rung()).await.expect("the other hears it");
    }
}
