//! When an idle worker starts a job: at once by the bell, on time by the clock, by polling if need be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::State;
use windlass_worker::Wakeups;

use crate::faulty::{Call, Fault, Faulty};
use crate::support::{Act, PATIENCE, Stage, end_of, eventually, probe, scene, scene_on, worker};

/// A bound that only waiting for a poll would break, even on a busy machine.
const SOON: Duration = Duration::from_secs(5);
/// Longer than any test has patience, also as an interval of polls, of which the first come up to 16 times as
/// often.
const NEVER: Duration = Duration::from_secs(3 * 30 * 16);

/// How long a job takes from its enqueue to its start on an idle worker.
async fn start_after(wakeups: Wakeups, poll: Duration, delay: Duration) -> Duration {
    assert!(NEVER > 20 * PATIENCE);
    let (client, stage) = scene();
    let running = worker(&client, &stage).lease(NEVER).wakeups(wakeups).poll_interval(poll).start().unwrap();
    idle(&client, &stage, &running).await;
    let began = Instant::now();
    let handle = client.enqueue(probe(Act::Succeed)).delay(delay).await.unwrap();
    stage.until_started(2).await;
    let took = began.elapsed();
    let record = end_of(&handle).await;
    assert_eq!(record.state, State::Completed);
    assert!(record.attempts.last().unwrap().started_at >= record.due_at, "never before its time");
    running.stop().await;
    took
}

/// Runs one job, so that the worker has found its queue empty since.
async fn idle(client: &windlass_worker::Client, stage: &Stage, running: &windlass_worker::Running) {
    let first = client.enqueue(probe(Act::Succeed)).await.unwrap();
    end_of(&first).await;
    assert_eq!(stage.started(), 1);
    eventually("nothing runs", async || running.health().running == 0).await;
}

#[tokio::test]
async fn a_fresh_job_starts_at_once() {
    let took = start_after(Wakeups::On, NEVER, Duration::ZERO).await;
    assert!(took < SOON, "{took:?}");
}

#[tokio::test]
async fn a_delayed_job_starts_on_time_although_nothing_else_happens() {
    let delay = Duration::from_millis(300);
    let took = start_after(Wakeups::On, NEVER, delay).await;
    assert!(took >= delay && took < delay + SOON, "{took:?}");
}

#[tokio::test]
async fn without_wakeups_the_poll_interval_is_the_bound() {
    let poll = Duration::from_millis(100);
    let took = start_after(Wakeups::Off, poll, Duration::ZERO).await;
    assert!(took < poll + SOON, "{took:?}");
    let delay = Duration::from_millis(300);
    let took = start_after(Wakeups::Off, poll, delay).await;
    assert!(took >= delay && took < delay + poll + SOON, "{took:?}");
}

#[tokio::test]
async fn without_wakeups_a_known_due_time_is_kept_exactly() {
    let (client, stage) = scene();
    let handle = client.enqueue(probe(Act::Succeed)).delay(Duration::from_millis(300)).await.unwrap();
    // The first claim hears when the job is due; no poll comes before the end of the test.
    let running =
        worker(&client, &stage).lease(NEVER).wakeups(Wakeups::Off).poll_interval(NEVER).start().unwrap();
    assert_eq!(end_of(&handle).await.state, State::Completed);
    running.stop().await;
}

#[tokio::test]
async fn a_due_time_is_kept_although_other_queues_are_asked_meanwhile() {
    let (client, stage) = scene();
    let delayed = client.enqueue(probe(Act::Succeed)).queue("quiet").delay(Duration::from_millis(300));
    let delayed = delayed.await.unwrap();
    let busy = client.enqueue_all((0..50).map(|_| probe(Act::Wait))).queue("busy").await.unwrap();
    // Without wake-ups or polls only the busy queue is asked again, each time that one of its jobs ends.
    let running = worker(&client, &stage)
        .lease(NEVER)
        .wakeups(Wakeups::Off)
        .poll_interval(NEVER)
        .queue("busy", 2)
        .queue("quiet", 2)
        .start()
        .unwrap();
    for ended in 1..20 {
        stage.release(1);
        stage.until_ended(ended).await;
    }
    assert_eq!(end_of(&delayed).await.state, State::Completed);
    stage.release(busy.len());
    end_of(busy.last().unwrap()).await;
    running.stop().await;
}

#[tokio::test]
async fn a_ring_during_a_claim_is_heeded_when_the_claim_has_ended() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = worker(&client, &stage).lease(NEVER).poll_interval(NEVER).start().unwrap();
    idle(&client, &stage, &running).await;
    // A claim has looked, and its answer is on the way; what is enqueued now is not in it.
    store.fail(Call::Claim, Fault::Late, 1);
    client.enqueue(probe(Act::Succeed)).await.unwrap();
    eventually("the claim has looked", async || store.failed(Call::Claim) == 1).await;
    let missed = client.enqueue(probe(Act::Succeed)).await.unwrap();
    tokio::task::yield_now().await;
    store.release();
    assert_eq!(end_of(&missed).await.state, State::Completed);
    running.stop().await;
}
