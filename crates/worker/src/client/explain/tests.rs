//! The decision, over what a store might have said.

use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::job::{AttemptRecord, Counters, Unreadable};
use windlass_core::outcome::{Ending, Reason};
use windlass_core::queue::{Counts, KeyRules, Pause, Permits, QueueConfig, QueueRecord, Rate, Shape};
use windlass_core::store::LeaseRecord;
use windlass_core::{JobId, JobRecord, LeaseId, Name, NewJob, Options, State};

use super::decide::explain;
use super::line::{Line, Looking};
use super::look::Seen;
use super::why::Why;

const SECOND: Duration = Duration::from_secs(1);
const NOW: Timestamp = Timestamp::from_micros(1_893_456_000_000_000);

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

fn job(state: State) -> JobRecord {
    let NewJob { id, queue, kind, payload, spec, .. } =
        NewJob::new("k", "", Options::new().queue("q")).unwrap();
    JobRecord {
        id,
        queue,
        kind,
        state,
        reason: None,
        payload,
        output: None,
        progress: None,
        priority: 0,
        key: None,
        unique: None,
        counters: Counters::default(),
        spec,
        tags: Vec::new(),
        fence: 0,
        cancel_requested: false,
        has_begun: false,
        unreadable: None,
        enqueued_at: NOW.minus(SECOND),
        due_at: NOW.minus(SECOND),
        expires_at: None,
        finished_at: state.is_terminal().then_some(NOW),
        attempts: Vec::new(),
    }
}

fn attempt(ending: Option<Ending>, error: Option<&str>) -> AttemptRecord {
    AttemptRecord {
        fence: 1,
        number: 1,
        worker: "w".to_owned(),
        started_at: NOW.minus(SECOND),
        ended_at: ending.map(|_| NOW),
        ending,
        error: error.map(str::to_owned),
    }
}

fn lease(queues: &[&str], kinds: &[&str]) -> LeaseRecord {
    LeaseRecord {
        id: LeaseId::new(),
        worker: "w".to_owned(),
        queues: queues.iter().map(|queue| name(queue)).collect(),
        kinds: kinds.iter().map(|kind| name(kind)).collect(),
        opened_at: NOW.minus(60 * SECOND),
        expires_at: NOW.plus(30 * SECOND),
        is_lost: false,
        running: 1,
    }
}

/// A job that nothing keeps: its queue has no rules, and a worker has a handler for it.
fn seen(state: State) -> Seen {
    let mut counts = Counts::default();
    counts.set(state, 1);
    let config = QueueConfig::default();
    Seen {
        now: NOW,
        job: job(state),
        queue: Some(QueueRecord { name: name("q"), config, counts, permits: None, unreadable: None }),
        unknown_rule: None,
        leases: vec![lease(&["q"], &["k"])],
        line: Line::default(),
        pace: None,
        key_running: Vec::new(),
        key_starts: Vec::new(),
        is_lost: false,
        holder: None,
        flow: None,
        gathered: None,
    }
}

impl Seen {
    fn with_config(mut self, change: impl FnOnce(&mut QueueConfig)) -> Self {
        change(&mut self.queue.as_mut().unwrap().config);
        self
    }

    fn names(&self) -> Vec<&'static str> {
        let causes = explain(self);
        for cause in &causes {
            assert!(!cause.sentence.is_empty() && !cause.sentence.contains('\n'), "{cause:?}");
            let json = serde_json::to_value(&cause.why).unwrap();
            assert_eq!(json["cause"], cause.why.name(), "the word of a cause is one");
        }
        causes.iter().map(|cause| cause.why.name()).collect()
    }

    fn first(&self) -> String {
        explain(self)[0].sentence.clone()
    }
}

#[test]
fn a_job_that_nothing_keeps_names_its_workers() {
    let seen = seen(State::Ready);
    assert_eq!(seen.names(), ["ready"]);
    assert_eq!(
        seen.first(),
        "nothing keeps it: a worker should take it with its next claim, of w (has 1 jobs)"
    );
}

