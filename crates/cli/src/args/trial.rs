//! The arguments of `demo` and `bench`, which try a store out.

use std::time::Duration;

use clap::Args;

use super::parse;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// How many mails to send; the other kinds have a few jobs each
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) jobs: u32,
    /// How long a crashed worker goes unnoticed
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse::duration, allow_hyphen_values = true)]
    pub(crate) lease: Duration,
    /// Leave the temporary file behind and print where it is
    #[arg(long)]
    pub(crate) keep: bool,
    /// Be the worker of a demo; ends when standard input does
    #[arg(long, hide = true)]
    pub(crate) as_worker: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// How many jobs each measurement handles
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) jobs: u32,
    /// How many producers enqueue at the same time
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub(crate) producers: u32,
    /// Write into the store that --store names; the jobs of the measurement are removed afterwards
    #[arg(long, short)]
    pub(crate) yes: bool,
}
