//! `jobs`: looking at jobs and moving them.

mod amend;
mod list;
mod show;

use crate::args::JobsCommand;
use crate::exit::Exit;
use crate::session::Session;

pub(crate) async fn run(session: &mut Session, command: JobsCommand) -> anyhow::Result<Exit> {
    match command {
        JobsCommand::List(args) => list::run(session, args).await,
        JobsCommand::Show(args) => show::run(session, &args.ids).await,
        JobsCommand::Cancel(args) => amend::run(session, amend::Change::Cancel, &args.ids).await,
        JobsCommand::Retry(args) => amend::run(session, amend::Change::Retry, &args.ids).await,
        JobsCommand::Delete(args) => amend::delete(session, &args).await,
    }
}