#[test]
fn every_state_has_an_answer() {
    for state in State::ALL {
        assert!(!seen(state).names().is_empty(), "{state}");
        let mut bare = seen(state);
        (bare.queue, bare.leases) = (None, Vec::new());
        assert!(!bare.names().is_empty(), "{state}, of a queue that is gone");
    }
}

#[test]
fn a_scheduled_job_says_when_and_after_what() {
    let mut seen = seen(State::Scheduled);
    assert_eq!(seen.names(), ["overdue", "ready"]);
    seen.job.due_at = NOW.plus(5_400 * SECOND);
    assert_eq!(seen.names(), ["not_due"]);
    assert_eq!(seen.first(), "it is not due until 2030-01-01T01:30:00.000000Z (in 1h 30m)");
    seen.job.counters.attempt = 2;
    seen.job.attempts = vec![attempt(Some(Ending::TimedOut), Some("too slow\nby far"))];
    assert_eq!(seen.names(), ["retry"]);
    assert!(seen.first().ends_with("attempt 2 of 25 timed out: too slow…"), "{}", seen.first());
    seen.job.attempts = vec![attempt(Some(Ending::Snoozed), None)];
    assert!(seen.first().starts_with("its handler asked to come back later, at "));
}

#[test]
fn a_pause_counts_if_it_lasts_until_the_job_is_due() {
    let pause = |until: Timestamp| Pause { by: "ada".into(), why: "ill".into(), until: Some(until) };
    let paused = |until| seen(State::Ready).with_config(|config| config.pauses.queue = Some(pause(until)));
    assert_eq!(paused(NOW).names(), ["ready"], "it is over");
    let held = paused(NOW.plus(SECOND));
    assert_eq!(held.names(), ["paused"]);
    assert_eq!(held.first(), "queue q is paused by ada (ill), until 2030-01-01T00:00:01.000000Z (in 1s)");
    let mut later = paused(NOW.plus(SECOND));
    (later.job.state, later.job.due_at) = (State::Scheduled, NOW.plus(2 * SECOND));
    assert_eq!(later.names(), ["not_due"]);
    later.job.due_at = NOW.plus(SECOND / 2);
    assert_eq!(later.names(), ["not_due", "paused"]);
    let mut keyed = seen(State::Ready).with_config(|config| {
        config.pauses.kinds.insert(name("k"), Pause::default());
        config.pauses.keys.insert(name("acme"), Pause::default());
        config.pauses.keys.insert(name("other"), Pause::default());
    });
    keyed.job.key = Some(name("acme"));
    assert_eq!(keyed.names(), ["paused", "paused"]);
    let remedies: Vec<_> = explain(&keyed).into_iter().filter_map(|cause| cause.remedy).collect();
    assert_eq!(remedies, ["windlass queues resume q --kind k", "windlass queues resume q --key acme"]);
}

#[test]
fn limits_are_named_with_what_uses_them() {
    let mut full = seen(State::Ready).with_config(|config| config.concurrency = Some(2));
    full.queue.as_mut().unwrap().counts.set(State::Running, 1);
    assert_eq!(full.names(), ["ready"]);
    full.queue.as_mut().unwrap().counts.set(State::Running, 2);
    assert_eq!(full.names(), ["queue_concurrency"]);

    let mut spent = seen(State::Ready).with_config(|config| config.rate = Some(Rate::new(5, 60 * SECOND)));
    spent.queue.as_mut().unwrap().permits = Some(Permits { jobs: 1, more_at: None });
    assert_eq!(spent.names(), ["ready"]);
    spent.queue.as_mut().unwrap().permits = Some(Permits { jobs: 0, more_at: Some(NOW.plus(SECOND)) });
    assert_eq!(spent.names(), ["queue_rate"]);
    assert!(spent.first().contains("5 jobs in 1m, and has: the next may start at 2030"), "{}", spent.first());

    let rules = KeyRules { concurrency: Some(1), ..KeyRules::default() };
    let mut keyed = seen(State::Ready).with_config(|config| config.keys = Some(rules));
    keyed.job.key = Some(name("acme"));
    assert_eq!(keyed.names(), ["ready"]);
    let other = JobId::new();
    keyed.key_running = vec![other];
    assert_eq!(keyed.names(), ["key_concurrency"]);
    assert!(keyed.first().contains(&other.to_string()));
}

