//! `schedules preview` and `simulate`: slots of schedules that are stored, or that are only typed.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use windlass_core::clock::Timestamp;
use windlass_core::schedule::{Recurrence, Simulated, Simulation, Verdict};

use super::found;
use crate::args::{RuleArgs, SchedulePreviewArgs, ScheduleSimulateArgs, SlotArgs};
use crate::exit::{Exit, Fault};
use crate::output::{cell, json, text};
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Slots<T> {
    slots: Vec<T>,
}

#[derive(Debug, Serialize)]
struct SlotJson {
    at: String,
    local: String,
}

#[derive(Debug, Serialize)]
struct SimulatedJson {
    at: String,
    local: String,
    outcome: &'static str,
    starts_at: Option<String>,
    clock_change_seconds: i64,
}

/// A schedule to look at.
struct Chosen {
    recurrence: Recurrence,
    /// How long after its slots its jobs start.
    offset: Duration,
    /// The slot that it waits for, or the next from now if it waits for none yet or is paused; nothing if it has ended.
    next: Option<Timestamp>,
}

async fn choose(
    session: &Session,
    id: Option<&str>,
    slots: &SlotArgs,
    rules: &RuleArgs,
) -> anyhow::Result<Chosen> {
    let Some(id) = id else {
        if !slots.is_given() {
            let why = "say which schedule: its id, or --cron, --every or --at";
            return Err(Fault::usage(why).into());
        }
        let days = days_of(session, &rules.calendars).await?;
        let made = rules.schedule(slots).recurrence_beside(&days);
        let recurrence = made.map_err(|error| Fault::usage(error.to_string()))?;
        // What spreads it is its id, which it does not have.
        let next = recurrence.next_after(SystemTime::now().into());
        return Ok(Chosen { recurrence, offset: Duration::ZERO, next });
    };
    let client = session.open(Access::Existing).await?;
    let view = found(&client, id).await?;
    let recurrence = view.record.recurrence()?;
    let offset = view.record.schedule.start_delay(view.queue.as_str(), id);
    let next = match view.record.is_paused {
        true => recurrence.next_after(client.store().now().await?),
        false => view.record.state.next,
    };
    Ok(Chosen { recurrence, offset, next })
}

/// The days of calendars that were typed.
async fn days_of(session: &Session, names: &[String]) -> anyhow::Result<Vec<String>> {
    let mut days = Vec::new();
    if names.is_empty() {
        return Ok(days);
    }
    let client = session.open(Access::Existing).await?;
    for name in names {
        let found = client.calendar(name).get().await.map_err(|error| Fault::usage(error.to_string()))?;
        let missing =
            || Fault::not_found(format!("there is no calendar {name}: see windlass calendars list"));
        days.extend(found.ok_or_else(missing)?.days);
    }
    Ok(days)
}

pub(super) async fn preview(session: &mut Session, args: &SchedulePreviewArgs) -> anyhow::Result<Exit> {
    let chosen = choose(session, args.id.as_deref(), &args.slots, &args.rules).await?;
    let recurrence = &chosen.recurrence;
    let mut slot = match args.after {
        Some(after) => recurrence.next_after(after.into()),
        None => chosen.next,
    };
    let mut slots = Vec::new();
    while let Some(at) = slot.filter(|_| slots.len() < args.limit as usize) {
        slots.push(at);
        slot = recurrence.next_after(at);
    }
    if session.output.is_json() {
        let shown = slots.iter().map(|&at| SlotJson { at: json::instant(at), local: recurrence.civil(at) });
        session.output.json(&Slots { slots: shown.collect() })?;
        return Ok(Exit::Done);
    }
    if slots.is_empty() {
        session.note("no slots");
        return Ok(Exit::Done);
    }
    let mut table = session.output.new_table(&["SLOT", "LOCAL"]);
    for at in slots {
        table.add_row([cell(at.to_string()), cell(recurrence.civil(at))]);
    }
    session.output.table(table)?;
    Ok(Exit::Done)
}

pub(super) async fn simulate(session: &mut Session, args: &ScheduleSimulateArgs) -> anyhow::Result<Exit> {
    let chosen = choose(session, args.id.as_deref(), &args.slots, &args.rules).await?;
    let from: Timestamp = args.begin.unwrap_or_else(SystemTime::now).into();
    let down = args.down.zip(args.down_for).map(|(down, span)| {
        let down = Timestamp::from(down);
        (down, down.plus(span))
    });
    let what = Simulation {
        from,
        to: from.plus(args.span),
        takes: args.takes.unwrap_or_default(),
        down,
        limit: args.limit as usize,
    };
    let shown = chosen.recurrence.simulate(&what, chosen.offset);
    if session.output.is_json() {
        let slots = shown.iter().map(|slot| simulated_json(&chosen.recurrence, slot)).collect();
        session.output.json(&Slots { slots })?;
        return Ok(Exit::Done);
    }
    if shown.is_empty() {
        session.note("no slots");
        return Ok(Exit::Done);
    }
    let mut table = session.output.new_table(&["SLOT", "LOCAL", "OUTCOME", "STARTS", "CLOCK"]);
    for slot in &shown {
        let (outcome, starts) = verdict(slot);
        let clock = match slot.clock_change {
            0 => String::new(),
            change => {
                let sign = if change < 0 { "back" } else { "forward" };
                format!("{} {sign}", text::duration(Duration::from_secs(change.unsigned_abs())))
            }
        };
        table.add_row([
            cell(slot.slot.to_string()),
            cell(chosen.recurrence.civil(slot.slot)),
            cell(outcome.replace('_', " ")),
            cell(starts.map(|at| at.to_string()).unwrap_or_default()),
            cell(clock),
        ]);
    }
    session.output.table(table)?;
    Ok(Exit::Done)
}

fn simulated_json(recurrence: &Recurrence, slot: &Simulated) -> SimulatedJson {
    let (outcome, starts) = verdict(slot);
    SimulatedJson {
        at: json::instant(slot.slot),
        local: recurrence.civil(slot.slot),
        outcome,
        starts_at: starts.map(json::instant),
        clock_change_seconds: slot.clock_change,
    }
}

fn verdict(slot: &Simulated) -> (&'static str, Option<Timestamp>) {
    match slot.verdict {
        Verdict::Starts(at) => ("starts", Some(at)),
        Verdict::MadeUp(at) => ("made_up", Some(at)),
        Verdict::Missed => ("missed", None),
        Verdict::Skipped => ("skipped", None),
    }
}
