//! Causes in words, with what can be done about them. Stored text is quoted as it is, on one line and cut; what prints it
//! makes it harmless.

use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::outcome::{Ending, Reason};
use windlass_core::{JobId, JobRecord, Name};

use super::Cause;
use super::why::{Paused, Why, WorkerSeen};

/// How many characters of an error are quoted, how many workers or jobs are named, and how many names of each.
const QUOTED_MAX: usize = 200;
const NAMED_MAX: usize = 5;

impl Why {
    /// The cause with its words.
    pub(super) fn said(self, job: &JobRecord, now: Timestamp) -> Cause {
        let sentence = match job.state.is_waiting() {
            true => self.of_waiting(job, now),
            false => self.of_others(job, now),
        };
        let remedy = self.remedy(job);
        Cause { why: self, sentence, remedy }
    }

    fn of_waiting(&self, job: &JobRecord, now: Timestamp) -> String {
        let queue = &job.queue;
        match self {
            Self::NotDue { due_at } => format!("it is not due until {}", ahead(*due_at, now)),
            Self::Retry { due_at, attempt, attempts_max, ending, error } => {
                let at = ahead(*due_at, now);
                let why = error.as_ref().map(|error| format!(": {}", quoted(error))).unwrap_or_default();
                match ending {
                    Some(Ending::Snoozed) => format!("its handler asked to come back later, at {at}"),
                    Some(ending) => {
                        format!(
                            "it is tried again at {at}; attempt {attempt} of {attempts_max} {}{why}",
                            ended(*ending)
                        )
                    }
                    None => {
                        format!("it is tried again at {at}, after attempt {attempt} of {attempts_max}{why}")
                    }
                }
            }
            Self::Overdue { due_at } => {
                format!(
                    "its time came {}, and no worker has asked queue {queue} for jobs since",
                    behind(*due_at, now)
                )
            }
            Self::Expired { expires_at } => {
                let at = behind(*expires_at, now);
                format!(
                    "it was to start before {at}: the next claim or sweep makes it dead, with reason expired"
                )
            }
            Self::NoWorker { others } if others.is_empty() => {
                format!("no worker serves queue {queue}, and the store knows none at all")
            }
            Self::NoWorker { others } => {
                let others = others.iter().map(|worker| match worker.is_lost {
                    true => format!("{}: lost", worker.worker),
                    false => format!("{}: {}", worker.worker, names(&worker.queues)),
                });
                format!("no living worker serves queue {queue}; the store knows {}", listed(others, 0))
            }
            Self::NoHandler { workers } => {
                let workers =
                    workers.iter().map(|worker| format!("{}: {}", worker.worker, names(&worker.kinds)));
                format!(
                    "workers serve queue {queue}, and none has a handler for kind {}; they run {}",
                    job.kind,
                    listed(workers, 0)
                )
            }
            Self::StalledBefore { stalls, stalls_max } => format!(
                "{stalls} of its attempts were lost with their worker (it survives {stalls_max}): a worker starts one such job at a time"
            ),
            Self::Behind { at_least, at_most, keys, estimate, workers } => {
                in_line(job, (*at_least, *at_most), *keys, *estimate, workers)
            }
            Self::Blocked { flow, by } => by.sentence(flow.as_ref()),
            Self::Ready { workers } if workers.is_empty() => {
                "nothing is seen that keeps it: a worker should take it with its next claim".to_owned()
            }
            Self::Ready { workers } => {
                format!(
                    "nothing keeps it: a worker should take it with its next claim, of {}",
                    serving(workers)
                )
            }
            other => other.of_queue(job, now),
        }
    }

