//! Queues: whether their definitions read, who serves them, what waits too long, and whether counts say what rows say.

use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::forms::{coarse, short};
use windlass_core::queue::{Counts, QueueRecord};
use windlass_core::store::serves::KINDS_KEPT;
use windlass_core::store::{Finding, LeaseRecord};
use windlass_core::{Name, State};

use super::rows::Rows;
use super::store::LEASES_MAX;
use crate::client::Client;
use crate::error::Result;

/// Queues that are looked at, by name.
const QUEUES_MAX: u32 = 100;
/// Jobs whose time came longer ago than this should have started, or be ready at least.
const OVERDUE_MAX: Duration = Duration::from_secs(60);
/// A job that waits longer than this is told.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

pub(super) async fn examine(client: &Client, leases: &[LeaseRecord], now: Timestamp) -> Result<Vec<Finding>> {
    let queues = client.queues(None, QUEUES_MAX).await?;
    let mut findings = Vec::new();
    for queue in &queues {
        let rows = Rows::of(client, queue, now).await?;
        let rules = client.queue(&queue.name)?.unknown_rule().await;
        let before = findings.len();
        findings.extend(definition(queue, rules, now));
        findings.extend(served(queue, &rows, leases, now));
        findings.extend(waits(queue, &rows, now));
        findings.extend(jobs(queue, &rows));
        findings.extend(records(client, &queue.name).await?);
        if findings.len() == before {
            findings.push(Finding::ok(subject(queue), format!("holds {}", held(&queue.counts))));
        }
    }
    if queues.is_empty() {
        findings.push(Finding::ok("queues", "there are none"));
    } else if queues.len() >= QUEUES_MAX as usize {
        let what = format!("only the first {QUEUES_MAX} were looked at");
        findings.push(Finding::ok("queues", what));
    }
    Ok(findings)
}

fn subject(queue: &QueueRecord) -> String {
    format!("queue {}", queue.name)
}

/// How many jobs are in each state, of those that have any.
fn held(counts: &Counts) -> String {
    let held = State::ALL.into_iter().map(|state| (state, counts.of(state))).filter(|(_, count)| *count > 0);
    let held: Vec<String> = held.map(|(state, count)| format!("{count} {state}")).collect();
    if held.is_empty() { "no jobs".to_owned() } else { held.join(", ") }
}

/// What is wrong with a definition, and what it keeps from starting.
fn definition(queue: &QueueRecord, rules: Option<(u32, u32)>, now: Timestamp) -> Vec<Finding> {
    let (subject, name) = (subject(queue), &queue.name);
    let mut findings = Vec::new();
    if let Some(why) = &queue.unreadable {
        let remedy =
            format!("see that its server is there; windlass queues define {name} --reset replaces it");
        findings.push(Finding::problem(&subject, format!("its definition does not read: {why}"), remedy));
    }
    if let Some((rules, known)) = rules {
        let what = format!("it uses rule {rules}, and this program knows up to {known}");
        findings.push(Finding::problem(&subject, what, "upgrade: programs of this version leave it alone"));
    }
    let pauses = &queue.config.pauses;
    let kinds = pauses
        .kinds
        .iter()
        .map(|(kind, pause)| (format!("kind {kind} is"), format!(" --kind {kind}"), pause));
    let keys =
        pauses.keys.iter().map(|(key, pause)| (format!("key {key} is"), format!(" --key {key}"), pause));
    let whole = pauses.queue.iter().map(|pause| ("it is".to_owned(), String::new(), pause));
    for (what, option, pause) in whole.chain(kinds).chain(keys).filter(|(.., pause)| pause.holds(now)) {
        let by = if pause.by.is_empty() { String::new() } else { format!(" by {}", pause.by) };
        let why = if pause.why.is_empty() { String::new() } else { format!(" ({})", pause.why) };
        let until = match pause.until {
            Some(until) => format!("for {} more", short(coarse(until.since(now)))),
            None => "until it is resumed".to_owned(),
        };
        let what = format!("{what} paused{by}{why}, {until}");
        findings.push(match pause.until {
            Some(_) => Finding::ok(&subject, what),
            None => Finding::warning(&subject, what, format!("windlass queues resume {name}{option}")),
        });
    }
    findings
}

