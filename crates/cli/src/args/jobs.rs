//! The arguments of `jobs`.

use std::time::Duration;

use clap::{Args, Subcommand};
use windlass_core::store::{Filter, PAGE_MAX};
use windlass_core::{JobId, Name, State};

use super::{examples, parse};

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// List jobs, the newest first
    ///
    /// Everything that is given must hold. Running jobs are shown with their worker and since when it has them, others
    /// with their last error. A page that is not the last one says how to get the next.
    #[command(after_help = examples::LIST)]
    List(ListArgs),
    /// Show everything about jobs
    #[command(after_help = examples::SHOW)]
    Show(ShowArgs),
    /// Cancel jobs: waiting ones at once, running ones by asking their worker
    ///
    /// By id, or by filter as jobs list has it. By filter nothing is changed without --expect.
    #[command(after_help = examples::CANCEL)]
    Cancel(CancelArgs),
    /// Send dead, cancelled or scheduled jobs to ready now
    ///
    /// By id, or by filter as jobs list has it. By filter nothing is changed without --expect. Dead and cancelled jobs
    /// begin again with fresh attempts.
    #[command(after_help = examples::RETRY)]
    Retry(ChoiceArgs),
    /// Remove jobs for good; running ones are refused
    ///
    /// By id, or by filter as jobs list has it. By filter nothing is changed without --expect. By id it asks first on a
    /// terminal; elsewhere --yes is needed.
    #[command(after_help = examples::DELETE)]
    Delete(DeleteArgs),
    /// Move jobs that wait, are dead or were cancelled to another queue
    ///
    /// By id, or by filter as jobs list has it. By filter nothing is changed without --expect. In the other queue a job has
    /// a new id, which is printed for those given by id, and fresh attempts; one that was scheduled keeps its instant, others are ready at once.
    #[command(after_help = examples::MOVE)]
    Move(MoveArgs),
    /// Wait until a job has come to its end
    #[command(after_help = examples::dead::WAIT)]
    Wait(WaitArgs),
    /// Show what the attempts of a job have said
    ///
    /// Lines that handlers logged, oldest first, with the number of their attempt. They are kept for a while after the job has
    /// ended, and also when its queue has removed it: then name the queue.
    #[command(after_help = examples::LOGS)]
    Logs(LogsArgs),
    /// Follow a job until it has come to its end
    ///
    /// States, log lines and progress as they come.
    #[command(after_help = examples::TAIL)]
    Tail(WaitArgs),
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The id
    #[arg(value_name = "ID")]
    pub(crate) id: JobId,
    /// Only of this attempt
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,
    /// The queue of a job that is no longer there
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<Name>,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The id
    #[arg(value_name = "ID")]
    pub(crate) id: JobId,
    /// How long at most [default: until it ends]
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
}

/// Which jobs; everything that is given must hold.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// In this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<Name>,
    /// Of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<Name>,
    /// In this state: blocked, scheduled, ready, running, completed, dead or cancelled
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// With this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<Name>,
}

impl From<FilterArgs> for Filter {
    fn from(args: FilterArgs) -> Self {
        let FilterArgs { queue, kind, state, tag } = args;
        Self { queue, kind, state, tag }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Running on the worker with this label
    #[arg(long, value_name = "LABEL", conflicts_with = "state")]
    pub(crate) worker: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_MAX)))]
    pub(crate) limit: u32,
    /// Begin after this cursor, which the page before ended with
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The ids
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<JobId>,
}

/// Jobs to change: by id, or by filter.
#[derive(Debug, Args)]
pub(crate) struct ChoiceArgs {
    /// The ids
    #[arg(value_name = "ID", required_unless_present_any = ["queue", "kind", "state", "tag"])]
    #[arg(conflicts_with_all = ["queue", "kind", "state", "tag", "expect"])]
    pub(crate) ids: Vec<JobId>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// With a filter: change the jobs if exactly this many match; without it they are only counted
    #[arg(long, value_name = "N")]
    pub(crate) expect: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    /// Why, for those who ask later: kept for a month, and shown by jobs show
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    /// Who cancels them; kept with --why
    #[arg(long, value_name = "NAME", env = "USER", default_value = "", hide_env_values = true)]
    pub(crate) by: String,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// The queue to move them to
    #[arg(long, value_name = "NAME")]
    pub(crate) to: Name,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
}
