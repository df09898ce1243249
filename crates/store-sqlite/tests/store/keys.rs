//! What the contract cannot say of unique keys: which rows are left, what a stray row does, and what other calls notice.

use std::time::Duration;

use rusqlite::{Connection, params};
use tempfile::TempDir;
use windlass_core::bell::Topic;
use windlass_core::job::NewJob;
use windlass_core::outcome::{Cause, Failure, Outcome};
use windlass_core::queue::{Keep, QueueConfig, Removed, Retention};
use windlass_core::store::{Amended, Enqueued, Jobs, Maintenance, Queues, Settlement, Wakeup};
use windlass_core::unique::Unique;
use windlass_core::{JobId, Options, State, StoreError, judge};
use windlass_store_sqlite::SqliteStore;

use super::{claim, completed, job, lease, name, open};

struct Scene {
    store: SqliteStore,
    connection: Connection,
    directory: TempDir,
}

impl Scene {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jobs.db");
        let store = open(&path).await;
        Self { store, connection: Connection::open(&path).unwrap(), directory }
    }

    async fn enqueue(&self, job: &NewJob) -> Enqueued {
        self.store.enqueue([job.clone()].into()).await.unwrap()[0]
    }

    /// Keys that are held, or have not been forgotten.
    fn keys(&self) -> u32 {
        let sql = "SELECT (SELECT count(*) FROM windlass_held) + count(unique_place) FROM windlass_jobs";
        self.connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn change(&self, id: JobId, change: &str) {
        let sql = format!("UPDATE windlass_jobs SET {change} WHERE id = ?1");
        assert_eq!(self.connection.execute(&sql, params![id.as_bytes()]).unwrap(), 1);
    }

    /// Claims the one job that is ready and settles it.
    async fn run(&self, outcome: Outcome) {
        let lease = lease(&self.store).await;
        let [job] = &claim(&self.store, lease, 9).await[..] else { panic!("one job is ready") };
        let transition = judge(&job.facts, outcome, 0.5);
        let settlement = Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition };
        self.store.settle([settlement].into()).await.unwrap();
    }
}

fn with(unique: Unique) -> NewJob {
    saying("{}", unique)
}

fn saying(payload: &'static str, unique: Unique) -> NewJob {
    NewJob::new("greet", payload, Options::new().unique(unique)).unwrap()
}

fn key() -> Unique {
    Unique::key("k")
}

/// Keys of many jobs are taken by one statement, which must not take some of them only.
#[tokio::test]
async fn of_many_jobs_each_takes_its_key_or_leaves_it_as_it_was() {
    let scene = Scene::new().await;
    let fresh = |call: u32| {
        (0..15).map(move |number| with(Unique::key(format!("{call}-{number}")))).collect::<Vec<_>>()
    };
    let (held, ended) = (with(Unique::key("held")), with(Unique::key("ended")));
    let gone = with(Unique::key("gone").for_window(Duration::from_secs(3_600)));
    scene.enqueue(&ended).await;
    scene.run(Outcome::Completed { output: None }).await;
    scene.store.enqueue([held.clone(), gone.clone()].into()).await.unwrap();
    scene.store.delete([gone.id].into()).await.unwrap();
    assert_eq!(scene.keys(), 2);
    for (call, (other, answer)) in (1..).zip([
        // Another job holds the key.
        (with(Unique::key("held")), Enqueued::Duplicate { id: held.id, state: Some(State::Ready) }),
        // The same id, whose job is gone and whose key is not.
        (gone.clone(), Enqueued::Duplicate { id: gone.id, state: None }),
        // The same job once more.
        (ended, Enqueued::Existing(State::Completed)),
        (held.clone(), Enqueued::Existing(State::Ready)),
    ]) {
        let jobs: Vec<_> = fresh(call).into_iter().chain([other]).collect();
        let answers = scene.store.enqueue(jobs.into()).await.unwrap();
        assert_eq!(answers[..15], [Enqueued::New; 15]);
        assert_eq!(answers[15], answer);
        assert_eq!(scene.keys(), 2 + 15 * call, "call {call}");
    }
    let twice: Vec<_> = fresh(9).into_iter().chain([with(Unique::key("9-0"))]).collect();
    let first = twice[0].id;
    let answers = scene.store.enqueue(twice.into()).await.unwrap();
    assert_eq!(answers[15], Enqueued::Duplicate { id: first, state: Some(State::Ready) });
    let mut refused = fresh(10);
    let taken = NewJob::new("greet", "other", Options::new().unique(Unique::key("10-x"))).unwrap();
    refused.push(taken.with_id(first));
    assert!(matches!(scene.store.enqueue(refused.into()).await, Err(StoreError::IdTaken { .. })));
    assert_eq!(scene.keys(), 2 + 15 * 5, "a refused call leaves none");
}

