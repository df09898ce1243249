//! Async handlers that block their thread: named, ended by the lease thread, and no hindrance for the end.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass_core::outcome::{Ending, Reason};
use windlass_core::retry::Policy;
use windlass_core::{Options, State};
use windlass_worker::{Client, Ctx, Job, JobError, State as Shared, Worker};

use crate::support::{PATIENCE, end_of, eventually, scene};

const SHORT: Duration = Duration::from_millis(30);

#[derive(Serialize, Deserialize)]
struct Hog {
    holds: bool,
}

impl Job for Hog {
    const KIND: &'static str = "hog";
    type Output = u32;
    fn options() -> Options {
        Options::new().retry(Policy::never())
    }
}

/// How hogs are seen to hold their thread, and are made to let it go.
#[derive(Clone)]
struct Sty {
    holds: mpsc::Sender<()>,
    release: Arc<Mutex<mpsc::Receiver<()>>>,
}

/// The other ends.
struct Keeper {
    held: mpsc::Receiver<()>,
    release: mpsc::Sender<()>,
}

impl Keeper {
    /// Waits, without the runtime, until a hog holds its thread.
    fn until_held(&self) {
        self.held.recv_timeout(PATIENCE).expect("a hog runs");
    }
}

fn sty() -> (Sty, Keeper) {
    let ((holds, held), (release, released)) = (mpsc::channel(), mpsc::channel());
    (Sty { holds, release: Arc::new(Mutex::new(released)) }, Keeper { held, release })
}

async fn hog(job: Hog, ctx: Ctx, Shared(sty): Shared<Sty>) -> Result<u32, JobError> {
    if job.holds {
        sty.holds.send(()).unwrap();
        // Blocks its thread, as an async handler should not. A test that failed lets it go.
        let _ = sty.release.lock().unwrap().recv_timeout(4 * PATIENCE);
    }
    Ok(ctx.attempt())
}

