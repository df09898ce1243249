//! `queues`: what queues hold, how long jobs wait in them, which workers serve them, and defining them.

pub(crate) mod look;
mod pause;
mod show;
mod stats;

use std::collections::BTreeMap;

use comfy_table::{Attribute, Cell, CellAlignment, Color};
use serde::Serialize;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{
    Counts, JobDefaults, Keep, KeyRules, QueueConfig, QueueRecord, Removed, Retention,
};
use windlass_core::{Name, State};

pub(crate) use self::look::Look;
use crate::args::{DefineArgs, QueuesArgs, QueuesCommand, RemoveArgs, parse};
use crate::command::known;
use crate::exit::{Exit, Fault};
use crate::output::json::QueueJson;
use crate::output::{cell, keep_whole, number, text};
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Page<'a> {
    queues: Vec<QueueJson<'a>>,
}

pub(crate) async fn run(session: &mut Session, args: QueuesArgs) -> anyhow::Result<Exit> {
    match args.command {
        None | Some(QueuesCommand::List) => list(session).await,
        Some(QueuesCommand::Show(args)) => show::run(session, &args).await,
        Some(QueuesCommand::Stats(args)) => stats::run(session, &args).await,
        Some(QueuesCommand::Define(args)) => define(session, &args).await,
        Some(QueuesCommand::Pause(args)) => pause::pause(session, args).await,
        Some(QueuesCommand::Resume(args)) => pause::resume(session, &args).await,
        Some(QueuesCommand::Remove(args)) => remove(session, &args).await,
    }
}

async fn list(session: &mut Session) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let queues = known::queues(&client).await?;
    let looks = look::at_all(&client, &queues).await?;
    let seen: Vec<(&QueueRecord, Look)> = queues.iter().zip(looks).collect();
    if session.output.is_json() {
        let queues = seen.iter().map(|(queue, look)| QueueJson::seen(queue, look)).collect();
        session.output.json(&Page { queues })?;
    } else if queues.is_empty() {
        session.note("no queues");
    } else {
        print(session, &seen, client.store().now().await?)?;
        let unserved = seen.iter().filter(|(queue, look)| look.lacks_workers(queue));
        let unserved: Vec<&str> = unserved.map(|(queue, _)| queue.name.as_str()).collect();
        if !unserved.is_empty() {
            session.note(&format!("no worker serves {}: jobs wait there", unserved.join(", ")));
        }
    }
    Ok(Exit::Done)
}

fn print(session: &mut Session, queues: &[(&QueueRecord, Look)], now: Timestamp) -> anyhow::Result<()> {
    let titles: Vec<String> = State::ALL.iter().map(|state| state.as_str().to_uppercase()).collect();
    let mut header = vec!["QUEUE"];
    header.extend(titles.iter().map(String::as_str));
    header.extend(["OLDEST", "OVERDUE", "WORKERS"]);
    // Most queues keep what the defaults say, which is not worth a column.
    let has_keeps = queues.iter().any(|(queue, _)| keeps(queue).is_some());
    let has_rules = queues.iter().any(|(queue, _)| queue.config.rules() > 0);
    header.extend(has_rules.then_some("RULES"));
    header.extend(has_keeps.then_some("KEEPS"));
    let mut table = session.output.new_table(&header);
    for (queue, look) in queues {
        let mut row = vec![cell(&queue.name)];
        row.extend(State::ALL.into_iter().map(|state| number(queue.counts.of(state))));
        row.push(cell(look.oldest()).set_alignment(CellAlignment::Right));
        row.push(match look.backlog.overdue {
            0 if !look.backlog.has_more_scheduled => number(0),
            _ => cell(look.overdue()).set_alignment(CellAlignment::Right).fg(Color::Yellow),
        });
        row.push(match look.workers.is_empty() {
            true if look.lacks_workers(queue) => {
                Cell::new("none").fg(Color::Red).add_attribute(Attribute::Bold)
            }
            true => Cell::new("none").add_attribute(Attribute::Dim),
            false => cell(look.workers()),
        });
        row.extend(has_rules.then(|| cell(rules(queue, now))));
        row.extend(has_keeps.then(|| cell(keeps(queue).unwrap_or_default())));
        table.add_row(row);
    }
    keep_whole(&mut table, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    Ok(session.output.table(table)?)
}

/// What a queue hands out, where that is not everything.
fn rules(queue: &QueueRecord, now: Timestamp) -> String {
    if queue.config.rules() > 0 { text::rules(&queue.config, now) } else { String::new() }
}

/// What a queue keeps, where that is not the default.
fn keeps(queue: &QueueRecord) -> Option<String> {
    match &queue.unreadable {
        Some(why) => Some(format!("everything: its definition does not read: {why}")),
        None if queue.config.retention == Retention::default() => None,
        None => Some(text::retention(&queue.config.retention)),
    }
}

async fn define(session: &mut Session, args: &DefineArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Create).await?;
    let handle = client.queue(&args.queue)?;
    if args.reset {
        handle.define(&changed(QueueConfig::default(), args)).await?;
    } else {
        // Defining a queue as it is makes it one that is there.
        let config = handle.change(|config| *config = changed(std::mem::take(config), args)).await?;
        if handle.record().await?.is_none() {
            // Another program that defines it meanwhile is not undone.
            client.store().redefine(&args.queue, &config, &config).await?;
        }
    }
    match handle.record().await? {
        Some(queue) if session.output.is_json() => session.output.json(&QueueJson::of(&queue))?,
        Some(queue) => show::definition(session, &queue, client.store().now().await?)?,
        None => session.note("the queue holds nothing and has no definition"),
    }
    Ok(Exit::Done)
}

