//! Calls on real servers.

mod limits;
mod names;
mod outage;
mod secrets;

use windlass_core::StoreErrorKind;
use windlass_core::store::{Durability, StoreResult};
use windlass_store_testkit::servers::{PgBouncer, PoolMode, PostgresServer, Settings};

use super::*;
use crate::error::{Effect, Fault};
use crate::row::at;

pub(crate) async fn open(url: &str) -> Server {
    open_with(&PostgresOptions::parse(url).unwrap()).await
}

pub(crate) async fn open_with(options: &PostgresOptions) -> Server {
    start(options).await.unwrap()
}

/// The first column of the first row, which is text.
pub(crate) async fn ask(server: &Server, call: Call, sql: &str) -> StoreResult<String> {
    let sql = sql.to_owned();
    let operation = async move |_, session: Session| {
        let rows = session.query(&sql, &[]).await?;
        Ok(rows.first().map(|row| at(row, 0)).transpose()?.unwrap_or_default())
    };
    server.call(call, operation).await
}

pub(crate) async fn read(server: &Server, sql: &str) -> StoreResult<String> {
    ask(server, Call::READ, sql).await
}

async fn write(server: &Server, sql: &str) -> StoreResult<String> {
    ask(server, Call::WRITE, sql).await
}

fn kind<T: std::fmt::Debug>(result: StoreResult<T>) -> StoreErrorKind {
    result.expect_err("this cannot work").kind()
}

#[tokio::test]
async fn a_connection_has_its_limits_and_the_probe_says_what_a_commit_survives() {
    let postgres = PostgresServer::start(&Settings::default().durable());
    let url = format!("{}?statement_timeout=7s&lock_timeout=3s", postgres.url());
    let server = open(&url).await;
    for (setting, value) in [
        ("statement_timeout", "7s"),
        ("lock_timeout", "3s"),
        ("idle_in_transaction_session_timeout", "1min"),
        ("jit", "off"),
        ("application_name", "windlass"),
    ] {
        assert_eq!(read(&server, &format!("SELECT current_setting('{setting}')")).await.unwrap(), value);
    }
    let found = probe(&server).await.unwrap();
    assert_eq!((found.durability, found.is_read_only), (Durability::PowerCut, false));
    assert!(found.version >= 140_000);
    let careless = open(&format!("{url}&synchronous_commit=off")).await;
    assert_eq!(probe(&careless).await.unwrap().durability, Durability::Delayed);
}

#[tokio::test]
async fn a_read_only_server_is_unavailable_for_writes_and_heard_of_by_the_probe() {
    let postgres = PostgresServer::start(&Settings::default());
    postgres.psql("create table note (text text); grant all on note to windlass");
    let server = open(&postgres.url()).await;
    write(&server, "INSERT INTO note VALUES ('one')").await.unwrap();
    postgres.psql("alter role windlass set default_transaction_read_only = on");
    let fresh = open(&postgres.url()).await;
    assert!(probe(&fresh).await.unwrap().is_read_only);
    assert_eq!(kind(write(&fresh, "INSERT INTO note VALUES ('two')").await), StoreErrorKind::Unavailable);
    postgres.psql("alter role windlass reset default_transaction_read_only");
    // The connection that said so is not used again.
    for _ in 0..20 {
        write(&fresh, "INSERT INTO note VALUES ('three')").await.unwrap();
    }
}

#[tokio::test]
async fn what_is_missing_is_fatal_and_says_what_to_do() {
    let postgres = PostgresServer::start(&Settings::default());
    postgres.psql("create schema locked; create table locked.note (text text)");
    let server = open(&postgres.url()).await;
    for (sql, advice) in [
        ("SELECT * FROM windlass.jobs", "windlass migrate"),
        ("SELECT windlass.claim()", "windlass migrate"),
        ("SELECT text FROM locked.note", "privilege"),
    ] {
        let error = write(&server, sql).await.expect_err("there is no such thing");
        assert_eq!(error.kind(), StoreErrorKind::Fatal, "{error}");
        assert!(error.to_string().contains(advice), "{error}");
    }
    let elsewhere = open(&postgres.url().replace("/postgres", "/nowhere")).await;
    let error = read(&elsewhere, "SELECT ''").await.expect_err("there is no such database");
    assert!(error.kind() == StoreErrorKind::Fatal && error.to_string().contains("nowhere"), "{error}");
}

