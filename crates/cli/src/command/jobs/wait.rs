//! `jobs wait`: waits for the end of a job, which the exit code then says.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::worker::OutputError;
use windlass_core::{JobId, JobRecord, State};

use super::amend;
use crate::args::WaitArgs;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::output::json::JobJson;
use crate::output::{clean, content, text};
use crate::session::{Access, Session};

/// A job of any kind, of which only the end matters.
#[derive(Serialize, Deserialize)]
struct Any;

impl windlass::Job for Any {
    const KIND: &'static str = "any";
    type Output = ();
}

pub(crate) async fn run(session: &mut Session, args: &WaitArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let id = args.id;
    if client.job(id).await?.is_none() {
        amend::complain_missing(&[id.to_string()]);
        return Ok(Exit::NotFound);
    }
    let mut interrupt = Interrupt::listen()?;
    let handle = client.handle::<Any>(id);
    let timeout = timeout(args.timeout);
    let finished = tokio::select! {
        biased;
        finished = handle.finished() => finished,
        () = interrupt.heard() => return Ok(Exit::Interrupted),
        () = timeout => {
            let state = handle.state().await?.map_or("gone", State::as_str);
            session.complain(&format!("job {id} has not ended in time: it is {state}"));
            return Ok(Exit::TimedOut);
        }
    };
    match finished {
        Ok(job) => said(session, &job),
        Err(OutputError::Missing { .. }) => Ok(gone(session, id)),
        Err(OutputError::Call(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}

/// Waits for so long, or for ever.
pub(super) async fn timeout(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

pub(super) fn gone(session: &Session, id: JobId) -> Exit {
    session.complain(&format!("job {id} is gone: it was deleted, or its queue keeps none of its end"));
    Exit::NotFound
}

/// Says how a job ended. Answers the exit code that says it, too.
pub(super) fn said(session: &mut Session, job: &JobRecord) -> anyhow::Result<Exit> {
    if session.output.is_json() {
        session.output.json(&JobJson::shown(job))?;
    } else {
        let reason = job.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        let error = job.last_error().filter(|_| job.state == State::Dead);
        let error =
            error.map(|error| format!(": {}", clean::line(&text::first_line(error)))).unwrap_or_default();
        session.output.line(format_args!("{} {}{reason}{error}", job.id, job.state))?;
        if let Some(output) = job.output.as_ref().filter(|output| ***output != *b"null") {
            session.output.line(content::readable(output))?;
        }
    }
    Ok(exit_of(job.state))
}

pub(super) fn exit_of(state: State) -> Exit {
    match state {
        State::Completed => Exit::Done,
        State::Cancelled => Exit::Cancelled,
        _ => Exit::Failed,
    }
}
