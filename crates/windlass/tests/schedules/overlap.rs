//! What becomes of slots whose earlier job has not ended, on every store; and of a schedule in a queue that keeps nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use windlass::core::schedule::{NOMINAL, ScheduleState};
use windlass::core::store::Filter;
use windlass::queue::{Keep, QueueConfig, Retention};
use windlass::schedule::{Overlap, Schedule};
use windlass::{Client, Ctx, Job, JobError, JobRecord, JobState, Options, State, Worker};

use super::until;

/// Runs until its gate is open, or until it is asked to stop.
#[derive(Debug, Serialize, Deserialize)]
struct Long;

impl Job for Long {
    const KIND: &'static str = "long";
    type Output = ();

    fn options() -> Options {
        Options::new().queue("long")
    }
}

/// Whether jobs may end, and how many of each schedule have run side by side.
struct Scene {
    is_open: watch::Sender<bool>,
    running: Mutex<BTreeMap<String, Running>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Running {
    now: u32,
    most: u32,
}

impl Scene {
    fn count(&self, schedule: &str, change: impl FnOnce(&mut Running)) {
        let mut running = self.running.lock().expect("no panic");
        change(running.entry(schedule.to_owned()).or_default());
    }

    fn most(&self, schedule: &str) -> u32 {
        self.running.lock().expect("no panic").get(schedule).map_or(0, |running| running.most)
    }
}

async fn long(_job: Long, ctx: Ctx, State(scene): State<Arc<Scene>>) -> Result<(), JobError> {
    let schedule = ctx.schedule().expect("a job of a schedule").to_owned();
    scene.count(&schedule, |running| {
        running.now += 1;
        running.most = running.most.max(running.now);
    });
    let mut is_open = scene.is_open.subscribe();
    tokio::select! {
        open = is_open.wait_for(|is_open| *is_open) => drop(open),
        () = ctx.cancelled() => {}
    }
    scene.count(&schedule, |running| running.now -= 1);
    if ctx.is_cancelled() { Err(JobError::discard("asked to stop")) } else { Ok(()) }
}

async fn state(client: &Client, id: &str) -> ScheduleState {
    client.schedule(id).get().await.expect("answers").expect("there").record.state
}

/// The jobs that a schedule made, in the order of their slots.
async fn jobs(client: &Client, id: &str) -> Vec<JobRecord> {
    let page = client.list(&Filter::default(), None, 1_000).await.expect("answers");
    let is_of = |job: &JobRecord| job.spec.meta.get("windlass.schedule").is_some_and(|of| of == id);
    let mut jobs: Vec<JobRecord> = page.jobs.into_iter().filter(is_of).collect();
    jobs.sort_by_key(|job| job.spec.meta[NOMINAL].clone());
    jobs
}

const POLICIES: [(&str, Overlap); 5] = [
    ("allow", Overlap::Allow),
    ("skip", Overlap::Skip),
    ("wait one", Overlap::WaitOne),
    ("wait all", Overlap::WaitAll),
    ("cancel", Overlap::CancelRunning),
];

pub(super) async fn each_policy_has_its_way(url: &str) {
    let client = &windlass::open(url).await.expect("the store opens");
    let nothing = Retention { completed: Keep::NONE, dead: Keep::NONE, cancelled: Keep::NONE };
    let config = QueueConfig { retention: nothing, ..QueueConfig::default() };
    client.define_queue("nothing", config).await.expect("defined");
    let scene = Arc::new(Scene { is_open: watch::Sender::new(false), running: Mutex::default() });
    let worker = Worker::with_state(client, Arc::clone(&scene))
        .handle(long)
        .prune_interval(Duration::from_millis(100));
    let worker = worker.queue("long", 200).queue("nothing", 50).start().expect("set up well");
    let every = || Schedule::every(Duration::from_secs(1));
    for (id, overlap) in POLICIES {
        client.schedule(id).when(every().overlap(overlap)).enqueue(Long).await.expect("set");
    }
    let beside = Long.with(Options::new().queue("nothing"));
    client.schedule("beside nothing").when(every()).enqueue(beside).await.expect("set");

    until("slots meet jobs that have not ended", async || {
        scene.most("allow") >= 3
            && state(client, "skip").await.skipped >= 2
            && state(client, "wait one").await.skipped >= 1
            && state(client, "wait all").await.waiting.len() >= 2
            && jobs(client, "cancel").await.len() >= 2
    })
    .await;
    for id in ["skip", "wait one", "wait all"] {
        assert_eq!(jobs(client, id).await.len(), 1, "{id}: the first one runs");
    }
    let [one, all] = [state(client, "wait one").await.waiting, state(client, "wait all").await.waiting];
    assert_eq!(one.len(), 1, "one waits, others have no job");
    let cancelled = jobs(client, "cancel").await;
    assert_eq!(cancelled[0].state, JobState::Cancelled, "it was asked to stop: {:?}", cancelled[0]);

    scene.is_open.send_replace(true);
    until("what waits runs when the job before it has ended", async || {
        jobs(client, "wait one").await.len() >= 2
            && jobs(client, "wait all").await.len() > all.len()
            && jobs(client, "skip").await.len() >= 2
            && state(client, "beside nothing").await.made >= 3
    })
    .await;
    let slot = |job: &JobRecord| job.spec.meta[NOMINAL].clone();
    assert_eq!(slot(&jobs(client, "wait one").await[1]), one[0].slot.to_string());
    let after: Vec<String> = jobs(client, "wait all").await[1..].iter().map(slot).collect();
    let wanted: Vec<String> = all.iter().map(|run| run.slot.to_string()).collect();
    assert!(
        after.starts_with(&wanted),
        "every slot that waited has its job, in order: {after:?}, {wanted:?}"
    );
    for id in ["skip", "wait one", "wait all", "cancel"] {
        assert_eq!(scene.most(id), 1, "{id}: none side by side");
    }

    for id in POLICIES.map(|(id, _)| id).into_iter().chain(["beside nothing"]) {
        client.schedule(id).pause().await.expect("paused");
    }
    until("all jobs end", async || {
        let open = async |queue| client.queue(queue).expect("a name").counts().await.expect("answers").open();
        open("long").await == 0 && open("nothing").await == 0
    })
    .await;
    let made = state(client, "beside nothing").await.made;
    assert!(jobs(client, "beside nothing").await.is_empty(), "none of {made} is kept");
    worker.stop().await;
}
