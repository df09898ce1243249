//! What the contract cannot say of keys of jobs: which rows are left, what a stray row does, and that each step is bounded.

mod sweep;

use std::time::Duration;

use rusqlite::{Connection, params};
use tempfile::TempDir;
use windlass_core::job::{NewJob, Unreadable};
use windlass_core::queue::{GATES_LOOKED_MAX, KeyRules, Pause, Pauses, QueueConfig, Rate, Removed};
use windlass_core::store::{ClaimAnswer, ClaimRequest, Enqueued, Jobs, Leases, Maintenance, Queues};
use windlass_core::{ClaimedJob, JobId, Options, StoreError};
use windlass_store_sqlite::SqliteStore;

use super::{completed, job, lease, name, open, request};

struct Scene {
    store: SqliteStore,
    connection: Connection,
    directory: TempDir,
}

impl Scene {
    async fn new(rules: KeyRules) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jobs.db");
        let store = open(&path).await;
        let scene = Self { store, connection: Connection::open(&path).unwrap(), directory };
        scene.define(QueueConfig { keys: Some(rules), ..QueueConfig::default() }).await;
        scene
    }

    async fn define(&self, config: QueueConfig) {
        self.store.define(&name("default"), &config).await.unwrap();
    }

    async fn add(&self, keys: &[&str]) -> Vec<NewJob> {
        let jobs: Vec<_> = keys.iter().map(|key| of(key)).collect();
        self.store.enqueue(jobs.as_slice().into()).await.unwrap();
        jobs
    }

    async fn ask(&self, limit: u32) -> (Vec<ClaimedJob>, Option<Duration>) {
        let request = request(lease(&self.store).await, limit);
        // Those with a key first.
        let request = ClaimRequest { nonce: request.nonce | 1, ..request };
        match self.store.claim(request).await.unwrap() {
            ClaimAnswer::Jobs { jobs, next_due, .. } => (jobs, next_due),
            ClaimAnswer::LeaseLost => panic!("the lease was lost"),
        }
    }

    fn count(&self, rows: &str) -> u32 {
        self.connection.query_row(&format!("SELECT count(*) FROM {rows}"), [], |row| row.get(0)).unwrap()
    }

    fn change(&self, id: JobId, change: &str) {
        let sql = format!("UPDATE windlass_jobs SET {change} WHERE id = ?1");
        assert_eq!(self.connection.execute(&sql, params![id.as_bytes()]).unwrap(), 1);
    }
}

fn of(key: &str) -> NewJob {
    NewJob::new("greet", "{}", Options::new().key(key)).unwrap()
}

fn at_most(concurrency: u32) -> KeyRules {
    KeyRules { concurrency: Some(concurrency), ..KeyRules::default() }
}

#[tokio::test]
async fn a_key_without_jobs_leaves_no_gate() {
    let scene = Scene::new(at_most(1)).await;
    let jobs = scene.add(&["a", "a", "b", "c"]).await;
    assert_eq!(scene.count("windlass_gates WHERE open_at = 0"), 3);
    scene.store.delete([jobs[2].id].into()).await.unwrap();
    let (running, next) = scene.ask(9).await;
    assert_eq!((running.len(), next), (2, None));
    assert_eq!(scene.count("windlass_gates"), 1, "one of a waits");
    assert_eq!(scene.count("windlass_gates WHERE open_at > 0"), 1);
    scene.store.settle(completed(&running).into()).await.unwrap();
    assert_eq!(scene.count("windlass_gates WHERE open_at = 0"), 1);
    assert_eq!(scene.ask(9).await.0.len(), 1);
    assert_eq!(scene.count("windlass_gates"), 0);
}

