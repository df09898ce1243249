//! The arguments of `queues`.

use std::time::Duration;

use clap::{Args, Subcommand};
use windlass_core::Name;
use windlass_core::queue::Shape;
use windlass_core::tally::Interval;

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
    /// Show one queue: what it holds, what it hands out, what it keeps
    #[command(after_help = examples::SHOW_QUEUE)]
    Show(ShowArgs),
    /// Show what happened in queues: how many jobs came and ended, how long they waited and ran
    ///
    /// Counted by the store as it happens, by the minute for six hours, by ten minutes for two days and by the hour for ninety
    /// days. Times are upper bounds, off by a factor of two at most.
    #[command(after_help = examples::STATS)]
    Stats(StatsArgs),
    /// Set what a queue keeps, permits and hands out
    ///
    /// What is not given stays as it is. Ages are durations, or forever. Sizes are bytes, or as 64KiB, 2MiB. Limits hold
    /// for all workers together; running workers heed them from their next claim on.
    #[command(visible_alias = "set", after_help = examples::DEFINE)]
    Define(Box<DefineArgs>),
    /// Hand out no job of a queue, or of some of its kinds or keys
    ///
    /// Jobs that run go on to their end, scheduled ones become ready, and new ones are accepted.
    #[command(after_help = examples::PAUSE)]
    Pause(PauseArgs),
    /// Hand out jobs again
    #[command(after_help = examples::RESUME)]
    Resume(ResumeArgs),
    /// Remove a queue that holds no jobs, and its definition
    ///
    /// Finished jobs count too: wait until they are pruned, or delete them. Workers that serve the queue go on, and it
    /// comes back, with the default definition, when a job is enqueued there.
    #[command(after_help = examples::REMOVE)]
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The queue
    #[arg(value_name = "NAME")]
    pub(crate) queue: Name,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// The queue; without it all queues
    #[arg(value_name = "NAME")]
    pub(crate) queue: Option<Name>,
    /// From how long ago on
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, default_value = "1h")]
    pub(crate) since: Duration,
    /// How long the steps are: 1m, 10m or 1h; without it the shortest that are kept
    #[arg(long, value_name = "STEP", value_parser = parse::interval)]
    pub(crate) step: Option<Interval>,
}

#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// The queue
    #[arg(value_name = "NAME")]
    pub(crate) queue: Name,
    /// Only jobs of this kind; can be given several times
    #[arg(long = "kind", value_name = "KIND")]
    pub(crate) kinds: Vec<Name>,
    /// Only jobs of this key; can be given several times
    #[arg(long = "key", value_name = "KEY", conflicts_with = "kinds")]
    pub(crate) keys: Vec<Name>,
    /// Why, for those who find it paused
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) why: String,
    /// Who asks for it
    #[arg(long, value_name = "NAME", env = "USER", default_value = "", hide_env_values = true)]
    pub(crate) by: String,
    /// It ends by itself after this long
    #[arg(long = "for", value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    pub(crate) time: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The queue
    #[arg(value_name = "NAME")]
    pub(crate) queue: Name,
    /// Only jobs of this kind; can be given several times
    #[arg(long = "kind", value_name = "KIND")]
    pub(crate) kinds: Vec<Name>,
    /// Only jobs of this key; can be given several times
    #[arg(long = "key", value_name = "KEY", conflicts_with = "kinds")]
    pub(crate) keys: Vec<Name>,
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
    /// How many of its jobs run at once, over all workers; or none for no limit
    #[arg(long, value_name = "N|none", value_parser = parse::concurrency)]
    pub(crate) concurrency: Option<parse::Concurrency>,
    /// How many of its jobs start in a time, over all workers, as 500/1m; or none for no limit
    #[arg(long, value_name = "N/DURATION|none", value_parser = parse::rate)]
    pub(crate) rate: Option<parse::RateLimit>,
    /// How the rate is spread: sliding (in any span of the time), fixed (from one slot of the clock to the next), or
    /// bucket:N (evenly, N at once after a rest) [default: sliding]
    #[arg(long, value_name = "SHAPE", value_parser = parse::shape, requires = "rate")]
    pub(crate) rate_shape: Option<Shape>,
    /// How many jobs of one key run at once, over all workers; or none for no limit
    #[arg(long, value_name = "N|none", value_parser = parse::concurrency)]
    pub(crate) per_key_concurrency: Option<parse::Concurrency>,
    /// How many jobs of one key start in a time, over all workers, as 10/1s; or none for no limit
    #[arg(long, value_name = "N/DURATION|none", value_parser = parse::rate)]
    pub(crate) per_key_rate: Option<parse::RateLimit>,
    /// How the rate of each key is spread; see --rate-shape
    #[arg(long, value_name = "SHAPE", value_parser = parse::shape, requires = "per_key_rate")]
    pub(crate) per_key_rate_shape: Option<Shape>,
    /// How often a key has its turn beside others, 1 to 1000, as acme=5; 1 takes it back. Can be given several times
    #[arg(long = "weight", value_name = "KEY=N", value_parser = parse::weight)]
    pub(crate) weights: Vec<(Name, u32)>,
    /// What a level of priority is worth, as 10s: a job waits behind no later one of a higher level for longer than that for each
    /// level between them; or none for the higher level always first
    #[arg(long, value_name = "DURATION|none", value_parser = parse::aging)]
    pub(crate) aging: Option<parse::Aging>,
    /// How many of its jobs may wait; an enqueue beyond that is refused. Or none for no limit
    #[arg(long, value_name = "N|none", value_parser = parse::capacity)]
    pub(crate) capacity: Option<parse::Capacity>,
    /// Attempts of jobs that say nothing about them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) default_attempts: Option<u32>,
    /// The wait between attempts of jobs that say nothing about it, as exponential:2s; see windlass enqueue --help
    #[arg(long, value_name = "BACKOFF", value_parser = parse::backoff)]
    pub(crate) default_backoff: Option<parse::Backoff>,
    /// How long one attempt of jobs that say nothing about it may take
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    pub(crate) default_timeout: Option<Duration>,
    /// The priority of jobs that say none
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) default_priority: Option<i16>,
    /// The queue that dead jobs which say nothing about it are sent to, as new ones; or none
    #[arg(long, value_name = "QUEUE|none", value_parser = parse::forward)]
    pub(crate) default_forward_dead: Option<parse::Forward>,
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
    /// Whether the HTTP API shows contents of its jobs only to those who ask to reveal them
    #[arg(long, value_name = "true|false")]
    pub(crate) masked: Option<bool>,
}
