//! The arguments of `jobs`.

use clap::{Args, Subcommand};
use windlass_core::store::PAGE_MAX;
use windlass_core::{JobId, Name, State};

use super::examples;

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// List jobs, the newest first
    ///
    /// Everything that is given must hold. A page that is not the last one says how to get the next.
    #[command(after_help = examples::LIST)]
    List(ListArgs),
    /// Show everything about jobs
    #[command(after_help = examples::SHOW)]
    Show(ShowArgs),
    /// Cancel jobs: waiting ones at once, running ones by asking their worker
    #[command(after_help = examples::CANCEL)]
    Cancel(IdsArgs),
    /// Send dead, cancelled or scheduled jobs to ready now
    ///
    /// Dead and cancelled jobs begin again with fresh attempts.
    #[command(after_help = examples::RETRY)]
    Retry(IdsArgs),
    /// Remove jobs for good; running ones are refused
    ///
    /// Asks first on a terminal. Elsewhere --yes is needed.
    #[command(after_help = examples::DELETE)]
    Delete(DeleteArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// In this queue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<Name>,
    /// Of this kind
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<Name>,
    /// In this state: blocked, scheduled, ready, running, completed, dead or cancelled
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<State>,
    /// With this tag
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<Name>,
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

#[derive(Debug, Args)]
pub(crate) struct IdsArgs {
    /// The ids
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<JobId>,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The ids
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<JobId>,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}
