//! `flows`: jobs that wait for other jobs.

mod change;
mod drawing;
mod find;
mod lines;
mod list;
mod of_job;
mod show;

use serde::Serialize;
use windlass::flow::FlowView;

pub(crate) use self::of_job::FlowOf;
use crate::args::FlowsCommand;
use crate::exit::Exit;
use crate::output::json;
use crate::session::Session;

pub(crate) async fn run(session: &mut Session, command: FlowsCommand) -> anyhow::Result<Exit> {
    match command {
        FlowsCommand::List(args) => list::run(session, &args).await,
        FlowsCommand::Show(args) => show::run(session, &args).await,
        FlowsCommand::Cancel(args) => change::cancel(session, &args).await,
        FlowsCommand::Retry(args) => change::retry(session, &args).await,
    }
}

/// A flow without its jobs, for programs; tables are made of the same.
#[derive(Debug, Serialize)]
struct FlowJson {
    id: String,
    name: String,
    queue: String,
    state: &'static str,
    /// All jobs, without callbacks, and of them those that have ended.
    jobs: u32,
    ended: u32,
    waiting: u32,
    open: u32,
    completed: u32,
    dead: u32,
    cancelled: u32,
    failed: u32,
    skipped: u32,
    changed_at: String,
}

impl FlowJson {
    fn of(view: &FlowView) -> Self {
        let tally = &view.tally;
        Self {
            id: view.id.to_string(),
            name: view.name.clone(),
            queue: view.home.to_string(),
            state: state(view),
            jobs: tally.jobs,
            ended: tally.ended(),
            waiting: tally.waiting,
            open: tally.open,
            completed: tally.completed,
            dead: tally.dead,
            cancelled: tally.cancelled,
            failed: tally.failed,
            skipped: tally.skipped,
            changed_at: json::instant(view.changed_at),
        }
    }
}

/// Where a flow is, in a word.
fn state(view: &FlowView) -> &'static str {
    match (view.is_over, view.is_cancelled) {
        (_, true) => "cancelled",
        (false, false) => "running",
        (true, false) if view.tally.is_success() => "succeeded",
        (true, false) => "failed",
    }
}

/// The jobs of a flow by where they are, in words; callbacks are not counted.
fn tally(view: &FlowView) -> String {
    let tally = &view.tally;
    let counts = [
        (tally.completed, "completed"),
        (tally.skipped, "skipped"),
        (tally.dead, "dead"),
        (tally.cancelled, "cancelled"),
        (tally.failed, "failed"),
        (tally.open, "open"),
        (tally.waiting, "waiting"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    let ended = format!("{} of {} ended", tally.ended(), tally.jobs);
    if counts.is_empty() { ended } else { format!("{ended}: {}", counts.join(", ")) }
}
