//! Wake-ups on real servers.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::AsyncMessage;
use windlass_core::bell::{Listener as BellListener, Topic};
use windlass_store_server::tell::To;
use windlass_store_testkit::servers::{PgBouncer, PoolMode, PostgresServer, Settings};

use super::*;
use crate::PostgresOptions;
use crate::connect::tests::{open, open_with, read};

const SOON: Duration = Duration::from_secs(20);

/// The URL of the shared server with a schema that no other test names.
fn url_of_own() -> String {
    format!("{}?schema=t{:016x}", PostgresServer::shared().url(), fastrand::u64(..))
}

async fn until(wakeups: &Wakeups, mode: WakeMode) {
    let began = Instant::now();
    while wakeups.mode() != mode {
        assert!(began.elapsed() < SOON, "it is still {}", wakeups.mode());
        sleep(Duration::from_millis(1)).await;
    }
}

/// Nothing rings for a while, which is the only way to see that nothing comes.
async fn is_quiet(ear: &mut BellListener) -> bool {
    timeout(Duration::from_millis(300), ear.rung()).await.is_err()
}

/// All notifications of a schema, as a third party hears them.
async fn overhear(server: &Server) -> mpsc::UnboundedReceiver<String> {
    let (heard, notes) = mpsc::unbounded_channel();
    let config = &server.connections().options.config;
    let (client, mut connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move {
        while let Some(Ok(event)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(note) = event {
                let _ = heard.send(note.payload().to_owned());
            }
        }
    });
    let listen = format!("LISTEN \"{}\"", channel::name(&server.connections().options.schema, To::Everyone));
    client.batch_execute(&listen).await.unwrap();
    tokio::spawn(async move {
        let _client = client;
        std::future::pending::<()>().await;
    });
    notes
}

#[tokio::test]
async fn a_ring_reaches_another_handle_by_topic_long_before_a_poll() {
    let url = url_of_own();
    let (one, two) = (Wakeups::new(&open(&url).await), Wakeups::new(&open(&url).await));
    // Before a caller asks for the bell: from then on the first ring may come at any moment.
    let [mut work, mut cancel, mut finish] = Topic::ALL.map(|topic| two.ringer.teller.bell().listen(topic));
    two.bell();
    one.bell();
    until(&one, WakeMode::Listening).await;
    until(&two, WakeMode::Listening).await;
    for ear in [&mut work, &mut cancel, &mut finish] {
        // The ring for what may have been missed before.
        ear.rung().await;
    }
    let mut took = Vec::new();
    for _ in 0..11 {
        sleep(Duration::from_millis(60)).await;
        let began = Instant::now();
        one.ring(Rings::about(Topic::Work));
        timeout(SOON, work.rung()).await.expect("the other hears it");
        took.push(began.elapsed());
    }
    took.sort();
    assert!(took[5] < Duration::from_millis(250), "{took:?}");
    assert!(is_quiet(&mut cancel).await && is_quiet(&mut finish).await, "only work was rung about");
    one.ring(Rings::about(Topic::Cancel).and(Rings::about(Topic::Finish)));
    timeout(SOON, cancel.rung()).await.expect("the other hears it");
    timeout(SOON, finish.rung()).await.expect("the other hears it");
}

#[tokio::test]
async fn a_burst_of_rings_is_a_handful_of_notifications_and_the_last_ring_is_among_them() {
    let server = open(&url_of_own()).await;
    let mut notes = overhear(&server).await;
    let wakeups = Wakeups::new(&server);
    let began = Instant::now();
    for _ in 0..10_000 {
        wakeups.ring(Rings::about(Topic::Work));
        tokio::task::yield_now().await;
    }
    wakeups.ring(Rings::about(Topic::Finish));
    // At first they follow each other sooner.
    let most = began.elapsed().as_millis() / 50 + 10;
    let (mut count, mut last) = (0, String::new());
    while !last.ends_with('f') {
        last = timeout(SOON, notes.recv()).await.expect("the last ring is told").unwrap();
        count += 1;
    }
    assert!(count <= most, "{count} notifications, {most} are allowed");
}

#[tokio::test]
async fn a_ring_right_before_the_end_is_still_told() {
    let server = open(&url_of_own()).await;
    let mut notes = overhear(&server).await;
    let wakeups = Wakeups::new(&server);
    wakeups.ring(Rings::about(Topic::Work));
    drop((wakeups, server));
    let note = timeout(SOON, notes.recv()).await.expect("a process is told").unwrap();
    assert!(note.ends_with(" w 0"), "{note}");
}

