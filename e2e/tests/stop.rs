//! Workers that are stopped, told to end, or held up, and jobs that take their worker down.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::path::PathBuf;
use std::time::Duration;

use windlass::{Ending, Job, JobState, Reason};
use windlass_e2e::eventually;
use windlass_e2e::fleet::{Fleet, WorkerSettings};
use windlass_e2e::jobs::{Abort, Hold, HoldThread, Spin, Touch};
use windlass_e2e::witness::Ledger;

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");

/// Soon over for a worker that is stopped, and not for one that waits for a disk that others use too.
const SHORT: Duration = Duration::from_secs(3);

fn short_lease(label: &str) -> WorkerSettings {
    WorkerSettings { label: label.into(), lease: SHORT, ..WorkerSettings::default() }
}

/// Stops a worker past its lease while it has a held job, lets another finish the job, and resumes it. Its own
/// handler then comes to its end `late_ends` times, and tries to write.
async fn stop_past_the_lease<J: Job<Output = String>>(late_ends: usize, job: impl FnOnce(PathBuf) -> J) {
    let fleet = Fleet::new(WORKER);
    let client = fleet.client().await;
    let handle = client.enqueue(job(fleet.gate())).await.unwrap();
    let sleeper = fleet.start(&short_lease("sleeper"));
    eventually("the first worker starts the job, and the store knows", async || {
        let record = client.job(handle.id()).await.unwrap().unwrap();
        (record.has_begun && Ledger::read(&fleet.witness()).count(handle.id(), "start") == 1).then_some(())
    })
    .await;
    fleet.pause(&sleeper, &client).await;

    fleet.open_gate("rescuer");
    let rescuer = fleet.start(&short_lease("rescuer"));
    assert_eq!(handle.output().await.unwrap(), "rescuer");
    let finished = client.job(handle.id()).await.unwrap().unwrap();
    rescuer.kill();

    // The stopped handler is dropped, or comes to its end if it cannot be; either way nothing of it may be seen.
    // That its worker runs the next job shows that it goes on, under a new lease.
    fleet.open_gate("sleeper");
    sleeper.resume();
    client.enqueue(Touch { number: 1 }).await.unwrap().output().await.unwrap();
    eventually("the late handler has ended", async || {
        (Ledger::read(&fleet.witness()).count(handle.id(), "done") > late_ends).then_some(())
    })
    .await;
    sleeper.terminate();
    let (status, _) = sleeper.end().await;
    assert!(status.success(), "{status}\n{}", fleet.log("sleeper"));
    let later = client.job(handle.id()).await.unwrap().unwrap();
    assert_eq!(later, finished, "the finished job was touched again");
    // The claim of the rescuer is the second, unless the disk was so slow that a lease ran out before.
    let ledger = Ledger::read(&fleet.witness());
    assert!(ledger.events(handle.id(), "progressed").all(|line| line.fence == later.fence), "{ledger:?}");
    let late = ledger.events(handle.id(), "progress-fenced").filter(|line| line.fence < later.fence).count();
    assert!(late >= late_ends, "the late write reached the store and was refused: {ledger:?}");
    let lines = client.logs(handle.id()).await.unwrap().unwrap().next().await.unwrap();
    let said: Vec<_> = lines.iter().map(|line| (line.fence, line.text.as_str())).collect();
    assert_eq!(said, [(later.fence, "rescuer")], "nor a line of a log");
    let (last, before) = later.attempts.split_last().unwrap();
    assert_eq!(last.ending, Some(Ending::Completed), "{later:?}");
    assert!(
        !before.is_empty() && before.iter().all(|each| each.ending == Some(Ending::Stalled)),
        "{later:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_stopped_past_its_lease_cannot_write_anything() {
    stop_past_the_lease(0, |gate| Hold { gate }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_can_one_whose_handler_holds_its_thread() {
    stop_past_the_lease(1, |gate| HoldThread { gate }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_hold_every_thread_for_several_leases_are_not_reaped() {
    let fleet = Fleet::new(WORKER);
    let client = fleet.client().await;
    let handles = client.enqueue_all((0..4).map(|_| Spin { millis: 7_000 })).await.unwrap();
    let _busy = fleet.start(&short_lease("busy"));
    eventually("both threads are held", async || {
        (Ledger::read(&fleet.witness()).total("start") >= 2).then_some(())
    })
    .await;
    // Another process looks for lost jobs all the while.
    let _onlooker = fleet.start(&WorkerSettings { concurrency: 1, ..short_lease("onlooker") });
    for handle in &handles {
        handle.output().await.unwrap();
        let record = client.job(handle.id()).await.unwrap().unwrap();
        assert_eq!((record.counters.stalls, record.fence), (0, 1), "{record:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_worker_finishes_or_hands_back_what_it_has() {
    let fleet = Fleet::new(WORKER);
    let client = fleet.client().await;
    let held = client.enqueue(Hold { gate: fleet.gate() }).await.unwrap();
    let mut touched = Vec::new();
    for start in 0..10 {
        touched
            .extend(client.enqueue_all((0..500).map(|n| Touch { number: start * 500 + n })).await.unwrap());
    }
    let settings = WorkerSettings {
        label: "first".into(),
        extra: vec!["--drain-ms".into(), "500".into()],
        ..WorkerSettings::default()
    };
    let first = fleet.start(&settings);
    eventually("work is under way", async || {
        let ledger = Ledger::read(&fleet.witness());
        (ledger.count(held.id(), "start") == 1 && ledger.total("done") > 100).then_some(())
    })
    .await;
    first.terminate();
    let (status, took) = first.end().await;
    assert!(status.success(), "{status}\n{}", fleet.log("first"));
    assert!(took < Duration::from_secs(15), "ended after {took:?}");
    let record = client.job(held.id()).await.unwrap().unwrap();
    assert_eq!((record.state, record.counters.attempt), (JobState::Ready, 0), "handed back, no attempt used");
    let running: u64 =
        client.store().queues(None, 10).await.unwrap().iter().map(|q| q.counts.of(JobState::Running)).sum();
    assert_eq!(running, 0, "nothing is left behind");

    fleet.open_gate("second");
    let _second = fleet.start(&WorkerSettings { label: "second".into(), ..WorkerSettings::default() });
    for handle in &touched {
        handle.output().await.unwrap();
    }
    assert_eq!(held.output().await.unwrap(), "second");
    let ledger = Ledger::read(&fleet.witness());
    for handle in &touched {
        assert_eq!(ledger.count(handle.id(), "done"), 1, "job {} was finished once", handle.id());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_kills_its_worker_again_and_again_is_a_dead_letter() {
    let fleet = Fleet::new(WORKER);
    let client = fleet.client().await;
    // Each one that is survived is followed by a longer rest; the default is tried beside other jobs.
    let handle = client.enqueue(Abort).max_stalls(1).await.unwrap();
    let mut crashes = 0;
    let mut worker = fleet.start(&short_lease("victim"));
    let record = eventually("the job is dead", async || {
        if worker.ended().is_some() {
            crashes += 1;
            worker = fleet.start(&short_lease("victim"));
        }
        let record = client.job(handle.id()).await.unwrap().unwrap();
        record.state.is_terminal().then_some(record)
    })
    .await;
    assert_eq!((record.state, record.reason), (JobState::Dead, Some(Reason::Stalled)), "{record:?}");
    assert_eq!(record.counters.stalls, 2, "one stall is survived, the second is the end: {record:?}");
    // The first crash may come before the store knows that the attempt has begun. It knows of the others beforehand.
    assert!((2..=3).contains(&record.fence), "each claim but the first was one of them: {record:?}");
    assert!((1..=3).contains(&crashes), "and each start: {crashes}");
}
