//! Jobs that move to another queue.

use std::time::{Duration, SystemTime};

use windlass_core::State;
use windlass_worker::Moved;

use crate::support::{Act, probe, scene, worker};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_job_that_waits_is_the_same_in_the_other_queue() {
    let (client, _) = scene();
    let due = SystemTime::now() + HOUR;
    let job = client.enqueue(probe(Act::Succeed)).at(due).priority(7).tag("t").expires_in(3 * HOUR);
    let id = job.meta("tenant", "acme").await.unwrap().id();
    let before = client.job(id).await.unwrap().unwrap();
    let moved = client.move_job(id, "other").await.unwrap();
    assert_eq!(moved, Moved::Done(id.moved_to(&"other".parse().unwrap()), State::Scheduled));
    let Moved::Done(moved, _) = moved else { unreachable!() };
    assert_eq!(client.job(id).await.unwrap(), None, "it is in one queue only");
    let after = client.job(moved).await.unwrap().unwrap();
    assert_eq!((after.queue.as_str(), after.state), ("other", State::Scheduled));
    assert_eq!((after.due_at, after.priority, after.payload), (before.due_at, 7, before.payload));
    assert_eq!((after.spec, after.tags), (before.spec, before.tags));
    let span = |at: Option<windlass_core::clock::Timestamp>, from| at.unwrap().since(from);
    assert_eq!(span(after.expires_at, after.enqueued_at), span(before.expires_at, before.enqueued_at));
    assert_eq!(client.move_job(id, "other").await.unwrap(), Moved::Done(moved, State::Scheduled), "a repeat");
    assert_eq!(client.move_job(id, "third").await.unwrap(), Moved::Missing);
    assert_eq!(client.move_job(moved, "other").await.unwrap(), Moved::Refused(State::Scheduled));
    assert!(client.move_job(moved, "two words").await.is_err());
}

#[tokio::test]
async fn a_dead_job_is_ready_in_the_other_queue_with_fresh_attempts() {
    let (client, stage) = scene();
    let id = client.enqueue(probe(Act::Fail)).await.unwrap().id();
    worker(&client, &stage).drain().await.unwrap();
    assert_eq!(client.job(id).await.unwrap().unwrap().state, State::Dead);
    let Moved::Done(moved, State::Ready) = client.move_job(id, "other").await.unwrap() else {
        panic!("it moves")
    };
    let after = client.job(moved).await.unwrap().unwrap();
    assert_eq!((after.state, after.counters.attempt, after.attempts.len()), (State::Ready, 0, 0));
}

#[tokio::test]
async fn a_job_that_runs_or_has_completed_stays() {
    let (client, stage) = scene();
    let (done, runs) = (probe(Act::Succeed), probe(Act::Wait));
    let done = client.enqueue(done).await.unwrap().id();
    worker(&client, &stage).drain().await.unwrap();
    let runs = client.enqueue(runs).await.unwrap().id();
    let running = worker(&client, &stage).start().unwrap();
    stage.until_started(2).await;
    assert_eq!(client.move_job(done, "other").await.unwrap(), Moved::Refused(State::Completed));
    assert_eq!(client.move_job(runs, "other").await.unwrap(), Moved::Refused(State::Running));
    stage.release(1);
    running.stop().await;
    assert_eq!(client.queue("other").unwrap().record().await.unwrap(), None);
}

#[tokio::test]
async fn a_move_that_was_cut_short_is_repeated() {
    let (client, _) = scene();
    let id = client.enqueue(probe(Act::Succeed)).await.unwrap().id();
    // Its last step is missing: the copy is held back, the job is gone.
    let mut copy = client.job(id).await.unwrap().unwrap().moved_to(&"other".parse().unwrap());
    copy.due = windlass_core::options::Due::After(Duration::from_secs(60));
    let moved = copy.id;
    client.enqueue_new(copy).await.unwrap();
    client.delete(id).await.unwrap();
    assert_eq!(client.move_job(id, "other").await.unwrap(), Moved::Done(moved, State::Ready));
    assert_eq!(client.job(moved).await.unwrap().unwrap().state, State::Ready);
}
