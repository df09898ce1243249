//! Connections and servers that go away.

use super::*;

const OURS: &str = "usename = 'windlass' and pid <> pg_backend_pid()";

#[tokio::test]
async fn connections_that_an_administrator_ended_cost_nobody_an_error() {
    let postgres = PostgresServer::start(&Settings::default());
    let server = open(&postgres.url()).await;
    let fill =
        || futures_util::future::join_all((0..8).map(|_| read(&server, "SELECT pg_sleep(0.05)::text")));
    assert!(fill().await.iter().all(Result::is_ok));
    for _ in 0..5 {
        let ended = postgres.psql(&format!(
            "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where {OURS}"
        ));
        assert_eq!(ended, "8");
        for answer in fill().await {
            answer.unwrap();
        }
    }
}

#[tokio::test]
async fn a_statement_that_an_administrator_ended_did_not_take_effect() {
    let postgres = PostgresServer::start(&Settings::default());
    let server = open(&postgres.url()).await;
    let slow = tokio::spawn({
        let server = server.clone();
        async move { write(&server, "SELECT pg_sleep(60)::text").await }
    });
    until_running(&postgres, "pg_sleep(60)").await;
    postgres.psql(&format!("select pg_terminate_backend(pid) from pg_stat_activity where {OURS}"));
    assert_eq!(kind(slow.await.unwrap()), StoreErrorKind::Unavailable);
    assert_eq!(write(&server, "SELECT 'on'").await.unwrap(), "on");
}

#[tokio::test]
async fn a_killed_server_leaves_writes_unknown_and_calls_short_and_is_found_again() {
    let postgres = PostgresServer::start(&Settings::default());
    let server = open(&postgres.url()).await;
    for effect in [Effect::Write, Effect::Read] {
        let slow = tokio::spawn({
            let server = server.clone();
            async move { ask(&server, Call { effect, ..Call::WRITE }, "SELECT pg_sleep(60)::text").await }
        });
        until_running(&postgres, "pg_sleep(60)").await;
        postgres.kill();
        let expected =
            if effect == Effect::Write { StoreErrorKind::Unknown } else { StoreErrorKind::Unavailable };
        assert_eq!(kind(slow.await.unwrap()), expected);

        let began = Instant::now();
        for _ in 0..200 {
            assert_eq!(kind(write(&server, "SELECT 'on'").await), StoreErrorKind::Unavailable);
        }
        assert!(began.elapsed() < Duration::from_secs(10), "200 calls took {:?}", began.elapsed());

        postgres.restart();
        let began = Instant::now();
        while write(&server, "SELECT 'on'").await.is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "the server was not found again");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn a_server_that_takes_no_more_connections_still_serves_on_those_there_are() {
    let postgres = PostgresServer::start(&Settings::default().max_connections(8));
    let options = PostgresOptions::parse(&format!("{}?pool=50", postgres.url())).unwrap();
    let server = open_with(&options).await;
    let calls = (0..300).map(|_| read(&server, "SELECT 'on' FROM pg_sleep(0.001)"));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap(), "on");
    }
    let second = open(&postgres.url()).await;
    assert_eq!(kind(read(&second, "SELECT 'on'").await), StoreErrorKind::Unavailable);
    drop(server);
    let began = Instant::now();
    while read(&second, "SELECT 'on'").await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "there is room again");
        sleep(Duration::from_millis(10)).await;
    }
}
