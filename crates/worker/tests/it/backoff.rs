//! A worker's own delays: for every way in which an attempt fails, and for nothing else.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::outcome::Ending;
use windlass_core::retry::Policy;
use windlass_core::{JobRecord, State};

use crate::support::{Act, end_of, eventually, probe, scene, worker};

const LONG: Duration = Duration::from_secs(3_600);

/// What the worker was asked about.
type Asked = Arc<Mutex<Vec<(u32, Ending, String)>>>;

/// A job after its first attempt, under a worker that says `delay` to everything.
async fn after(act: Act, delay: Option<Duration>) -> (JobRecord, Vec<(u32, Ending, String)>) {
    let ((client, stage), asked) = (scene(), Asked::default());
    let noted = Arc::clone(&asked);
    let running = worker(&client, &stage).backoff(move |failed| {
        assert_eq!((failed.kind().as_str(), failed.queue().as_str()), ("probe", "default"));
        assert_eq!(failed.delay(), LONG * 2, "by the policy");
        noted.lock().unwrap().push((failed.attempt(), failed.ending(), failed.error().to_owned()));
        delay
    });
    let running = running.start().unwrap();
    let policy = Policy::fixed(3, LONG * 2).jitter(windlass_core::retry::Jitter::None);
    // The trace of a panic takes longer to print than a short timeout lasts.
    let timeout = if matches!(act, Act::Wait | Act::Heed) { Duration::from_millis(50) } else { LONG };
    let job = client.enqueue(probe(act)).retry(policy).timeout(timeout).await.unwrap();
    eventually("it waits, or has ended", async || {
        let state = job.state().await.unwrap().unwrap();
        state == State::Scheduled || state.is_terminal()
    })
    .await;
    let record = client.job(job.id()).await.unwrap().unwrap();
    running.stop().await;
    let asked = asked.lock().unwrap().clone();
    (record, asked)
}

/// How long the job waits for its next attempt.
fn wait(record: &JobRecord) -> Duration {
    assert_eq!(record.counters.attempt, 1, "an attempt is used");
    record.due_at.since(record.attempts.last().unwrap().ended_at.unwrap())
}

#[tokio::test]
async fn errors_panics_and_timeouts_wait_as_the_worker_says() {
    let ways = [
        (Act::Error("boom".into()), Ending::Failed, "boom"),
        (Act::Panic, Ending::Panicked, "the probe panics"),
        (Act::Wait, Ending::TimedOut, "timed out after 50ms"),
        (Act::Heed, Ending::TimedOut, "was told to stop"),
        (Act::Ambiguous, Ending::Ambiguous, "perhaps"),
    ];
    for (act, ending, text) in ways {
        let (record, asked) = after(act, Some(LONG)).await;
        assert_eq!((wait(&record), record.counters.backoff), (LONG, LONG), "{ending}");
        let [(attempt, found, error)] = &asked[..] else { panic!("asked once: {asked:?}") };
        assert_eq!((*attempt, *found), (1, ending));
        assert!(error.contains(text), "{error}");
    }
}

#[tokio::test]
async fn a_worker_that_says_nothing_leaves_it_to_the_policy() {
    let (record, asked) = after(Act::Error("boom".into()), None).await;
    assert_eq!((wait(&record), asked.len()), (LONG * 2, 1));
}

#[tokio::test]
async fn what_says_its_own_time_or_is_not_tried_again_is_not_asked_about() {
    let (record, asked) = after(Act::RetryAfter(1_000_000), Some(LONG)).await;
    assert_eq!((wait(&record), asked.len()), (Duration::from_secs(1_000), 0));
    for act in [Act::Succeed, Act::Fail, Act::Discard] {
        let (record, asked) = after(act, Some(LONG)).await;
        assert!(record.state.is_terminal() && asked.is_empty(), "{record:?}");
    }
    let (record, asked) = after(Act::SnoozeOnce(1_000_000), Some(LONG)).await;
    assert_eq!((record.state, asked.len()), (State::Scheduled, 0));
}

#[tokio::test]
async fn the_number_of_attempts_stays_the_policys() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).backoff(|_failed| Some(Duration::from_millis(1))).start().unwrap();
    let record = end_of(&client.enqueue(probe(Act::Panic)).await.unwrap()).await;
    assert_eq!((record.state, record.counters.attempt), (State::Dead, 3));
    running.stop().await;
}

#[tokio::test]
async fn a_backoff_that_panics_costs_nothing_but_itself() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).backoff(|_failed| panic!("no idea")).start().unwrap();
    let record = end_of(&client.enqueue(probe(Act::Error("boom".into()))).await.unwrap()).await;
    assert_eq!((record.state, record.counters.attempt), (State::Dead, 3));
    running.stop().await;
}

#[tokio::test]
async fn a_drain_heeds_it_too() {
    let (client, stage) = scene();
    client.enqueue(probe(Act::Error("boom".into()))).await.unwrap();
    let drained = worker(&client, &stage).backoff(|_failed| Some(LONG)).drain().await.unwrap();
    assert_eq!((drained.retried, drained.dead), (1, 0), "it waits");
}