#[derive(Debug, Serialize)]
struct RemovedJson<'a> {
    name: &'a Name,
    removed: bool,
    counts: BTreeMap<&'static str, u64>,
}

/// A queue that only a worker knows has nothing to remove; one that nothing knows is a slip.
async fn remove(session: &mut Session, args: &RemoveArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let queue = &args.queue;
    let removed = client.queue(queue)?.remove().await?;
    if removed == Removed::Missing {
        known::check_queue(&client, queue).await?;
    }
    let counts = if let Removed::NotEmpty(counts) = removed { counts } else { Counts::default() };
    let is_refused = removed == Removed::NotEmpty(counts);
    if session.output.is_json() {
        let removed = removed == Removed::Done;
        session.output.json(&RemovedJson {
            name: queue,
            removed,
            counts: text::by_state(&counts).collect(),
        })?;
    } else if is_refused {
        return Err(Fault::failed(still_holds(queue, &counts)).into());
    } else if removed == Removed::Missing {
        session.note(&format!("queue {queue} has no definition and holds no jobs: nothing to remove"));
    } else {
        session.output.line(format_args!("{queue} removed"))?;
    }
    Ok(if is_refused { Exit::Failed } else { Exit::Done })
}

fn still_holds(queue: &Name, counts: &Counts) -> String {
    let held = text::by_state(counts).filter(|(_, count)| *count > 0);
    let held: Vec<String> = held.map(|(state, count)| format!("{count} {state}")).collect();
    let noun = if counts.total() == 1 { "job" } else { "jobs" };
    format!(
        "queue {queue} holds {} {noun} ({}): only an empty queue is removed, see windlass jobs delete --queue {queue}",
        counts.total(),
        held.join(", ")
    )
}

/// The definition with what was given put in.
fn changed(mut config: QueueConfig, args: &DefineArgs) -> QueueConfig {
    let set = |keep: &mut Keep, age: Option<parse::Age>, count: Option<parse::Count>| {
        if let Some(age) = age {
            keep.age = age.0;
        }
        if let Some(count) = count {
            keep.count = count.0;
        }
    };
    let retention = &mut config.retention;
    set(&mut retention.completed, args.keep_completed, args.keep_completed_count);
    set(&mut retention.dead, args.keep_dead, args.keep_dead_count);
    set(&mut retention.cancelled, args.keep_cancelled, args.keep_cancelled_count);
    let caps = &mut config.caps;
    for (cap, given) in [
        (&mut caps.payload, args.payload_cap),
        (&mut caps.output, args.output_cap),
        (&mut caps.error, args.error_cap),
    ] {
        if let Some(given) = given {
            *cap = given;
        }
    }
    if let Some(parse::Concurrency(concurrency)) = args.concurrency {
        config.concurrency = concurrency;
    }
    if let Some(parse::RateLimit(rate)) = args.rate {
        config.rate = rate.map(|rate| rate.shape(args.rate_shape.unwrap_or_default()));
    }
    changed_keys(&mut config, args);
    changed_defaults(&mut config.defaults, args);
    if let Some(parse::Aging(aging)) = args.aging {
        config.aging = aging;
    }
    if let Some(parse::Capacity(capacity)) = args.capacity {
        config.capacity = capacity;
    }
    config.masked = args.masked.unwrap_or(config.masked);
    config
}

/// What was given for jobs that say nothing themselves put in.
fn changed_defaults(defaults: &mut JobDefaults, args: &DefineArgs) {
    if args.default_attempts.is_some() || args.default_backoff.is_some() {
        let before = defaults.retry.take().unwrap_or_default();
        let attempts = args.default_attempts.unwrap_or(before.attempts_max());
        defaults.retry = Some(match args.default_backoff {
            Some(backoff) => backoff.policy(attempts),
            None => before.attempts(attempts),
        });
    }
    defaults.timeout = args.default_timeout.or(defaults.timeout);
    defaults.priority = args.default_priority.or(defaults.priority);
    if let Some(parse::Forward(queue)) = &args.default_forward_dead {
        defaults.forward_dead = queue.clone();
    }
}

/// What was given about keys put in. A queue has rules for keys from the first of these on.
fn changed_keys(config: &mut QueueConfig, args: &DefineArgs) {
    if args.per_key_concurrency.is_none() && args.per_key_rate.is_none() && args.weights.is_empty() {
        return;
    }
    let keys = config.keys.get_or_insert_with(KeyRules::default);
    if let Some(parse::Concurrency(concurrency)) = args.per_key_concurrency {
        keys.concurrency = concurrency;
    }
    if let Some(parse::RateLimit(rate)) = args.per_key_rate {
        keys.rate = rate.map(|rate| rate.shape(args.per_key_rate_shape.unwrap_or_default()));
    }
    for (key, weight) in &args.weights {
        match weight {
            1 => keys.weights.remove(key),
            _ => keys.weights.insert(key.clone(), *weight),
        };
    }
}
