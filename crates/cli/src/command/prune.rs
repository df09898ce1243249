//! `prune`: removes what retention no longer keeps, step by step.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::args::PruneArgs;
use crate::exit::Exit;
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Answer {
    removed: u64,
    done: bool,
}

pub(crate) async fn run(session: &mut Session, args: &PruneArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let progress =
        if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{spinner} removed {human_pos} jobs, {per_sec}") {
        progress.set_style(style);
    }
    let mut answer = Answer { removed: 0, done: false };
    while !answer.done {
        let removed = client.store().prune(args.limit).await?;
        answer.removed += u64::from(removed);
        answer.done = removed < args.limit;
        progress.inc(u64::from(removed));
        if args.once {
            break;
        }
    }
    progress.finish_and_clear();
    if session.output.is_json() {
        session.output.json(&answer)?;
    } else {
        let more = if answer.done { "" } else { "; there may be more" };
        session.output.line(format_args!("removed {} jobs{more}", answer.removed))?;
    }
    Ok(Exit::Done)
}
