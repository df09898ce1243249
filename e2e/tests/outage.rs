//! A store that is away for longer than a lease lives, while a worker has outcomes that it could not write: when it is
//! back, what is done is not done again.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::{Duration, Instant};

use windlass::{Client, JobId, JobState, Worker};
use windlass_e2e::jobs::{self, Hold};
use windlass_e2e::producer::{completions, records};
use windlass_e2e::proxy::Proxy;
use windlass_e2e::server::StoreServer;
use windlass_e2e::witness::{Ledger, Witness};
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::{PostgresServer, RedisServer, RedisSettings, Settings};

const LEASE: Duration = Duration::from_secs(3);

/// How many of the jobs are in this state.
async fn count(client: &Client, ids: &[JobId], wanted: impl Fn(&windlass::JobRecord) -> bool) -> usize {
    let found = records(client, ids).await;
    found.iter().filter(|(_, record)| record.as_ref().is_some_and(&wanted)).count()
}

async fn outage(server: &impl StoreServer) {
    let proxy = Proxy::before(server.port()).await;
    let client = windlass::open(server.url()).await.unwrap();
    let through = windlass::open(proxy.url(&server.url())).await.unwrap();
    let (witness, gate) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let jobs = setting("WINDLASS_LATE_OUTCOMES", 200) as usize;
    let worker = Worker::with_state(&through, Witness::open(witness.path(), "worker"))
        .concurrency(jobs)
        .lease_unchecked(LEASE)
        .reap_interval(LEASE / 4)
        .handle(jobs::hold)
        .start()
        .unwrap();
    // The store is away for the first only; this one takes back what its lease had, and cannot run it.
    let reaper = Worker::with_state(&client, Witness::open(witness.path(), "reaper"))
        .lease_unchecked(LEASE)
        .reap_interval(LEASE / 4)
        .handle(jobs::touch)
        .start()
        .unwrap();
    let held = (0..jobs).map(|_| Hold { gate: gate.path().to_owned() });
    let ids: Vec<_> = client.enqueue_all(held).await.unwrap().iter().map(windlass::Handle::id).collect();
    eventually("the store knows that all of them have begun", async || {
        (count(&client, &ids, |record| record.has_begun).await == jobs).then_some(())
    })
    .await;

    proxy.close();
    std::fs::write(gate.path().join("worker"), "").unwrap();
    eventually("all handlers have ended", async || {
        (Ledger::read(witness.path()).total("done") == jobs).then_some(())
    })
    .await;
    eventually("all of them are taken back", async || {
        (count(&client, &ids, |record| record.state != JobState::Running).await == jobs).then_some(())
    })
    .await;
    proxy.open();
    let since = Instant::now();
    eventually("every job has ended", async || (server.open() == 0).then_some(())).await;

    let again = Ledger::read(witness.path()).total("start") - jobs;
    for (_, record) in records(&client, &ids).await {
        let record = record.unwrap();
        assert_eq!((record.state, completions(&record)), (JobState::Completed, 1), "{record:?}");
    }
    println!(
        "{jobs} outcomes were late by a lease: all recorded {:?} later, {again} run again",
        since.elapsed()
    );
    assert!(again * 10 <= jobs, "what is done is not done again by the hundred: {again} of {jobs} were");
    worker.stop().await;
    reaper.stop().await;
    server.assert_tidy();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_outcomes_are_recorded_on_postgres() {
    outage(&PostgresServer::start(&Settings::default())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_outcomes_are_recorded_on_redis() {
    outage(&RedisServer::start(&RedisSettings::default())).await;
}
