//! `jobs cancel`, `jobs retry`, `jobs delete` and `jobs move` by filter. Counts first, and changes jobs only if as many match as the
//! caller expects: a filter that is wider than meant changes nothing. Page by page, so an interrupted run leaves whole
//! pages done, and a repeat counts what is left.

use serde::Serialize;
use windlass::Client;
use windlass_core::store::{Amended, Cursor, Filter};
use windlass_core::{JobId, JobRecord, State};

use super::amend::Change;
use crate::command::known;
use crate::exit::{Exit, Fault};
use crate::session::{Access, Session};

/// Jobs that one store call reads and one changes; each is read with its payload.
const PAGE: u32 = 100;

#[derive(Debug, Default, Serialize)]
struct Answer {
    matched: u64,
    changed: u64,
    refused: u64,
}

pub(super) async fn run(
    session: &mut Session,
    change: &Change,
    filter: Filter,
    expected: Option<u64>,
) -> anyhow::Result<Exit> {
    check_state(change, &filter)?;
    let client = session.open(Access::Existing).await?;
    let counted = matching(&client, change, &filter).await?;
    let matched = u64::try_from(counted.len()).unwrap_or(u64::MAX);
    let mut answer = Answer { matched, ..Answer::default() };
    if answer.matched == 0 {
        known::check(session, &client, &filter).await?;
    }
    match expected {
        Some(expected) if expected != answer.matched => {
            let (matched, verb) = (answer.matched, change.verb());
            return Err(Fault::failed(format!(
                "{} {}, {expected} were expected: nothing was changed; to {verb} them, repeat with \
                 --expect {matched}",
                jobs(matched),
                if matched == 1 { "matches" } else { "match" }
            ))
            .into());
        }
        Some(_) => {
            if let Err(error) = apply(&client, change, &counted, &mut answer).await {
                // What was done is done, and the caller should know how much.
                print(session, change, expected, &answer)?;
                return Err(error);
            }
        }
        None => {}
    }
    print(session, change, expected, &answer)?;
    Ok(if answer.refused == 0 { Exit::Done } else { Exit::Failed })
}

/// A state that the change never takes is a slip of the command line.
fn check_state(change: &Change, filter: &Filter) -> Result<(), Fault> {
    let (Some(state), verb) = (filter.state, change.verb()) else { return Ok(()) };
    if change.takes(state) {
        return Ok(());
    }
    let taken: Vec<&str> =
        State::ALL.into_iter().filter(|state| change.takes(*state)).map(State::as_str).collect();
    Err(Fault::usage(format!("{verb} takes no {state} jobs: use --state with one of {}", taken.join(", "))))
}

/// The jobs that the filter and the change take, the newest first.
async fn matching(client: &Client, change: &Change, filter: &Filter) -> anyhow::Result<Vec<JobId>> {
    let (mut found, mut next): (Vec<JobId>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = client.list(filter, next.as_ref(), PAGE).await?;
        found.extend(page.jobs.iter().filter(|job| change.takes_job(job)).map(|job| job.id));
        next = page.next;
        if next.is_none() {
            return Ok(found);
        }
    }
}

/// Changes exactly the jobs that were counted, page by page.
async fn apply(
    client: &Client,
    change: &Change,
    counted: &[JobId],
    answer: &mut Answer,
) -> anyhow::Result<()> {
    for ids in counted.chunks(PAGE as usize) {
        for amended in change.apply(client, ids).await? {
            match amended {
                Amended::Done(_) => answer.changed += 1,
                // A job that ended or was removed meanwhile, or whose unique key another one holds.
                Amended::Refused(_) | Amended::Held(_) | Amended::Missing => answer.refused += 1,
            }
        }
    }
    Ok(())
}

fn print(
    session: &mut Session,
    change: &Change,
    expected: Option<u64>,
    answer: &Answer,
) -> anyhow::Result<()> {
    let Answer { matched, changed, refused } = *answer;
    let verb = change.verb();
    if session.output.is_json() {
        session.output.json(answer)?;
    } else if expected.is_some() {
        let refused = match refused {
            0 => String::new(),
            _ => format!("; {refused} were refused, because their state changed meanwhile"),
        };
        session.output.line(format_args!("{} {}{refused}", change.done(), jobs(changed)))?;
    } else {
        session.output.line(format_args!("{} would be changed by {verb}", jobs(matched)))?;
    }
    if expected.is_none() && matched > 0 {
        session.note(&format!("nothing was changed; to {verb} them, repeat with --expect {matched}"));
    }
    Ok(())
}

fn jobs(count: u64) -> String {
    format!("{count} {}", if count == 1 { "job" } else { "jobs" })
}

impl Change {
    fn verb(&self) -> &'static str {
        match self {
            Self::Cancel(_) => "cancel",
            Self::Retry => "retry",
            Self::Delete => "delete",
            Self::Move(_) => "move",
        }
    }

    fn done(&self) -> &'static str {
        match self {
            Self::Cancel(_) => "cancelled or asked to stop:",
            Self::Retry => "sent to ready:",
            Self::Delete => "deleted:",
            Self::Move(_) => "moved:",
        }
    }

    /// Whether the change is possible in this state.
    fn takes(&self, state: State) -> bool {
        match self {
            Self::Cancel(_) => !state.is_terminal(),
            Self::Retry => matches!(state, State::Dead | State::Cancelled | State::Scheduled),
            Self::Delete => state != State::Running,
            Self::Move(_) => !matches!(state, State::Running | State::Completed),
        }
    }

    /// Whether this job is to be changed. One that was asked to stop is not asked again, and one that is in the queue to
    /// move to stays there, so a repeat comes to an end.
    fn takes_job(&self, job: &JobRecord) -> bool {
        let is_done = match self {
            Self::Cancel(_) => job.cancel_requested,
            Self::Move(queue) => job.queue == *queue,
            Self::Retry | Self::Delete => false,
        };
        self.takes(job.state) && !is_done
    }
}