#[test]
fn the_rate_of_a_key_is_reckoned_from_its_starts() {
    for shape in [Shape::Sliding, Shape::Fixed, Shape::Bucket { burst: 2 }] {
        let rules = KeyRules { rate: Some(Rate::new(2, 60 * SECOND).shape(shape)), ..KeyRules::default() };
        let mut keyed = seen(State::Ready).with_config(|config| config.keys = Some(rules));
        keyed.job.key = Some(name("acme"));
        keyed.key_starts = vec![NOW];
        assert_eq!(keyed.names(), ["ready"], "{shape:?}");
        keyed.key_starts = vec![NOW, NOW];
        assert_eq!(keyed.names(), ["key_rate"], "{shape:?}");
        let Why::KeyRate { until: Some(until), .. } = explain(&keyed).remove(0).why else { panic!() };
        assert!(until > NOW && until <= NOW.plus(61 * SECOND), "{shape:?} {until}");
    }
}

#[test]
fn workers_that_cannot_take_it_are_named() {
    let mut seen = seen(State::Ready);
    seen.leases = vec![lease(&["other"], &["k"]), LeaseRecord { is_lost: true, ..lease(&["q"], &["k"]) }];
    assert_eq!(seen.names(), ["no_worker"]);
    assert_eq!(seen.first(), "no living worker serves queue q; the store knows w: other, w: lost");
    seen.leases.push(lease(&["q"], &["mail", "sms"]));
    assert_eq!(seen.names(), ["no_handler"]);
    assert!(seen.first().ends_with("for kind k; they run w: mail, sms"), "{}", seen.first());
    seen.leases.push(lease(&["q"], &[]));
    assert_eq!(seen.names(), ["ready"], "what a worker runs that says nothing is not known");
    seen.leases = vec![lease(&["other"], &["k"]); 1_000];
    assert_eq!(seen.names(), ["ready"], "there may be more");
}

#[test]
fn what_only_some_programs_know_is_said() {
    let mut unknown = seen(State::Ready);
    unknown.unknown_rule = Some((9, 2));
    assert_eq!(unknown.names(), ["unknown_rules"]);
    let mut broken = seen(State::Ready);
    broken.queue.as_mut().unwrap().unreadable = Some("nonsense".into());
    assert_eq!(broken.names(), ["definition", "ready"], "the default holds for it");
    let mut newer = seen(State::Ready);
    newer.job.unreadable = Some(Unreadable::Newer { form: 9 });
    assert_eq!(newer.names(), ["unreadable"]);
}

#[test]
fn an_expired_or_stalled_job_says_so() {
    let mut expired = seen(State::Ready);
    expired.job.expires_at = Some(NOW);
    assert_eq!(expired.names(), ["expired"]);
    expired.job.counters.attempt = 1;
    assert_eq!(expired.names(), ["ready"], "it has started before");
    let mut suspect = seen(State::Ready);
    suspect.job.counters.stalls = 1;
    assert_eq!(suspect.names(), ["stalled_before", "ready"]);
}

#[test]
fn a_job_behind_others_says_how_many_and_how_long() {
    let mut seen = seen(State::Ready);
    (seen.line.ahead, seen.pace) = (3, Some(2 * SECOND));
    assert_eq!(seen.names(), ["behind"]);
    assert_eq!(
        seen.first(),
        "3 jobs of queue q come before it; at the pace of late that takes about 6s; w (has 1 jobs) may take it"
    );
    (seen.line.others, seen.line.has_more) = (997, true);
    seen.queue.as_mut().unwrap().counts.set(State::Ready, 5_000);
    assert!(seen.first().starts_with("at least 3 jobs, at most 4002 of queue q"), "{}", seen.first());
    (seen.line.ahead, seen.job.key) = (0, Some(name("acme")));
    seen.line.keys = [name("a"), name("b")].into();
    assert!(
        seen.first()
            .starts_with("up to 4002 jobs of key acme come before it, and takes turns with 2 other keys"),
        "{}",
        seen.first()
    );
}

