//! Metrics agree exactly with what the store knows, on every store, after failures, retries and a worker that died; and what
//! the pages for operators name exists.

mod exposition;
mod pages;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use windlass::core::store::Filter;
use windlass::worker::State;
use windlass::{
    Client, Ctx, Ending, Job, JobError, JobId, JobRecord, JobState, Metrics, Options, Retry, Running, Worker,
};

use self::exposition::Exposition;

/// What a job does, by its number.
#[derive(Debug, Serialize, Deserialize)]
struct Act {
    number: u64,
}

const JOBS: u64 = 420;
const QUEUE: &str = "acts";

impl Job for Act {
    const KIND: &'static str = "act";
    type Output = ();

    fn options() -> Options {
        Options::new()
            .queue(QUEUE)
            .retry(Retry::fixed(3, Duration::from_millis(5)))
            .timeout(Duration::from_secs(50))
    }
}

/// Holds back some jobs of the first worker, until it is gone.
#[derive(Clone)]
struct Held {
    first: bool,
    present: Arc<Semaphore>,
    /// How many asked to come back later.
    snoozed: Arc<AtomicU64>,
}

async fn act(job: Act, ctx: Ctx, State(held): State<Held>) -> Result<(), JobError> {
    match job.number % 7 {
        0 => Err(JobError::new("always")),
        1 => Err(JobError::fail("never")),
        2 if ctx.attempt() == 1 => panic!("once"),
        3 if ctx.fence().number == 1 => {
            held.snoozed.fetch_add(1, Ordering::SeqCst);
            Err(JobError::snooze(Duration::from_millis(5)))
        }
        4 => Err(JobError::discard("not wanted")),
        5 if held.first => {
            held.present.add_permits(1);
            std::future::pending().await
        }
        _ => Ok(()),
    }
}

fn worker(client: &Client, metrics: &Metrics, held: Held) -> Running {
    let worker = Worker::with_state(client, held)
        .metrics(metrics)
        .handle(act)
        .concurrency(16)
        .lease_unchecked(Duration::from_millis(1_500))
        .reap_interval(Duration::from_millis(50));
    worker.start().expect("set up well")
}

async fn until(what: &str, wanted: impl AsyncFn() -> bool) {
    let asking = async {
        while !wanted().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), asking).await.is_ok(), "never came true: {what}");
}

/// All jobs, with their attempts.
async fn all(client: &Client) -> Vec<JobRecord> {
    let (mut all, mut next) = (Vec::new(), None);
    loop {
        let page = client.list(&Filter::default(), next.as_ref(), 1_000).await.expect("answers");
        for job in page.jobs {
            all.push(client.job(job.id).await.expect("answers").expect("it is there"));
        }
        next = page.next;
        if next.is_none() {
            return all;
        }
    }
}

/// Runs jobs by two workers, of which one dies, and answers what the metrics said in the end.
async fn agree(url: &str) -> Vec<Exposition> {
    let opened = windlass::open(url).await.expect("opens");
    let metrics = [(); 3].map(|()| Metrics::with_messaging_names());
    let client = opened.with_metrics(&metrics[0]);
    let acts = (1..JOBS).map(|number| Act { number });
    client.enqueue_all(acts).await.expect("accepted");
    let id = JobId::new();
    for _ in 0..3 {
        client.enqueue(Act { number: 0 }).id(id).await.expect("accepted, once");
    }
    let present = Arc::new(Semaphore::new(0));
    let snoozed = Arc::<AtomicU64>::default();
    let held = |first| Held { first, present: Arc::clone(&present), snoozed: Arc::clone(&snoozed) };
    let first = worker(&opened, &metrics[1], held(true));
    // All of its slots are taken, in the end, by jobs that never end.
    present.acquire_many(16).await.expect("open").forget();
    until("the store knows that they have begun", async || {
        let running = Filter { state: Some(JobState::Running), ..Filter::default() };
        let page = client.list(&running, None, 100).await.expect("answers");
        page.jobs.iter().filter(|job| job.has_begun).count() == 16
    })
    .await;
    let gauges = Exposition::read(&metrics[1].encode());
    assert_eq!(gauges.sum("windlass_running", &[("queue", QUEUE)]), 16);
    assert_eq!(gauges.sum("windlass_slots", &[("queue", QUEUE)]), 16);
    first.abort();
    let second = worker(&opened, &metrics[2], held(false));
    until("all have ended", async || {
        let counts = client.queue(QUEUE).expect("a name").counts().await.expect("answers");
        counts.open() == 0 && counts.total() == JOBS
    })
    .await;
    second.stop().await;
    let mut read: Vec<_> = metrics.iter().map(|metrics| Exposition::read(&metrics.encode())).collect();
    let sum =
        |name: &str, labels: &[(&str, &str)]| read.iter().map(|read| read.sum(name, labels)).sum::<u64>();
    let jobs = all(&client).await;
    assert_eq!(jobs.len() as u64, JOBS);
    check_attempts(&jobs, snoozed.load(Ordering::SeqCst), sum);
    let scraped = Exposition::read(&metrics[0].scrape(&client).await);
    for state in JobState::ALL {
        let count = jobs.iter().filter(|job| job.state == state).count() as u64;
        let of = [("queue", QUEUE), ("state", state.as_str())];
        assert_eq!(scraped.sum("windlass_jobs", &of), count, "{state}");
    }
    assert_eq!(scraped.sum("windlass_store_up", &[]), 1);
    assert_eq!(scraped.sum("windlass_enqueued_total", &[("result", "new")]), JOBS);
    assert_eq!(scraped.sum("windlass_enqueued_total", &[("result", "existing")]), 2);
    assert_eq!(scraped.sum("messaging_client_sent_messages_total", &[]), JOBS + 2);
    read.extend([gauges, scraped]);
    read
}

