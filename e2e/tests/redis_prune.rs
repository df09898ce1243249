//! A large history is pruned while jobs run: no script holds the server for long, and what runs does not notice.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::{Duration, Instant};

use windlass::core::store::{ClaimAnswer, ClaimRequest, NewLease, QueueShare, Settlement};
use windlass::core::{LeaseId, Name, Outcome, judge};
use windlass::queue::{Keep, QueueConfig, Retention};
use windlass::{Client, NewJob, Options};
use windlass_e2e::scene::Scene;
use windlass_e2e::server::StoreServer;
use windlass_e2e::setting;
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

/// The longest that one script may take, by the server's own log, which counts time on the clock and not on the
/// processor. Where tests may not give the server precedence, others can hold it up.
const SCRIPT_MAX: Duration = Duration::from_millis(20);
const SCRIPT_MAX_BESIDE_OTHERS: Duration = Duration::from_millis(100);
/// Finished jobs that stay.
const KEPT: u64 = 1_000;
const HISTORY: &str = "history";

/// Fills the queue with jobs that have completed, past the worker, since that is not what is looked at.
async fn fill(client: &Client, jobs: u32) {
    let store = client.store();
    let lease = LeaseId::new();
    let queue = Name::new(HISTORY).unwrap();
    let day = Duration::from_secs(24 * 60 * 60);
    let new = NewLease { id: lease, worker: "filler".into(), ttl: day, queues: vec![queue.clone()] };
    store.open(&new).await.unwrap();
    for start in (0..jobs).step_by(500) {
        let new = |_| NewJob::new("e2e.done", r#"{"number":1}"#, Options::new().queue(HISTORY)).unwrap();
        let batch: Vec<_> = (start..jobs.min(start + 500)).map(new).collect();
        store.enqueue(&batch).await.unwrap();
        let share = QueueShare { queue: queue.clone(), limit: 500 };
        let request = ClaimRequest {
            lease,
            queues: vec![share],
            kinds: vec![Name::new("e2e.done").unwrap()],
            limit: 500,
            bytes: usize::MAX,
        };
        let ClaimAnswer::Jobs { jobs, .. } = store.claim(&request).await.unwrap() else { panic!("it lives") };
        let completed = |job: windlass::core::job::ClaimedJob| Settlement {
            transition: judge(&job.facts, Outcome::Completed { output: None }, 0.5),
            queue: job.queue,
            id: job.id,
            fence: job.fence,
        };
        store.settle(&jobs.into_iter().map(completed).collect::<Vec<_>>()).await.unwrap();
    }
    store.close(lease).await.unwrap();
}

/// Lets the server go before everything else on this machine, so that its log shows its own work. Needs rights.
fn prefer(server: &RedisServer) -> bool {
    let mut renice = std::process::Command::new("renice");
    let status = renice.args(["-n", "-15", "-p", &server.pid().to_string()]).output();
    status.is_ok_and(|output| output.status.success())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_history_is_pruned_while_jobs_run() {
    let jobs = setting("WINDLASS_HISTORY_JOBS", 40_000);
    let server = RedisServer::start(&RedisSettings::default());
    let slow = if prefer(&server) { SCRIPT_MAX } else { SCRIPT_MAX_BESIDE_OTHERS };
    server.command(&["CONFIG", "SET", "slowlog-log-slower-than", &slow.as_micros().to_string()]);
    let client = Client::open(server.url()).await.unwrap();
    let filling = Instant::now();
    fill(&client, jobs).await;
    println!("{jobs} jobs completed in {:?}", filling.elapsed());

    let keep = Keep { age: None, count: Some(KEPT) };
    let retention = Retention { completed: keep, ..Retention::default() };
    client.define_queue(HISTORY, QueueConfig { retention, ..QueueConfig::default() }).await.unwrap();
    let scene = Scene::new(server, "").await;
    let (began, before) = (Instant::now(), scene.server.completed());
    let (mut removed, mut calls, mut longest) = (0, 0, Duration::ZERO);
    loop {
        let call = Instant::now();
        let step = u64::from(client.store().prune(1_000).await.unwrap());
        longest = longest.max(call.elapsed());
        (removed, calls) = (removed + step, calls + 1);
        if step == 0 {
            break;
        }
    }
    let (span, meanwhile) = (began.elapsed(), scene.server.completed() - before);
    let seen = scene.server.command(&["SLOWLOG", "LEN"]);
    println!(
        "{removed} removed in {span:?}, {calls} calls, the longest {longest:?}; {meanwhile} jobs completed meanwhile"
    );
    // Its worker prunes as well.
    let queues = client.store().queues(None, 10).await.unwrap();
    let history = queues.iter().find(|queue| queue.name.as_str() == HISTORY).unwrap();
    assert_eq!(history.counts.of(windlass::JobState::Completed), KEPT);
    assert_eq!(seen, "0", "longer than {slow:?}: {}", scene.server.command(&["SLOWLOG", "GET", "3"]));
    scene.recovers("pruning").await;
}
