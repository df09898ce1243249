//! Rows that this program cannot read, one of each kind: every other job is run, taken back and pruned as ever, and
//! each such row is named.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::HashMap;
use std::time::Duration;

use windlass::core::store::Amended;
use windlass::core::store::Filter;
use windlass::queue::{Keep, QueueConfig, QueueRecord, Retention};
use windlass::{Client, Handle, JobId, JobRecord, JobState, Reason, Retry, Running, Worker};
use windlass_e2e::eventually;
use windlass_e2e::fleet::{Fleet, WorkerSettings};
use windlass_e2e::jobs::{self, Hold, Plain};
use windlass_e2e::producer::records;
use windlass_e2e::spoil::{Spoil, StoreFile};
use windlass_e2e::witness::{Ledger, Witness};
use windlass_store_testkit::servers::{PostgresServer, RedisServer, RedisSettings, Settings};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
const GOOD: usize = 50;
/// Of running jobs.
const HELD: usize = 10;
const LEASE: Duration = Duration::from_secs(3);
/// A queue whose definition does not read.
const AILING: &str = "ailing";

struct Scene<'a, S> {
    fleet: &'a Fleet,
    spoil: &'a S,
    client: Client,
    /// What cannot be read in any version, and what a newer one may read.
    broken: Vec<JobId>,
    newer: Vec<JobId>,
}

fn plain(number: usize) -> Plain {
    Plain { word: number.to_string(), millis: 0 }
}

fn ids<J: windlass::Job>(handles: &[Handle<J>]) -> Vec<JobId> {
    handles.iter().map(Handle::id).collect()
}

/// Keeps what has completed for a moment only.
fn briefly() -> QueueConfig {
    let retention = Retention { completed: Keep::age(Duration::from_millis(1)), ..Retention::default() };
    QueueConfig { retention, ..QueueConfig::default() }
}

impl<S: Spoil> Scene<'_, S> {
    /// Jobs that wait, among them some that do not read.
    async fn enqueue(&mut self) -> Vec<JobId> {
        let client = &self.client;
        client.define_queue(AILING, briefly()).await.unwrap();
        self.spoil.spoil_definition(AILING);
        let mut good = ids(&client.enqueue_all((0..GOOD / 2).map(plain)).await.unwrap());
        let retry = Retry::exponential(7, Duration::from_secs(1));
        let policy = client.enqueue(plain(0)).retry(retry).await.unwrap().id();
        self.spoil.replace(policy, "exponential", "fibonaccial");
        let tag = client.enqueue(plain(0)).tag("goodtag").await.unwrap().id();
        self.spoil.replace(tag, "goodtag", "bad tag");
        self.broken.extend([policy, tag]);
        let newer = client.enqueue(plain(0)).await.unwrap().id();
        self.spoil.raise_form(newer);
        self.newer.push(newer);
        good.extend(ids(&client.enqueue_all((0..GOOD / 2).map(plain)).await.unwrap()));
        good.extend(ids(&client.enqueue_all((0..5).map(plain)).queue(AILING).await.unwrap()));
        good
    }

    fn work(&self) -> Running {
        Worker::with_state(&self.client, Witness::open(&self.fleet.witness(), "rescuer"))
            .queue("default", 16)
            .queue(AILING, 4)
            .lease_unchecked(LEASE)
            .reap_interval(LEASE / 4)
            .poll_interval(Duration::from_millis(200))
            .prune_interval(Duration::from_millis(200))
            .handle(jobs::plain)
            .handle(jobs::hold)
            .start()
            .unwrap()
    }

    /// Running jobs, of which some are spoiled before their worker dies.
    async fn hold_and_kill(&mut self) -> Vec<JobId> {
        let doomed = WorkerSettings { label: "doomed".into(), lease: LEASE, ..WorkerSettings::default() };
        let doomed = self.fleet.start(&doomed);
        let hold = || Hold { gate: self.fleet.gate() };
        let mut held = ids(&self.client.enqueue_all((0..HELD).map(|_| hold())).await.unwrap());
        let retry = Retry::exponential(7, Duration::from_secs(1));
        let policy = self.client.enqueue(hold()).retry(retry).await.unwrap().id();
        held.push(policy);
        eventually("all of them have begun", async || {
            let records = records(&self.client, &held).await;
            let begun = records.iter().flat_map(|(_, record)| record).filter(|record| record.has_begun);
            (begun.count() == held.len()).then_some(())
        })
        .await;
        held.pop();
        let newer = held.pop().unwrap();
        self.spoil.replace(policy, "exponential", "fibonaccial");
        self.spoil.raise_form(newer);
        doomed.kill();
        self.broken.push(policy);
        self.newer.push(newer);
        held
    }

    async fn until_all_complete(&self, jobs: &[JobId]) {
        eventually("every good job completes", async || {
            let ledger = Ledger::read(&self.fleet.witness());
            jobs.iter().all(|id| ledger.count(*id, "done") >= 1).then_some(())
        })
        .await;
    }

    async fn listed(&self) -> HashMap<JobId, JobRecord> {
        let filter =
            Filter { queue: Some(windlass::core::Name::new("default").unwrap()), ..Filter::default() };
        let page = self.client.store().list(&filter, None, 500).await.unwrap();
        page.jobs.into_iter().map(|job| (job.id, job)).collect()
    }

    async fn queue(&self, name: &str) -> QueueRecord {
        let queues = self.client.store().queues(None, 100).await.unwrap();
        queues.into_iter().find(|queue| queue.name.as_str() == name).unwrap()
    }

    /// What cannot be read is set aside, what a newer program may read is left alone, and both are listed.
    async fn until_named(&self) {
        eventually("what cannot be read is dead, by its name", async || {
            let listed = self.listed().await;
            let is_dead = |id: &JobId| {
                let job = &listed[id];
                assert!(job.unreadable.is_some(), "{job:?}");
                (job.state, job.reason) == (JobState::Dead, Some(Reason::Unreadable))
            };
            self.broken.iter().all(is_dead).then_some(())
        })
        .await;
        let listed = self.listed().await;
        for id in &self.newer {
            let job = &listed[id];
            assert!(job.unreadable.is_some() && !job.state.is_terminal(), "a newer one may read it: {job:?}");
        }
    }
}

