//! What was read, turned into causes. Asks nothing and reads no clock.

use windlass_core::clock::Timestamp;
use windlass_core::job::Unreadable;
use windlass_core::queue::{Pause, Permits, Rate, Spent};
use windlass_core::size::bounded_text;
use windlass_core::store::LeaseRecord;
use windlass_core::{JobRecord, State};

use super::look::{LEASES_MAX, Seen, runs};
use super::why::{Paused, Why, WorkerSeen};
use super::{Cause, blocked};

/// How many workers, or jobs of a key, a cause names.
const NAMED_MAX: usize = 20;
/// How many bytes of progress a cause has.
const PROGRESS_MAX: usize = 200;

/// Why a job is where it is; what weighs most first. Never empty.
pub(super) fn explain(seen: &Seen) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(unreadable) = &seen.job.unreadable {
        let is_newer = matches!(unreadable, Unreadable::Newer { .. });
        causes.push(Why::Unreadable { problem: unreadable.to_string(), is_newer });
    }
    match seen.job.state {
        State::Blocked => causes.push(blocked::why(&seen.job, seen.flow.as_ref())),
        State::Scheduled | State::Ready => waiting(seen, &mut causes),
        State::Running => running(seen, &mut causes),
        State::Completed | State::Dead | State::Cancelled => causes.push(ended(seen)),
    }
    causes.into_iter().map(|why| why.said(&seen.job, seen.now)).collect()
}

fn waiting(seen: &Seen, causes: &mut Vec<Why>) {
    let Seen { job, now, .. } = seen;
    let is_due = job.state == State::Ready || job.due_at <= *now;
    if job.state == State::Scheduled {
        causes.push(match &seen.gathered {
            Some((flow, tally)) => {
                Why::Gathers { flow: flow.clone(), ended: tally.ended(), jobs: tally.jobs }
            }
            None => scheduled(job, *now),
        });
    }
    // An attempt that was given back did not start it.
    if let Some(expires_at) = job.expires_at.filter(|at| at <= now && job.counters.attempt == 0) {
        causes.push(Why::Expired { expires_at });
    }
    // What only holds for as long as the job waits for its time does not matter to it.
    let from = if is_due { *now } else { job.due_at };
    pauses(seen, from, causes);
    if let Some((rules, known)) = seen.unknown_rule {
        causes.push(Why::UnknownRules { rules, known });
    }
    if let Some(problem) = seen.queue.as_ref().and_then(|queue| queue.unreadable.clone()) {
        causes.push(Why::Definition { problem });
    }
    workers(seen, causes);
    if !is_due {
        return;
    }
    limits(seen, causes);
    if job.counters.stalls > 0 {
        causes.push(Why::StalledBefore { stalls: job.counters.stalls, stalls_max: job.spec.stalls_max });
    }
    let may_take = || named(seen.serving().filter(|lease| runs(lease, &job.kind)));
    let is_bound = causes.iter().any(Why::binds);
    match behind(seen, may_take()) {
        Some(behind) => causes.push(behind),
        None if !is_bound => causes.push(Why::Ready { workers: may_take() }),
        None => {}
    }
}

/// Why a scheduled job waits.
fn scheduled(job: &JobRecord, now: Timestamp) -> Why {
    let due_at = job.due_at;
    if due_at <= now {
        return Why::Overdue { due_at };
    }
    match job.attempts.last() {
        None if job.counters.attempt == 0 => Why::NotDue { due_at },
        last => Why::Retry {
            due_at,
            attempt: job.counters.attempt,
            attempts_max: job.spec.retry.attempts_max(),
            ending: last.and_then(|attempt| attempt.ending),
            error: job.last_error().map(str::to_owned),
        },
    }
}

fn pauses(seen: &Seen, from: Timestamp, causes: &mut Vec<Why>) {
    let (job, pauses) = (&seen.job, seen.config().pauses);
    let found = [
        (Paused::Queue, Some(&job.queue), pauses.queue.as_ref()),
        (Paused::Kind, Some(&job.kind), pauses.kinds.get(&job.kind)),
        (Paused::Key, job.key.as_ref(), job.key.as_ref().and_then(|key| pauses.keys.get(key))),
    ];
    for (what, name, pause) in found {
        if let (Some(name), Some(pause)) = (name, pause.filter(|pause| pause.holds(from))) {
            let Pause { by, why, until } = pause.clone();
            causes.push(Why::Paused { what, name: name.clone(), by, why, until });
        }
    }
}

/// That no worker may take it.
fn workers(seen: &Seen, causes: &mut Vec<Why>) {
    if seen.leases.len() >= LEASES_MAX as usize {
        // There are more, and one of those may.
        return;
    }
    if seen.serving().next().is_none() {
        causes.push(Why::NoWorker { others: named(seen.leases.iter()) });
    } else if !seen.serving().any(|lease| runs(lease, &seen.job.kind)) {
        causes.push(Why::NoHandler { workers: named(seen.serving()) });
    }
}

