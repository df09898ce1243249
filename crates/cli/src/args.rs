//! What can be typed. Everything here is parsed and checked before a store is opened, so a bad duration or id
//! never touches one. Commands live in `command/`, one file each.

mod calendars;
mod dead;
mod enqueue;
mod examples;
mod flows;
mod jobs;
mod on_call;
pub(crate) mod parse;
mod queues;
mod records;
mod schedules;
mod server;
mod top;
mod trial;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use calendars::*;
pub(crate) use dead::*;
pub(crate) use enqueue::EnqueueArgs;
pub(crate) use flows::{FlowArgs, FlowCursor, FlowsCommand, FlowsListArgs};
pub(crate) use jobs::{ChoiceArgs, DeleteArgs, JobsCommand, ListArgs, LogsArgs, WaitArgs};
pub(crate) use on_call::{DoctorArgs, ExplainArgs};
pub(crate) use queues::{
    DefineArgs, PauseArgs, QueuesArgs, QueuesCommand, RemoveArgs, ResumeArgs, ShowArgs, StatsArgs,
};
pub(crate) use records::*;
pub(crate) use schedules::*;
pub(crate) use server::*;
pub(crate) use top::TopArgs;
pub(crate) use trial::{BenchArgs, DemoArgs};

/// Background jobs from the shell: hand them in, look at them, move them.
///
/// Jobs live in a store that is named by a URL. Without --store and without WINDLASS_STORE it is the file
/// windlass.db in the current folder; its place and what an accepted job survives are said on stderr.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, after_help = examples::ROOT, max_term_width = 100)]
#[command(disable_help_subcommand = true, subcommand_required = true)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    /// The store, as sqlite://jobs.db, postgres://app@localhost/app, redis://localhost or http://localhost:8080
    #[arg(long, global = true, env = "WINDLASS_STORE", value_name = "URL", hide_env_values = true)]
    #[arg(help_heading = "Options of every command")]
    pub(crate) store: Option<String>,

    /// A server to work through instead of the store itself, as https://jobs.example; --store takes its URL too
    #[arg(long, global = true, value_name = "URL", help_heading = "Options of every command")]
    pub(crate) server: Option<String>,

    /// The file that holds the token for a server; WINDLASS_TOKEN may hold the token itself
    #[arg(long, global = true, env = "WINDLASS_TOKEN_FILE", value_name = "FILE", hide_env_values = true)]
    #[arg(help_heading = "Options of every command")]
    pub(crate) token_file: Option<std::path::PathBuf>,

    /// Print JSON for programs instead of text for people
    #[arg(long, global = true, help_heading = "Options of every command")]
    pub(crate) json: bool,

    /// Do not say on stderr which store is used
    #[arg(long, short, global = true, help_heading = "Options of every command")]
    pub(crate) quiet: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch jobs succeed, fail, retry, time out and survive crashes
    ///
    /// Runs a worker in a child process on a temporary file (or on --store), with built-in kinds that
    /// succeed, fail for good, retry, block, time out, snooze, and abort the whole process. The parent
    /// starts the worker again each time. Ends with a summary, and fails if any job was lost.
    #[command(after_help = examples::DEMO)]
    Demo(DemoArgs),

    /// Hand in a job
    ///
    /// Accepted means stored, at the durability that is printed with the answer. Handing in the same job
    /// under the same --id again changes nothing and is answered with its state.
    #[command(after_help = examples::ENQUEUE)]
    Enqueue(Box<EnqueueArgs>),

    /// List, show, cancel, retry, delete and move jobs
    #[command(after_help = examples::JOBS, subcommand_required = true, arg_required_else_help = true)]
    Jobs {
        #[command(subcommand)]
        command: JobsCommand,
    },

    /// Say why jobs are where they are, and what to do about it
    ///
    /// For a job that waits: what keeps it from starting (its time, a pause, a limit, other jobs, no worker), with the remedy
    /// of each. For one that runs: which worker has it, since when, and whether its lease lives. For one that has ended: how,
    /// and what a retry would do. Reads only.
    #[command(after_help = examples::EXPLAIN)]
    Explain(ExplainArgs),

    /// Examine a store: its settings, what waits in it, and who serves it
    ///
    /// One line for each check: ok, warning or problem, with what to do about it. Looks at the connection, the clock, the
    /// durability, the settings of the server or file, lost leases, and of each queue its definition, its workers, what is
    /// overdue, and the newest 1,000 jobs. Changes nothing.
    #[command(after_help = examples::DOCTOR)]
    Doctor(DoctorArgs),

    /// Search, group, replay, edit, archive and purge dead jobs
    #[command(after_help = examples::dead::DEAD, subcommand_required = true, arg_required_else_help = true)]
    Dead {
        #[command(subcommand)]
        command: DeadCommand,
    },

    /// Look at and change the records that a queue keeps beside its jobs
    #[command(after_help = examples::dead::RECORDS, subcommand_required = true, arg_required_else_help = true)]
    Records {
        #[command(subcommand)]
        command: RecordsCommand,
    },

    /// Look at, set, play through and pause schedules: jobs that come with the clock
    #[command(after_help = examples::schedules::SCHEDULES, subcommand_required = true, arg_required_else_help = true)]
    Schedules {
        #[command(subcommand)]
        command: SchedulesCommand,
    },

    /// Look at and set calendars: days on which schedules that name them have no slots
    #[command(after_help = examples::calendars::CALENDARS, subcommand_required = true, arg_required_else_help = true)]
    Calendars {
        #[command(subcommand)]
        command: CalendarsCommand,
    },

    /// Look at, cancel and retry flows: jobs that wait for other jobs
    #[command(after_help = examples::flows::FLOWS, subcommand_required = true, arg_required_else_help = true)]
    Flows {
        #[command(subcommand)]
        command: FlowsCommand,
    },

    /// Show what queues hold and which workers serve them, define and remove them
    ///
    /// Without a subcommand: every queue that was defined or holds jobs, with its jobs by state, how long the
    /// oldest job waits, how many scheduled ones are overdue, the workers that serve it, and how long finished
    /// jobs stay where that is not the default.
    #[command(after_help = examples::QUEUES)]
    Queues(QueuesArgs),

    /// Watch queues, workers and failures live, and act on them
    ///
    /// One screen: what each queue holds and how fast it moves, who works, what failed in the last hour, and one line that
    /// says whether all is well and why not. Keys pause and resume queues, retry and cancel jobs; ? lists them. With --once
    /// it prints one such screen as text, or with --json as a document, and ends.
    #[command(after_help = examples::TOP)]
    Top(TopArgs),

    /// Show the leases of workers
    ///
    /// Each worker process holds one lease. One that has run out belongs to a worker that died or lost the
    /// store; its jobs are taken back by any living worker.
    #[command(after_help = examples::WORKERS)]
    Workers(WorkersArgs),

    /// Remove finished jobs that their queue no longer keeps
    ///
    /// Works in bounded steps until nothing is left to remove. Workers do this by themselves; the command is
    /// for stores without a running worker, or after a retention was shortened.
    #[command(after_help = examples::PRUNE)]
    Prune(PruneArgs),

    /// Bring the schema of the store up to date
    ///
    /// Programs do this whenever they open a store; the command does only that, or with --dry-run prints the
    /// statements as a script and changes nothing. Several at once are safe, and so are programs of the version
    /// before that still run.
    #[command(after_help = examples::MIGRATE)]
    Migrate(MigrateArgs),

    /// Serve the HTTP API of a store
    ///
    /// Listens on this machine only, unless told otherwise. Requests need a token as soon as the store has one, and
    /// always where other machines can reach the server: then it does not start without. Ends with Ctrl-C or SIGTERM,
    /// after requests that are under way.
    #[command(after_help = examples::server::SERVE)]
    Serve(ServeArgs),

    /// Make, list and revoke tokens for the HTTP API
    #[command(after_help = examples::server::TOKENS, subcommand_required = true, arg_required_else_help = true)]
    Tokens {
        #[command(subcommand)]
        command: TokensCommand,
    },

    /// Show who changed what by the HTTP API, the newest first
    #[command(after_help = examples::server::AUDIT)]
    Audit(AuditArgs),

    /// Measure how fast a store is on this machine
    ///
    /// Works on a temporary file that is removed afterwards. A store that --store names on the command line
    /// is measured only together with --yes; WINDLASS_STORE is never measured.
    #[command(after_help = examples::BENCH)]
    Bench(BenchArgs),

    /// Print a completion script for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct WorkersArgs {
    /// How many leases at most
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PruneArgs {
    /// How many jobs to remove in one step
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Take one step only
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    /// Print the pending statements and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        fn visit(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{path} has no examples");
            for inner in command.get_subcommands() {
                visit(inner, &path);
            }
        }
        visit(&Cli::command(), "");
    }
}
