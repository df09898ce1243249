//! `jobs`: looking at jobs and moving them.

mod amend;
mod filtered;
mod list;
mod logs;
mod show;
mod tail;
mod wait;

use windlass::worker::Cancellation;

use self::amend::Change;
pub(crate) use self::amend::complain_missing;
pub(crate) use self::show::print as print_job;
use crate::args::JobsCommand;
use crate::exit::Exit;
use crate::session::Session;

pub(crate) async fn run(session: &mut Session, command: JobsCommand) -> anyhow::Result<Exit> {
    match command {
        JobsCommand::List(args) => list::run(session, args).await,
        JobsCommand::Show(args) => show::run(session, &args.ids).await,
        JobsCommand::Cancel(args) => {
            let cancellation = args.why.map(|why| Cancellation { by: args.by, why });
            amend::run(session, Change::Cancel(cancellation), args.choice).await
        }
        JobsCommand::Retry(args) => amend::run(session, Change::Retry, args).await,
        JobsCommand::Delete(args) => amend::delete(session, args).await,
        JobsCommand::Logs(args) => logs::run(session, &args).await,
        JobsCommand::Tail(args) => tail::run(session, &args).await,
        JobsCommand::Wait(args) => wait::run(session, &args).await,
        JobsCommand::Move(args) => amend::run(session, Change::Move(args.to), args.choice).await,
    }
}
