//! The arguments of `dead`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use windlass::worker::DeadFilter;
use windlass_core::clock::Timestamp;
use windlass_core::fingerprint::Fingerprint;
use windlass_core::{JobId, Name};

use super::examples::dead as examples;
use super::parse::{self, When};

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead jobs, the newest accepted first
    #[command(after_help = examples::LIST)]
    List(DeadListArgs),
    /// Show everything about dead jobs, with the fingerprint of their error and what was edited
    #[command(after_help = examples::SHOW)]
    Show(DeadShowArgs),
    /// Group dead jobs by the error that they died of, the largest group first
    ///
    /// Errors are the same if their first lines differ only in numbers, ids and what stands in quotes.
    #[command(after_help = examples::GROUPS)]
    Groups(DeadGroupsArgs),
    /// Show some dead jobs, chosen at random
    #[command(after_help = examples::SAMPLE)]
    Sample(DeadSampleArgs),
    /// Send dead jobs back under their own ids, with fresh attempts
    ///
    /// Without --expect they are only counted. Only jobs that had died before the replay began are sent back, so one that dies
    /// again is not sent back again. A replay that was interrupted prints the command that goes on with it.
    #[command(after_help = examples::REPLAY)]
    Replay(Box<DeadReplayArgs>),
    /// Enqueue a job as an ended one but with another payload, and record who did it and why
    ///
    /// The ended job stays. Its payload can be edited once; edit the new job if that dies, too.
    #[command(after_help = examples::EDIT)]
    Edit(DeadEditArgs),
    /// Run an ended job again as a new one, with a link to it
    #[command(after_help = examples::AGAIN)]
    Again(DeadAgainArgs),
    /// Write dead jobs to a file, one JSON object a line, and remove them if --purge is given
    ///
    /// The file is compressed if its name ends in .gz. It is there completely or not at all, and one that is there already is
    /// left alone. Jobs are removed only after it is on the disk.
    #[command(after_help = examples::ARCHIVE)]
    Archive(DeadArchiveArgs),
    /// Enqueue the jobs of an archive as new ones, each with a link to the one that it was
    ///
    /// Their ids follow from those in the archive: a second import stores none again that the store still has.
    #[command(after_help = examples::IMPORT)]
    Import(DeadImportArgs),
    /// Remove dead jobs for good
    ///
    /// Without --expect they are only counted.
    #[command(after_help = examples::PURGE)]
    Purge(DeadPurgeArgs),
    /// Keep an index of the dead jobs of a queue by fingerprint, or forget it
    ///
    /// With it, dead list --queue --fingerprint takes about as long as what it finds. Workers write it, one record for each death,
    /// also for what is dead already.
    #[command(after_help = examples::INDEX)]
    Index(DeadIndexArgs),
    /// Rules that send dead jobs back by themselves, some time after their death and only so often
    #[command(after_help = examples::RULES)]
    Rules(DeadRulesArgs),
}

/// Which dead jobs; everything that is given must hold.
#[derive(Debug, Clone, Args)]
pub(crate) struct DeadFilterArgs {
    /// In this queue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<Name>,
    /// Of this kind
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<Name>,
    /// With this tag
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<Name>,
    /// Whose last error has this text in it, whatever the case
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// That died of the error with this fingerprint, as dead groups shows it
    #[arg(long, value_name = "FINGERPRINT")]
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Whose JSON payload has this value at a path, as order.id=42; can be given several times
    #[arg(long = "field", value_name = "PATH=VALUE", value_parser = parse::field)]
    pub(crate) fields: Vec<(String, String)>,
    /// That died this long ago at most, as 2h, or since an instant in UTC
    #[arg(long, value_name = "DURATION|INSTANT", value_parser = parse::when, allow_hyphen_values = true)]
    pub(crate) since: Option<When>,
    /// That died before an instant in UTC, as 2026-11-18T09:00:00Z, or longer ago than a duration
    #[arg(long, value_name = "DURATION|INSTANT", value_parser = parse::when, allow_hyphen_values = true)]
    pub(crate) before: Option<When>,
}

impl DeadFilterArgs {
    /// The filter, where it is now by the store's clock.
    pub(crate) fn at(&self, now: Timestamp) -> windlass::Result<DeadFilter> {
        let mut filter = DeadFilter::new();
        if let Some(queue) = &self.queue {
            filter = filter.queue(queue)?;
        }
        if let Some(kind) = &self.kind {
            filter = filter.kind(kind)?;
        }
        if let Some(tag) = &self.tag {
            filter = filter.tag(tag)?;
        }
        if let Some(text) = &self.error {
            filter = filter.error(text);
        }
        if let Some(fingerprint) = self.fingerprint {
            filter = filter.fingerprint(fingerprint);
        }
        for (path, value) in &self.fields {
            filter = filter.field(path, value.as_str());
        }
        if let Some(since) = self.since {
            filter = filter.since(since.at(now));
        }
        if let Some(before) = self.before {
            filter = filter.before(before.at(now));
        }
        Ok(filter)
    }
}

