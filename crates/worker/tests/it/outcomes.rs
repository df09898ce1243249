//! Every way in which an attempt can end, from the handler to the record.

use std::time::Duration;

use windlass_core::outcome::{Ending, Reason};
use windlass_core::queue::QueueConfig;
use windlass_core::size::Caps;
use windlass_core::{JobRecord, NewJob, Options, State};
use windlass_worker::{Classify, Job, OutputError, Verdict, Worker};

use crate::support::{Act, Probe, Stage, end_of, probe, scene, worker};

/// Runs one probe to its end.
async fn after(act: Act) -> (JobRecord, Stage) {
    let (client, stage) = scene();
    let running = worker(&client, &stage).start().unwrap();
    let handle = client.enqueue(probe(act)).await.unwrap();
    let record = end_of(&handle).await;
    running.stop().await;
    (record, stage)
}

fn endings(record: &JobRecord) -> Vec<Ending> {
    record.attempts.iter().filter_map(|attempt| attempt.ending).collect()
}

#[tokio::test]
async fn success_keeps_its_output() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).start().unwrap();
    let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
    assert!(handle.is_new());
    assert_eq!(handle.output().await.unwrap(), "attempt 1");
    running.stop().await;
}

#[tokio::test]
async fn a_transient_error_is_tried_until_attempts_are_used() {
    let (record, stage) = after(Act::Error("boom".into())).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::AttemptsExhausted)));
    assert_eq!((record.counters.attempt, stage.started()), (3, 3));
    assert_eq!(endings(&record), [Ending::Failed; 3]);
    assert_eq!(record.last_error(), Some("boom"));
}

#[tokio::test]
async fn retry_after_waits_and_uses_attempts() {
    let (record, _) = after(Act::RetryAfter(20)).await;
    assert_eq!((record.state, record.counters.attempt), (State::Dead, 3));
    let waits = record.attempts.windows(2).map(|pair| pair[1].started_at.since(pair[0].ended_at.unwrap()));
    for wait in waits {
        assert!(wait >= Duration::from_millis(20), "{wait:?}");
    }
}

#[tokio::test]
async fn a_permanent_error_is_not_tried_again() {
    let (record, stage) = after(Act::Fail).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::Permanent)));
    assert_eq!((endings(&record), stage.started()), (vec![Ending::FailedForGood], 1));
}

#[tokio::test]
async fn ambiguous_errors_are_counted_apart() {
    let (record, _) = after(Act::Ambiguous).await;
    assert_eq!((record.state, record.counters.ambiguous), (State::Dead, 3));
    assert_eq!(endings(&record), [Ending::Ambiguous; 3]);
}

#[tokio::test]
async fn snooze_costs_no_attempt() {
    let (record, stage) = after(Act::SnoozeOnce(10)).await;
    assert_eq!((record.state, record.counters.attempt, record.fence), (State::Completed, 1, 2));
    assert_eq!((endings(&record)[0], stage.started()), (Ending::Snoozed, 2));
}

#[tokio::test]
async fn discard_is_a_cancelled_job_with_a_reason() {
    let (record, _) = after(Act::Discard).await;
    assert_eq!((record.state, record.reason), (State::Cancelled, Some(Reason::Discarded)));
    assert_eq!(record.last_error(), Some("no longer wanted"));
}

#[tokio::test]
async fn a_panic_is_a_failed_attempt_and_the_slot_is_free_again() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).concurrency(1).start().unwrap();
    let panics = client.enqueue(probe(Act::Panic)).await.unwrap();
    let record = end_of(&panics).await;
    assert_eq!((record.state, endings(&record)), (State::Dead, vec![Ending::Panicked; 3]));
    let text = record.last_error().unwrap();
    assert!(text.starts_with("panicked at crates/worker/tests/it/support.rs:"), "{text}");
    assert!(text.ends_with(": the probe panics"), "{text}");
    let next = client.enqueue(probe(Act::Succeed)).await.unwrap();
    assert_eq!(end_of(&next).await.state, State::Completed);
    running.stop().await;
}

#[tokio::test]
async fn a_payload_of_the_wrong_shape_is_dead_and_kept() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).start().unwrap();
    let job = NewJob::new(Probe::KIND, r#"{"act":"Dance"}"#, Options::new()).unwrap();
    let handle = client.handle::<Probe>(job.id);
    client.enqueue_new(job).await.unwrap();
    let record = end_of(&handle).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::Permanent)));
    assert_eq!((endings(&record), stage.started()), (vec![Ending::Undecodable], 0));
    assert_eq!(&record.payload[..], br#"{"act":"Dance"}"#);
    assert!(record.last_error().unwrap().starts_with("payload does not decode as kind `probe`"));
    let error = handle.output().await.unwrap_err();
    assert!(matches!(error, OutputError::Dead { reason: Some(Reason::Permanent), .. }), "{error}");
    running.stop().await;
}

#[tokio::test]
async fn an_output_above_the_cap_is_dead() {
    let (client, stage) = scene();
    let caps = Caps { output: 100, ..Caps::default() };
    client.define_queue("default", QueueConfig { caps, ..QueueConfig::default() }).await.unwrap();
    let running = worker(&client, &stage).start().unwrap();
    let handle = client.enqueue(probe(Act::Output(200))).await.unwrap();
    let record = end_of(&handle).await;
    assert_eq!((record.state, endings(&record)), (State::Dead, vec![Ending::Undecodable]));
    assert!(record.last_error().unwrap().contains("output has 202 bytes, the cap is 100"), "{record:?}");
    running.stop().await;
}

#[tokio::test]
async fn an_output_that_only_the_store_refuses_is_dead_too() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).start().unwrap();
    let handle = client.enqueue(probe(Act::Wait)).await.unwrap();
    stage.until_started(1).await;
    // The claim said a megabyte; since then the queue has another opinion.
    let caps = Caps { output: 4, ..Caps::default() };
    client.define_queue("default", QueueConfig { caps, ..QueueConfig::default() }).await.unwrap();
    stage.release(1);
    let record = end_of(&handle).await;
    assert_eq!((record.state, endings(&record)), (State::Dead, vec![Ending::Undecodable]));
    running.stop().await;
}

#[tokio::test]
async fn an_error_of_ten_megabytes_is_cut() {
    let (record, _) = after(Act::LongError(10 << 20)).await;
    let text = record.last_error().unwrap();
    assert!(text.len() <= 64 << 10, "{}", text.len());
    assert!(text.ends_with("(cut, 10485760 bytes in all)"));
}

#[tokio::test]
async fn progress_can_be_seen() {
    let (record, _) = after(Act::Progress(70)).await;
    assert_eq!(record.progress.as_deref(), Some(&b"70"[..]));
}

#[derive(Debug)]
struct Throttled;

impl Classify for Throttled {
    fn message(&self) -> String {
        "slow down".into()
    }
    fn verdict(&self) -> Verdict {
        Verdict::Fail
    }
}

async fn throttled(_job: Probe) -> Result<String, Throttled> {
    Err(Throttled)
}

#[tokio::test]
async fn an_error_type_of_ones_own_decides() {
    let (client, _) = scene();
    let running = Worker::new(&client).handle(throttled).start().unwrap();
    let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
    let record = end_of(&handle).await;
    assert_eq!((record.state, record.last_error()), (State::Dead, Some("slow down")));
    running.stop().await;
}