#[tokio::test]
async fn a_lost_listener_comes_back_and_rings_for_what_it_may_have_missed() {
    let postgres = PostgresServer::start(&Settings::default());
    let wakeups = Wakeups::new(&open(&postgres.url()).await);
    let mut finish = wakeups.bell().listen(Topic::Finish);
    until(&wakeups, WakeMode::Listening).await;
    finish.rung().await;
    let listener = "select count(pg_terminate_backend(pid)) from pg_stat_activity where query like 'LISTEN%'";
    assert_eq!(postgres.psql(listener), "1");
    timeout(SOON, finish.rung()).await.expect("it listens again");
    until(&wakeups, WakeMode::Listening).await;

    postgres.kill();
    until(&wakeups, WakeMode::Polling).await;
    postgres.restart();
    timeout(SOON, finish.rung()).await.expect("it listens again");
    until(&wakeups, WakeMode::Listening).await;
}

#[tokio::test]
async fn behind_a_pooler_by_transaction_it_says_that_it_polls_and_others_hear_it_all_the_same() {
    let postgres = PostgresServer::start(&Settings::default());
    let pooler = PgBouncer::before(&postgres, PoolMode::Transaction);
    let (behind, direct) = (open(pooler.url()).await, open(&postgres.url()).await);
    let (behind, direct) = (Wakeups::new(&behind), Wakeups::new(&direct));
    let mut heard = direct.bell().listen(Topic::Cancel);
    assert_eq!(behind.mode(), WakeMode::Starting);
    behind.bell();
    until(&behind, WakeMode::Polling).await;
    until(&direct, WakeMode::Listening).await;
    heard.rung().await;
    behind.ring(Rings::about(Topic::Cancel));
    timeout(SOON, heard.rung()).await.expect("its rings come through");
    let session = PgBouncer::before(&postgres, PoolMode::Session);
    let by_session = Wakeups::new(&open(session.url()).await);
    by_session.bell();
    until(&by_session, WakeMode::Listening).await;
}

#[tokio::test]
async fn who_does_not_want_to_listen_has_no_connection_for_it() {
    let postgres = PostgresServer::start(&Settings::default());
    let options = PostgresOptions::parse(&postgres.url()).unwrap().listen(Listen::Never);
    let server = open_with(&options).await;
    let wakeups = Wakeups::new(&server);
    let mut work = wakeups.bell().listen(Topic::Work);
    assert_eq!(wakeups.mode(), WakeMode::Polling);
    wakeups.ring(Rings::about(Topic::Work));
    work.rung().await;
    read(&server, "SELECT ''").await.unwrap();
    let listening = "select count(*) from pg_stat_activity where query like 'LISTEN%'";
    assert_eq!(postgres.psql(listening), "0");
}

#[tokio::test]
async fn a_commit_of_somebody_else_rings_and_a_rollback_does_not() {
    let server = open(&format!("{}&listen=never", url_of_own())).await;
    let wakeups = Wakeups::new(&server);
    let mut work = wakeups.bell().listen(Topic::Work);
    let config = &server.connections().options.config;
    let (mut client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    for round in 0..4 {
        let transaction = client.transaction().await.unwrap();
        let row = transaction.query_one("SELECT pg_current_xact_id()::text", &[]).await.unwrap();
        wakeups.watch(row.get(0), Rings::about(Topic::Work));
        wakeups.watch("no number".to_owned(), Rings::about(Topic::Work));
        assert!(is_quiet(&mut work).await, "nothing is committed yet");
        if round % 2 == 0 {
            transaction.rollback().await.unwrap();
            assert!(is_quiet(&mut work).await, "there is nothing to see");
        } else {
            transaction.commit().await.unwrap();
            timeout(SOON, work.rung()).await.expect("the commit is seen");
        }
    }
    let began = Instant::now();
    while wakeups.commits.is_attended() {
        assert!(began.elapsed() < SOON, "all is decided");
        sleep(Duration::from_millis(1)).await;
    }
}

/// An id of the future makes the server refuse the question; the others must not wait for it.
#[tokio::test]
async fn a_transaction_that_the_server_does_not_know_is_forgotten() {
    let server = open(&url_of_own()).await;
    let wakeups = Wakeups::new(&server);
    wakeups.watch(u64::MAX.to_string(), Rings::about(Topic::Work));
    let began = Instant::now();
    while wakeups.commits.is_attended() {
        assert!(began.elapsed() < SOON, "it is asked about for ever");
        sleep(Duration::from_millis(1)).await;
    }
}
