//! Jobs that are cancelled while they run.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass_core::outcome::{Ending, Reason};
use windlass_core::store::Amended;
use windlass_core::{JobId, State};
use windlass_worker::{Cancellation, Ctx, Job, JobError, Worker};

use crate::support::{Act, PATIENCE, end_of, probe, scene, worker};

#[tokio::test]
async fn who_cancelled_a_job_and_why_can_be_read() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).start().unwrap();
    let job = client.enqueue(probe(Act::Heed)).await.unwrap();
    stage.until_started(1).await;
    let asked = Cancellation { by: "ann".into(), why: "wrong customer".into() };
    client.cancel_because(job.id(), &asked).await.unwrap();
    let end = end_of(&job).await;
    assert_eq!(end.state, State::Cancelled);
    assert_eq!(client.cancellation(&end).await.unwrap(), Some(asked.clone()));
    assert_eq!(client.cancel_because(job.id(), &asked).await.unwrap(), Amended::Refused(State::Cancelled));
    assert_eq!(client.cancel_because(JobId::new(), &asked).await.unwrap(), Amended::Missing);
    running.stop().await;
}

#[tokio::test]
async fn a_running_job_is_told_at_once_and_ends_as_cancelled() {
    let (client, stage) = scene();
    // The lease is long: only the bell can carry the word so fast. The first job may still profit from the
    // renewal that follows the opening.
    let running = worker(&client, &stage).lease(3 * PATIENCE).start().unwrap();
    for (started, act) in [Act::Heed, Act::Heed, Act::Wait].into_iter().enumerate() {
        let handle = client.enqueue(probe(act)).await.unwrap();
        stage.until_started(started as u64 + 1).await;
        let asked = Instant::now();
        assert_eq!(handle.cancel().await.unwrap(), Amended::Done(State::Running));
        let record = end_of(&handle).await;
        assert!(asked.elapsed() < PATIENCE / 3, "{:?}", asked.elapsed());
        assert_eq!((record.state, record.reason), (State::Cancelled, Some(Reason::Requested)));
        assert_eq!(record.attempts[0].ending, Some(Ending::Cancelled));
        assert_eq!((stage.present(), running.health().running), (0, 0));
    }
    running.stop().await;
}

#[tokio::test]
async fn what_is_done_all_the_same_is_completed() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).cancel_grace(PATIENCE).start().unwrap();
    let handle = client.enqueue(probe(Act::FinishWhenTold)).await.unwrap();
    stage.until_started(1).await;
    handle.cancel().await.unwrap();
    assert_eq!(end_of(&handle).await.state, State::Completed);
    running.stop().await;
}

#[derive(Serialize, Deserialize)]
struct Spin;

impl Job for Spin {
    const KIND: &'static str = "spin";
    type Output = ();
}

fn spin(_job: Spin, ctx: Ctx) -> Result<(), JobError> {
    let began = Instant::now();
    while !ctx.is_cancelled() {
        assert!(began.elapsed() < PATIENCE, "it was not told to stop");
        std::thread::park_timeout(Duration::from_millis(1));
    }
    Err(JobError::new("stopped"))
}

#[tokio::test]
async fn a_blocking_handler_can_look() {
    let (client, _) = scene();
    let running = Worker::new(&client).handle_blocking(spin).cancel_grace(PATIENCE).start().unwrap();
    let handle = client.enqueue(Spin).await.unwrap();
    crate::support::eventually("it runs", async || running.health().running == 1).await;
    handle.cancel().await.unwrap();
    assert_eq!(end_of(&handle).await.state, State::Cancelled);
    running.stop().await;
}
