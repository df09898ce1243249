//! `jobs list`: a page of jobs, each with what matters about its newest attempt.

use serde::Serialize;
use windlass::Client;
use windlass_core::store::{Cursor, Filter};
use windlass_core::{JobId, JobRecord, State};

use crate::args::ListArgs;
use crate::command::known;
use crate::exit::Exit;
use crate::output::json::JobJson;
use crate::output::{Format, cell, keep_whole, standing, text};
use crate::session::{Access, Session};

/// Jobs whose attempts one store call reads.
const CHUNK: usize = 100;

#[derive(Debug, Serialize)]
struct Page<'a> {
    jobs: Vec<JobJson<'a>>,
    next: Option<&'a str>,
}

pub(crate) async fn run(session: &mut Session, args: ListArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let mut filter = Filter::from(args.filter);
    if args.worker.is_some() {
        filter.state = Some(State::Running);
    }
    let mut next = args.after.map(Cursor);
    let mut jobs: Vec<JobRecord> = Vec::new();
    // One call looks at a bounded number of jobs and may find none of them fitting, so ask until the page
    // is full or there are no more.
    loop {
        let missing = args.limit.saturating_sub(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
        let page = client.list(&filter, next.as_ref(), missing).await?;
        let mut found = page.jobs;
        read_attempts(&client, &mut found).await?;
        let runs_there = |job: &JobRecord| match (&args.worker, job.running()) {
            (None, _) => true,
            (Some(worker), running) => running.is_some_and(|attempt| attempt.worker == *worker),
        };
        jobs.extend(found.into_iter().filter(runs_there));
        next = page.next;
        if next.is_none() || jobs.len() >= args.limit as usize {
            break;
        }
    }
    if jobs.is_empty() {
        known::check(session, &client, &filter).await?;
        if let Some(worker) = &args.worker {
            known::check_worker(&client, worker).await?;
        }
    }
    print(session, &jobs, next.as_ref())
}

fn print(session: &mut Session, jobs: &[JobRecord], next: Option<&Cursor>) -> anyhow::Result<Exit> {
    if session.output.is_json() {
        let next = next.map(|cursor| cursor.0.as_str());
        session.output.json(&Page { jobs: jobs.iter().map(JobJson::listed).collect(), next })?;
        return Ok(Exit::Done);
    }
    if jobs.is_empty() {
        session.note("no jobs");
        return Ok(Exit::Done);
    }
    print_table(session, jobs)?;
    if let Some(cursor) = next {
        session.note(&format!("there are more: repeat with --after {cursor}"));
    }
    Ok(Exit::Done)
}

/// A list comes without attempts. Those of jobs that run or may have failed are read here, many jobs in one call; a job
/// that is gone by then or has another state stays as it was listed.
async fn read_attempts(client: &Client, jobs: &mut [JobRecord]) -> anyhow::Result<()> {
    let mut tried: Vec<&mut JobRecord> =
        jobs.iter_mut().filter(|job| job.fence > 0 && job.state != State::Completed).collect();
    for chunk in tried.chunks_mut(CHUNK) {
        let ids: Vec<JobId> = chunk.iter().map(|job| job.id).collect();
        for (job, found) in chunk.iter_mut().zip(client.store().get(ids.as_slice().into()).await?) {
            if let Some(found) = found
                && found.state == job.state
            {
                job.attempts = found.attempts;
            }
        }
    }
    Ok(())
}

fn print_table(session: &mut Session, jobs: &[JobRecord]) -> anyhow::Result<()> {
    let format = session.output.format();
    let header = ["ID", "STATE", "QUEUE", "KIND", "TRY", "ENQUEUED", "NOTE"];
    let mut table = session.output.new_table(&header);
    for job in jobs {
        table.add_row([
            cell(job.id.to_string()),
            standing(job),
            cell(&job.queue),
            cell(&job.kind),
            cell(format!("{}/{}", job.counters.attempt, job.spec.retry.attempts_max())),
            cell(text::instant(job.enqueued_at, format)),
            cell(note(job, format)),
        ]);
    }
    keep_whole(&mut table, &[0, 1, 2, 3, 4, 5]);
    Ok(session.output.table(table)?)
}

/// What matters beside the state.
fn note(job: &JobRecord, format: Format) -> String {
    let running = job
        .running()
        .map(|attempt| format!("since {} on {}", text::instant(attempt.started_at, format), attempt.worker));
    let about_state = match (job.state, job.reason) {
        (_, Some(reason)) => Some(reason.to_string()),
        (State::Scheduled, _) => Some(format!("due {}", text::instant(job.due_at, format))),
        (State::Running, _) if job.cancel_requested => Some("asked to stop".to_owned()),
        _ => None,
    };
    let unreadable = job.unreadable.as_ref().map(|why| format!("does not read: {why}"));
    let priority = (job.priority != 0).then(|| format!("priority {}", job.priority));
    let error = job.last_error().map(|error| format!("last error: {}", text::first_line(error)));
    let key = job.key.as_ref().map(|key| format!("key {key}"));
    let parts =
        running.into_iter().chain(about_state).chain(unreadable).chain(priority).chain(key).chain(error);
    parts.collect::<Vec<_>>().join(", ")
}