#[tokio::test]
async fn a_job_that_has_ended_leaves_no_row() {
    let scene = Scene::new().await;
    let failure = || Failure { cause: Cause::Error, text: "no".to_owned() };
    for keep in [Keep::FOREVER, Keep::NONE] {
        let retention = Retention { completed: keep, dead: keep, cancelled: keep };
        let config = QueueConfig { retention, ..QueueConfig::default() };
        scene.store.define(&name("default"), &config).await.unwrap();
        for unique in [key(), key().until_start()] {
            for outcome in [
                Outcome::Completed { output: None },
                Outcome::Completed { output: Some("7".into()) },
                Outcome::Fail { failure: failure() },
                Outcome::Cancelled,
            ] {
                assert_eq!(scene.enqueue(&with(unique.clone())).await, Enqueued::New);
                assert_eq!(scene.keys(), 1);
                scene.run(outcome.clone()).await;
                assert_eq!(scene.keys(), 0, "{outcome:?}");
            }
            let waiting = with(unique.clone());
            scene.enqueue(&waiting).await;
            scene.store.cancel([waiting.id].into()).await.unwrap();
            assert_eq!(scene.keys(), 0, "cancelled");
            let deleted = with(unique.clone());
            scene.enqueue(&deleted).await;
            scene.store.delete([deleted.id].into()).await.unwrap();
            assert_eq!(scene.keys(), 0, "deleted");
            let options = Options::new().unique(unique).expires_in(Duration::from_micros(1));
            scene.enqueue(&NewJob::new("greet", "", options).unwrap()).await;
            scene.store.promote(9).await.unwrap();
            assert_eq!(scene.keys(), 0, "expired");
        }
    }
}

/// As a program leaves it that knows no keys.
#[tokio::test]
async fn a_key_whose_job_did_not_give_it_up_is_free() {
    for leave in ["state = 4, finished_at = 1", "state = 5, finished_at = 1", "id = x'00'"] {
        let scene = Scene::new().await;
        let (first, second) = (with(key()), with(key()));
        scene.enqueue(&first).await;
        assert!(scene.enqueue(&second).await.is_duplicate());
        scene.change(first.id, leave);
        assert_eq!(scene.enqueue(&second).await, Enqueued::New, "{leave}");
        let met = Enqueued::Duplicate { id: second.id, state: Some(State::Ready) };
        assert_eq!(scene.enqueue(&with(key())).await, met);
    }
    let scene = Scene::new().await;
    let job = with(key());
    scene.enqueue(&job).await;
    scene.change(job.id, "state = 6, finished_at = 1");
    let retried = scene.store.retry([job.id].into()).await.unwrap();
    assert_eq!(retried, [Amended::Done(State::Ready)]);
    assert!(scene.enqueue(&with(key())).await.is_duplicate());
}

#[tokio::test]
async fn a_key_that_does_not_read_harms_only_its_job() {
    for change in ["unique_lifetime = 'for ever'", "unique_lifetime = NULL", "unique_digest = x'00'"] {
        let scene = Scene::new().await;
        let first = with(key());
        scene.enqueue(&first).await;
        scene.change(first.id, change);
        let record = scene.store.get([first.id].into()).await.unwrap().pop().unwrap().unwrap();
        assert!(record.unreadable.is_some() && record.unique.is_none(), "{change}: {record:?}");
        assert!(scene.enqueue(&with(key())).await.is_duplicate(), "{change}");
        scene.run(Outcome::Completed { output: None }).await;
        assert_eq!(scene.enqueue(&with(key())).await, Enqueued::New, "{change}");
    }
}

#[tokio::test]
async fn a_holder_that_a_newer_program_wrote_is_not_replaced() {
    for (change, state) in [("form = 99", Some(State::Ready)), ("state = 99", None)] {
        let scene = Scene::new().await;
        let first = saying("old", key());
        scene.enqueue(&first).await;
        scene.change(first.id, change);
        let met = scene.enqueue(&saying("new", key().replace())).await;
        assert_eq!(met, Enqueued::Duplicate { id: first.id, state }, "{change}");
        let record = scene.store.get([first.id].into()).await.unwrap().pop().unwrap().unwrap();
        assert_eq!(&record.payload[..], b"old");
    }
}