#[derive(Debug, Args)]
pub(crate) struct DeadListArgs {
    #[command(flatten)]
    pub(crate) filter: DeadFilterArgs,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
    /// Begin after this cursor, which the page before ended with
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// How far a search goes.
#[derive(Debug, Args)]
pub(crate) struct ReachArgs {
    /// How many dead jobs to look at, at most
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) look: u64,
}

#[derive(Debug, Args)]
pub(crate) struct DeadShowArgs {
    /// The ids
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<JobId>,
}

#[derive(Debug, Args)]
pub(crate) struct DeadGroupsArgs {
    #[command(flatten)]
    pub(crate) filter: DeadFilterArgs,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeadSampleArgs {
    #[command(flatten)]
    pub(crate) filter: DeadFilterArgs,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) count: u32,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeadReplayArgs {
    #[command(flatten)]
    pub(crate) filter: DeadFilterArgs,
    /// At most so many jobs a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// Stop when so many of those that were sent back have died again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) stop_after: Option<u64>,
    /// Send back so many at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) most: Option<u64>,
    /// Go on with the replay that began at this instant
    #[arg(long, value_name = "INSTANT", value_parser = parse::instant)]
    pub(crate) begun_at: Option<SystemTime>,
    /// Send them back if exactly this many match; without it they are only counted
    #[arg(long, value_name = "N")]
    pub(crate) expect: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct DeadEditArgs {
    /// The id of the ended job
    #[arg(value_name = "ID")]
    pub(crate) id: JobId,
    /// The file with the new payload, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    pub(crate) payload: String,
    /// Take the payload as it is; otherwise it must be JSON
    #[arg(long)]
    pub(crate) raw: bool,
    /// Why, for those who ask later
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    /// Who edits it
    #[arg(long, value_name = "NAME", env = "USER", default_value = "", hide_env_values = true)]
    pub(crate) by: String,
}

#[derive(Debug, Args)]
pub(crate) struct DeadAgainArgs {
    /// The id of the ended job
    #[arg(value_name = "ID")]
    pub(crate) id: JobId,
}

#[derive(Debug, Args)]
pub(crate) struct DeadArchiveArgs {
    #[command(flatten)]
    pub(crate) filter: DeadFilterArgs,
    /// The file to make, as dead.jsonl.gz or dead.jsonl
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
    /// Remove the jobs that were written, once the file is on the disk
    #[arg(long)]
    pub(crate) purge: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeadImportArgs {
    /// The archive
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DeadPurgeArgs {
    #[command(flatten)]
    pub(crate) filter: DeadFilterArgs,
    /// Remove them if exactly this many match; without it they are only counted
    #[arg(long, value_name = "N")]
    pub(crate) expect: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct DeadIndexArgs {
    /// The queue
    #[arg(value_name = "QUEUE")]
    pub(crate) queue: Name,
    /// Forget it, and remove its records
    #[arg(long)]
    pub(crate) forget: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeadRulesArgs {
    #[command(subcommand)]
    pub(crate) command: DeadRulesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadRulesCommand {
    /// List all rules
    #[command(after_help = examples::RULES_LIST)]
    List,
    /// Store a rule, also over one of the same name
    ///
    /// Workers heed it, about every half minute. It looks at all dead jobs of its queue, those from before as well. How often a
    /// job was sent back is stored with it: one whose handler always fails stays dead after the last time.
    #[command(after_help = examples::RULES_SET)]
    Set(DeadRuleSetArgs),
    /// Remove a rule
    #[command(after_help = examples::RULES_REMOVE)]
    Remove(DeadRuleRemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DeadRuleSetArgs {
    /// The queue that it is about
    #[arg(value_name = "QUEUE")]
    pub(crate) queue: Name,
    /// What it is called
    #[arg(value_name = "NAME")]
    pub(crate) name: Name,
    /// Only jobs of this kind
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<Name>,
    /// Only jobs that died of the error with this fingerprint, as dead groups shows it
    #[arg(long, value_name = "FINGERPRINT")]
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Only jobs whose last error has this text in it, whatever the case
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// How long after its death a job is sent back
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse::duration)]
    pub(crate) after: Duration,
    /// How often a job is sent back at most, by all rules together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) most: u32,
}

#[derive(Debug, Args)]
pub(crate) struct DeadRuleRemoveArgs {
    /// The queue that it is about
    #[arg(value_name = "QUEUE")]
    pub(crate) queue: Name,
    /// What it is called
    #[arg(value_name = "NAME")]
    pub(crate) name: Name,
}
