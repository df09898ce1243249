//! The outcome of an attempt is recorded: every outcome leads where the judge says, and leaves its trace.

use std::time::Duration;

use futures_util::FutureExt;
use windlass_core::clock::whole_micros;
use windlass_core::job::{ATTEMPTS_KEPT, Counters};
use windlass_core::outcome::{Cause, Ending, Failure, Reason};
use windlass_core::queue::QueueConfig;
use windlass_core::retry::{Jitter, Policy};
use windlass_core::size::{Caps, bounded_text};
use windlass_core::store::{Settled, Settlement};
use windlass_core::{Bytes, JobId, Options, Outcome, State};

use crate::Harness;
use crate::scene::{
    QUEUE, Scene, TTL, assert_after, completed, failed, failed_for_good, name, seconds, settlement,
};

/// A completed job keeps its output and the attempt that made it.
pub async fn completed_keeps_its_output(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    h.advance(seconds(2)).await;
    let output = Some(Bytes::from_static(b"\x00\xff{}"));
    assert_eq!(scene.settle(&job, Outcome::Completed { output: output.clone() }).await, State::Completed);
    let record = scene.get(job.id).await;
    assert_eq!((record.state, record.reason, record.output), (State::Completed, None, output));
    let ended = record.finished_at.expect("a finished job says when");
    assert_after(ended, job.claimed_at, seconds(2));
    let [attempt] = record.attempts.as_slice() else { panic!("one attempt: {:?}", record.attempts) };
    assert_eq!((attempt.fence, attempt.number, attempt.worker.as_str()), (1, 1, "worker"));
    assert_eq!((attempt.started_at, attempt.ended_at), (job.claimed_at, Some(ended)));
    assert_eq!((attempt.ending, attempt.error.as_deref()), (Some(Ending::Completed), None));
}

/// Outputs are bytes like any others; none and an empty one are two things.
pub async fn no_output_is_not_an_empty_one(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    for output in [None, Some(Bytes::new()), Some(Bytes::from_static(b"\0")), Some(Bytes::from(every_byte))] {
        let id = scene.finished(Options::new(), Outcome::Completed { output: output.clone() }).await;
        assert_eq!(scene.get(id).await.output, output);
    }
}

/// A transient error schedules the next attempt by the job's policy and records what went wrong.
pub async fn retry_waits_by_the_policy(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    assert_eq!(scene.settle(&job, failed()).await, State::Scheduled);
    let record = scene.get(job.id).await;
    assert_after(record.due_at, job.claimed_at, seconds(10));
    assert_eq!(record.counters, Counters { attempt: 1, backoff: seconds(10), ..Counters::default() });
    assert_eq!((record.finished_at, record.reason, record.last_error()), (None, None, Some("it failed")));
    let [attempt] = record.attempts.as_slice() else { panic!("one attempt: {:?}", record.attempts) };
    assert_eq!((attempt.fence, attempt.number, attempt.ending), (1, 1, Some(Ending::Failed)));
    assert_eq!((attempt.started_at, attempt.worker.as_str()), (job.claimed_at, "worker"));
    assert!(attempt.ended_at >= Some(job.claimed_at));

    let lease = scene.lease().await;
    assert_eq!(scene.claim(lease, 1).await, []);
    h.advance(seconds(11)).await;
    let again = scene.claim_one(lease).await;
    assert_eq!((again.fence.number, again.facts.counters.attempt), (2, 2));
    assert_eq!(again.facts.counters.backoff, seconds(10));
}

/// A retry without delay is ready at once, behind those that were due earlier.
pub async fn retry_without_delay_is_ready(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let at_once = Policy::fixed(3, seconds(0)).jitter(Jitter::None);
    let job = scene.running(Options::new().retry(at_once)).await;
    let other = scene.add(Options::new()).await;
    h.advance(seconds(1)).await;
    assert_eq!(scene.settle(&job, failed()).await, State::Ready);
    let lease = scene.lease().await;
    assert_eq!(scene.claim_one(lease).await.id, other);
    assert_eq!(scene.claim_one(lease).await.id, job.id);
}

/// Durations are kept to the microsecond, rounded up.
pub async fn delays_are_kept_to_the_microsecond(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let delay = Duration::from_nanos(7_000_000_001);
    let job = scene.running(Options::new().retry(Policy::fixed(3, delay).jitter(Jitter::None))).await;
    scene.settle(&job, failed()).await;
    let kept = whole_micros(scene.get(job.id).await.counters.backoff);
    assert_eq!(kept, Duration::from_micros(7_000_001));
}

