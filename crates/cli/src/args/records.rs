//! The arguments of `records`.

use std::time::Duration;

use clap::{Args, Subcommand};
use windlass_core::Name;
use windlass_core::record::{RecordKey, Version};

use super::examples::dead as examples;
use super::parse;

#[derive(Debug, Subcommand)]
pub(crate) enum RecordsCommand {
    /// List records by key, with how many there are and how large they are
    #[command(after_help = examples::RECORDS_LIST)]
    List(RecordsListArgs),
    /// Show a record
    #[command(after_help = examples::RECORDS_GET)]
    Get(RecordsGetArgs),
    /// Put a JSON value under a key, and print the version that it leaves
    #[command(after_help = examples::RECORDS_PUT)]
    Put(RecordsPutArgs),
    /// Remove a record
    #[command(after_help = examples::RECORDS_REMOVE)]
    Remove(RecordsRemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RecordsListArgs {
    /// The queue
    pub(crate) queue: Name,
    /// Only keys that begin with this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prefix: String,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
    /// Begin after this key
    #[arg(long, value_name = "KEY", value_parser = parse::record_key)]
    pub(crate) after: Option<RecordKey>,
}

/// One record.
#[derive(Debug, Args)]
pub(crate) struct RecordsGetArgs {
    /// The queue
    pub(crate) queue: Name,
    /// The key
    #[arg(value_parser = parse::record_key)]
    pub(crate) key: RecordKey,
}

#[derive(Debug, Args)]
pub(crate) struct RecordsPutArgs {
    #[command(flatten)]
    pub(crate) record: RecordsGetArgs,
    /// The value: JSON, - for standard input, or @FILE
    #[arg(value_name = "VALUE|-|@FILE", allow_hyphen_values = true)]
    pub(crate) value: String,
    /// Only if the record still has this version
    #[arg(long, value_name = "VERSION", value_parser = parse::version, conflicts_with = "if_absent")]
    pub(crate) if_version: Option<Version>,
    /// Only if there is none
    #[arg(long)]
    pub(crate) if_absent: bool,
    /// It is gone after this long
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct RecordsRemoveArgs {
    #[command(flatten)]
    pub(crate) record: RecordsGetArgs,
    /// Only if it still has this version
    #[arg(long, value_name = "VERSION", value_parser = parse::version)]
    pub(crate) if_version: Option<Version>,
}