/// The limits that are reached.
fn limits(seen: &Seen, causes: &mut Vec<Why>) {
    let Some(queue) = &seen.queue else { return };
    let (config, running) = (&queue.config, queue.counts.of(State::Running));
    if let Some(most) = config.concurrency.filter(|most| running >= u64::from(*most)) {
        causes.push(Why::QueueConcurrency { most, running });
    }
    if let (Some(rate), Some(Permits { jobs: 0, more_at })) = (config.rate, queue.permits) {
        causes.push(Why::QueueRate { jobs: rate.jobs, per: rate.per, until: more_at });
    }
    let (Some(key), Some(rules)) = (&seen.job.key, &config.keys) else { return };
    let of_key = seen.key_running.len();
    if let Some(most) = rules.concurrency.filter(|most| of_key >= *most as usize) {
        let running = seen.key_running.iter().take(NAMED_MAX).copied().collect();
        causes.push(Why::KeyConcurrency { key: key.clone(), most, running });
    }
    if let Some(rate) = rules.rate
        && let Permits { jobs: 0, more_at } = permits(&rate, &seen.key_starts, seen.now)
    {
        causes.push(Why::KeyRate { key: key.clone(), jobs: rate.jobs, per: rate.per, until: more_at });
    }
}

/// What a rate permits after jobs have started at these instants, earliest first. Stores do not tell what was spent for a
/// key, but every start spends a permit.
fn permits(rate: &Rate, starts: &[Timestamp], now: Timestamp) -> Permits {
    let mut spent: Vec<Spent> = Vec::new();
    for &at in starts {
        let one = rate.spend(1, spent.iter().copied(), at);
        if one.jobs == 0 {
            spent.clear();
        }
        spent.push(one);
    }
    rate.permits(spent, now)
}

/// That others come first, if so.
fn behind(seen: &Seen, workers: Vec<WorkerSeen>) -> Option<Why> {
    let line = &seen.line;
    let ready = seen.queue.as_ref().map_or(0, |queue| queue.counts.of(State::Ready));
    let own = u64::from(seen.job.state == State::Ready);
    let most = match line.has_more {
        true => ready.saturating_sub(own).saturating_sub(line.others).max(line.ahead),
        false => line.ahead,
    };
    (most > 0).then(|| Why::Behind {
        at_least: line.ahead,
        at_most: most,
        keys: u64::try_from(line.keys.len()).unwrap_or(u64::MAX),
        estimate: seen.pace.map(|pace| pace.saturating_mul(u32::try_from(line.ahead).unwrap_or(u32::MAX))),
        workers,
    })
}

fn running(seen: &Seen, causes: &mut Vec<Why>) {
    let job = &seen.job;
    let attempt = job.running();
    let worker = attempt.map(|attempt| attempt.worker.clone()).unwrap_or_default();
    let since = attempt.map(|attempt| attempt.started_at);
    // A label need not be unique: of several leases the one that was open when the job was claimed, or else a living one.
    let of_worker = |lease: &&LeaseRecord| {
        lease.worker == worker && since.is_none_or(|since| lease.opened_at <= since) && lease.running > 0
    };
    let lease = seen.leases.iter().filter(of_worker).max_by_key(|lease| (!lease.is_lost, lease.expires_at));
    let all_seen = seen.leases.len() < LEASES_MAX as usize;
    let is_lost = seen.is_lost || lease.map_or(all_seen && !worker.is_empty(), |lease| lease.is_lost);
    if is_lost {
        let lost = seen.leases.iter().filter(of_worker).filter(|lease| lease.is_lost);
        let expired_at = lost.map(|lease| lease.expires_at).max();
        causes.push(Why::LeaseLost {
            worker,
            expired_at,
            can_be_taken_back: seen.is_lost,
            workers: named(seen.leases.iter().filter(|lease| !lease.is_lost)),
        });
    } else {
        let progress = job.progress.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        causes.push(Why::Held {
            worker,
            since,
            lease_expires_at: lease.map(|lease| lease.expires_at),
            has_begun: job.has_begun,
            progress: progress.map(|text| bounded_text(&text, PROGRESS_MAX)),
            timeout: job.spec.timeout,
        });
    }
    if job.cancel_requested {
        causes.push(Why::CancelRequested);
    }
}

fn ended(seen: &Seen) -> Why {
    let job = &seen.job;
    let keep = seen.queue.as_ref().and_then(|queue| queue.config.retention.of(job.state));
    let at = job.finished_at;
    let kept_until = at.zip(keep.and_then(|keep| keep.age)).map(|(at, age)| at.plus(age));
    let (error, held_by) = (job.last_error().map(str::to_owned), seen.holder);
    match job.state {
        State::Completed => {
            let last = job.attempts.last();
            let worker = last.map(|attempt| attempt.worker.clone());
            Why::Completed { at, worker, attempt: job.counters.attempt, kept_until }
        }
        State::Cancelled => Why::Cancelled { reason: job.reason, at, error, held_by, kept_until },
        _ => Why::Dead {
            reason: job.reason,
            at,
            attempt: job.counters.attempt,
            attempts_max: job.spec.retry.attempts_max(),
            stalls: job.counters.stalls,
            error,
            held_by,
            kept_until,
        },
    }
}

fn named<'a>(leases: impl Iterator<Item = &'a LeaseRecord>) -> Vec<WorkerSeen> {
    leases.take(NAMED_MAX).map(WorkerSeen::of).collect()
}

impl WorkerSeen {
    fn of(lease: &LeaseRecord) -> Self {
        let LeaseRecord { worker, queues, kinds, running, is_lost, .. } = lease.clone();
        Self { worker, queues, kinds, running, is_lost }
    }
}