/// Each other outcome leads to the state and the record that the judge says.
pub async fn every_outcome_leads_where_the_judge_says(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let failure = |cause| Failure { cause, text: "text".into() };
    let after = seconds(77);
    let text = Some("text");
    let table = [
        (
            Outcome::RetryAfter { after, failure: failure(Cause::Error) },
            State::Scheduled,
            None,
            Ending::Failed,
            text,
        ),
        (Outcome::Retry { failure: failure(Cause::Panic) }, State::Scheduled, None, Ending::Panicked, text),
        (Outcome::Retry { failure: failure(Cause::Timeout) }, State::Scheduled, None, Ending::TimedOut, text),
        (
            Outcome::Ambiguous { failure: failure(Cause::Error) },
            State::Scheduled,
            None,
            Ending::Ambiguous,
            text,
        ),
        (Outcome::Snooze { after }, State::Scheduled, None, Ending::Snoozed, None),
        (Outcome::Returned, State::Ready, None, Ending::Returned, None),
        (
            Outcome::Fail { failure: failure(Cause::Error) },
            State::Dead,
            Some(Reason::Permanent),
            Ending::FailedForGood,
            text,
        ),
        (
            Outcome::Fail { failure: failure(Cause::Codec) },
            State::Dead,
            Some(Reason::Permanent),
            Ending::Undecodable,
            text,
        ),
        (
            Outcome::Discard { why: "text".into() },
            State::Cancelled,
            Some(Reason::Discarded),
            Ending::Discarded,
            text,
        ),
        (Outcome::Cancelled, State::Cancelled, Some(Reason::Requested), Ending::Cancelled, None),
    ];
    for (priority, (outcome, state, reason, ending, error)) in (0..).zip(table) {
        let job = scene.running(Options::new().priority(priority)).await;
        let expected = settlement(&job, outcome.clone()).transition;
        assert_eq!(scene.settle(&job, outcome.clone()).await, state, "{outcome:?}");
        let record = scene.get(job.id).await;
        assert_eq!((record.state, record.reason), (state, reason), "{outcome:?}");
        assert_eq!(record.counters, expected.counters, "{outcome:?}");
        assert_eq!(record.finished_at.is_some(), state.is_terminal(), "{outcome:?}");
        assert_eq!(record.payload, job.payload, "the payload stays");
        let [attempt] = record.attempts.as_slice() else { panic!("{outcome:?}: {:?}", record.attempts) };
        assert_eq!((attempt.ending, attempt.error.as_deref()), (Some(ending), error), "{outcome:?}");
        assert_eq!((attempt.fence, attempt.number), (1, 1), "{outcome:?}");
        match state {
            State::Scheduled => assert!(record.due_at > job.due_at, "{outcome:?}"),
            _ => assert_eq!(record.due_at, job.due_at, "{outcome:?}"),
        }
    }
    scene.assert_counts().await;
}

/// The last attempt that fails leaves the job dead, with every attempt on record.
pub async fn used_up_attempts_are_the_end(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let id = scene.add(Options::new().retry(Policy::fixed(3, seconds(0)))).await;
    let lease = scene.lease().await;
    for attempt in 1..=3 {
        let job = scene.claim_one(lease).await;
        assert_eq!(job.facts.counters.attempt, attempt);
        scene.settle(&job, failed()).await;
    }
    let record = scene.get(id).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::AttemptsExhausted)));
    let numbers: Vec<_> = record.attempts.iter().map(|attempt| (attempt.fence, attempt.number)).collect();
    assert_eq!(numbers, [(1, 1), (2, 2), (3, 3)]);
    assert_eq!(scene.claim(lease, 1).await, []);
}

/// A snooze gives the attempt back, however often.
pub async fn a_snooze_costs_no_attempt(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let id = scene.add(Options::new().retry(Policy::never())).await;
    let lease = scene.lease().await;
    for claim in 1..=4 {
        let job = scene.claim_one(lease).await;
        assert_eq!((job.fence.number, job.facts.counters.attempt), (claim, 1));
        scene.settle(&job, Outcome::Snooze { after: seconds(1) }).await;
        assert_eq!(scene.get(id).await.counters.attempt, 0);
        h.advance(seconds(1)).await;
    }
    let record = scene.get(id).await;
    assert!(record.attempts.iter().all(|attempt| attempt.number == 1), "{:?}", record.attempts);
}

