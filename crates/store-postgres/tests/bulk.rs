//! Many jobs in a call, whose ids another transaction stores at the same time: the call waits for it, and answers as if its
//! jobs had come one by one.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use windlass_core::options::Due;
use windlass_core::store::{Enqueued, Jobs, Queues};
use windlass_core::unique::Unique;
use windlass_core::{JobId, NewJob, Options, State, StoreError};
use windlass_store_postgres::{PostgresOptions, PostgresStore};
use windlass_store_testkit::servers::PostgresServer;

/// As many as are stored at once.
const JOBS: usize = 20;

struct Bench {
    schema: String,
    store: PostgresStore,
    client: Client,
}

impl Bench {
    async fn new() -> Self {
        let schema = format!("bulk_{}_{:x}", std::process::id(), fastrand::u32(..));
        let options = PostgresOptions::parse(PostgresServer::shared().url()).unwrap();
        let store = PostgresStore::open_with(options.schema(&schema).unwrap()).await.unwrap();
        let (client, connection) =
            tokio_postgres::connect(PostgresServer::shared().url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        Self { schema, store, client }
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Stores a job in a transaction that stays open.
    async fn hold(&self, id: JobId, payload: &str) {
        self.run("BEGIN").await;
        self.store_job(id, payload).await;
    }

    async fn store_job(&self, id: JobId, payload: &str) {
        self.run(&format!("SELECT {}.enqueue('work', '{payload}', id => '{id}')", self.schema)).await;
    }

    /// Enqueues while another transaction is open, which then ends so.
    async fn enqueue_beside(&self, jobs: &[NewJob], end: &str) -> Result<Vec<Enqueued>, StoreError> {
        let store = self.store.clone();
        let jobs = jobs.into();
        let call = tokio::spawn(async move { store.enqueue(jobs).await });
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))";
        while self.client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            assert!(!call.is_finished(), "it does not wait for the other");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.run(end).await;
        call.await.unwrap()
    }

    /// How many jobs wait, by the counters and by the rows.
    async fn ready(&self) -> (u64, u64) {
        let counted = self.store.queues(None, 10).await.unwrap();
        let rows = format!("SELECT count(*) FROM {0}.jobs JOIN {0}.waiting USING (seq)", self.schema);
        let rows: i64 = self.client.query_one(&rows, &[]).await.unwrap().get(0);
        (counted.iter().map(|queue| queue.counts.of(State::Ready)).sum(), rows as u64)
    }
}

fn jobs() -> Vec<NewJob> {
    (0..JOBS).map(|number| NewJob::new("work", number.to_string(), Options::new()).unwrap()).collect()
}

/// All are new, but for one that was there.
fn all_new_but(place: usize) -> Vec<Enqueued> {
    let mut answers = vec![Enqueued::New; JOBS];
    answers[place] = Enqueued::Existing(State::Ready);
    answers
}

#[tokio::test]
async fn an_id_that_another_transaction_stores_meanwhile_is_known() {
    let (bench, jobs) = (Bench::new().await, jobs());
    bench.hold(jobs[7].id, "7").await;
    assert_eq!(bench.enqueue_beside(&jobs, "COMMIT").await.unwrap(), all_new_but(7));
    assert_eq!(bench.ready().await, (20, 20));
}

#[tokio::test]
async fn an_id_that_another_transaction_gives_up_is_new() {
    let (bench, jobs) = (Bench::new().await, jobs());
    bench.hold(jobs[7].id, "7").await;
    assert_eq!(bench.enqueue_beside(&jobs, "ROLLBACK").await.unwrap(), [Enqueued::New; JOBS]);
    assert_eq!(bench.ready().await, (20, 20));
}

#[tokio::test]
async fn an_id_that_another_transaction_takes_for_another_job_refuses_all() {
    let (bench, jobs) = (Bench::new().await, jobs());
    bench.hold(jobs[7].id, "\"something else\"").await;
    let refused = bench.enqueue_beside(&jobs, "COMMIT").await.unwrap_err();
    assert!(matches!(refused, StoreError::IdTaken { id } if id == jobs[7].id), "{refused:?}");
    assert_eq!(bench.ready().await, (1, 1));
}

#[tokio::test]
async fn an_id_that_was_there_before_or_comes_twice_is_known() {
    let (bench, mut jobs) = (Bench::new().await, jobs());
    bench.store_job(jobs[7].id, "7").await;
    assert_eq!(bench.store.enqueue(jobs.as_slice().into()).await.unwrap(), all_new_but(7));
    assert_eq!(bench.ready().await, (20, 20));
    jobs = self::jobs();
    jobs[8] = jobs[3].clone();
    bench.store.enqueue(jobs.as_slice().into()).await.unwrap();
    assert_eq!(bench.ready().await, (39, 39));
}

