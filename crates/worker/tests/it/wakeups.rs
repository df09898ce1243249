//! When an idle worker starts a job: at once by the bell, on time by the clock, by polling if need be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::State;
use windlass_core::bell::Peer;
use windlass_core::store::Wakeup;
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

/// Every wake-up is lost, and neither the worker nor the store notices: fresh and delayed jobs, ends and requests to stop
/// are found by polling. Also where the worker counts on others that serve its queue.
#[tokio::test]
async fn with_every_wake_up_lost_jobs_start_and_end_and_stop() {
    for peers in [0, 20] {
        let store = Faulty::silent();
        let served = "default|probe";
        store.bell().set_peers(1, Arc::new((0..peers).map(|_| Peer::read(served)).collect()));
        let (client, stage) = scene_on(Arc::clone(&store) as _);
        let poll = Duration::from_millis(50);
        let running = worker(&client, &stage).lease(SOON).poll_interval(poll).start().unwrap();
        for delay in [Duration::ZERO, Duration::from_millis(200)] {
            let handle = client.enqueue(probe(Act::Succeed)).delay(delay).await.unwrap();
            tokio::time::timeout(PATIENCE, handle.output()).await.expect("it is found").unwrap();
        }
        let waits = client.enqueue(probe(Act::Heed)).await.unwrap();
        stage.until_started(3).await;
        waits.cancel().await.unwrap();
        assert_eq!(end_of(&waits).await.state, State::Cancelled, "{peers} peers");
        running.stop().await;
    }
}

/// Workers of one process that have looked once and found nothing.
async fn idle_workers(
    store: &Arc<Faulty>,
    count: u32,
) -> (windlass_worker::Client, Stage, Vec<windlass_worker::Running>) {
    let (client, stage) = scene_on(Arc::clone(store) as _);
    let start =
        |_| worker(&client, &stage).lease(NEVER).poll_interval(NEVER).reap_interval(NEVER).start().unwrap();
    let running: Vec<_> = (0..count).map(start).collect();
    eventually("all have looked", async || {
        let is_idle = |running: &windlass_worker::Running| running.health().lease.id.is_some();
        running.iter().all(is_idle)
            && store.called(Call::Claim) >= count
            && store.called(Call::Renew) >= count
    })
    .await;
    (client, stage, running)
}

#[tokio::test]
async fn a_job_costs_one_claim_however_many_workers_are_idle() {
    const JOBS: u32 = 20;
    let store = Faulty::new();
    let (client, _stage, running) = idle_workers(&store, 10).await;
    let before = store.called(Call::Claim);
    for _ in 0..JOBS {
        let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
        assert_eq!(end_of(&handle).await.state, State::Completed);
    }
    let claims = store.called(Call::Claim) - before;
    assert!((JOBS..2 * JOBS).contains(&claims), "{claims} claims for {JOBS} jobs and 10 idle workers");
    for running in running {
        running.stop().await;
    }
}

#[tokio::test]
async fn a_worker_without_room_leaves_the_next_job_to_one_that_has_some() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let start = || worker(&client, &stage).lease(NEVER).poll_interval(NEVER).concurrency(1).start().unwrap();
    let running = [start(), start(), start()];
    for started in 1..=3 {
        client.enqueue(probe(Act::Wait)).await.unwrap();
        stage.until_started(started).await;
    }
    // All are busy: whichever is free first comes for the fourth.
    let last = client.enqueue(probe(Act::Succeed)).await.unwrap();
    stage.release(1);
    assert_eq!(end_of(&last).await.state, State::Completed);
    stage.release(2);
    for running in running {
        running.stop().await;
    }
}

#[tokio::test]
async fn a_worker_that_stops_leaves_what_it_was_woken_for_to_another() {
    let store = Faulty::new();
    let (client, stage, mut running) = idle_workers(&store, 2).await;
    for round in 0..10 {
        // Either may be woken, and one of them is about to end.
        let last = running.pop().unwrap();
        let (handle, ()) =
            tokio::join!(async { client.enqueue(probe(Act::Succeed)).await.unwrap() }, async {
                last.stop().await;
            });
        assert_eq!(end_of(&handle).await.state, State::Completed, "round {round}");
        running.push(worker(&client, &stage).lease(NEVER).poll_interval(NEVER).start().unwrap());
        running.swap(0, 1);
    }
    for running in running {
        running.stop().await;
    }
}

#[tokio::test]
async fn a_cancel_renews_the_lease_of_the_worker_that_has_the_job_alone() {
    let store = Faulty::new();
    let (client, stage, running) = idle_workers(&store, 10).await;
    let before = store.called(Call::Renew);
    for started in 1..=5 {
        let handle = client.enqueue(probe(Act::Heed)).await.unwrap();
        stage.until_started(started).await;
        handle.cancel().await.unwrap();
        assert_eq!(end_of(&handle).await.state, State::Cancelled);
    }
    let renewals = store.called(Call::Renew) - before;
    assert!((5..=10).contains(&renewals), "{renewals} renewals for five cancels and ten workers");
    for running in running {
        running.stop().await;
    }
}

#[tokio::test]
async fn callers_that_wait_for_outputs_ask_together_and_not_too_often() {
    const CALLERS: usize = 100;
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let held = client.enqueue_all((0..CALLERS).map(|_| probe(Act::Succeed))).queue("later").await.unwrap();
    let mut callers = tokio::task::JoinSet::new();
    for handle in held {
        callers.spawn(async move { end_of(&handle).await.state });
    }
    let running = worker(&client, &stage).start().unwrap();
    eventually("all have begun to wait", async || store.called(Call::States) > 0).await;
    let (before, began) = (store.called(Call::States), Instant::now());
    // Each end rings, and wakes those who wait.
    for _ in 0..200 {
        let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
        stage.until_ended(stage.started()).await;
        drop(handle);
    }
    let looks = store.called(Call::States) - before;
    let most = began.elapsed().as_millis() / 20 + 3;
    assert!(u128::from(looks) <= most, "{looks} looks, {most} are allowed");
    let later = worker(&client, &stage).queue("later", 10).start().unwrap();
    while let Some(state) = callers.join_next().await {
        assert_eq!(state.unwrap(), State::Completed);
    }
    running.stop().await;
    later.stop().await;
}

/// The runtime that asks for all is the first caller's, and ends.
#[test]
fn callers_of_another_runtime_go_on_waiting_when_the_first_one_ends() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let ((client, stage), held) = second.block_on(async {
        let (client, stage) = scene();
        let held = client.enqueue_all([probe(Act::Succeed), probe(Act::Succeed)]).await.unwrap();
        ((client, stage), held)
    });
    let [one, two] = <[_; 2]>::try_from(held).unwrap();
    first.spawn(async move { drop(one.finished().await) });
    let waiting = second.spawn(async move { end_of(&two).await.state });
    first.shutdown_background();
    second.block_on(async {
        let running = worker(&client, &stage).start().unwrap();
        assert_eq!(waiting.await.unwrap(), State::Completed);
        running.stop().await;
    });
}