/// Of many attempts the newest are kept, oldest first, the running or completed one included.
pub async fn the_newest_attempts_are_kept(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let id = scene.add(Options::new()).await;
    let lease = scene.lease().await;
    let fences = async || {
        let attempts = scene.get(id).await.attempts;
        (attempts.len(), attempts[0].fence, attempts[attempts.len() - 1].fence)
    };
    let claims = ATTEMPTS_KEPT as u64 + 3;
    for _ in 0..claims {
        let job = scene.claim_one(lease).await;
        scene.settle(&job, Outcome::Returned).await;
    }
    assert_eq!(fences().await, (ATTEMPTS_KEPT, 4, claims));
    let job = scene.claim_one(lease).await;
    assert_eq!(fences().await, (ATTEMPTS_KEPT, 5, claims + 1));
    scene.settle(&job, completed()).await;
    assert_eq!(fences().await, (ATTEMPTS_KEPT, 5, claims + 1));
}

/// Error texts are cut to the queue's cap, say so, and carry no NUL.
pub async fn error_texts_are_cut(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let config = QueueConfig { caps: Caps { error: 100, ..Caps::default() }, ..QueueConfig::default() };
    let long = "ü".repeat(5 << 20);
    let default_cap = Caps::default().error;
    for (text, cap) in [(long.as_str(), default_cap), ("a\0b", default_cap), (&long[..1_000], 100)] {
        if cap == 100 {
            scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
        }
        let id = scene.finished(Options::new(), Outcome::Fail { failure: Failure::error(text) }).await;
        let record = scene.get(id).await;
        let stored = record.last_error().expect("an error text is kept");
        assert!(stored.len() <= cap && !stored.contains('\0'), "{} bytes", stored.len());
        assert_eq!(stored, bounded_text(text, cap));
    }
}

/// An output above the queue's cap refuses that item and leaves the attempt running; at the cap it is kept.
pub async fn an_output_above_the_cap_is_refused(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let config = QueueConfig { caps: Caps { output: 10, ..Caps::default() }, ..QueueConfig::default() };
    scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
    let job = scene.running(Options::new()).await;
    assert_eq!(job.caps.output, 10);
    let output = |bytes| Outcome::Completed { output: Some(Bytes::from(vec![b'x'; bytes])) };
    match scene.settle_raw(settlement(&job, output(11))).await {
        Settled::Refused(error) => assert_eq!((error.what, error.size, error.cap), ("output", 11, 10)),
        other => panic!("an output above the cap is answered with {other:?}"),
    }
    assert_eq!(scene.state(job.id).await, State::Running);
    assert_eq!(scene.settle(&job, output(10)).await, State::Completed);
}

/// Each item of a batch is answered for itself, in order.
pub async fn items_of_a_batch_are_apart(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(4).await;
    let jobs = scene.claim(scene.lease().await, 4).await;
    let mut batch: Vec<_> = jobs.iter().map(|job| settlement(job, completed())).collect();
    batch[1].fence.nonce ^= 1;
    batch[2] = settlement(&jobs[2], failed_for_good());
    batch.push(Settlement { id: JobId::new(), ..batch[0].clone() });
    batch.push(batch[0].clone());
    let applied = |state| Settled::Applied(state);
    assert_eq!(
        scene.store.settle(batch.as_slice().into()).await.expect("settling is answered"),
        [
            applied(State::Completed),
            Settled::Fenced,
            applied(State::Dead),
            applied(State::Completed),
            Settled::Fenced,
            Settled::Fenced,
        ]
    );
    assert_eq!(scene.state(jobs[1].id).await, State::Running);
    assert_eq!(scene.store.settle([].into()).await.expect("an empty batch is fine"), []);
    scene.assert_counts().await;
}

/// As long as the job was not taken back, an outcome counts although the lease has run out.
pub async fn an_unreaped_attempt_may_still_settle(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    h.advance(TTL + seconds(1)).await;
    assert_eq!(scene.settle(&job, completed()).await, State::Completed);
    assert_eq!(scene.store.lost(9).await.expect("lost jobs can be read"), []);
}

/// A call whose future is dropped is written as a whole or not at all, and a caller that asks again hears which.
pub async fn a_dropped_call_is_whole_or_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = scene.lease().await;
    for round in 0..10 {
        scene.add_many(5).await;
        let jobs = scene.claim(lease, 5).await;
        let batch: Vec<_> = jobs.iter().map(|job| settlement(job, completed())).collect();
        // Polled once and then dropped, wherever it was.
        let _ = scene.store.settle(batch.as_slice().into()).now_or_never();
        let answers = scene.store.settle(batch.as_slice().into()).await.expect("settling is answered");
        assert!(answers.iter().all(|answer| *answer == answers[0]), "round {round}: {answers:?}");
        for job in &jobs {
            assert_eq!(scene.state(job.id).await, State::Completed);
        }
    }
    scene.assert_counts().await;
}
