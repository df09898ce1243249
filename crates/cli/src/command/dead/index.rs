//! `dead index`: whether a queue has an index of its dead jobs.

use serde::Serialize;

use crate::args::DeadIndexArgs;
use crate::exit::Exit;
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Answer<'a> {
    queue: &'a str,
    indexed: bool,
}

pub(crate) async fn run(session: &mut Session, args: &DeadIndexArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let queue = &args.queue;
    if args.forget && !client.forget_dead_index(queue).await? {
        session.complain(&format!("queue {queue} has no index of its dead jobs"));
        return Ok(Exit::NotFound);
    }
    if !args.forget {
        client.index_dead(queue).await?;
    }
    if session.output.is_json() {
        session.output.json(&Answer { queue: queue.as_str(), indexed: !args.forget })?;
    } else if args.forget {
        session.output.line(format_args!("queue {queue} has no index of its dead jobs any more"))?;
    } else {
        session.output.line(format_args!("workers index the dead jobs of queue {queue} by fingerprint"))?;
    }
    Ok(Exit::Done)
}
