//! The commands of this repository. `cargo xtask --help` lists them; each says what it runs before it runs it,
//! so every step can be repeated by hand.

mod check;
mod needs;
mod rivals;
mod rivals_local;
mod servers;
mod shell;
mod sqlx;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The commands of this repository
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every test: unit, conformance, command line, examples, whole system, documentation
    ///
    /// Needs a Rust toolchain, a C compiler (for the bundled SQLite), PostgreSQL, PgBouncer and Redis, and says so if
    /// one is missing. Starts one PostgreSQL server, one Redis server and one Redis Cluster for all tests, unless
    /// DATABASE_URL, REDIS_URL and REDIS_CLUSTER_URL name them.
    Test,
    /// Check form: formatting, lints, documentation, each feature alone, house rules, shared SQLite
    Check,
    /// Measure, and print tables with ratios to the raw limit of each store
    Bench {
        /// Handed to the benchmark, as `--quick`, `--only sqlite`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure other job queues beside Windlass, in turns, and print one table per store
    ///
    /// For PostgreSQL and Redis it starts servers of its own, and needs Node's npm for the rivals written in it.
    Rivals {
        /// Only the job queues in this store
        #[arg(long, value_enum)]
        store: Option<rivals::Store>,
        /// One short round instead of three
        #[arg(long)]
        quick: bool,
    },
    /// Measure the in-process queue beside what else Rust and Node have for bounded concurrency
    ///
    /// Needs Node's npm; counts instructions too if valgrind is there.
    RivalsLocal {
        /// One short round instead of five
        #[arg(long)]
        quick: bool,
    },
    /// Kill workers and servers and drop calls, longer and harder than the tests do
    Chaos {
        /// How many jobs to push through
        #[arg(long, default_value_t = 50_000)]
        jobs: u32,
        /// How many times to kill a worker
        #[arg(long, default_value_t = 60)]
        kills: u32,
        /// How many times to kill the PostgreSQL server, and the Redis server
        #[arg(long, default_value_t = 20)]
        server_kills: u32,
        /// How many calls of the PostgreSQL store to drop
        #[arg(long, default_value_t = 100_000)]
        drops: u32,
        /// How many times to kill a primary of the Redis Cluster
        #[arg(long, default_value_t = 10)]
        failovers: u32,
        /// How many slots of the Redis Cluster to move
        #[arg(long, default_value_t = 60)]
        slot_moves: u32,
        /// How many finished jobs to prune from Redis
        #[arg(long, default_value_t = 1_500_000)]
        history: u32,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Test => test::run(),
        Command::Check => check::run(),
        Command::Bench { arguments } => {
            shell::cargo("measure", ["run", "--release", "-p", "windlass-benches", "--"])
                .args(arguments)
                .run()
        }
        Command::Rivals { store, quick } => rivals::run(store, quick),
        Command::RivalsLocal { quick } => rivals_local::run(quick),
        Command::Chaos { jobs, kills, server_kills, drops, failovers, slot_moves, history } => {
            needs::servers()?;
            let tests = ["hammer", "server_kill", "faults", "redis_faults", "cluster_faults"];
            shell::cargo("torment workers and servers", ["test", "--release", "-p", "windlass-e2e"])
                .args(tests.iter().flat_map(|test| ["--test", test]))
                .env("WINDLASS_HAMMER_JOBS", jobs)
                .env("WINDLASS_HAMMER_KILLS", kills)
                .env("WINDLASS_SERVER_KILLS", server_kills)
                .env("WINDLASS_FAILOVERS", failovers)
                .env("WINDLASS_SLOT_MOVES", slot_moves)
                .args(["--", "--nocapture", "--test-threads=1"])
                .run()?;
            let arguments = ["test", "--release", "-p", "windlass-store-postgres", "--test", "dropped"];
            shell::cargo("drop calls", arguments)
                .env("WINDLASS_DROPS", drops)
                .args(["--", "--nocapture"])
                .run()?;
            let arguments = ["test", "--release", "-p", "windlass-store-redis", "--test", "prune"];
            shell::cargo("prune a long history", arguments)
                .env("WINDLASS_PRUNE_JOBS", history)
                .args(["--", "--nocapture"])
                .run()
        }
    }
}