/// The calls share one transaction, so what a refused one brought has to be taken back by hand.
#[tokio::test]
async fn a_refused_call_leaves_no_gate_and_harms_no_neighbour() {
    let scene = Scene::new(KeyRules::default()).await;
    scene
        .define(QueueConfig { capacity: Some(2), keys: Some(KeyRules::default()), ..QueueConfig::default() })
        .await;
    scene.add(&["a"]).await;
    let (b, c, d) = (of("b"), of("c"), of("d"));
    let (full, fits, lone) = tokio::join!(
        scene.store.enqueue([b.clone(), b.clone(), c].into()),
        scene.store.enqueue([d].into()),
        scene.store.enqueue([b.clone()].into()),
    );
    assert!(matches!(full, Err(StoreError::QueueFull { waiting: 1, .. })), "{full:?}");
    assert_eq!(fits.unwrap(), [Enqueued::New]);
    assert!(matches!(lone, Err(StoreError::QueueFull { waiting: 2, .. })), "{lone:?}");
    assert_eq!((scene.count("windlass_jobs"), scene.count("windlass_gates")), (2, 2));
}

#[tokio::test]
async fn a_row_that_does_not_read_harms_only_itself() {
    let scene = Scene::new(KeyRules::default()).await;
    let jobs = scene.add(&["a", "a", "a", "b"]).await;
    scene.change(jobs[0].id, "tags = 'no list'");
    scene.change(jobs[1].id, "id = x'0102'");
    let request = request(lease(&scene.store).await, 9);
    let ClaimAnswer::Jobs { jobs: good, unreadable, .. } = scene.store.claim(request).await.unwrap() else {
        panic!("the lease lives")
    };
    assert_eq!(good.iter().map(|job| job.id).collect::<Vec<_>>(), [jobs[2].id, jobs[3].id]);
    assert!(matches!(&unreadable[..], [bad] if bad.id == jobs[0].id), "{unreadable:?}");
    assert_eq!(scene.count("windlass_jobs WHERE state = 5"), 1, "no worker could settle it");
}

#[tokio::test]
async fn a_key_that_does_not_read_is_passed_over() {
    let scene = Scene::new(KeyRules::default()).await;
    let jobs = scene.add(&["a", "b"]).await;
    scene.change(jobs[0].id, "key = '!a'");
    scene.connection.execute("UPDATE windlass_gates SET key = '!a' WHERE key = 'a'", []).unwrap();
    assert_eq!(scene.ask(1).await.0[0].id, jobs[1].id);
    assert_eq!(scene.count("windlass_gates"), 0);
    let record = scene.store.get([jobs[0].id].into()).await.unwrap().remove(0).unwrap();
    assert!(matches!(record.unreadable, Some(Unreadable::Broken(_))), "{record:?}");
}

/// A definition opens gates by its version, so it costs the same however many there are.
#[tokio::test]
async fn more_gates_than_a_claim_looks_at_open_one_after_the_other() {
    const KEYS: usize = GATES_LOOKED_MAX + 200;
    let scene = Scene::new(at_most(1)).await;
    let keys: Vec<_> = (0..KEYS).map(|number| format!("key-{number:04}")).collect();
    let twice: Vec<_> = keys.iter().chain(&keys).map(String::as_str).collect();
    scene.add(&twice).await;
    let first = scene.ask(9_999).await.0.len() + scene.ask(9_999).await.0.len();
    assert_eq!(first, KEYS);
    assert_eq!(scene.count("windlass_gates WHERE open_at > 0") as usize, KEYS);
    scene.define(QueueConfig { keys: Some(at_most(2)), ..QueueConfig::default() }).await;
    let (jobs, next) = scene.ask(9_999).await;
    assert_eq!(
        (jobs.len(), next),
        (GATES_LOOKED_MAX, Some(Duration::ZERO)),
        "the others can be asked for at once"
    );
    assert_eq!(scene.ask(9_999).await.0.len(), 200);
    assert_eq!(scene.count("windlass_gates"), 0);
}