#[test]
fn the_line_is_in_the_order_of_claims() {
    let own = job(State::Ready);
    let other = |priority, due_at| JobRecord { priority, due_at, ..job(State::Ready) };
    let (same, earlier, later) = (own.due_at, own.due_at.minus(SECOND), own.due_at.plus(SECOND));
    let ahead = |config: &QueueConfig, newer: &[JobRecord], older: &[JobRecord]| {
        let mut looking = Looking::new(&own, config, NOW, None);
        newer.iter().chain([&own]).chain(older).for_each(|job| looking.add(job));
        looking.end(false).ahead
    };
    let strict = QueueConfig::default();
    assert_eq!(ahead(&strict, &[other(1, later), other(0, earlier)], &[]), 2);
    assert_eq!(ahead(&strict, &[other(-1, earlier), other(0, later), other(0, same)], &[]), 0);
    assert_eq!(ahead(&strict, &[], &[other(0, same), other(0, later)]), 1, "of one instant by acceptance");
    let aged = QueueConfig { aging: Some(SECOND / 2), ..QueueConfig::default() };
    assert_eq!(ahead(&aged, &[other(1, later), other(3, later)], &[]), 1, "a level is worth half a second");
    let mut paused = QueueConfig::default();
    paused.pauses.kinds.insert(name("k"), Pause::default());
    assert_eq!(ahead(&paused, &[other(1, same)], &[]), 0, "what is paused is not in the way");
    let keyed = JobRecord { key: Some(name("a")), ..other(9, earlier) };
    assert_eq!(ahead(&strict, &[keyed], &[]), 0, "keys have lines of their own");
}

#[test]
fn a_running_job_names_its_worker_and_lease() {
    let mut seen = seen(State::Running);
    seen.job.attempts = vec![attempt(None, None)];
    seen.job.progress = Some("\"half\"".into());
    assert_eq!(seen.names(), ["held"]);
    assert!(seen.first().starts_with("worker w has it; its handler is not known to have begun"));
    seen.job.has_begun = true;
    seen.job.cancel_requested = true;
    assert_eq!(seen.names(), ["held", "cancel_requested"]);
    assert!(seen.first().starts_with("worker w runs it, since 2029-12-31T23:59:59"), "{}", seen.first());
    assert!(seen.first().ends_with("progress \"half\""), "{}", seen.first());

    seen.job.cancel_requested = false;
    seen.leases[0].is_lost = true;
    assert_eq!(seen.names(), ["lease_lost"]);
    let remedy = |seen: &Seen| explain(seen).remove(0).remedy.unwrap();
    assert!(remedy(&seen).starts_with("start any worker"), "{}", remedy(&seen));
    seen.leases.push(LeaseRecord { worker: "v".into(), ..lease(&["other"], &["k"]) });
    assert!(remedy(&seen).contains("open transaction"), "{}", remedy(&seen));
    seen.is_lost = true;
    assert!(seen.first().ends_with("any of v (has 1 jobs) takes it back within seconds"), "{}", seen.first());
    seen.leases.clear();
    assert_eq!(seen.names(), ["lease_lost"], "a worker without a lease");
}

#[test]
fn an_end_says_what_a_retry_would_do() {
    let mut dead = seen(State::Dead);
    dead.job.attempts = vec![attempt(Some(Ending::FailedForGood), Some("no such user"))];
    let remedy = |seen: &Seen| explain(seen).remove(0).remedy.unwrap();
    for reason in Reason::ALL {
        dead.job.reason = Some(reason);
        assert_eq!(dead.names(), ["dead"], "{reason}");
        assert!(dead.first().contains("; last error: no such user; kept until 2030-"), "{}", dead.first());
    }
    dead.job.reason = Some(Reason::Expired);
    assert!(remedy(&dead).ends_with("it begins anew, with 25 attempts, and no expiry"), "{}", remedy(&dead));
    let holder = JobId::new();
    dead.holder = Some(holder);
    assert!(remedy(&dead).starts_with(&format!("job {holder} holds its unique key")));
    let mut cancelled = seen(State::Cancelled);
    cancelled.job.reason = Some(Reason::Discarded);
    assert!(cancelled.first().contains("its handler found it no longer wanted"));
    assert_eq!(explain(&seen(State::Completed))[0].remedy, None);
}