/// Jobs that no living worker can take.
fn served(queue: &QueueRecord, rows: &Rows, leases: &[LeaseRecord], now: Timestamp) -> Vec<Finding> {
    let (subject, name) = (subject(queue), &queue.name);
    let is_paused = queue.config.pauses.queue.as_ref().is_some_and(|pause| pause.holds(now));
    // With more leases than were read, another worker may serve it.
    if is_paused || leases.len() >= LEASES_MAX as usize {
        return Vec::new();
    }
    let serving: Vec<&LeaseRecord> =
        leases.iter().filter(|lease| !lease.is_lost && lease.queues.contains(name)).collect();
    let waiting = queue.counts.of(State::Ready) + rows.overdue;
    if serving.is_empty() {
        let what = format!("{waiting} jobs could start, and no living worker serves it");
        let remedy = format!("start a worker that serves queue {name}");
        return if waiting == 0 { Vec::new() } else { vec![Finding::problem(subject, what, remedy)] };
    }
    let runs = |lease: &&LeaseRecord, kind: &Name| {
        lease.kinds.is_empty() || lease.kinds.len() >= KINDS_KEPT || lease.kinds.contains(kind)
    };
    let strange = rows.kinds.iter().filter(|(kind, _)| !serving.iter().any(|lease| runs(lease, kind)));
    strange
        .map(|(kind, count)| {
            let what =
                format!("{count} ready jobs of kind {kind}, and no worker that serves it has a handler");
            Finding::problem(&subject, what, format!("add a handler for {kind} to a worker of queue {name}"))
        })
        .collect()
}

/// What waits for longer than it should.
fn waits(queue: &QueueRecord, rows: &Rows, now: Timestamp) -> Option<Finding> {
    let subject = subject(queue);
    let span = |since: Timestamp| short(coarse(now.since(since)));
    if let Some(since) = rows.overdue_since.filter(|since| now.since(*since) > OVERDUE_MAX) {
        let what = format!("{} scheduled jobs are overdue, for {} at most", rows.overdue, span(since));
        return Some(Finding::problem(subject, what, "start a worker of this store: it makes them ready"));
    }
    let oldest = rows.oldest.filter(|oldest| now.since(*oldest) > WAIT_MAX)?;
    let remedy = format!("windlass queues show {}, and windlass explain ID for one of them", queue.name);
    Some(Finding::warning(subject, format!("the oldest job waits since {}", span(oldest)), remedy))
}

/// What is wrong with jobs.
fn jobs(queue: &QueueRecord, rows: &Rows) -> Vec<Finding> {
    let (subject, name) = (subject(queue), &queue.name);
    let mut findings = Vec::new();
    if !rows.has_more && !rows.is_moving && rows.seen != queue.counts {
        let what = format!("it counts {}, and has {}", held(&queue.counts), held(&rows.seen));
        findings.push(Finding::problem(&subject, what, "report this: counts move with every job"));
    }
    if let Some((id, why)) = &rows.unreadable {
        let what = format!("{} jobs do not read, one of them {id}: {why}", rows.broken + rows.newer);
        findings.push(match rows.broken {
            0 => Finding::warning(&subject, what, "run workers of the version that wrote them"),
            _ => Finding::problem(&subject, what, "enqueue them again from their source, and delete them"),
        });
    }
    if rows.stalled + rows.dead_of_stalls > 0 {
        let what = format!(
            "{} jobs were lost with a worker and go on, {} died of it",
            rows.stalled, rows.dead_of_stalls
        );
        let remedy =
            format!("windlass jobs list --queue {name} --state dead; jobs show ID names the workers");
        findings.push(Finding::warning(&subject, what, remedy));
    }
    findings
}

/// How much a queue remembers; told where there is anything.
async fn records(client: &Client, queue: &Name) -> Result<Option<Finding>> {
    let Some(records) = client.store().records() else { return Ok(None) };
    let totals = records.totals(queue).await?;
    if totals.count == 0 {
        return Ok(None);
    }
    let more = if totals.has_more { "at least " } else { "" };
    let what = format!("{more}{} records with {more}{} bytes", totals.count, totals.bytes);
    let subject = format!("records of {queue}");
    Ok(Some(match totals.has_more {
        true => {
            Finding::warning(subject, what, "give records an expiry, or remove those that are not needed")
        }
        false => Finding::ok(subject, what),
    }))
}
