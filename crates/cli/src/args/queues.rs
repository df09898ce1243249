//! The arguments of `queues`.

use clap::{Args, Subcommand};
use windlass_core::Name;

use super::{examples, parse};

#[derive(Debug, Args)]
pub(crate) struct QueuesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<QueuesCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueuesCommand {
    /// Show what queues hold and which workers serve them, as without a command
    #[command(after_help = examples::QUEUES)]
    List,
    /// Set what a queue keeps and permits
    ///
    /// What is not given stays as it is. Ages are durations, or forever. Sizes are bytes, or as 64KiB, 2MiB.
    #[command(after_help = examples::DEFINE)]
    Define(DefineArgs),
    /// Remove a queue that holds no jobs, and its definition
    ///
    /// Finished jobs count too: wait until they are pruned, or delete them. Workers that serve the queue go on, and it
    /// comes back, with the default definition, when a job is enqueued there.
    #[command(after_help = examples::REMOVE)]
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The queue
    #[arg(value_name = "NAME")]
    pub(crate) queue: Name,
}

#[derive(Debug, Args)]
pub(crate) struct DefineArgs {
    /// The queue
    #[arg(value_name = "NAME")]
    pub(crate) queue: Name,
    /// Begin with the defaults of the library instead of the present definition
    #[arg(long)]
    pub(crate) reset: bool,
    /// How long completed jobs stay
    #[arg(long, value_name = "AGE", value_parser = parse::age, allow_hyphen_values = true)]
    pub(crate) keep_completed: Option<parse::Age>,
    /// How many completed jobs stay
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub(crate) keep_completed_count: Option<parse::Count>,
    /// How long dead jobs stay
    #[arg(long, value_name = "AGE", value_parser = parse::age, allow_hyphen_values = true)]
    pub(crate) keep_dead: Option<parse::Age>,
    /// How many dead jobs stay
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub(crate) keep_dead_count: Option<parse::Count>,
    /// How long cancelled jobs stay
    #[arg(long, value_name = "AGE", value_parser = parse::age, allow_hyphen_values = true)]
    pub(crate) keep_cancelled: Option<parse::Age>,
    /// How many cancelled jobs stay
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub(crate) keep_cancelled_count: Option<parse::Count>,
    /// The largest payload that is accepted
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    pub(crate) payload_cap: Option<usize>,
    /// The largest output that is kept
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    pub(crate) output_cap: Option<usize>,
    /// Error texts are cut to this
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    pub(crate) error_cap: Option<usize>,
}
