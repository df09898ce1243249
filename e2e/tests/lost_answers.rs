//! Answers that are lost between a server and a program, by a proxy that cuts exactly there: a lost claim costs
//! no job anything, and a lost enqueue is one job however often the library asks again.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::{Duration, Instant};

use windlass::queue::{Keep, QueueConfig, Retention};
use windlass::{JobId, JobState, Retry, Worker};
use windlass_e2e::jobs::{self, Hold, Plain};
use windlass_e2e::producer::{completions, records};
use windlass_e2e::proxy::Proxy;
use windlass_e2e::server::StoreServer;
use windlass_e2e::witness::{Ledger, Witness};
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::{PostgresServer, RedisServer, RedisSettings, Settings};

/// Claims that lose their answer, one after the other.
const CUTS: u32 = 4;

fn marked(word: &str) -> impl Iterator<Item = Plain> {
    (0..20).map(move |_| Plain { word: word.into(), millis: 0 })
}

async fn until_started(folder: &std::path::Path, id: JobId) {
    eventually("the long job starts", async || (Ledger::read(folder).count(id, "start") == 1).then_some(()))
        .await;
}

/// Four claims in a row lose their answers, while a job that has nothing to do with them runs on and on. Its worker
/// knows of no job that those claims took, and gives all of them back.
async fn lost_claims(server: &impl StoreServer) {
    const WORD: &str = "answers-with-this-are-lost";
    let proxy = Proxy::before(server.port()).await;
    let client = windlass::open(server.url()).await.unwrap();
    let through = windlass::open(proxy.url(&server.url())).await.unwrap();
    let (witness, gate) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let running = Worker::with_state(&through, Witness::open(witness.path(), "worker"))
        .handle(jobs::plain)
        .handle(jobs::hold)
        .start()
        .unwrap();
    let long = client.enqueue(Hold { gate: gate.path().to_owned() }).await.unwrap().id();
    until_started(witness.path(), long).await;
    let (mut ids, mut waits) = (Vec::new(), Vec::new());
    for round in 1..=setting("WINDLASS_LOST_CLAIMS", CUTS) / CUTS {
        proxy.lose_answers_with(WORD, CUTS);
        let once = Retry::fixed(1, Duration::ZERO);
        let handles = client.enqueue_all(marked(WORD)).await.unwrap();
        let handles = handles.into_iter().chain(client.enqueue_all(marked(WORD)).retry(once).await.unwrap());
        ids.extend(handles.map(|handle| handle.id()));
        let since = Instant::now();
        eventually("all jobs but the long one have ended", async || (server.open() == 1).then_some(())).await;
        waits.push(since.elapsed());
        assert_eq!(proxy.taken(), round * CUTS, "each loss was one");
    }
    waits.sort_unstable();
    let held = client.job(long).await.unwrap().unwrap();
    assert_eq!((held.state, held.fence), (JobState::Running, 1), "the long job is not disturbed: {held:?}");
    std::fs::write(gate.path().join("worker"), "").unwrap();
    eventually("the long job ends", async || (server.open() == 0).then_some(())).await;
    let ledger = Ledger::read(witness.path());
    for (id, record) in records(&client, &ids).await {
        let record = record.unwrap_or_else(|| panic!("job {id} is lost"));
        assert_eq!((record.state, completions(&record)), (JobState::Completed, 1), "{record:?}");
        assert_eq!((record.counters.stalls, record.counters.attempt), (0, 1), "{record:?}");
        assert_eq!(ledger.count(id, "start"), 1, "{record:?}");
    }
    let health = running.health();
    assert_eq!((health.lease.lost, health.fenced), (0, 0), "{health:?}");
    running.stop().await;
    server.assert_tidy();
    println!(
        "{} lost claims, {} jobs: 0 stalls, 0 dead; {CUTS} losses and 40 jobs took at most {:?}",
        proxy.taken(),
        ids.len(),
        waits[waits.len() - 1]
    );
}

/// The answers to enqueues are kept back until the job has run and is gone, and then lost; the call is repeated.
async fn swallowed_enqueues(server: &impl StoreServer, keep: Keep) {
    let proxy = Proxy::before(server.port()).await;
    let client = windlass::open(server.url()).await.unwrap();
    let through = windlass::open(proxy.url(&server.url())).await.unwrap();
    let retention = Retention { completed: keep, ..Retention::default() };
    client.define_queue("default", QueueConfig { retention, ..QueueConfig::default() }).await.unwrap();
    let witness = tempfile::tempdir().unwrap();
    let running = Worker::with_state(&client, Witness::open(witness.path(), "worker"))
        .prune_interval(Duration::from_millis(50))
        .handle(jobs::plain)
        .start()
        .unwrap();
    let (mut ids, mut losses) = (Vec::new(), 0);
    for round in 0..setting("WINDLASS_LOST_ENQUEUES", 4) {
        let word = format!("the-answer-to-this-is-lost-{round};");
        // A call is tried five times; its repeats may be lost as well.
        let times = 1 + round % 3;
        proxy.keep_answers_to(&word, times);
        let (through, jobs) = (through.clone(), 1 + round as usize % 2 * 9);
        let enqueuing = tokio::spawn(async move {
            let job = || Plain { word: word.clone(), millis: 0 };
            match jobs {
                1 => vec![through.enqueue(job()).await.unwrap()],
                _ => through.enqueue_all((0..jobs).map(|_| job())).await.unwrap(),
            }
        });
        let stored = ids.len() + jobs;
        for _ in 0..times {
            losses += 1;
            proxy.until_taken(losses).await;
            eventually("the jobs have run and are gone", async || {
                (Ledger::read(witness.path()).total("done") >= stored && server.stored() == 0).then_some(())
            })
            .await;
            proxy.cut();
        }
        ids.extend(enqueuing.await.unwrap().iter().map(windlass::Handle::id));
    }
    eventually("nothing is left", async || (server.stored() == 0).then_some(())).await;
    running.stop().await;
    let ledger = Ledger::read(witness.path());
    for id in &ids {
        let fences: Vec<_> = ledger.events(*id, "start").map(|line| line.fence).collect();
        assert_eq!(fences, [1], "job {id} has run once");
    }
    assert_eq!(ledger.total("start"), ids.len(), "and nothing else has");
    println!("{losses} enqueues lost their answer: {} jobs ran once, under the fence 1", ids.len());
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lost_claims_cost_no_job_anything() {
        lost_claims(&PostgresServer::start(&Settings::default())).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lost_enqueues_of_jobs_that_are_not_kept_are_one_job() {
        swallowed_enqueues(&PostgresServer::start(&Settings::default()), Keep::NONE).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lost_enqueues_of_jobs_that_are_pruned_are_one_job() {
        let keep = Keep::age(Duration::from_millis(10));
        swallowed_enqueues(&PostgresServer::start(&Settings::default()), keep).await;
    }
}

mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lost_claims_cost_no_job_anything() {
        lost_claims(&RedisServer::start(&RedisSettings::default())).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lost_enqueues_of_jobs_that_are_not_kept_are_one_job() {
        swallowed_enqueues(&RedisServer::start(&RedisSettings::default()), Keep::NONE).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lost_enqueues_of_jobs_that_are_pruned_are_one_job() {
        let keep = Keep::age(Duration::from_millis(10));
        swallowed_enqueues(&RedisServer::start(&RedisSettings::default()), keep).await;
    }
}