#[tokio::test]
async fn queries_of_one_session_may_overlap() {
    let server = open(PostgresServer::shared().url()).await;
    let operation = async |_, session: Session| {
        let (one, two) = ("SELECT 'one'::text", "SELECT 'two'::text");
        let both = futures_util::future::try_join(session.query(one, &[]), session.query(two, &[])).await?;
        Ok((at::<String>(&both.0[0], 0)?, at::<String>(&both.1[0], 0)?))
    };
    let both = server.call(Call { purpose: Purpose::Lease, ..Call::READ }, operation).await.unwrap();
    assert_eq!(both, ("one".to_owned(), "two".to_owned()));
}

#[tokio::test]
async fn a_script_that_fails_within_its_transaction_leaves_none_open() {
    let postgres = PostgresServer::start(&Settings::default());
    let server = open(&postgres.url()).await;
    let script = "BEGIN; SELECT 1; SELECT 1 / 0; COMMIT";
    let operation = async move |_, session: Session| session.batch(script).await;
    server.call(Call::WRITE, operation).await.expect_err("this divides by zero");
    let states = "select count(*) from pg_stat_activity where state like 'idle in transaction%'";
    assert_eq!(postgres.psql(states), "0");
    assert_eq!(read(&server, "SELECT 'on'").await.unwrap(), "on");
}

#[tokio::test]
async fn a_dropped_call_and_a_dropped_store_still_finish_what_was_handed_in() {
    let postgres = PostgresServer::start(&Settings::default());
    postgres.psql("create table note (text text); grant all on note to windlass");
    let server = open(&postgres.url()).await;
    read(&server, "SELECT ''").await.unwrap();
    let slow = "INSERT INTO note SELECT 'slow' FROM pg_sleep(0.1)";
    {
        let call = Box::pin(write(&server, slow));
        // Polled once, so that it is handed in, and dropped.
        assert!(futures_util::future::poll_immediate(call).await.is_none());
    }
    drop(server);
    assert_eq!(postgres.psql("select text from note"), "slow");
    assert_eq!(postgres.psql("select count(*) from pg_stat_activity where usename = 'windlass'"), "0");
}

#[tokio::test]
async fn behind_a_pooler_by_transaction_calls_work_without_settings() {
    let postgres = PostgresServer::start(&Settings::default());
    let pooler = PgBouncer::before(&postgres, PoolMode::Transaction);
    let server = open(pooler.url()).await;
    let calls = (0..200).map(|_| read(&server, "SELECT 'through'"));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap(), "through");
    }
    assert!(server.connections().connector.is_plain());
    assert!(probe(&server).await.is_ok());
    // The pooler's answer when the server behind it has gone does not say whether a statement took effect.
    let slow = tokio::spawn({
        let server = server.clone();
        async move { write(&server, "SELECT pg_sleep(60)::text").await }
    });
    until_running(&postgres, "pg_sleep(60)").await;
    postgres.kill();
    assert_eq!(kind(slow.await.unwrap()), StoreErrorKind::Unknown);
}

/// Until a statement with this text runs on the server.
async fn until_running(postgres: &PostgresServer, text: &str) {
    let sql = format!(
        "select count(*) from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() and query like '%{text}%'"
    );
    while postgres.psql(&sql) == "0" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn connections_that_lie_idle_are_closed_on_the_server() {
    let postgres = PostgresServer::start(&Settings::default());
    let server = open(&postgres.url()).await;
    // Each call has a connection of its own: none ends before the last has begun.
    let met = Arc::new(tokio::sync::Barrier::new(4));
    let calls = (0..4).map(|_| {
        let met = Arc::clone(&met);
        server.call(Call::READ, async move |_, session: Session| {
            met.wait().await;
            session.query("SELECT 1", &[]).await.map(drop)
        })
    });
    for answer in futures_util::future::join_all(calls).await {
        answer.unwrap();
    }
    let count = || postgres.psql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'windlass'");
    assert_eq!(count().trim(), "4");
    idle::sweep(&server.connections().work, Duration::ZERO);
    while count().trim() != "1" {
        tokio::task::yield_now().await;
    }
    assert_eq!(read(&server, "SELECT 'in'").await.unwrap(), "in");
}
