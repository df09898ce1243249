//! Schedules on a clock that the test moves: one job for each slot, whatever becomes of workers, ticks and the clock.

mod calendars;
mod changes;
mod faults;
mod month;
mod overlap;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::schedule::NOMINAL;
use windlass_core::store::Filter;
use windlass_core::{JobRecord, Name, Options, State};
use windlass_store_memory::MemoryStore;
use windlass_worker::{Client, Ctx, Job, JobError, Worker};

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A job of a schedule.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) text: String,
}

impl Job for Report {
    const KIND: &'static str = "report";
    type Output = String;

    fn options() -> Options {
        Options::new().queue("reports")
    }
}

/// Answers what the job knows of its schedule.
pub(crate) async fn report(job: Report, ctx: Ctx) -> Result<String, JobError> {
    assert!(ctx.nominal_time().is_some(), "a job of a schedule has its time");
    let mark = if ctx.is_made_up() { " made up" } else { "" };
    Ok(format!("{}{mark} {}", ctx.schedule().unwrap_or("none"), job.text))
}

/// A store whose clock stands at 2026-10-01.
pub(crate) async fn scene() -> (Client, ManualClock) {
    let clock = ManualClock::at(at("2026-10-01T00:00:30Z"));
    let client = Client::new(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));
    let retention = Retention { completed: Keep::FOREVER, ..Retention::default() };
    client.define_queue("reports", QueueConfig { retention, ..QueueConfig::default() }).await.unwrap();
    (client, clock)
}

/// Runs what is due now.
pub(crate) async fn work(client: &Client) {
    Worker::new(client).handle(report).drain().await.unwrap();
}

pub(crate) fn at(text: &str) -> Timestamp {
    Timestamp::from(std::time::SystemTime::UNIX_EPOCH).plus(since_1970(text))
}

/// Days of this test's months are counted by hand: only September to November of 2026 are needed.
fn since_1970(text: &str) -> Duration {
    let part = |range: std::ops::Range<usize>| text[range].parse::<u64>().unwrap();
    assert_eq!(&text[..4], "2026");
    let days = [273, 304][part(5..7) as usize - 10] + part(8..10) - 1;
    let seconds = ((20_454 + days) * 24 + part(11..13)) * 3_600 + part(14..16) * 60 + part(17..19);
    Duration::from_secs(seconds)
}