    /// What the definition of a queue says, or a flow that it has added.
    fn of_queue(&self, job: &JobRecord, now: Timestamp) -> String {
        let queue = &job.queue;
        match self {
            Self::Gathers { flow, ended, jobs } => {
                format!("it waits for jobs that it has added, {}: {ended} of {jobs} have ended", flow.said())
            }
            Self::Paused { what, name, by, why, until } => paused(*what, name, by, why, *until, now),
            Self::KeyConcurrency { key, most, running } => {
                let ids = listed(running.iter().map(JobId::to_string), 0);
                format!(
                    "as many jobs of key {key} run as may, {most}: it waits until one of them ends ({ids})"
                )
            }
            Self::KeyRate { key, jobs, per, until } => format!(
                "key {key} may start {jobs} jobs in {}, and has{}",
                span(*per),
                until
                    .map(|until| format!(": the next may start at {}", ahead(until, now)))
                    .unwrap_or_default()
            ),
            Self::QueueConcurrency { most, running } => {
                format!(
                    "{running} jobs of queue {queue} run, and {most} may: it waits until one of them ends"
                )
            }
            Self::QueueRate { jobs, per, until } => format!(
                "queue {queue} may start {jobs} jobs in {}, and has{}",
                span(*per),
                until
                    .map(|until| format!(": the next may start at {}", ahead(until, now)))
                    .unwrap_or_default()
            ),
            Self::UnknownRules { rules, known } => format!(
                "queue {queue} uses rule {rules}, and this program knows up to {known}: programs of this version take no job there"
            ),
            Self::Definition { problem } => {
                format!("queue {queue} cannot be asked, or its definition does not read: {}", quoted(problem))
            }
            other => other.of_others(job, now),
        }
    }

    /// What is said of jobs that a worker has, or that have ended.
    fn of_others(&self, job: &JobRecord, now: Timestamp) -> String {
        match self {
            Self::Held { worker, since, lease_expires_at, has_begun, progress, timeout } => {
                let mut said = match has_begun {
                    true => format!("worker {} runs it", quoted(worker)),
                    false => {
                        format!("worker {} has it; its handler is not known to have begun", quoted(worker))
                    }
                };
                said += &since.map(|since| format!(", since {}", behind(since, now))).unwrap_or_default();
                said += &lease_expires_at
                    .map(|at| format!("; the lease lives until {at} and is renewed"))
                    .unwrap_or_default();
                let timeout = timeout.map_or_else(|| "as the worker says".to_owned(), span);
                said += &format!("; timeout {timeout}; attempt {}", job.counters.attempt);
                said + &progress
                    .as_ref()
                    .map(|text| format!("; progress {}", quoted(text)))
                    .unwrap_or_default()
            }
            Self::CancelRequested => {
                "it was asked to stop; its worker hears of that with its next renewal".to_owned()
            }
            Self::LeaseLost { worker, expired_at, can_be_taken_back, workers } => {
                let at = expired_at.map(|at| format!(", {}", behind(at, now))).unwrap_or_default();
                let then = match (can_be_taken_back, workers.is_empty()) {
                    (_, true) => "no living worker is there to take it back".to_owned(),
                    (true, false) => format!("any of {} takes it back within seconds", serving(workers)),
                    (false, false) => {
                        "it cannot be taken back at present: its row is locked, or it just ends".to_owned()
                    }
                };
                format!("worker {} had it, and its lease has run out{at}; {then}", quoted(worker))
            }
            Self::Completed { at, worker, attempt, kept_until } => format!(
                "it completed{}{} with attempt {attempt}{}",
                at.map(|at| format!(" {}", behind(at, now))).unwrap_or_default(),
                worker.as_ref().map(|worker| format!(" on worker {}", quoted(worker))).unwrap_or_default(),
                kept(*kept_until)
            ),
            Self::Dead { reason, at, attempt, attempts_max, stalls, error, kept_until, .. } => {
                let why = match reason {
                    Some(Reason::AttemptsExhausted) => format!("all of its {attempts_max} attempts failed"),
                    Some(Reason::Permanent) => format!("attempt {attempt} of {attempts_max} failed for good"),
                    Some(Reason::Ambiguous) => "too many attempts ended with an unknown effect".to_owned(),
                    Some(Reason::Stalled) => format!("{stalls} of its attempts were lost with their worker"),
                    Some(Reason::Expired) => "it did not start before its expiry".to_owned(),
                    Some(Reason::Unreadable) => "what is stored of it does not read".to_owned(),
                    other => format!("reason {}", other.map_or("unknown", Reason::as_str)),
                };
                let at = at.map(|at| format!(" since {}", behind(at, now))).unwrap_or_default();
                let error = error
                    .as_ref()
                    .map(|error| format!("; last error: {}", quoted(error)))
                    .unwrap_or_default();
                format!("it is dead{at}: {why}{error}{}", kept(*kept_until))
            }
            Self::Cancelled { reason, at, error, kept_until, .. } => {
                let why = match reason {
                    Some(Reason::Discarded) => "its handler found it no longer wanted",
                    _ => "a caller asked for it",
                };
                let at = at.map(|at| format!(" {}", behind(at, now))).unwrap_or_default();
                let error = error.as_ref().map(|error| format!(": {}", quoted(error))).unwrap_or_default();
                format!("it was cancelled{at}; {why}{error}{}", kept(*kept_until))
            }
            Self::Unreadable { problem, .. } => format!("this program cannot read it: {}", quoted(problem)),
            // What only waiting jobs have.
            other => other.name().to_owned(),
        }
    }
}

