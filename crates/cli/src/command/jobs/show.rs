//! `jobs show`: everything about jobs.

use std::time::Duration;

use windlass::Client;
use windlass::worker::Cancellation;
use windlass_core::outcome::Ending;
use windlass_core::{JobId, JobRecord, Name, State};

use crate::command::flows::FlowOf;
use crate::exit::Exit;
use crate::output::json::JobJson;
use crate::output::{Format, cell, clean, content, standing, text};
use crate::session::{Access, Session};

pub(crate) async fn run(session: &mut Session, ids: &[JobId]) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let mut missing = Vec::new();
    let mut shown = 0;
    for &id in ids {
        let found = client.store().get([id].into()).await?.into_iter().next().flatten();
        let Some(job) = found else {
            missing.push(id.to_string());
            continue;
        };
        let (flow, cancellation) = (FlowOf::read(&client, &job).await?, cancellation(&client, &job).await?);
        if session.output.is_json() {
            let json = JobJson::shown(&job).in_flow(flow.as_ref());
            session.output.json(&json.cancelled_by(cancellation.as_ref()))?;
        } else {
            if shown > 0 {
                session.output.line("")?;
            }
            let mut rows = flow.map(|flow| flow.rows()).unwrap_or_default();
            rows.extend(
                cancellation.map(|Cancellation { by, why }| ("cancelled by", format!("{by}: {why}"))),
            );
            print_with(session, &job, &rows)?;
        }
        shown += 1;
    }
    if missing.is_empty() {
        return Ok(Exit::Done);
    }
    super::amend::complain_missing(&missing);
    Ok(Exit::NotFound)
}

/// Who cancelled a job, or asked for it, and why, if that was said; a store that keeps no records knows of nothing.
async fn cancellation(client: &Client, job: &JobRecord) -> windlass::Result<Option<Cancellation>> {
    let is_asked = job.state == State::Cancelled || job.cancel_requested;
    match client.store().records() {
        Some(_) if is_asked => client.cancellation(job).await,
        _ => Ok(None),
    }
}

pub(crate) fn print(session: &mut Session, job: &JobRecord) -> anyhow::Result<()> {
    print_with(session, job, &[])
}

/// The page of a job, with further rows below its state.
fn print_with(session: &mut Session, job: &JobRecord, rows: &[(&str, String)]) -> anyhow::Result<()> {
    let format = session.output.format();
    let mut table = session.output.new_table(&[]);
    table.add_row([cell("id"), cell(job.id.to_string())]);
    table.add_row([cell("state"), standing(job)]);
    for (name, value) in rows {
        table.add_row([cell(name), cell(value)]);
    }
    for (name, value) in fields(job, format) {
        table.add_row([cell(name), cell(value)]);
    }
    session.output.table(table)?;
    for (name, bytes) in [
        ("payload", Some(&job.payload)),
        ("progress", job.progress.as_ref()),
        ("output", job.output.as_ref()),
    ] {
        if let Some(bytes) = bytes {
            session.output.line(format_args!("\n{name} ({}):", text::size(bytes.len())))?;
            session.output.line(content::readable(bytes))?;
        }
    }
    if let Some(error) = job.last_error() {
        session.output.line("\nlast error:")?;
        session.output.line(clean::block(error))?;
    }
    print_attempts(session, job, format)
}

fn fields(job: &JobRecord, format: Format) -> Vec<(&'static str, String)> {
    let at = |instant| text::instant_long(instant, format);
    let counters = &job.counters;
    let tags = job.tags.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
    let meta =
        job.spec.meta.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ");
    let optional = [
        ("reason", job.reason.map(|reason| reason.to_string())),
        ("unreadable", job.unreadable.as_ref().map(ToString::to_string)),
        ("died with", died_with(job, format)),
        ("queue", Some(job.queue.to_string())),
        ("kind", Some(job.kind.to_string())),
        ("priority", Some(job.priority.to_string())),
        ("key", job.key.as_ref().map(ToString::to_string)),
        ("tags", (!tags.is_empty()).then_some(tags)),
        ("meta", (!meta.is_empty()).then_some(meta)),
        ("trace", job.spec.trace.as_ref().map(|trace| trace.parent().to_owned())),
        ("attempt", Some(format!("{} of {}", counters.attempt, job.spec.retry.attempts_max()))),
        ("stalls", Some(format!("{}, survives {}", counters.stalls, job.spec.stalls_max))),
        (
            "ambiguous",
            (counters.ambiguous > 0)
                .then(|| format!("{} of {}", counters.ambiguous, job.spec.retry.ambiguous_max())),
        ),
        ("retry", Some(text::policy(&job.spec.retry))),
        ("timeout", Some(job.spec.timeout.map_or_else(|| "the worker's".to_owned(), text::duration))),
        ("cancel", job.cancel_requested.then(|| "asked to stop".to_owned())),
        ("enqueued", Some(at(job.enqueued_at))),
        ("due", Some(at(job.due_at))),
        ("expires", job.expires_at.map(at)),
        ("finished", job.finished_at.map(at)),
    ];
    optional.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The workers that a job was lost with, and when, as far as its attempts are kept.
fn died_with(job: &JobRecord, format: Format) -> Option<String> {
    let stalled = job.attempts.iter().filter(|attempt| attempt.ending == Some(Ending::Stalled));
    let workers = stalled.map(|attempt| {
        let at = attempt.ended_at.unwrap_or(attempt.started_at);
        format!("{} ({})", attempt.worker, text::instant(at, format))
    });
    let workers = workers.collect::<Vec<_>>().join(", ");
    (!workers.is_empty()).then_some(workers)
}

fn print_attempts(session: &mut Session, job: &JobRecord, format: Format) -> anyhow::Result<()> {
    if job.attempts.is_empty() {
        return Ok(());
    }
    session.output.line("\nattempts:")?;
    let mut table =
        session.output.new_table(&["ATTEMPT", "FENCE", "STARTED", "TOOK", "ENDING", "WORKER", "ERROR"]);
    for attempt in &job.attempts {
        let took: Option<Duration> = attempt.ended_at.map(|ended| ended.since(attempt.started_at));
        table.add_row([
            cell(attempt.number.to_string()),
            cell(attempt.fence.to_string()),
            cell(text::instant(attempt.started_at, format)),
            cell(took.map(text::duration).unwrap_or_default()),
            cell(attempt.ending.map_or("running", |ending| ending.as_str())),
            cell(&attempt.worker),
            cell(text::first_line(attempt.error.as_deref().unwrap_or_default())),
        ]);
    }
    Ok(session.output.table(table)?)
}