/// What is counted of attempts is what the jobs say.
fn check_attempts(jobs: &[JobRecord], snoozed: u64, sum: impl Fn(&str, &[(&str, &str)]) -> u64) {
    let mut endings = BTreeMap::<&str, u64>::new();
    for ending in jobs.iter().flat_map(|job| &job.attempts).filter_map(|attempt| attempt.ending) {
        *endings.entry(ending.as_str()).or_default() += 1;
    }
    for ending in Ending::ALL.map(Ending::as_str) {
        let counted = sum("windlass_settled_total", &[("outcome", ending), ("kind", "act")])
            + sum("windlass_reaped_total", &[("cause", ending), ("queue", QUEUE)]);
        assert_eq!(counted, endings.get(ending).copied().unwrap_or_default(), "{ending}");
    }
    assert!(sum("windlass_reaped_total", &[("cause", "stalled")]) == 16, "those of the worker that died");
    for reason in windlass::Reason::ALL {
        let dead =
            jobs.iter().filter(|job| job.state == JobState::Dead && job.reason == Some(reason)).count();
        assert_eq!(sum("windlass_dead_total", &[("reason", reason.as_str())]), dead as u64, "{reason}");
    }
    let settled = |outcome: &str| sum("windlass_settled_total", &[("outcome", outcome)]);
    // Others that are put off could not begin beside one that had stalled.
    let put_off = settled("snoozed") - snoozed;
    let ran = sum("windlass_settled_total", &[]) - settled("returned") - put_off;
    assert_eq!(sum("windlass_run_seconds_count", &[]), ran);
    assert_eq!(sum("windlass_wait_seconds_count", &[]), ran);
    assert_eq!(sum("messaging_process_duration_seconds_count", &[]), ran);
    let tried_again = JOBS / 7 * 3;
    assert_eq!(sum("windlass_retried_total", &[]), tried_again, "two of those that always fail, one panic");
    assert_eq!(sum("windlass_fenced_total", &[]), 0);
    assert_eq!(sum("windlass_labels_dropped_total", &[]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory() {
    agree("memory:").await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(feature = "sqlite")]
async fn on_sqlite() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    agree(&format!("sqlite://{}/jobs.db", folder.path().display())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(feature = "postgres")]
async fn on_postgres() {
    use windlass_store_testkit::servers::PostgresServer;
    let url = PostgresServer::shared().url();
    let separator = if url.contains('?') { '&' } else { '?' };
    agree(&format!("{url}{separator}schema=metrics_{}", std::process::id())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(feature = "redis")]
async fn on_redis_and_on_a_cluster() {
    use windlass_store_testkit::servers::{RedisCluster, RedisServer};
    for url in [RedisServer::shared().url(), RedisCluster::shared().url()] {
        let separator = if url.contains('?') { '&' } else { '?' };
        agree(&format!("{url}{separator}namespace=metrics-{}", std::process::id())).await;
    }
}
