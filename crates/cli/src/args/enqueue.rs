//! The arguments of `enqueue`.

use std::time::{Duration, SystemTime};

use clap::Args;
use windlass_core::JobId;
use windlass_core::job::Trace;
use windlass_core::retry::Jitter;
use windlass_core::unique::Lifetime;

use super::parse;

#[derive(Debug, Args)]
pub(crate) struct EnqueueArgs {
    /// The kind of job, as its handler calls it
    pub(crate) kind: String,

    /// The payload: JSON, - for standard input, or @FILE [default: null]
    #[arg(value_name = "PAYLOAD|-|@FILE", allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,

    /// Send the payload as it is, whatever it is; without one, send no bytes
    #[arg(long)]
    pub(crate) raw: bool,

    /// The queue [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,

    /// Higher is claimed first, from -32768 to 32767 [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) priority: Option<i16>,

    /// Not before this long from now, as 300ms or 2h
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true, conflicts_with = "at")]
    pub(crate) delay: Option<Duration>,

    /// Not before this instant in UTC, as 2026-11-15T08:30:00Z
    #[arg(long, value_name = "INSTANT", value_parser = parse::instant)]
    pub(crate) at: Option<SystemTime>,

    /// Dead with reason expired unless it starts within this time
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    pub(crate) expires_in: Option<Duration>,

    /// The key that it takes turns by with jobs of other keys, such as the customer that it is for
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,

    /// At most one job of its queue and kind has this key until it ends; another one is not stored
    #[arg(long, value_name = "KEY")]
    pub(crate) unique: Option<String>,

    /// How long the key is held: start, end, or a duration from its acceptance [default: end]
    #[arg(long, value_name = "start|end|DURATION", value_parser = parse::lifetime, requires = "unique")]
    pub(crate) unique_until: Option<Lifetime>,

    /// Give payload, tags and options to the job that has the key, if it waits
    #[arg(long, requires = "unique")]
    pub(crate) replace: bool,

    /// As --replace, and each new one puts the start off by its --delay, for as long as this at most
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, requires_all = ["unique", "delay"], conflicts_with_all = ["replace", "unique_until"])]
    pub(crate) debounce: Option<Duration>,

    /// Attempts in all, the first included [default: 25]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempts: Option<u32>,

    /// The wait between attempts: fixed:D, linear:D, exponential:D[:FACTOR] or polynomial:D:POWER
    /// [default: exponential:2s]
    #[arg(long, value_name = "BACKOFF", value_parser = parse::backoff)]
    pub(crate) backoff: Option<parse::Backoff>,

    /// The longest wait between attempts [default: 6h]
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    pub(crate) backoff_max: Option<Duration>,

    /// How waits are spread: none, equal, full, decorrelated, or share:0.1 for plus or minus a tenth [default: full]
    #[arg(long, value_name = "JITTER", value_parser = parse::jitter)]
    pub(crate) jitter: Option<Jitter>,

    /// How long one attempt may take [default: the worker's]
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,

    /// How many crashed workers the job survives [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) max_stalls: Option<u32>,

    /// A value that the handler can read, as tenant=acme; can be given several times
    #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = parse::pair)]
    pub(crate) meta: Vec<(String, String)>,

    /// The trace that it belongs to, as the header traceparent says it
    #[arg(long, value_name = "TRACEPARENT", value_parser = parse::trace)]
    pub(crate) trace: Option<Trace>,

    /// A word to find it by; can be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,

    /// The id, a UUID; makes repeating the command safe [default: a new one]
    #[arg(long, value_name = "UUID")]
    pub(crate) id: Option<JobId>,

    /// Hand in this many of the same job, stored by the thousand
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["id", "unique"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
}
