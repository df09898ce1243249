//! Which file runs which command.

mod audit;
mod bench;
mod calendars;
mod completions;
mod dead;
mod demo;
mod doctor;
mod enqueue;
mod explain;
pub(crate) mod flows;
mod jobs;
mod known;
mod migrate;
mod prune;
pub(crate) mod queues;
mod records;
mod schedules;
mod serve;
mod tokens;
mod top;
mod workers;

use crate::args::Command;
use crate::exit::Exit;
use crate::session::Session;

/// Runs one command.
pub(crate) async fn run(session: &mut Session, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Demo(args) => demo::run(session, &args).await,
        Command::Enqueue(args) => enqueue::run(session, *args).await,
        Command::Jobs { command } => jobs::run(session, command).await,
        Command::Explain(args) => explain::run(session, &args.ids).await,
        Command::Doctor(args) => doctor::run(session, &args).await,
        Command::Dead { command } => dead::run(session, command).await,
        Command::Records { command } => records::run(session, command).await,
        Command::Schedules { command } => schedules::run(session, command).await,
        Command::Calendars { command } => calendars::run(session, command).await,
        Command::Flows { command } => flows::run(session, command).await,
        Command::Queues(args) => queues::run(session, args).await,
        Command::Top(args) => top::run(session, &args).await,
        Command::Workers(args) => workers::run(session, &args).await,
        Command::Prune(args) => prune::run(session, &args).await,
        Command::Migrate(args) => migrate::run(session, &args).await,
        Command::Serve(args) => serve::run(session, args).await,
        Command::Tokens { command } => tokens::run(session, command).await,
        Command::Audit(args) => audit::run(session, &args).await,
        Command::Bench(args) => bench::run(session, &args).await,
        Command::Completions { shell } => completions::run(session, shell),
    }
}