#[tokio::test]
async fn keys_whose_time_is_over_are_forgotten_in_steps() {
    let scene = Scene::new().await;
    let window =
        |number: u32, window| with(Unique::key(number.to_string()).for_window(Duration::from_micros(window)));
    let jobs: Vec<_> = (0..1_200).map(|number| window(number, 1)).collect();
    scene.store.enqueue(jobs.into()).await.unwrap();
    let open: Vec<_> = (2_000..2_100).map(|number| window(number, u64::from(u32::MAX))).collect();
    scene.store.enqueue(open.into()).await.unwrap();
    assert_eq!(scene.keys(), 1_300);
    assert_eq!(scene.store.tidy(0).await.unwrap(), 0);
    let commits = scene.store.gauges().commits;
    assert_eq!(scene.store.tidy(700).await.unwrap(), 700);
    assert_eq!(scene.store.gauges().commits - commits, 2, "others get a turn in between");
    assert_eq!(scene.store.tidy(700).await.unwrap(), 500);
    let commits = scene.store.gauges().commits;
    assert_eq!(scene.store.tidy(700).await.unwrap(), 0);
    assert_eq!(scene.store.gauges().commits, commits, "nothing is written when nothing is over");
    assert_eq!(scene.keys(), 100);
}

#[tokio::test]
async fn a_queue_with_many_keys_is_removed_with_all_of_them() {
    let scene = Scene::new().await;
    let long = Duration::from_secs(3_600);
    let jobs: Vec<_> =
        (0..1_200).map(|number| with(Unique::key(number.to_string()).for_window(long))).collect();
    scene.store.define(&name("default"), &QueueConfig::default()).await.unwrap();
    scene.store.enqueue(jobs.as_slice().into()).await.unwrap();
    assert!(matches!(scene.store.remove(&name("default")).await.unwrap(), Removed::NotEmpty(_)));
    assert_eq!(scene.keys(), 1_200, "a queue that stays keeps its keys");
    scene.store.delete(jobs.iter().map(|job| job.id).collect()).await.unwrap();
    assert_eq!(scene.store.remove(&name("default")).await.unwrap(), Removed::Done);
    assert_eq!(scene.keys(), 0);
}

/// The calls share one transaction, so what a refused one took has to be given back by hand.
#[tokio::test]
async fn a_refused_call_gives_back_what_it_took_and_no_more() {
    let scene = Scene::new().await;
    let (holder, taken) = (saying("old", key()), job("taken"));
    scene.store.enqueue([holder.clone(), taken.clone()].into()).await.unwrap();
    let old = with(Unique::key("over").for_window(Duration::from_micros(1)));
    scene.enqueue(&old).await;
    let other = job("another").with_id(taken.id);
    let replacing = saying("new", key().replace());
    let fresh = [with(Unique::key("fresh")), with(Unique::key("over"))];
    let refused = [fresh[0].clone(), holder.clone(), replacing, fresh[1].clone(), other];
    let neighbour = with(Unique::key("neighbour"));
    let (refusal, accepted) =
        tokio::join!(scene.store.enqueue(refused.into()), scene.store.enqueue([neighbour.clone()].into()));
    assert!(matches!(refusal, Err(StoreError::IdTaken { .. })), "{refusal:?}");
    assert_eq!(accepted.unwrap(), [Enqueued::New]);
    assert!(scene.enqueue(&with(key())).await.is_duplicate(), "its repeat did not free it");
    assert!(scene.enqueue(&with(Unique::key("neighbour"))).await.is_duplicate());
    let record = scene.store.get([holder.id].into()).await.unwrap().pop().unwrap().unwrap();
    assert_eq!(&record.payload[..], b"old");
    let answers = scene.store.enqueue(fresh.into()).await.unwrap();
    assert_eq!(answers, [Enqueued::New; 2]);
}

