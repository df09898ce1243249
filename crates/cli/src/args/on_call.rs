//! The arguments of `explain`.

use clap::Args;
use windlass_core::JobId;

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The ids
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<JobId>,
}