/// A worker of hogs that does not linger.
fn worker(client: &Client, sty: &Sty) -> Worker<Sty> {
    let worker = Worker::with_state(client, sty.clone()).handle(hog);
    worker.cancel_grace(Duration::from_millis(10)).drain_deadline(Duration::from_millis(10))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn its_timeout_is_enforced_and_its_kind_named() {
    let ((client, _), (sty, keeper)) = (scene(), sty());
    let running = worker(&client, &sty).start().unwrap();
    let handle = client.enqueue(Hog { holds: true }).timeout(SHORT).await.unwrap();
    keeper.until_held();
    let record = end_of(&handle).await;
    assert_eq!((record.state, record.attempts[0].ending), (State::Dead, Some(Ending::TimedOut)));
    let text = record.last_error().unwrap();
    assert_eq!(text, "timed out after 30ms while it held a runtime thread: use handle_blocking or yield");

    eventually("the slot is a zombie's", async || running.health().zombies == 1).await;
    let health = running.health();
    assert_eq!((health.running, health.blocked.len(), health.is_ok()), (0, 1, false), "{health:?}");
    assert_eq!((health.blocked[0].kind.as_str(), health.blocked[0].id), ("hog", handle.id()));
    let next = client.enqueue(Hog { holds: false }).await.unwrap();
    assert_eq!(end_of(&next).await.state, State::Completed, "others go on");

    keeper.release.send(()).unwrap();
    eventually("the slot is free", async || running.health().zombies == 0).await;
    eventually("green", async || running.health().is_ok()).await;
    let after = client.job(handle.id()).await.unwrap().unwrap();
    assert_eq!((after.state, after.output), (State::Dead, None), "the late result does not count");
    assert_eq!(running.health().fenced, 0, "nor is it handed in");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_a_timeout_it_is_named_while_it_runs() {
    let ((client, _), (sty, keeper)) = (scene(), sty());
    let running = worker(&client, &sty).slow_poll(Duration::from_millis(1)).start().unwrap();
    let handle = client.enqueue(Hog { holds: true }).await.unwrap();
    keeper.until_held();
    eventually("it is named", async || running.health().blocked.len() == 1).await;
    let health = running.health();
    assert_eq!((health.blocked[0].kind.as_str(), health.blocked[0].id), ("hog", handle.id()));
    assert!(health.blocked[0].held >= Duration::from_millis(100), "a hundred times slow_poll");
    assert_eq!((health.running, health.zombies, health.is_ok()), (1, 0, false));
    keeper.release.send(()).unwrap();
    assert_eq!(end_of(&handle).await.state, State::Completed, "it may take its time");
    eventually("green", async || running.health().is_ok()).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_to_cancel_ends_its_attempt() {
    let ((client, _), (sty, keeper)) = (scene(), sty());
    let running = worker(&client, &sty).start().unwrap();
    let handle = client.enqueue(Hog { holds: true }).await.unwrap();
    keeper.until_held();
    client.cancel(handle.id()).await.unwrap();
    let record = end_of(&handle).await;
    assert_eq!((record.state, record.reason), (State::Cancelled, Some(Reason::Requested)));
    keeper.release.send(()).unwrap();
    running.stop().await;
}

/// The one thread of the runtime is held: nothing on it runs, no timer, no recorder, no attendant.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_worker_whose_runtime_is_held_can_be_stopped() {
    let ((client, _), (sty, keeper)) = (scene(), sty());
    let running = worker(&client, &sty).start().unwrap();
    let handle = client.enqueue(Hog { holds: true }).await.unwrap();
    keeper.until_held();
    running.stop().await;
    let record = client.job(handle.id()).await.unwrap().unwrap();
    assert_eq!((record.state, record.counters.attempt), (State::Ready, 0), "handed back");
    assert_eq!(record.attempts[0].ending, Some(Ending::Returned));
    assert_eq!(client.store().leases(9).await.unwrap(), [], "the lease is closed");
    keeper.release.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_timeout_holds_also_when_the_whole_runtime_is_held() {
    let ((client, _), (sty, keeper)) = (scene(), sty());
    let running = worker(&client, &sty).start().unwrap();
    let handle = client.enqueue(Hog { holds: true }).timeout(SHORT).await.unwrap();
    keeper.until_held();
    until("it is dead", || {
        let record = at_once(client.job(handle.id()));
        record.unwrap().unwrap().state == State::Dead
    });
    // Its attempt may end before it has held the thread for long enough to be named.
    until("it is named", || {
        let health = running.health();
        health.blocked.len() == 1 && !health.is_ok()
    });
    until("the lag is seen while it lasts", || running.health().lag > Duration::from_millis(200));
    keeper.release.send(()).unwrap();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn jobs_that_wait_behind_a_held_runtime_go_back() {
    let ((client, _), (sty, keeper)) = (scene(), sty());
    let jobs = (0..4_000).map(|number| Hog { holds: number == 2_000 });
    let handles = client.enqueue_all(jobs).await.unwrap();
    // Quick ones first, so that jobs are claimed ahead when the slot's turn comes to the one that holds.
    let running = worker(&client, &sty).concurrency(1).start().unwrap();
    keeper.until_held();
    until("nothing waits here", || running.health().buffered == 0);
    let later = || at_once(client.job(handles[2_001].id())).unwrap().unwrap();
    until("another worker may have it", || later().state == State::Ready);
    assert_eq!(later().counters.stalls, 0);
    keeper.release.send(()).unwrap();
    let last = handles.last().unwrap();
    assert_eq!(end_of(last).await.state, State::Completed, "and so may this one");
    running.stop().await;
}

/// Asks until the answer is yes, without the runtime.
fn until(what: &str, wanted: impl Fn() -> bool) {
    let asked = Instant::now();
    while !wanted() {
        assert!(asked.elapsed() < PATIENCE, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for a call of the memory store, which needs no runtime.
fn at_once<T>(call: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(call).expect("the memory store answers at once")
}
