//! `dead purge`: removes dead jobs for good, exactly those that were counted.

use serde::Serialize;
use windlass::Client;
use windlass::worker::{DeadFilter, Purged};
use windlass_core::store::Seen;

use super::{check_expected, check_known, counter, jobs, letters};
use crate::args::DeadPurgeArgs;
use crate::exit::Exit;
use crate::session::{Access, Session};

/// Jobs after which the bar moves.
const CHUNK: usize = 100;

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Removed {
    pub(super) removed: u64,
    /// Those that were sent back, or have died again, since they were seen.
    pub(super) left: u64,
}

#[derive(Debug, Serialize)]
struct Answer {
    matched: u64,
    #[serde(flatten)]
    removed: Removed,
}

pub(crate) async fn run(session: &mut Session, args: &DeadPurgeArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let mut seen = Vec::new();
    let letters = letters(&client, &args.filter).await?;
    letters
        .each(u64::MAX, async |letter| {
            seen.push(Seen::of(&letter.job));
            Ok(true)
        })
        .await?;
    let matched = seen.len() as u64;
    if matched == 0 {
        check_known(session, &client, &args.filter).await?;
    }
    let mut answer = Answer { matched, removed: Removed::default() };
    let Some(expected) = args.expect else {
        print(session, &answer, "would be removed")?;
        if matched > 0 {
            session.note(&format!("nothing was changed; to remove them, repeat with --expect {matched}"));
        }
        return Ok(Exit::Done);
    };
    check_expected(matched, expected, "remove")?;
    let ended = remove(&client, &seen, &mut answer.removed).await;
    print(session, &answer, "removed")?;
    ended?;
    Ok(if answer.removed.left == 0 { Exit::Done } else { Exit::Failed })
}

/// Removes those that are still as they were seen. What was removed is counted also if a later call fails.
pub(super) async fn remove(client: &Client, seen: &[Seen], so_far: &mut Removed) -> anyhow::Result<()> {
    let bar = counter("removed");
    let (letters, mut purged, before) = (client.dead(DeadFilter::new()), Purged::default(), *so_far);
    for some in seen.chunks(CHUNK) {
        let ended = letters.purge(some, &mut purged).await;
        (so_far.removed, so_far.left) = (before.removed + purged.removed, before.left + purged.left);
        ended?;
        bar.set_position(so_far.removed);
    }
    bar.finish_and_clear();
    Ok(())
}

fn print(session: &mut Session, answer: &Answer, what: &str) -> anyhow::Result<()> {
    if session.output.is_json() {
        return Ok(session.output.json(answer)?);
    }
    let Answer { matched, removed: Removed { removed, left } } = *answer;
    let count = if what == "removed" { removed } else { matched };
    let left = match left {
        0 => String::new(),
        _ => format!("; {left} were left, because they changed meanwhile"),
    };
    Ok(session.output.line(format_args!("{} {what}{left}", jobs(count)))?)
}
