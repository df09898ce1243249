//! `jobs list`: a page of jobs.

use serde::Serialize;
use windlass_core::store::{Cursor, Filter};
use windlass_core::{JobRecord, State};

use crate::args::ListArgs;
use crate::exit::Exit;
use crate::output::json::JobJson;
use crate::output::{Format, cell, keep_whole, standing, text};
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Page<'a> {
    jobs: Vec<JobJson<'a>>,
    next: Option<&'a str>,
}

pub(crate) async fn run(session: &mut Session, args: ListArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let filter = Filter { queue: args.queue, kind: args.kind, state: args.state, tag: args.tag };
    let mut next = args.after.map(Cursor);
    let mut jobs: Vec<JobRecord> = Vec::new();
    // One call looks at a bounded number of jobs and may find none of them fitting, so ask until the page
    // is full or there are no more.
    loop {
        let missing = args.limit.saturating_sub(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
        let page = client.store().list(&filter, next.as_ref(), missing).await?;
        jobs.extend(page.jobs);
        next = page.next;
        if next.is_none() || jobs.len() >= args.limit as usize {
            break;
        }
    }

    if session.output.is_json() {
        let next = next.as_ref().map(|cursor| cursor.0.as_str());
        session.output.json(&Page { jobs: jobs.iter().map(JobJson::listed).collect(), next })?;
        return Ok(Exit::Done);
    }
    if jobs.is_empty() {
        session.note("no jobs");
        return Ok(Exit::Done);
    }
    print(session, &jobs)?;
    if let Some(cursor) = next {
        session.note(&format!("there are more: repeat with --after {cursor}"));
    }
    Ok(Exit::Done)
}

fn print(session: &mut Session, jobs: &[JobRecord]) -> anyhow::Result<()> {
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
    let about_state = match (job.state, job.reason) {
        (_, Some(reason)) => Some(reason.to_string()),
        (State::Scheduled, _) => Some(format!("due {}", text::instant(job.due_at, format))),
        (State::Running, _) if job.cancel_requested => Some("asked to stop".to_owned()),
        _ => None,
    };
    let unreadable = job.unreadable.as_ref().map(|why| format!("does not read: {why}"));
    let priority = (job.priority != 0).then(|| format!("priority {}", job.priority));
    about_state.into_iter().chain(unreadable).chain(priority).collect::<Vec<_>>().join(", ")
}
