//! The commands of this repository. `cargo xtask --help` lists them; each says what it runs before it runs it,
//! so every step can be repeated by hand.

mod busy;
mod chaos;
mod check;
mod fuzz_api;
mod needs;
mod rivals;
mod rivals_local;
mod servers;
mod shell;
mod sqlx;
mod test;
mod tidy;
mod words;

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
    /// Needs a Rust toolchain, a C compiler (for the bundled SQLite), PostgreSQL, PgBouncer, Redis and libfaketime, and
    /// says so if one is missing. Starts one PostgreSQL server, one Redis server and one Redis Cluster for all tests, unless
    /// DATABASE_URL, REDIS_URL and REDIS_CLUSTER_URL name them.
    Test {
        /// Keep the cores and the disk busy meanwhile: no test may fail for that
        #[arg(long)]
        busy: bool,
    },
    /// Check form: formatting, lints, documentation, each feature alone, house rules, words, shared SQLite
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
    /// Kill workers and servers, lose answers, spoil queues, set clocks and fill disks, longer and harder than the tests
    /// do
    Chaos(chaos::Chaos),
    /// Send requests that are made from the OpenAPI document to a running server
    ///
    /// Needs python3, and installs schemathesis from PyPI into a temporary folder.
    FuzzApi(fuzz_api::FuzzApi),
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
        Command::Test { busy } => test::run(busy),
        Command::Check => check::run(),
        Command::Bench { arguments } => {
            shell::cargo("measure", ["run", "--release", "-p", "windlass-benches", "--"])
                .args(arguments)
                .run()
        }
        Command::Rivals { store, quick } => rivals::run(store, quick),
        Command::RivalsLocal { quick } => rivals_local::run(quick),
        Command::Chaos(chaos) => chaos.run(),
        Command::FuzzApi(fuzz) => fuzz.run(),
    }
}
