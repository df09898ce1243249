//! The arguments of `top`.

use std::time::Duration;

use clap::Args;

use super::parse;

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// How often to look
    #[arg(long, short = 'n', value_name = "DURATION", default_value = "1s", value_parser = parse::duration, allow_hyphen_values = true)]
    pub(crate) interval: Duration,
    /// Show only what has this text in its name
    #[arg(long, short = 'f', value_name = "TEXT", default_value = "")]
    pub(crate) filter: String,
    /// Look twice, an interval apart, print what was seen, and end
    #[arg(long)]
    pub(crate) once: bool,
}