/// Sixteen go at once where nothing is in their way: the answers and the keys must not tell.
#[tokio::test]
async fn many_at_once_are_answered_as_one_by_one() {
    let (together, apart) = (Scene::new().await, Scene::new().await);
    let known = with(Unique::key("known"));
    let mut jobs: Vec<_> = (0..100).map(|number| with(Unique::key(number.to_string()))).collect();
    // A key that is held, one that comes twice, an id that is known or comes twice, a job without a key, another queue.
    jobs[20] = with(Unique::key("known"));
    jobs[40] = with(Unique::key("45"));
    jobs[60] = with(Unique::key("another")).with_id(known.id);
    jobs[70] = with(Unique::key("70")).with_id(jobs[68].id);
    jobs[83] = job("plain");
    let options = Options::new().queue("other").unique(Unique::key("84"));
    jobs[90] = NewJob::new("greet", "{}", options).unwrap();
    let mut one_by_one = Vec::new();
    for scene in [&together, &apart] {
        scene.enqueue(&known).await;
    }
    for job in &jobs {
        one_by_one.push(apart.enqueue(job).await);
    }
    let answers = together.store.enqueue(jobs.into()).await.unwrap();
    assert_eq!(answers, one_by_one);
    assert_eq!(answers.iter().filter(|answer| **answer == Enqueued::New).count(), 96);
    let held = |scene: &Scene| {
        let sql = "SELECT hex(id) || queue || hex(unique_digest) || unique_place FROM windlass_jobs
            WHERE unique_place IS NOT NULL ORDER BY 1";
        let mut statement = scene.connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.collect::<Result<Vec<_>, _>>().unwrap()
    };
    assert_eq!(held(&together), held(&apart));
}

/// Two keys in one place are as rare as two of 2^48 numbers that are the same, and are told apart all the same.
#[tokio::test]
async fn a_key_whose_place_another_has_is_held_too() {
    let scene = Scene::new().await;
    let (gone, other) = (with(key()), with(Unique::key("other")));
    scene.store.enqueue([gone.clone(), other.clone()].into()).await.unwrap();
    let sql = "SELECT unique_place FROM windlass_jobs WHERE id = ?1";
    let place: i64 = scene.connection.query_row(sql, [gone.id.as_bytes()], |row| row.get(0)).unwrap();
    scene.store.delete([gone.id].into()).await.unwrap();
    scene.change(other.id, &format!("unique_place = {place}"));
    for round in 0..3 {
        let mut jobs: Vec<_> = (0..20).map(|number| with(Unique::key(format!("{round}-{number}")))).collect();
        jobs[7] = with(key());
        let holder = jobs[7].id;
        assert_eq!(scene.store.enqueue(jobs.into()).await.unwrap(), [Enqueued::New; 20]);
        let met = Enqueued::Duplicate { id: holder, state: Some(State::Ready) };
        assert_eq!(scene.enqueue(&with(key())).await, met);
        scene.store.cancel([holder].into()).await.unwrap();
        if round == 0 {
            assert_eq!(scene.store.retry([holder].into()).await.unwrap(), [Amended::Done(State::Ready)]);
            assert_eq!(scene.enqueue(&with(key())).await, met);
            scene.store.delete([holder].into()).await.unwrap();
        }
    }
    assert_eq!(scene.keys(), 3 * 19 + 1, "none is left behind");
}

#[tokio::test]
async fn a_job_that_is_due_sooner_than_before_rings() {
    let scene = Scene::new().await;
    let after = |seconds| {
        let options = Options::new().unique(key().debounce(None)).delay(Duration::from_secs(seconds));
        NewJob::new("greet", "", options).unwrap()
    };
    let first = after(3_600);
    scene.enqueue(&first).await;
    let mut listener = scene.store.bell().listen(Topic::Work);
    assert_eq!(scene.enqueue(&after(60)).await, Enqueued::Replaced(first.id));
    tokio::time::timeout(Duration::from_secs(30), listener.rung()).await.expect("workers hear of it");
}

/// Stores on one file, as several processes would have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_each_key_one_job_is_open_when_several_stores_add_and_end_them() {
    let scene = Scene::new().await;
    let path = scene.directory.path().join("jobs.db");
    let mut stores = Vec::new();
    for _ in 0..4 {
        let store = open(&path).await;
        stores.push(tokio::spawn(async move {
            let lease = lease(&store).await;
            let mut new = 0u32;
            for round in 0..20 {
                let unique = |number: u32| Unique::key((number % 10).to_string());
                let until =
                    |number| if round % 2 == 0 { unique(number) } else { unique(number).until_start() };
                let jobs: Vec<_> = (0..15).map(|number| with(until(number))).collect();
                let answers = store.enqueue(jobs.into()).await.unwrap();
                new += answers.iter().map(|answer| u32::from(*answer == Enqueued::New)).sum::<u32>();
                let running = claim(&store, lease, 4).await;
                store.settle(completed(&running).into()).await.unwrap();
            }
            new
        }));
    }
    let mut new = 0;
    for store in stores {
        new += store.await.expect("no call failed");
    }
    let count = |sql| scene.connection.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM windlass_jobs"), new);
    let open = "SELECT count(*) FROM windlass_jobs WHERE state < 4";
    assert_eq!(count(open), scene.keys(), "each open job holds its key, and no other job holds one");
}