/// The jobs that schedules made, oldest slot first, without ticks.
pub(crate) async fn made(client: &Client) -> Vec<JobRecord> {
    let (mut jobs, mut after) = (Vec::new(), None);
    loop {
        let page = client.list(&Filter::default(), after.as_ref(), 1_000).await.unwrap();
        jobs.extend(page.jobs);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    jobs.sort_by_key(|job| job.spec.meta[NOMINAL].clone());
    jobs
}

/// Their slots, as `01T03:00`.
pub(crate) async fn slots(client: &Client) -> Vec<String> {
    made(client).await.iter().map(|job| job.spec.meta[NOMINAL][8..16].to_owned()).collect()
}

/// Their slots, as seconds since 1970.
pub(crate) async fn slots_to_the_second(client: &Client) -> Vec<i64> {
    let nominal =
        |job: &JobRecord| windlass_core::schedule::nominal_of(&job.spec).unwrap().as_micros() / 1_000_000;
    made(client).await.iter().map(nominal).collect()
}

/// The ticks that have not ended.
pub(crate) async fn ticks(client: &Client) -> Vec<JobRecord> {
    let kind = Some(Name::new("windlass.tick").unwrap());
    let page = client.list(&Filter { kind, ..Filter::default() }, None, 1_000).await.unwrap();
    page.jobs.into_iter().filter(|job| !job.state.is_terminal()).collect()
}

pub(crate) async fn completed(client: &Client) -> usize {
    made(client).await.iter().filter(|job| job.state == State::Completed).count()
}

#[tokio::test]
async fn a_schedule_makes_a_job_for_each_slot() {
    let (client, clock) = scene().await;
    client.schedule("hourly").every(HOUR).enqueue(Report::default()).await.unwrap();
    work(&client).await;
    assert!(made(&client).await.is_empty(), "nothing before its time");
    for _ in 0..3 {
        clock.advance(HOUR);
        work(&client).await;
    }
    assert_eq!(slots(&client).await, ["01T01:00", "01T02:00", "01T03:00"]);
    let jobs = made(&client).await;
    assert_eq!(jobs[0].output.as_deref(), Some(&br#""hourly ""#[..]));
    assert_eq!(ticks(&client).await.len(), 1, "one tick, which stays");
    let view = client.schedule("hourly").get().await.unwrap().unwrap();
    assert_eq!((view.record.state.made, view.record.state.missed), (3, 0));
    assert_eq!(view.next_start, Some(at("2026-10-01T04:00:00Z")));
}

#[tokio::test]
async fn one_tick_stays_for_all_slots() {
    let (client, clock) = scene().await;
    client.schedule("hourly").every(HOUR).enqueue(Report::default()).await.unwrap();
    let tick = ticks(&client).await[0].id;
    for _ in 0..5 {
        clock.advance(HOUR);
        work(&client).await;
    }
    assert_eq!(slots(&client).await.len(), 5);
    let kind = Some(Name::new("windlass.tick").unwrap());
    let all = client.list(&Filter { kind, ..Filter::default() }, None, 100).await.unwrap().jobs;
    let found: Vec<_> = all.iter().map(|job| (job.id, job.state.is_terminal())).collect();
    assert_eq!(found, [(tick, false)], "each slot of a tick that ends costs a job");
}

#[tokio::test]
async fn ticks_are_hidden_and_not_counted() {
    let (client, clock) = scene().await;
    client.schedule("hourly").every(HOUR).enqueue(Report::default()).await.unwrap();
    clock.advance(HOUR);
    let drained = Worker::new(&client).handle(report).drain().await.unwrap();
    assert_eq!((drained.completed, drained.total()), (1, 1));
    let all = client.list(&Filter::default(), None, 100).await.unwrap().jobs;
    assert!(all.iter().all(|job| job.kind.as_str() == "report"));
}

#[tokio::test]
async fn a_worker_that_is_told_so_leaves_ticks_to_others() {
    let (client, clock) = scene().await;
    client.schedule("hourly").every(HOUR).enqueue(Report::default()).await.unwrap();
    clock.advance(HOUR);
    let off = || Worker::new(&client).handle(report).internal(windlass_worker::Internal::Off);
    assert_eq!(off().drain().await.unwrap().total(), 0);
    work(&client).await;
    assert_eq!(slots(&client).await, ["01T01:00"]);
}

#[tokio::test]
async fn jobs_know_their_slot_and_whether_it_was_missed() {
    let (client, clock) = scene().await;
    client.schedule("s").every(HOUR).enqueue(Report { text: "x".into() }).await.unwrap();
    clock.advance(5 * HOUR + 10 * MINUTE);
    work(&client).await;
    let jobs = made(&client).await;
    assert_eq!(jobs.len(), 1, "once for all that were missed");
    assert_eq!(jobs[0].output.as_deref(), Some(&br#""s made up x""#[..]));
    assert_eq!(slots(&client).await, ["01T05:00"]);
}

#[tokio::test]
async fn spread_jobs_keep_their_time() {
    let (client, clock) = scene().await;
    for id in ["a", "b", "c"] {
        client.schedule(id).cron("@daily").spread(HOUR).enqueue(Report::default()).await.unwrap();
    }
    let starts = async || {
        let mut starts = Vec::new();
        for id in ["a", "b", "c"] {
            starts.push(client.schedule(id).get().await.unwrap().unwrap().next_start.unwrap());
        }
        starts
    };
    let first = starts().await;
    let midnight = at("2026-10-02T00:00:00Z");
    assert!(first.iter().all(|start| *start >= midnight && *start < midnight.plus(HOUR)));
    clock.set(midnight.plus(HOUR));
    work(&client).await;
    assert_eq!(slots(&client).await, ["02T00:00"; 3]);
    let second = starts().await;
    assert!(first.iter().zip(second).all(|(first, second)| first.plus(24 * HOUR) == second));
}

#[tokio::test]
async fn a_hundred_thousand_schedules_would_have_one_tick_each_and_no_more() {
    let (client, clock) = scene().await;
    for id in 0..500 {
        client.schedule(format!("s{id:03}")).cron("0 3 * * *").enqueue(Report::default()).await.unwrap();
    }
    assert_eq!(ticks(&client).await.len(), 500);
    let page = client.schedules(None, 100).await.unwrap();
    assert_eq!((page.schedules.len(), page.next.as_deref()), (100, Some("s099")));
    let rest = client.schedules(page.next.as_deref(), 1_000).await.unwrap();
    assert_eq!((rest.schedules.len(), rest.next), (400, None));
    clock.set(at("2026-10-01T03:00:05Z"));
    work(&client).await;
    assert_eq!(completed(&client).await, 500);
}

#[tokio::test]
async fn a_list_that_a_handler_yields_is_spread_and_comes_once() {
    #[derive(Serialize, Deserialize)]
    struct Digests;
    impl Job for Digests {
        const KIND: &'static str = "digests";
        type Output = usize;
    }
    async fn digests(_job: Digests, ctx: Ctx) -> Result<usize, JobError> {
        let day = windlass_core::schedule::Spread::by_key(24 * HOUR);
        let jobs = (0..1_200)
            .map(|user| Report { text: format!("user {user}") }.with(Options::new().meta(NOMINAL, "-")));
        let count = ctx.fan_out("digests", day, jobs).await?;
        if ctx.attempt() == 1 { Err(JobError::retry_after(Duration::ZERO, "once more")) } else { Ok(count) }
    }
    let (client, _clock) = scene().await;
    client.schedule("digests").cron("@daily").enqueue(Digests).await.unwrap();
    client.schedule("digests").run_now().await.unwrap();
    let drained = Worker::new(&client).handle(digests).drain().await.unwrap();
    assert_eq!((drained.completed, drained.retried), (1, 1));
    let kind = Some(Name::new("report").unwrap());
    let count = client.queue("reports").unwrap().counts().await.unwrap();
    assert_eq!(count.open(), 1_200, "each came once");
    let page = client.list(&Filter { kind, ..Filter::default() }, None, 1_000).await.unwrap();
    let now = at("2026-10-01T00:00:30Z");
    assert!(page.jobs.iter().all(|job| job.due_at >= now && job.due_at <= now.plus(24 * HOUR)));
    assert_eq!(client.records("default").unwrap().list("job/", None, 10).await.unwrap().records.len(), 0);
}

#[tokio::test]
async fn a_bulk_enqueue_is_spread() {
    let (client, _clock) = scene().await;
    let spread = windlass_core::schedule::Spread::evenly(HOUR);
    let jobs =
        (0..60).map(|i| Report { text: i.to_string() }.with(Options::new().meta(NOMINAL, format!("{i:02}"))));
    client.enqueue_all(jobs).spread(spread).await.unwrap();
    let begin = at("2026-10-01T00:00:30Z");
    let due: Vec<_> = made(&client).await.iter().map(|job| job.due_at).collect();
    let wanted: Vec<_> = (0..60).map(|minute| begin.plus(minute * MINUTE)).collect();
    assert_eq!(due, wanted);
}