fn paused(
    what: Paused,
    name: &Name,
    by: &str,
    why: &str,
    until: Option<Timestamp>,
    now: Timestamp,
) -> String {
    let what = match what {
        Paused::Queue => "queue",
        Paused::Kind => "kind",
        Paused::Key => "key",
    };
    let by = if by.is_empty() { String::new() } else { format!(" by {}", quoted(by)) };
    let why = if why.is_empty() { String::new() } else { format!(" ({})", quoted(why)) };
    let until =
        until.map_or_else(|| "until it is resumed".to_owned(), |at| format!("until {}", ahead(at, now)));
    format!("{what} {name} is paused{by}{why}, {until}")
}

fn in_line(
    job: &JobRecord,
    (least, most): (u64, u64),
    keys: u64,
    estimate: Option<Duration>,
    workers: &[WorkerSeen],
) -> String {
    let count = match (least, most) {
        _ if least == most => format!("{least} jobs"),
        (0, _) => format!("up to {most} jobs"),
        _ => format!("at least {least} jobs, at most {most}"),
    };
    let line = job.key.as_ref().map_or_else(|| format!("queue {}", job.queue), |key| format!("key {key}"));
    let turns = match keys {
        0 => String::new(),
        _ => format!(", and takes turns with {keys} other keys"),
    };
    let about = if least == most { "about" } else { "at least" };
    let time = estimate.map(|time| format!("; at the pace of late that takes {about} {}", span(time)));
    let by = if workers.is_empty() { String::new() } else { format!("; {} may take it", serving(workers)) };
    format!("{count} of {line} come before it{turns}{}{by}", time.unwrap_or_default())
}

fn ended(ending: Ending) -> &'static str {
    match ending {
        Ending::Panicked => "panicked",
        Ending::TimedOut => "timed out",
        Ending::Ambiguous => "ended with an unknown effect",
        Ending::Stalled => "was lost with its worker",
        Ending::Returned => "was given back",
        Ending::Undecodable => "could not be decoded",
        _ => "failed",
    }
}

fn kept(until: Option<Timestamp>) -> String {
    until.map(|until| format!("; kept until {until}")).unwrap_or_default()
}

fn serving(workers: &[WorkerSeen]) -> String {
    listed(workers.iter().map(|worker| format!("{} (has {} jobs)", worker.worker, worker.running)), 0)
}

fn names(names: &[Name]) -> String {
    if names.is_empty() { "none".to_owned() } else { listed(names.iter().map(Name::to_string), 0) }
}

/// The first of all, and how many more there are, with those that are not among all.
pub(super) fn listed(all: impl ExactSizeIterator<Item = String>, others: u64) -> String {
    let more = all.len().saturating_sub(NAMED_MAX) as u64 + others;
    let mut shown: Vec<String> = all.take(NAMED_MAX).map(|text| quoted(&text)).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    shown.join(", ")
}

/// Stored text on one line, and not all of it.
pub(super) fn quoted(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(QUOTED_MAX).collect();
    if cut.len() < text.trim_end().len() { format!("{cut}…") } else { cut }
}

fn ahead(at: Timestamp, now: Timestamp) -> String {
    format!("{at} (in {})", span(at.since(now)))
}

fn behind(at: Timestamp, now: Timestamp) -> String {
    format!("{at} ({} ago)", span(now.since(at)))
}

/// A span with its two largest units.
fn span(span: Duration) -> String {
    const UNITS: [(u128, &str); 5] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let mut millis = span.as_millis();
    let first = UNITS.iter().position(|(size, _)| millis >= *size).unwrap_or(UNITS.len() - 1);
    // Beside whole seconds milliseconds do not matter.
    let last = if first < UNITS.len() - 1 { UNITS.len() - 1 } else { UNITS.len() };
    let mut parts = Vec::new();
    for (size, unit) in &UNITS[first..last.min(first + 2)] {
        if millis >= *size || parts.is_empty() {
            parts.push(format!("{}{unit}", millis / size));
        }
        millis %= size;
    }
    parts.join(" ")
}
