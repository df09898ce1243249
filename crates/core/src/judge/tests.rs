//! The judge's cases as a table.

use proptest::prelude::*;

use bytes::Bytes;

use super::*;
use crate::job::Spec;
use crate::retry::{Jitter, Policy};

const SECOND: Duration = Duration::from_secs(1);

fn facts(attempt: u32, attempts_max: u32) -> Facts {
    Facts {
        counters: Counters { attempt, ..Counters::default() },
        spec: Spec {
            retry: Policy::fixed(attempts_max, SECOND).jitter(Jitter::None),
            stalls_max: 3,
            ..Spec::default()
        },
    }
}

fn failure() -> Failure {
    Failure::error("boom")
}

#[test]
fn success_completes_with_its_output() {
    let output = Some(Bytes::from_static(b"7"));
    let verdict = judge(&facts(1, 3), Outcome::Completed { output: output.clone() }, 0.5);
    assert_eq!(
        (verdict.state, verdict.output, verdict.ending),
        (State::Completed, output, Ending::Completed)
    );
}

#[test]
fn a_transient_error_waits_and_then_dies_when_attempts_are_used() {
    let verdict = judge(&facts(2, 3), Outcome::Retry { failure: failure() }, 0.5);
    assert_eq!((verdict.state, verdict.due), (State::Scheduled, NextDue::After(SECOND)));
    assert_eq!(verdict.counters.backoff, SECOND);
    let verdict = judge(&facts(3, 3), Outcome::Retry { failure: failure() }, 0.5);
    assert_eq!((verdict.state, verdict.reason), (State::Dead, Some(Reason::AttemptsExhausted)));
    assert_eq!(verdict.error.as_deref(), Some("boom"));
}

#[test]
fn retry_after_uses_an_attempt_and_its_own_delay() {
    let outcome = |after| Outcome::RetryAfter { after, failure: failure() };
    assert_eq!(judge(&facts(1, 3), outcome(9 * SECOND), 0.5).due, NextDue::After(9 * SECOND));
    assert_eq!(judge(&facts(1, 3), outcome(Duration::ZERO), 0.5).state, State::Ready);
    assert_eq!(judge(&facts(3, 3), outcome(9 * SECOND), 0.5).state, State::Dead);
}

#[test]
fn a_permanent_error_is_dead_at_once() {
    let verdict = judge(&facts(1, 25), Outcome::Fail { failure: failure() }, 0.5);
    assert_eq!((verdict.state, verdict.reason), (State::Dead, Some(Reason::Permanent)));
}

#[test]
fn ambiguous_has_its_own_small_limit() {
    let mut facts = facts(1, 25);
    let outcome = || Outcome::Ambiguous { failure: failure() };
    for count in 1..=2 {
        let verdict = judge(&facts, outcome(), 0.5);
        assert_eq!((verdict.state, verdict.counters.ambiguous), (State::Scheduled, count));
        facts.counters = verdict.counters;
    }
    let third = judge(&facts, outcome(), 0.5);
    assert_eq!((third.state, third.reason), (State::Dead, Some(Reason::Ambiguous)), "three attempts in all");
    for no_second_try in [0, 1] {
        facts.counters.ambiguous = 0;
        facts.spec.retry = facts.spec.retry.ambiguous(no_second_try);
        assert_eq!(judge(&facts, outcome(), 0.5).reason, Some(Reason::Ambiguous));
    }
}

#[test]
fn snooze_and_return_give_the_attempt_back() {
    let verdict = judge(&facts(3, 3), Outcome::Snooze { after: SECOND }, 0.5);
    assert_eq!((verdict.state, verdict.counters.attempt), (State::Scheduled, 2));
    let verdict = judge(&facts(3, 3), Outcome::Returned, 0.5);
    assert_eq!((verdict.state, verdict.due, verdict.counters.attempt), (State::Ready, NextDue::Keep, 2));
}

fn stall() -> Outcome {
    Outcome::Stalled { worker: "w".into() }
}

