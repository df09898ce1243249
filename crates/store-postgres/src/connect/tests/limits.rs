//! Deadlines, full pools, and callers who go away.

use tokio::time::timeout;

use super::*;

#[tokio::test]
async fn a_statement_that_takes_too_long_is_unavailable_and_its_connection_good() {
    let postgres = PostgresServer::start(&Settings::default());
    let server = open(&format!("{}?statement_timeout=200ms", postgres.url())).await;
    let before = write(&server, "SELECT pg_backend_pid()::text").await.unwrap();
    assert_eq!(kind(write(&server, "SELECT pg_sleep(30)::text").await), StoreErrorKind::Unavailable);
    assert_eq!(write(&server, "SELECT pg_backend_pid()::text").await.unwrap(), before);
}

#[tokio::test]
async fn a_lock_that_is_not_free_in_time_is_unavailable() {
    let postgres = PostgresServer::start(&Settings::default());
    postgres.psql("create table note (text text); grant all on note to windlass");
    let server = open(&format!("{}?lock_timeout=100ms", postgres.url())).await;
    let lock = "LOCK TABLE note; SELECT pg_sleep(5)";
    let holder = server.clone();
    let held = tokio::spawn(async move {
        let hold = async move |_, session: Session| session.batch(lock).await;
        holder.call(Call::LEASE, hold).await
    });
    until_running(&postgres, "LOCK TABLE note").await;
    assert_eq!(kind(write(&server, "INSERT INTO note VALUES ('x')").await), StoreErrorKind::Unavailable);
    held.abort();
}

#[tokio::test]
async fn a_deadline_leaves_a_write_unknown_cancels_it_and_gives_the_connection_up() {
    let postgres = PostgresServer::start(&Settings::default());
    let server = open(&format!("{}?pool=2", postgres.url())).await;
    let soon = Duration::from_millis(300);
    for (effect, expected) in
        [(Effect::Write, StoreErrorKind::Unknown), (Effect::Read, StoreErrorKind::Unavailable)]
    {
        let slow = async |_, session: Session| session.query("SELECT pg_sleep(30)", &[]).await.map(drop);
        let call = Call { effect, ..Call::WRITE.within(soon) };
        assert_eq!(kind(server.call(call, slow).await), expected);
    }
    let idle = |_, _| std::future::pending::<Result<(), Fault>>();
    let unsent = server.call(Call::WRITE.within(soon), idle).await;
    assert_eq!(kind(unsent), StoreErrorKind::Unavailable, "nothing was sent");
    let began = Instant::now();
    let running =
        "select count(*) from pg_stat_activity where query like '%pg_sleep(30)%' and state = 'active'
        and pid <> pg_backend_pid()";
    while postgres.psql(running) != "0" {
        assert!(began.elapsed() < Duration::from_secs(10), "the statement was not cancelled");
    }
    for _ in 0..4 {
        assert_eq!(write(&server, "SELECT 'on'").await.unwrap(), "on");
    }
}

#[tokio::test]
async fn a_full_pool_is_unavailable_after_a_while_and_leases_do_not_wait_for_it() {
    let postgres = PostgresServer::start(&Settings::default());
    let mut options = PostgresOptions::parse(&postgres.url()).unwrap().pool(2).unwrap();
    options.connection_wait = Duration::from_millis(300);
    let server = open_with(&options).await;
    let slow = || async { write(&server, "SELECT pg_sleep(3)::text").await };
    let work = async {
        let third = async {
            until_running(&postgres, "pg_sleep(3)").await;
            let lease = ask(&server, Call::LEASE, "SELECT 'renewed'").await;
            assert_eq!(lease.unwrap(), "renewed");
            let error = write(&server, "SELECT 'x'").await.expect_err("all connections are busy");
            assert!(error.to_string().contains("all 2 connections"), "{error}");
            assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        };
        futures_util::future::join3(slow(), slow(), third).await
    };
    let (first, second, ()) = work.await;
    assert!(first.is_ok() && second.is_ok());
}

#[tokio::test]
async fn an_operation_that_panics_is_an_error_and_not_a_hang() {
    let server = open(PostgresServer::shared().url()).await;
    let broken = async |_, _| if true { panic!("on purpose") } else { Ok(()) };
    assert_eq!(kind(server.call(Call::WRITE, broken).await), StoreErrorKind::Fatal);
    assert_eq!(read(&server, "SELECT 'on'").await.unwrap(), "on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_dropped_calls_leave_no_transaction_and_no_connection_behind() {
    const CALLS: u64 = 10_000;
    let postgres = PostgresServer::start(&Settings::default());
    postgres.psql("create table note (text text); grant all on note to windlass");
    let server = open(&postgres.url()).await;
    for _ in 0..CALLS / 100 {
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let server = server.clone();
                tokio::spawn(async move {
                    let call = write(&server, "INSERT INTO note VALUES ('x') RETURNING text");
                    let _ = timeout(Duration::from_micros(fastrand::u64(..3_000)), call).await;
                })
            })
            .collect();
        for call in calls {
            if fastrand::u8(..4) == 0 {
                call.abort();
            } else {
                call.await.unwrap();
            }
        }
    }
    // Behind all that was handed in before, which takes a busy machine longer than one call waits.
    let sql = "SELECT count(*)::text FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
    let left = loop {
        match read(&server, sql).await {
            Err(error) if error.is_transient() => {}
            answer => break answer.unwrap(),
        }
    };
    assert_eq!(left, "0");
    let ours = postgres.psql("select count(*) from pg_stat_activity where usename = 'windlass'");
    assert!(ours.parse::<u32>().unwrap() <= 8, "{ours} connections");
    drop(server);
    let written: u64 = postgres.psql("select count(*) from note").parse().unwrap();
    assert!(written > 0 && written <= CALLS, "{written} rows");
    assert_eq!(postgres.psql("select sum(deadlocks) from pg_stat_database"), "0");
}