/// Jobs keep the order in which they were handed in, whatever their ids are.
#[tokio::test]
async fn jobs_are_accepted_in_the_order_of_the_call() {
    let (bench, mut jobs) = (Bench::new().await, jobs());
    jobs.reverse();
    bench.store.enqueue(jobs.as_slice().into()).await.unwrap();
    let order = format!("SELECT string_agg(id::text, ' ' ORDER BY seq) FROM {}.jobs", bench.schema);
    let order: String = bench.client.query_one(&order, &[]).await.unwrap().get(0);
    assert_eq!(order, jobs.iter().map(|job| job.id.to_string()).collect::<Vec<_>>().join(" "));
}

/// Transactions that are serializable do not fail because others hand in jobs, too.
#[tokio::test]
async fn serializable_transactions_hand_in_many_jobs_beside_each_other() {
    let bench = Bench::new().await;
    let (other, connection) = tokio_postgres::connect(PostgresServer::shared().url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let accept = |jobs: &[NewJob]| {
        let ids: Vec<_> = jobs.iter().map(|job| job.id.to_string()).collect();
        let payloads: Vec<_> = jobs.iter().map(|_| r"\\x30").collect();
        let (schema, ids, payloads) = (&bench.schema, ids.join(","), payloads.join(","));
        format!(
            "SET LOCAL search_path = {schema}; SET LOCAL enable_seqscan = off; SELECT accept(clock_micros(), '{{{ids}}}', \
             '{{}}', '{{default}}', '{{work}}', '{{{payloads}}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')"
        )
    };
    for client in [&bench.client, &other] {
        client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE").await.unwrap();
    }
    for client in [&bench.client, &other, &bench.client] {
        client.batch_execute(&accept(&jobs())).await.unwrap();
    }
    for client in [&bench.client, &other] {
        client.batch_execute("COMMIT").await.unwrap();
    }
    assert_eq!(bench.ready().await, (60, 60));
}

/// Unique jobs that are alike, of which one meets the holder of its key: it alone is not stored.
#[tokio::test]
async fn a_key_that_is_held_costs_no_other_job_its_place() {
    let bench = Bench::new().await;
    let unique = |number: usize| {
        NewJob::new("work", format!("{number}"), Options::new().unique(Unique::payload())).unwrap()
    };
    // Not among those that are looked at before.
    let holder = unique(1);
    assert_eq!(bench.store.enqueue([holder.clone()].into()).await.unwrap(), [Enqueued::New]);
    let jobs: Vec<_> = (0..JOBS).map(unique).collect();
    let answers = bench.store.enqueue(jobs[..].into()).await.unwrap();
    let duplicate = Enqueued::Duplicate { id: holder.id, state: Some(State::Ready) };
    let wanted = (0..JOBS).map(|number| if number == 1 { duplicate } else { Enqueued::New });
    assert_eq!(answers, wanted.collect::<Vec<_>>());
    assert_eq!(bench.store.queues(None, 1).await.unwrap()[0].counts.total(), JOBS as u64);
    // All of them are held by now.
    let again: Vec<_> = (0..JOBS).map(unique).collect();
    let answers = bench.store.enqueue(again[..].into()).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Enqueued::Duplicate { .. })), "{answers:?}");
    let held = format!("SELECT count(*) FROM {}.keys", bench.schema);
    assert_eq!(bench.client.query_one(&held, &[]).await.unwrap().get::<_, i64>(0), JOBS as i64);
    // A job that is removed, by whatever statement, leaves no key.
    bench.run(&format!("DELETE FROM {}.jobs WHERE id = '{}'", bench.schema, holder.id)).await;
    assert_eq!(bench.client.query_one(&held, &[]).await.unwrap().get::<_, i64>(0), JOBS as i64 - 1);
}

/// However many they are, and whichever way they go: alike, beside others, and beside one whose id is known.
#[tokio::test]
async fn many_jobs_are_held_at_once() {
    let bench = Bench::new().await;
    for (held, known) in [(0..JOBS, None), (0..JOBS / 2, None), (0..JOBS / 2, Some(JOBS - 1))] {
        let mut jobs = jobs();
        jobs[held.clone()].iter_mut().for_each(|job| job.due = Due::Held);
        if let Some(known) = known {
            bench.store_job(jobs[known].id, &known.to_string()).await;
        }
        let answers = known.map_or(vec![Enqueued::New; JOBS], all_new_but);
        assert_eq!(bench.store.enqueue(jobs.as_slice().into()).await.unwrap(), answers);
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        let states = bench.store.states(ids.as_slice().into()).await.unwrap();
        let state = |place| if held.contains(&place) { State::Blocked } else { State::Ready };
        assert_eq!(states, (0..JOBS).map(|place| Some(state(place))).collect::<Vec<_>>());
    }
    // Twenty and twice ten are held.
    assert_eq!(bench.ready().await, (20, 60));
}
