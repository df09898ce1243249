//! `schedules`: jobs that come with the clock.

mod slots;

use serde::Serialize;
use windlass::Client;
use windlass::worker::{ScheduleSet, ScheduleView};
use windlass_core::Options;
use windlass_core::clock::Timestamp;
use windlass_core::retry::Policy;
use windlass_core::schedule::{CatchUp, Overlap, Schedule, When};

use crate::args::{ScheduleSetArgs, SchedulesCommand, SchedulesListArgs};
use crate::command::enqueue;
use crate::exit::{Exit, Fault};
use crate::output::{cell, clean, json, keep_whole, number, text};
use crate::session::{Access, Session};

pub(crate) async fn run(session: &mut Session, command: SchedulesCommand) -> anyhow::Result<Exit> {
    match command {
        SchedulesCommand::List(args) => list(session, &args).await,
        SchedulesCommand::Show(args) => show(session, &args.id).await,
        SchedulesCommand::Set(args) => set(session, &args).await,
        SchedulesCommand::Preview(args) => slots::preview(session, &args).await,
        SchedulesCommand::Simulate(args) => slots::simulate(session, &args).await,
        SchedulesCommand::Pause(args) => change(session, &args.id, "paused").await,
        SchedulesCommand::Resume(args) => change(session, &args.id, "resumed").await,
        SchedulesCommand::Run(args) => run_now(session, &args.id).await,
        SchedulesCommand::Delete(args) => delete(session, &args.id).await,
    }
}

#[derive(Debug, Serialize)]
struct ScheduleJson<'a> {
    id: &'a str,
    queue: &'a str,
    kind: &'a str,
    when: String,
    tz: &'a str,
    paused: bool,
    owner: Option<&'a str>,
    /// The next slot, and when its job starts.
    next_at: Option<String>,
    starts_at: Option<String>,
    last_at: Option<String>,
    last_job: Option<String>,
    made: u64,
    skipped: u64,
    missed: u64,
    waiting: usize,
    tick: Option<String>,
    definition: &'a Schedule,
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<&'static str>,
}

impl<'a> ScheduleJson<'a> {
    fn of(view: &'a ScheduleView) -> Self {
        let (record, state) = (&view.record, &view.record.state);
        Self {
            id: &view.id,
            queue: view.queue.as_str(),
            kind: record.job.kind().as_str(),
            when: when(&record.schedule),
            tz: record.schedule.tz.as_deref().unwrap_or("UTC"),
            paused: record.is_paused,
            owner: record.owner.as_deref(),
            next_at: state.next.filter(|_| !record.is_paused).map(json::instant),
            starts_at: view.next_start.map(json::instant),
            last_at: state.last.map(json::instant),
            last_job: state.last_job.map(|job| job.to_string()),
            made: state.made,
            skipped: state.skipped,
            missed: state.missed,
            waiting: state.waiting.len(),
            tick: record.tick.map(|tick| tick.to_string()),
            definition: &record.schedule,
            set: None,
        }
    }
}

#[derive(Debug, Serialize)]
struct Page<'a> {
    schedules: Vec<ScheduleJson<'a>>,
    next: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Ran<'a> {
    id: &'a str,
    job: String,
}

#[derive(Debug, Serialize)]
struct Gone<'a> {
    id: &'a str,
    deleted: bool,
}

/// What repeats, in a few words.
fn when(schedule: &Schedule) -> String {
    match &schedule.when {
        When::Cron(fields) => fields.clone(),
        When::Every { period, offset } => {
            let span = |micros: u64| text::duration(std::time::Duration::from_micros(micros));
            let offset = if *offset > 0 { format!(" and {}", span(*offset)) } else { String::new() };
            format!("every {}{offset}", span(*period))
        }
        When::At(times) => format!("at {} instants", times.len()),
        other => format!("{other:?}"),
    }
}

