//! `jobs cancel`, `jobs retry`, `jobs delete` and `jobs move`: one answer per id. By filter they are in `filtered`.

use std::io::{BufRead, IsTerminal, Write};

use serde::Serialize;
use windlass::Client;
use windlass::worker::{Cancellation, Moved};
use windlass_core::store::Amended;
use windlass_core::{JobId, Name, State};

use super::filtered;
use crate::args::{ChoiceArgs, DeleteArgs};
use crate::exit::{Exit, Fault};
use crate::session::{Access, Session};

/// How many jobs one store call takes.
const CHUNK: usize = 1_000;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// For this reason, if one was given.
    Cancel(Option<Cancellation>),
    Retry,
    Delete,
    /// To this queue.
    Move(Name),
}

impl Change {
    /// Asks for it.
    pub(super) async fn apply(&self, client: &Client, ids: &[JobId]) -> anyhow::Result<Vec<Amended>> {
        let store = client.store();
        Ok(match self {
            Self::Cancel(None) => store.cancel(ids.into()).await?,
            Self::Cancel(Some(cancellation)) => {
                let mut answers = Vec::with_capacity(ids.len());
                for id in ids {
                    answers.push(client.cancel_because(*id, cancellation).await?);
                }
                answers
            }
            Self::Retry => store.retry(ids.into()).await?,
            Self::Delete => store.delete(ids.into()).await?,
            Self::Move(queue) => {
                let mut answers = Vec::with_capacity(ids.len());
                for id in ids {
                    answers.push(match client.move_job(*id, queue).await? {
                        Moved::Done(_, state) => Amended::Done(state),
                        Moved::Refused(state) => Amended::Refused(state),
                        Moved::Held(holder) => Amended::Held(holder),
                        Moved::Missing => Amended::Missing,
                    });
                }
                answers
            }
        })
    }
}

#[derive(Debug, Serialize)]
struct Answer {
    id: String,
    answer: &'static str,
    state: Option<State>,
    /// Under which id a moved job is in its new queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_to: Option<String>,
}

/// Deletes after asking. By filter, the expected count is the answer.
pub(crate) async fn delete(session: &mut Session, args: DeleteArgs) -> anyhow::Result<Exit> {
    let ids = args.choice.ids.len();
    if ids > 0 && !args.yes && !confirmed(ids)? {
        session.note("nothing was deleted");
        return Ok(Exit::Failed);
    }
    run(session, Change::Delete, args.choice).await
}

fn confirmed(jobs: usize) -> anyhow::Result<bool> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Fault::usage("deleting needs --yes where there is no terminal to ask on").into());
    }
    let mut stderr = anstream::stderr();
    let noun = if jobs == 1 { "job" } else { "jobs" };
    write!(stderr, "delete {jobs} {noun} for good? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Applies a change to the chosen jobs.
pub(crate) async fn run(session: &mut Session, change: Change, args: ChoiceArgs) -> anyhow::Result<Exit> {
    if args.ids.is_empty() {
        filtered::run(session, &change, args.filter.into(), args.expect).await
    } else {
        by_id(session, &change, &args.ids).await
    }
}

/// Applies a change to each job and prints each answer.
async fn by_id(session: &mut Session, change: &Change, ids: &[JobId]) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let (mut refused, mut missing) = (false, Vec::new());
    // Each of some changes is several calls, and is said before the next one may fail.
    let chunk = if matches!(change, Change::Move(_) | Change::Cancel(Some(_))) { 1 } else { CHUNK };
    for chunk in ids.chunks(chunk) {
        let answers = change.apply(&client, chunk).await?;
        for (id, amended) in chunk.iter().zip(answers) {
            match amended {
                Amended::Refused(_) | Amended::Held(_) => refused = true,
                Amended::Missing => missing.push(id.to_string()),
                Amended::Done(_) => {}
            }
            print(session, change, *id, amended)?;
        }
    }
    Ok(match (refused, missing.is_empty()) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::Done,
        (false, false) => Exit::NotFound,
    })
}

fn print(session: &mut Session, change: &Change, id: JobId, amended: Amended) -> std::io::Result<()> {
    if session.output.is_json() {
        let (answer, state) = match amended {
            Amended::Done(state) => ("done", Some(state)),
            Amended::Refused(state) => ("refused", Some(state)),
            Amended::Held(_) => ("held", None),
            Amended::Missing => ("missing", None),
        };
        let moved_to = match (change, amended) {
            (Change::Move(queue), Amended::Done(_)) => Some(id.moved_to(queue).to_string()),
            _ => None,
        };
        return session.output.json(&Answer { id: id.to_string(), answer, state, moved_to });
    }
    session.output.line(format_args!("{id} {}", said(change, id, amended)))
}

fn said(change: &Change, id: JobId, amended: Amended) -> String {
    match (change, amended) {
        (_, Amended::Missing) => "refused: no such job".to_owned(),
        (_, Amended::Held(holder)) => format!("refused: job {holder} holds its unique key"),
        (Change::Cancel(_), Amended::Done(State::Running)) => "running, asked to stop".to_owned(),
        (Change::Cancel(_) | Change::Retry, Amended::Done(state)) => state.to_string(),
        (Change::Delete, Amended::Done(state)) => format!("deleted, was {state}"),
        (Change::Cancel(_), Amended::Refused(state)) => format!("refused: it is {state} already"),
        (Change::Retry, Amended::Refused(state)) => {
            format!("refused: it is {state}, only dead, cancelled and scheduled jobs can be sent to ready")
        }
        (Change::Delete, Amended::Refused(state)) => format!("refused: it is {state}, cancel it first"),
        (Change::Move(queue), Amended::Done(_)) => format!("moved to {queue} as {}", id.moved_to(queue)),
        (Change::Move(queue), Amended::Refused(State::Running | State::Completed)) => {
            format!("refused: only jobs that wait, are dead or were cancelled can be moved to {queue}")
        }
        (Change::Move(queue), Amended::Refused(_)) => {
            format!("refused: it is in {queue} already, or does not read")
        }
    }
}

/// Says on stderr which jobs do not exist.
pub(crate) fn complain_missing(ids: &[String]) {
    let style = anstyle::AnsiColor::Red.on_default().bold();
    for id in ids {
        let _ = writeln!(anstream::stderr(), "{style}error:{style:#} no such job: {id}");
    }
}