async fn unreadable(fleet: &Fleet, spoil: &impl Spoil) {
    let client = fleet.client().await;
    let mut scene = Scene { fleet, spoil, client, broken: Vec::new(), newer: Vec::new() };
    // Jobs that wait.
    let good = scene.enqueue().await;
    let running = scene.work();
    scene.until_all_complete(&good).await;
    scene.until_named().await;
    running.stop().await;

    // Jobs of a worker that is lost.
    let held = scene.hold_and_kill().await;
    fleet.open_gate("rescuer");
    let running = scene.work();
    scene.until_all_complete(&held).await;
    scene.until_named().await;

    // Jobs that have ended.
    scene.client.define_queue("default", briefly()).await.unwrap();
    eventually("what has completed is pruned", async || {
        (scene.queue("default").await.counts.of(JobState::Completed) == 0).then_some(())
    })
    .await;
    let ailing = scene.queue(AILING).await;
    assert!(ailing.unreadable.is_some(), "{ailing:?}");
    assert_eq!(
        ailing.counts.of(JobState::Completed),
        5,
        "what its definition keeps is not known: {ailing:?}"
    );
    scene.until_named().await;
    running.stop().await;
    let answers = scene.client.store().delete(scene.broken.as_slice().into()).await.unwrap();
    assert!(
        answers.iter().all(|answer| matches!(answer, Amended::Done(_))),
        "they can be deleted: {answers:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_do_not_read_harm_no_other_on_sqlite() {
    let fleet = Fleet::new(WORKER);
    let file = StoreFile(fleet.folder().join("jobs.db"));
    unreadable(&fleet, &file).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_do_not_read_harm_no_other_on_postgres() {
    let server = PostgresServer::start(&Settings::default());
    unreadable(&Fleet::on(WORKER, server.url()), &server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_do_not_read_harm_no_other_on_redis() {
    let server = RedisServer::start(&RedisSettings::default());
    unreadable(&Fleet::on(WORKER, server.url()), &server).await;
}