#[test]
fn pauses_after_stalls_are_bounded() {
    assert_eq!([0, 1, 2, 3].map(|stalls| stall_pause(stalls).as_secs()), [1, 1, 4, 16]);
    assert_eq!((stall_pause(9), stall_pause(u32::MAX)), (STALL_PAUSE_MAX, STALL_PAUSE_MAX));
}

#[test]
fn what_does_not_read_is_dead_and_says_why() {
    let verdict = judge(&facts(1, 3), Outcome::Unreadable { why: "form 9".into() }, 0.5);
    assert_eq!((verdict.state, verdict.reason), (State::Dead, Some(Reason::Unreadable)));
    assert_eq!((verdict.ending, verdict.error.as_deref()), (Ending::Unreadable, Some("form 9")));
}

#[test]
fn lost_leases_are_counted_apart() {
    let mut facts = facts(1, 25);
    for stalls in 1..=3 {
        let verdict = judge(&facts, stall(), 0.5);
        assert_eq!(
            (verdict.state, verdict.counters.stalls, verdict.counters.attempt),
            (State::Scheduled, stalls, 1)
        );
        assert_eq!(
            verdict.due,
            NextDue::After(SECOND * 4u32.pow(stalls - 1)),
            "stalls are further and further apart"
        );
        assert_eq!(verdict.error.as_deref(), Some(r#"worker "w" lost its lease while the attempt ran"#));
        facts.counters.stalls = stalls;
    }
    assert_eq!(judge(&facts, stall(), 0.5).reason, Some(Reason::Stalled));
}

#[test]
fn a_crash_uses_the_last_attempt_too() {
    let verdict = judge(&facts(1, 1), stall(), 0.5);
    assert_eq!((verdict.state, verdict.reason), (State::Dead, Some(Reason::AttemptsExhausted)));
}

#[test]
fn a_cancel_request_stops_a_job_that_would_go_back_but_not_one_that_ended() {
    let back = judge(&facts(1, 3), Outcome::Retry { failure: failure() }, 0.5).honoring_cancel(true);
    assert_eq!((back.state, back.reason), (State::Cancelled, Some(Reason::Requested)));
    assert_eq!(back.error.as_deref(), Some("boom"), "the error of the attempt is kept");
    let done = judge(&facts(1, 3), Outcome::Completed { output: None }, 0.5).honoring_cancel(true);
    assert_eq!(done.state, State::Completed);
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let after = any::<u32>().prop_map(|millis| Duration::from_millis(millis.into()));
    prop_oneof![
        Just(Outcome::Completed { output: None }),
        Just(Outcome::Retry { failure: failure() }),
        after.clone().prop_map(|after| Outcome::RetryAfter { after, failure: failure() }),
        Just(Outcome::Ambiguous { failure: failure() }),
        Just(Outcome::Fail { failure: failure() }),
        after.prop_map(|after| Outcome::Snooze { after }),
        Just(Outcome::Discard { why: String::new() }),
        Just(Outcome::Cancelled),
        Just(Outcome::Returned),
        Just(stall()),
        Just(Outcome::Unreadable { why: "it is odd".into() }),
    ]
}

proptest! {
    #[test]
    fn every_verdict_is_an_edge_of_the_drawing(
        outcome in outcomes(),
        attempt in prop_oneof![1..5u32, Just(1 << 31), Just(u32::MAX)],
        attempts_max in prop_oneof![0..5u32, Just(u32::MAX)],
        stalls in prop_oneof![0..5u32, Just(u32::MAX)],
        ambiguous in prop_oneof![0..5u32, Just(u32::MAX)],
        dice in 0.0..1.0,
        cancel in any::<bool>(),
    ) {
        let mut facts = facts(attempt, attempts_max);
        facts.counters.stalls = stalls;
        facts.counters.ambiguous = ambiguous;
        let verdict = judge(&facts, outcome, dice).honoring_cancel(cancel);
        prop_assert!(State::Running.may_become(verdict.state));
        prop_assert_eq!(verdict.reason.is_some(), matches!(verdict.state, State::Dead | State::Cancelled));
        prop_assert!(verdict.counters.attempt <= attempt);
    }
}
