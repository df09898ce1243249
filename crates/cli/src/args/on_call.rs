//! The arguments of `explain` and `doctor`.

use clap::Args;
use windlass_core::JobId;

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The ids
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<JobId>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// End with exit code 1 when there are warnings
    #[arg(long)]
    pub(crate) strict: bool,
    /// Also what reads all there is, as a check of every page of an SQLite file
    #[arg(long)]
    pub(crate) deep: bool,
}
