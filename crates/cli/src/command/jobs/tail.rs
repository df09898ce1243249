//! `jobs tail`: follows a job until its end, which the exit code then says.

use serde::Serialize;
use windlass::worker::{JobEvent, percent_of};
use windlass_core::job::AttemptRecord;
use windlass_core::outcome::Ending;
use windlass_core::{JobId, State};

use super::logs::{self, LineJson};
use super::{amend, wait};
use crate::args::WaitArgs;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::output::content::Content;
use crate::output::json::JobJson;
use crate::output::{clean, text};
use crate::session::{Access, Session};

/// An event for programs.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum EventJson<'a> {
    State {
        state: State,
    },
    Attempt {
        attempt: u32,
        fence: u64,
        ending: Option<&'static str>,
        worker: &'a str,
        error: Option<&'a str>,
    },
    Progress {
        progress: Content<'a>,
        progress_encoding: &'static str,
        percent: Option<f64>,
    },
    Line(LineJson<'a>),
    Ended {
        job: Box<JobJson<'a>>,
    },
    Gone,
}

pub(crate) async fn run(session: &mut Session, args: &WaitArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let id = args.id;
    if client.job(id).await?.is_none() {
        amend::complain_missing(&[id.to_string()]);
        return Ok(Exit::NotFound);
    }
    let mut interrupt = Interrupt::listen()?;
    let mut events = client.events(id);
    let timeout = wait::timeout(args.timeout);
    tokio::pin!(timeout);
    loop {
        let event = tokio::select! {
            biased;
            event = events.next() => event?,
            () = interrupt.heard() => return Ok(Exit::Interrupted),
            () = &mut timeout => {
                session.complain(&format!("job {id} has not ended in time"));
                return Ok(Exit::TimedOut);
            }
        };
        let Some(event) = event else { return Ok(Exit::Done) };
        if let Some(exit) = happened(session, id, event)? {
            return Ok(exit);
        }
    }
}

/// Says what happened. Answers how the command ends, if it does.
fn happened(session: &mut Session, id: JobId, event: JobEvent) -> anyhow::Result<Option<Exit>> {
    if session.output.is_json() {
        if let Some(document) = document(&event) {
            session.output.json(&document)?;
        }
        return Ok(match event {
            JobEvent::Ended(job) => Some(wait::exit_of(job.state)),
            JobEvent::Gone => Some(wait::gone(session, id)),
            _ => None,
        });
    }
    match event {
        JobEvent::State(state) => session.output.line(format_args!("  -  {state}"))?,
        JobEvent::Line(line) => logs::print(&mut session.output, &line)?,
        JobEvent::Attempt(attempt) => print_end(session, &attempt)?,
        JobEvent::Progress(report) => {
            let percent = percent_of(&report).map(|percent| format!("{percent} % ")).unwrap_or_default();
            let report = String::from_utf8_lossy(&report);
            let report = text::first_line(&report);
            session.output.line(format_args!("  -  progress {percent}{}", clean::line(&report)))?;
        }
        JobEvent::Ended(job) => return wait::said(session, &job).map(Some),
        JobEvent::Gone => return Ok(Some(wait::gone(session, id))),
        _ => {}
    }
    Ok(None)
}

fn print_end(session: &mut Session, attempt: &AttemptRecord) -> anyhow::Result<()> {
    let ending = attempt.ending.map_or("ended", Ending::as_str);
    let error = attempt.error.as_deref().map(text::first_line).unwrap_or_default();
    let colon = if error.is_empty() { "" } else { ": " };
    let (number, error) = (attempt.number, clean::line(&error));
    Ok(session
        .output
        .line(format_args!("{number:>3}  {ending} by {}{colon}{error}", clean::line(&attempt.worker)))?)
}

/// Nothing for an event that this program does not know.
fn document(event: &JobEvent) -> Option<EventJson<'_>> {
    Some(match event {
        JobEvent::State(state) => EventJson::State { state: *state },
        JobEvent::Attempt(attempt) => EventJson::Attempt {
            attempt: attempt.number,
            fence: attempt.fence,
            ending: attempt.ending.map(Ending::as_str),
            worker: &attempt.worker,
            error: attempt.error.as_deref(),
        },
        JobEvent::Progress(report) => {
            let progress = Content::of(report);
            let (progress_encoding, percent) = (progress.encoding(), percent_of(report));
            EventJson::Progress { progress, progress_encoding, percent }
        }
        JobEvent::Line(line) => EventJson::Line(LineJson::of(line)),
        JobEvent::Ended(job) => EventJson::Ended { job: Box::new(JobJson::shown(job)) },
        JobEvent::Gone => EventJson::Gone,
        _ => return None,
    })
}
