//! `calendars`: days on which schedules that name them have no slots.

use serde::Serialize;
use windlass::worker::ScheduleSet;

use crate::args::{CalendarSetArgs, CalendarsCommand, CalendarsListArgs};
use crate::exit::{Exit, Fault};
use crate::output::{cell, clean, keep_whole, number};
use crate::session::{Access, Session};

/// Days that a line of the list shows.
const DAYS_SHOWN: usize = 6;

pub(crate) async fn run(session: &mut Session, command: CalendarsCommand) -> anyhow::Result<Exit> {
    match command {
        CalendarsCommand::List(args) => list(session, &args).await,
        CalendarsCommand::Show(args) => show(session, &args.name).await,
        CalendarsCommand::Set(args) => set(session, &args).await,
        CalendarsCommand::Delete(args) => delete(session, &args.name).await,
    }
}

#[derive(Debug, Serialize)]
struct CalendarJson<'a> {
    name: &'a str,
    days: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Page<'a> {
    calendars: Vec<CalendarJson<'a>>,
    next: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Gone<'a> {
    name: &'a str,
    deleted: bool,
}

fn plain<'a>(name: &'a str, days: &'a [String]) -> CalendarJson<'a> {
    CalendarJson { name, days, set: None, moved: None }
}

fn missing(name: &str) -> Fault {
    Fault::not_found(format!("there is no calendar {}: see windlass calendars list", clean::line(name)))
}

/// What was typed and makes no sense is told from what the store says.
fn typed(error: windlass::Error) -> anyhow::Error {
    match error {
        windlass::Error::Schedule(error) => Fault::usage(error.to_string()).into(),
        error => error.into(),
    }
}

async fn list(session: &mut Session, args: &CalendarsListArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let page = client.calendars(args.after.as_deref(), args.limit).await?;
    if session.output.is_json() {
        let calendars = page.calendars.iter().map(|(name, calendar)| plain(name, &calendar.days)).collect();
        session.output.json(&Page { calendars, next: page.next.as_deref() })?;
        return Ok(Exit::Done);
    }
    if page.calendars.is_empty() {
        session.note("no calendars");
        return Ok(Exit::Done);
    }
    let mut table = session.output.new_table(&["NAME", "COUNT", "DAYS"]);
    for (name, calendar) in &page.calendars {
        let mut days = calendar.days.iter().take(DAYS_SHOWN).cloned().collect::<Vec<_>>().join(" ");
        if calendar.days.len() > DAYS_SHOWN {
            days.push_str(" …");
        }
        table.add_row([cell(name), number(calendar.days.len() as u64), cell(days)]);
    }
    keep_whole(&mut table, &[0]);
    session.output.table(table)?;
    if let Some(name) = &page.next {
        session.note(&format!("there are more: repeat with --after {}", clean::line(name)));
    }
    Ok(Exit::Done)
}

async fn show(session: &mut Session, name: &str) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let calendar = client.calendar(name).get().await.map_err(typed)?.ok_or_else(|| missing(name))?;
    if session.output.is_json() {
        session.output.json(&plain(name, &calendar.days))?;
        return Ok(Exit::Done);
    }
    for day in &calendar.days {
        session.output.line(format_args!("{}", clean::line(day)))?;
    }
    Ok(Exit::Done)
}

async fn set(session: &mut Session, args: &CalendarSetArgs) -> anyhow::Result<Exit> {
    let calendar = windlass_core::schedule::Calendar::new(args.days.iter().cloned());
    let calendar = calendar.map_err(|error| Fault::usage(error.to_string()))?;
    windlass_core::schedule::check_calendar(&args.name).map_err(|error| Fault::usage(error.to_string()))?;
    let client = session.open(Access::Create).await?;
    let answer = client.calendar(&args.name).set(calendar.days.clone()).await.map_err(typed)?;
    let word = match answer.set {
        ScheduleSet::Created => "created",
        ScheduleSet::Changed => "changed",
        ScheduleSet::Unchanged => "unchanged",
    };
    if session.output.is_json() {
        let (set, moved) = (Some(word), Some(answer.moved));
        session.output.json(&CalendarJson { set, moved, ..plain(&args.name, &calendar.days) })?;
    } else {
        let moved = match answer.moved {
            0 => String::new(),
            moved => format!(", schedules moved: {moved}"),
        };
        session.output.line(format_args!("{word} {}{moved}", clean::line(&args.name)))?;
    }
    Ok(Exit::Done)
}

async fn delete(session: &mut Session, name: &str) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    if !client.calendar(name).delete().await.map_err(typed)? {
        return Err(missing(name).into());
    }
    if session.output.is_json() {
        session.output.json(&Gone { name, deleted: true })?;
    } else {
        session.output.line(format_args!("deleted {}", clean::line(name)))?;
    }
    Ok(Exit::Done)
}
