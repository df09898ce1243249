//! Schedules on every store, by the store's own clock: three workers, one of which dies, a tick that is deleted, and still one job
//! for each slot and none early.

#[path = "schedules/overlap.rs"]
mod overlap;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use windlass::core::schedule::NOMINAL;
use windlass::core::store::Filter;
use windlass::schedule::{CatchUp, Schedule};
use windlass::worker::ScheduleSet;
use windlass::{Client, Ctx, Job, JobError, JobRecord, JobState, Options, Running, Worker};

#[derive(Debug, Serialize, Deserialize)]
struct Beat {
    text: String,
}

impl Job for Beat {
    const KIND: &'static str = "beat";
    type Output = ();

    fn options() -> Options {
        Options::new().queue("beats")
    }
}

async fn beat(job: Beat, ctx: Ctx) -> Result<(), JobError> {
    assert_eq!(ctx.schedule(), Some(job.text.as_str()));
    let nominal = ctx.nominal_time().expect("a job of a schedule has its time");
    assert!(ctx.enqueued_at() >= nominal, "it came early");
    Ok(())
}

fn worker(client: &Client) -> Running {
    let worker = Worker::new(client)
        .handle(beat)
        .lease_unchecked(Duration::from_secs(2))
        .reap_interval(Duration::from_millis(100))
        .prune_interval(Duration::from_millis(100));
    worker.start().expect("set up well")
}

async fn until(what: &str, wanted: impl AsyncFn() -> bool) {
    let asking = async {
        while !wanted().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), asking).await;
    assert!(waited.is_ok(), "never came true: {what}");
}

async fn made(client: &Client, id: &str) -> u64 {
    client.schedule(id).get().await.expect("answers").map_or(0, |view| view.record.state.made)
}

/// The slots of the jobs that a schedule made, as seconds since 1970.
async fn slots(client: &Client, id: &str) -> Vec<u64> {
    let page = client.list(&Filter::default(), None, 1_000).await.expect("answers");
    let of_schedule = |job: &&JobRecord| job.spec.meta.get("windlass.schedule").is_some_and(|of| of == id);
    let second = |job: &JobRecord| {
        let text = &job.spec.meta[NOMINAL];
        let shown = windlass::core::schedule::nominal_of(&job.spec).expect(text);
        SystemTime::from(shown).duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
    };
    let mut slots: Vec<u64> = page.jobs.iter().filter(of_schedule).map(second).collect();
    slots.sort_unstable();
    slots
}

async fn one_job_for_each_slot(url: &str) {
    let clients = [0; 3].map(|_| windlass::open(url));
    let clients = Box::pin(futures(clients)).await;
    let client = &clients[0];
    let every = || Schedule::every(Duration::from_secs(1)).catch_up(CatchUp::All(100));
    let set = async |schedule: Schedule| {
        let draft = client.schedule("beat").when(schedule);
        draft.enqueue(Beat { text: "beat".into() }).await.expect("set").set
    };
    assert_eq!(set(every()).await, ScheduleSet::Created);
    assert_eq!(set(every()).await, ScheduleSet::Unchanged);
    let mut workers: Vec<Running> = clients.iter().map(worker).collect();
    until("jobs come", async || made(client, "beat").await >= 2).await;
    workers.remove(0).abort();
    let tick = client.schedule("beat").get().await.expect("answers").expect("there").record.tick;
    // A tick that runs right now cannot be deleted, and none has to be.
    client.delete(tick.expect("it waits for a slot")).await.expect("answers");
    until("jobs come again", async || made(client, "beat").await >= 6).await;
    let early = slots(client, "beat").await;
    let wanted: Vec<u64> = (early[0]..).take(early.len()).collect();
    assert_eq!(early, wanted, "each second once");
    assert_eq!(set(every().max_late(Duration::from_secs(3_600))).await, ScheduleSet::Changed);
    let at_change = slots(client, "beat").await.len();
    let before = made(client, "beat").await;
    until("the changed one goes on", async || made(client, "beat").await >= before + 2).await;
    client.schedule("beat").pause().await.expect("paused");
    let count = made(client, "beat").await;
    let found = slots(client, "beat").await;
    assert_eq!(found.len() as u64, count, "one job for each slot");
    assert!(found.starts_with(&early), "what was made stays: {found:?}");
    assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "none twice: {found:?}");
    let gaps: Vec<usize> = (1..found.len()).filter(|&i| found[i] != found[i - 1] + 1).collect();
    let is_at_change = |gap: &usize| (early.len()..=at_change).contains(gap);
    assert!(gaps.len() <= 1 && gaps.iter().all(is_at_change), "none missing but at the change: {found:?}");
    until("all have run", async || {
        let counts = client.queue("beats").expect("a name").counts().await.expect("answers");
        counts.of(JobState::Completed) >= count
    })
    .await;
    assert!(client.schedule("beat").delete().await.expect("answers"));
    assert!(client.schedules(None, 10).await.expect("answers").schedules.is_empty());
    for worker in workers {
        worker.stop().await;
    }
}

async fn futures<T>(all: [impl Future<Output = windlass::Result<T>>; 3]) -> Vec<T> {
    let mut done = Vec::new();
    for one in all {
        done.push(one.await.expect("the store opens"));
    }
    done
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(feature = "sqlite")]
async fn on_sqlite() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    one_job_for_each_slot(&format!("sqlite://{}/jobs.db", folder.path().display())).await;
    overlap::each_policy_has_its_way(&format!("sqlite://{}/overlap.db", folder.path().display())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(feature = "postgres")]
async fn on_postgres() {
    use windlass_store_testkit::servers::PostgresServer;
    let url = PostgresServer::shared().url();
    let separator = if url.contains('?') { '&' } else { '?' };
    one_job_for_each_slot(&format!("{url}{separator}schema=schedules_{}", std::process::id())).await;
    overlap::each_policy_has_its_way(&format!("{url}{separator}schema=overlap_{}", std::process::id())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(feature = "redis")]
async fn on_redis_and_on_a_cluster() {
    use windlass_store_testkit::servers::{RedisCluster, RedisServer};
    for url in [RedisServer::shared().url(), RedisCluster::shared().url()] {
        let separator = if url.contains('?') { '&' } else { '?' };
        one_job_for_each_slot(&format!("{url}{separator}namespace=schedules-{}", std::process::id())).await;
        overlap::each_policy_has_its_way(&format!(
            "{url}{separator}namespace=overlap-{}",
            std::process::id()
        ))
        .await;
    }
}