async fn list(session: &mut Session, args: &SchedulesListArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let page = client.schedules(args.after.as_deref(), args.limit).await?;
    if session.output.is_json() {
        let schedules = page.schedules.iter().map(ScheduleJson::of).collect();
        session.output.json(&Page { schedules, next: page.next.as_deref() })?;
        return Ok(Exit::Done);
    }
    if page.schedules.is_empty() {
        session.note("no schedules");
        return Ok(Exit::Done);
    }
    let format = session.output.format();
    let header = ["ID", "QUEUE", "KIND", "WHEN", "ZONE", "STARTS", "MADE", "SKIPPED", "MISSED"];
    let mut table = session.output.new_table(&header);
    for view in &page.schedules {
        let (record, state) = (&view.record, &view.record.state);
        let starts = match view.next_start {
            _ if record.is_paused => "paused".to_owned(),
            Some(at) => text::instant(at, format),
            None => "ended".to_owned(),
        };
        table.add_row([
            cell(&view.id),
            cell(view.queue.as_str()),
            cell(record.job.kind().as_str()),
            cell(when(&record.schedule)),
            cell(record.schedule.tz.as_deref().unwrap_or("UTC")),
            cell(starts),
            number(state.made),
            number(state.skipped),
            number(state.missed),
        ]);
    }
    keep_whole(&mut table, &[0, 3, 5]);
    session.output.table(table)?;
    if let Some(id) = &page.next {
        session.note(&format!("there are more: repeat with --after {}", clean::line(id)));
    }
    Ok(Exit::Done)
}

/// The schedule, or an error that it is not there.
async fn found(client: &Client, id: &str) -> anyhow::Result<ScheduleView> {
    client.schedule(id).get().await?.ok_or_else(|| missing(id).into())
}

fn missing(id: &str) -> Fault {
    Fault::not_found(format!("there is no schedule {id}: see windlass schedules list"))
}

async fn show(session: &mut Session, id: &str) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let view = found(&client, id).await?;
    if session.output.is_json() {
        session.output.json(&ScheduleJson::of(&view))?;
        return Ok(Exit::Done);
    }
    print(session, &view)?;
    // Why it stands still, if it does.
    if let Some(tick) = view.record.tick {
        match client.job(tick).await? {
            Some(job) => {
                let failed = job.attempts.last().and_then(|attempt| attempt.error.as_deref());
                if let Some(error) = failed {
                    session.complain(&format!("its tick fails: {}", text::first_line(error)));
                }
            }
            None => session.note("its tick is gone; a worker that keeps the store in order puts it back"),
        }
    }
    Ok(Exit::Done)
}

fn print(session: &mut Session, view: &ScheduleView) -> anyhow::Result<()> {
    let format = session.output.format();
    let (record, state) = (&view.record, &view.record.state);
    let schedule = &record.schedule;
    let recurrence = record.recurrence()?;
    let instant = |at: Timestamp| format!("{} ({})", recurrence.civil(at), text::instant(at, format));
    let mut lines = vec![
        ("schedule", clean::line(&view.id).into_owned()),
        ("when", format!("{} in {}", clean::line(&when(schedule)), schedule.tz.as_deref().unwrap_or("UTC"))),
        ("job", format!("{} in queue {}", record.job.kind(), view.queue)),
        ("overlap", overlap(schedule.overlap).to_owned()),
        ("catch up", catch_up(schedule)),
    ];
    if let Some(window) = schedule.spread {
        lines.push(("spread", format!("within {} after the slot", text::duration(window))));
    }
    if !schedule.except.is_empty() {
        lines.push(("except", clean::line(&schedule.except.join(", ")).into_owned()));
    }
    if !schedule.calendars.is_empty() {
        let names = schedule.calendars.join(", ");
        lines.push(("calendars", format!("{}: {} days", clean::line(&names), record.days.len())));
    }
    if let Some(owner) = &record.owner {
        lines.push(("declared by", clean::line(owner).into_owned()));
    }
    let next = match view.next_start {
        _ if record.is_paused => "paused".to_owned(),
        Some(at) => instant(at),
        None => "it has ended".to_owned(),
    };
    lines.push(("next", next));
    if let Some(last) = state.last {
        lines.push(("last slot", instant(last)));
    }
    if let Some(job) = state.last_job {
        lines.push(("last job", job.to_string()));
    }
    let (made, skipped, missed) = (state.made, state.skipped, state.missed);
    lines.push(("so far", format!("{made} jobs made, {skipped} slots skipped, {missed} missed")));
    for (name, value) in lines {
        session.output.line(format_args!("{name:<12} {value}"))?;
    }
    Ok(())
}