#[tokio::test]
async fn permits_of_keys_that_do_not_come_back_are_forgotten() {
    let rate = Some(Rate::new(5, Duration::from_millis(1)));
    let scene = Scene::new(KeyRules { rate, ..KeyRules::default() }).await;
    scene.add(&["a", "b", "c"]).await;
    assert_eq!(scene.ask(9).await.0.len(), 3);
    assert_eq!(scene.count("windlass_key_spent"), 3);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(scene.store.tidy(2).await.unwrap(), 2);
    assert_eq!(scene.store.tidy(9).await.unwrap(), 1);
    let commits = scene.store.gauges().commits;
    assert_eq!(scene.store.tidy(9).await.unwrap(), 0);
    assert_eq!(scene.store.gauges().commits, commits, "nothing is written when nothing is over");
}

#[tokio::test]
async fn a_queue_is_removed_with_its_gates_and_permits() {
    let rate = Some(Rate::new(5, Duration::from_secs(3_600)));
    let scene = Scene::new(KeyRules { rate, ..KeyRules::default() }).await;
    let keys: Vec<_> = (0..600).map(|number| number.to_string()).collect();
    let jobs = scene.add(&keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let running = scene.ask(550).await.0;
    scene.store.settle(completed(&running).into()).await.unwrap();
    scene.store.delete(jobs.iter().map(|job| job.id).collect()).await.unwrap();
    assert_eq!((scene.count("windlass_gates"), scene.count("windlass_key_spent")), (50, 550));
    assert_eq!(scene.store.remove(&name("default")).await.unwrap(), Removed::Done);
    assert_eq!((scene.count("windlass_gates"), scene.count("windlass_key_spent")), (0, 0));
    let refused = scene.store.enqueue([of("a")].into()).await;
    assert!(matches!(refused, Err(StoreError::NoKeys { .. })), "it has no keys by now: {refused:?}");
    scene.store.enqueue([job("plain")].into()).await.unwrap();
}

/// Stores on one file, as several processes would have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_stores_heed_the_keys_and_work_all_off() {
    let scene = Scene::new(at_most(1)).await;
    let path = scene.directory.path().join("jobs.db");
    let mut stores = Vec::new();
    for _ in 0..3 {
        let store = open(&path).await;
        stores.push(tokio::spawn(async move {
            let lease = lease(&store).await;
            let mut done = 0;
            for round in 0..30 {
                let jobs: Vec<_> =
                    (0..7).map(|number: u32| of(&((round + number) % 5).to_string())).collect();
                store.enqueue(jobs.into()).await.unwrap();
                let running = super::claim(&store, lease, 4).await;
                done += running.len();
                store.settle(completed(&running).into()).await.unwrap();
            }
            store.close(lease).await.unwrap();
            done
        }));
    }
    let mut done = 0;
    for store in stores {
        done += store.await.expect("no call failed");
    }
    loop {
        let running = scene.ask(99).await.0;
        assert!(running.len() <= 5, "one of each key");
        if running.is_empty() {
            break;
        }
        done += running.len();
        scene.store.settle(completed(&running).into()).await.unwrap();
    }
    assert_eq!((done, scene.count("windlass_gates")), (3 * 30 * 7, 0));
}

#[tokio::test]
async fn a_paused_key_holds_its_gate_until_its_queue_is_defined() {
    let scene = Scene::new(KeyRules::default()).await;
    let pauses = Pauses { keys: [(name("a"), Pause::default())].into(), ..Pauses::default() };
    let config = QueueConfig { keys: Some(KeyRules::default()), ..QueueConfig::default() };
    scene.define(QueueConfig { pauses, ..config.clone() }).await;
    let jobs = scene.add(&["a", "b"]).await;
    assert_eq!(scene.ask(9).await.0.len(), 1);
    scene.store.retry([jobs[0].id].into()).await.unwrap();
    assert_eq!(scene.ask(9).await, (Vec::new(), None));
    assert_eq!(scene.count("windlass_gates WHERE open_at > 0"), 1);
    scene.define(config).await;
    assert_eq!(scene.ask(9).await.0[0].id, jobs[0].id);
}
