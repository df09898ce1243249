//! `dead`: searching dead jobs, sending them back, and putting them away.

mod archive;
mod edit;
mod file;
mod groups;
mod import;
mod index;
mod list;
mod purge;
mod replay;
mod rules;
mod show;

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use windlass::Client;
use windlass::worker::DeadLetters;
use windlass_core::store::Filter;

use crate::args::{DeadCommand, DeadFilterArgs};
use crate::command::known;
use crate::exit::{Exit, Fault};
use crate::session::Session;

pub(crate) async fn run(session: &mut Session, command: DeadCommand) -> anyhow::Result<Exit> {
    match command {
        DeadCommand::List(args) => list::run(session, args).await,
        DeadCommand::Show(args) => show::run(session, &args.ids).await,
        DeadCommand::Groups(args) => groups::run(session, &args).await,
        DeadCommand::Sample(args) => list::sample(session, &args).await,
        DeadCommand::Replay(args) => replay::run(session, &args).await,
        DeadCommand::Edit(args) => edit::run(session, &args).await,
        DeadCommand::Again(args) => edit::again(session, args.id).await,
        DeadCommand::Archive(args) => archive::run(session, &args).await,
        DeadCommand::Import(args) => import::run(session, &args.file).await,
        DeadCommand::Purge(args) => purge::run(session, &args).await,
        DeadCommand::Index(args) => index::run(session, &args).await,
        DeadCommand::Rules(args) => rules::run(session, args).await,
    }
}

/// The dead jobs that the arguments mean, by the store's clock.
async fn letters(client: &Client, filter: &DeadFilterArgs) -> anyhow::Result<DeadLetters> {
    let now = client.store().now().await?;
    Ok(client.dead(filter.at(now)?))
}

/// Where nothing was found, a name that the store does not know is most likely a slip.
async fn check_known(session: &Session, client: &Client, filter: &DeadFilterArgs) -> anyhow::Result<()> {
    let DeadFilterArgs { queue, kind, tag, .. } = filter.clone();
    known::check(session, client, &Filter { queue, kind, tag, state: None }).await
}

/// Refuses when another number of jobs matches than was expected.
fn check_expected(matched: u64, expected: u64, verb: &str) -> Result<(), Fault> {
    if matched == expected {
        return Ok(());
    }
    let match_ = if matched == 1 { "matches" } else { "match" };
    Err(Fault::failed(format!(
        "{} {match_}, {expected} were expected: nothing was changed; to {verb} them, repeat with --expect {matched}",
        jobs(matched)
    )))
}

fn jobs(count: u64) -> String {
    format!("{count} {}", if count == 1 { "job" } else { "jobs" })
}

/// A line on a terminal that counts jobs while they are handled.
fn counter(what: &str) -> ProgressBar {
    let bar =
        if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    if let Ok(style) =
        ProgressStyle::with_template(&format!("{{spinner}} {{human_pos}} jobs {what}, {{per_sec}}"))
    {
        bar.set_style(style);
    }
    bar
}