fn overlap(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Allow => "allow: jobs may run side by side",
        Overlap::Skip => "skip: no job while an earlier one has not ended",
        Overlap::WaitOne => "wait-one: one slot waits for the earlier job",
        Overlap::WaitAll => "wait-all: every slot waits for the earlier job",
        Overlap::CancelRunning => "cancel-running: the earlier job is cancelled",
    }
}

fn catch_up(schedule: &Schedule) -> String {
    let how = match schedule.catch_up {
        CatchUp::Skip => "skip: missed slots have no job".to_owned(),
        CatchUp::Once => "once: one job for all missed slots".to_owned(),
        CatchUp::All(most) => format!("all: a job for each missed slot, at most {most}"),
    };
    let late = schedule.max_late.map(|late| format!(", none later than {}", text::duration(late)));
    how + &late.unwrap_or_default()
}

async fn set(session: &mut Session, args: &ScheduleSetArgs) -> anyhow::Result<Exit> {
    if !args.slots.is_given() {
        return Err(Fault::usage("say when its jobs come, with --cron, --every or --at").into());
    }
    let schedule = args.rules.schedule(&args.slots);
    schedule.recurrence().map_err(|error| Fault::usage(error.to_string()))?;
    let payload = enqueue::payload(args.payload.as_deref(), false)?;
    let client = session.open(Access::Create).await?;
    let draft = client.schedule(&args.id).when(schedule);
    let answer = match draft.enqueue_raw(&args.kind, payload, options(args)).await {
        Err(error @ (windlass::Error::Schedule(_) | windlass::Error::Job(_))) => {
            return Err(Fault::usage(error.to_string()).into());
        }
        answer => answer?,
    };
    let word = match answer.set {
        ScheduleSet::Created => "created",
        ScheduleSet::Changed => "changed",
        ScheduleSet::Unchanged => "unchanged",
    };
    if session.output.is_json() {
        session.output.json(&ScheduleJson { set: Some(word), ..ScheduleJson::of(&answer.schedule) })?;
    } else {
        let next = answer.schedule.next_start.map(|at| format!(", starts {at}")).unwrap_or_default();
        session.output.line(format_args!("{word} {}{next}", clean::line(&args.id)))?;
    }
    Ok(Exit::Done)
}

fn options(args: &ScheduleSetArgs) -> Options {
    let mut options = Options::new();
    if let Some(queue) = &args.queue {
        options = options.queue(queue);
    }
    if let Some(priority) = args.priority {
        options = options.priority(priority);
    }
    if let Some(attempts) = args.attempts {
        options = options.retry(Policy::default().attempts(attempts));
    }
    if let Some(timeout) = args.timeout {
        options = options.timeout(timeout);
    }
    if let Some(key) = &args.key {
        options = options.key(key);
    }
    let options = args.meta.iter().fold(options, |options, (key, value)| options.meta(key, value));
    args.tags.iter().fold(options, Options::tag)
}

async fn change(session: &mut Session, id: &str, word: &str) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let schedule = client.schedule(id);
    let changed = if word == "paused" { schedule.pause().await } else { schedule.resume().await };
    let view = match changed {
        Err(windlass::Error::NoSchedule { .. }) => return Err(missing(id).into()),
        changed => changed?,
    };
    if session.output.is_json() {
        session.output.json(&ScheduleJson::of(&view))?;
    } else {
        let next = view.next_start.map(|at| format!(", starts {at}")).unwrap_or_default();
        session.output.line(format_args!("{word} {}{next}", clean::line(id)))?;
    }
    Ok(Exit::Done)
}

async fn run_now(session: &mut Session, id: &str) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let job = match client.schedule(id).run_now().await {
        Err(windlass::Error::NoSchedule { .. }) => return Err(missing(id).into()),
        job => job?.to_string(),
    };
    if session.output.is_json() {
        session.output.json(&Ran { id, job })?;
    } else {
        session.output.line(format_args!("accepted {job} for {}", clean::line(id)))?;
    }
    Ok(Exit::Done)
}

async fn delete(session: &mut Session, id: &str) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    if !client.schedule(id).delete().await? {
        return Err(missing(id).into());
    }
    if session.output.is_json() {
        session.output.json(&Gone { id, deleted: true })?;
    } else {
        session.output.line(format_args!("deleted {}", clean::line(id)))?;
    }
    Ok(Exit::Done)
}
