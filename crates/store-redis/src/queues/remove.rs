//! Removing a queue that holds nothing: its name, and the keys that its jobs have left behind.
//!
//! Name and keys may live on different servers. The keys go first, in one script that tests once more whether the queue is
//! empty; from then on a program that writes to the queue enters it anew. The name goes only if no program did so meanwhile.

use bytes::Bytes;
use redis::Value;
use windlass_core::Name;
use windlass_core::queue::{Removed, check_rules};

use super::counts;
use crate::agenda::Needs;
use crate::definitions::rules;
use crate::error::{Fault, Unreachable};
use crate::script::flag;
use crate::scripts::REMOVE;
use crate::session::Session;
use crate::{Tools, answer, transfers};

/// How often the script comes again: it forgets a bounded number of kinds and blocks each time.
const ROUNDS: u32 = 1_000;

/// Why a queue is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// It was asked for.
    Requested,
    /// It holds nothing. Records keep it, and unique keys that are held for a time, whatever became of their jobs.
    Unused,
}

/// Removes a queue. Also one that was never defined loses the keys and the name that jobs have left behind.
pub(crate) async fn remove(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    why: Removal,
) -> Result<Removed, Fault> {
    let removal = Bytes::copy_from_slice(&fastrand::u128(..).to_be_bytes());
    tools.registry.begin_leaving(session, &tools.keys, queue, &removal).await?;
    let removed = remove_keys(tools, session, queue, why).await;
    tools.definitions.forget(queue);
    if !matches!(removed, Ok(Removed::Done | Removed::Missing)) {
        // Nothing depends on the entry that says that it leaves, so a failure is only logged.
        if let Err(fault) = tools.registry.stay(session, &tools.keys, queue, &removal).await {
            tracing::debug!(%queue, ?fault, "a queue that stays still counts as leaving");
        }
        return removed;
    }
    // The keys are gone: whatever fails now leaves a name without a queue, which is not shown.
    tools.registry.end_leaving(session, &tools.keys, queue, &removal).await.map_err(Fault::partial)?;
    // A program that had entered the queue before all this may have written to it since.
    if is_there(tools, session, queue).await.map_err(Fault::partial)? {
        tools.registry.enter_anew(session, &tools.keys, queue).await.map_err(Fault::partial)?;
        tools.agenda.notes.later(queue, Needs::PROMOTE, tools.time());
    }
    removed
}

async fn remove_keys(tools: &Tools, session: &Session, queue: &Name, why: Removal) -> Result<Removed, Fault> {
    for _ in 0..ROUNDS {
        let keys = tools.keys.queue(queue).all();
        let arguments = vec![tools.clock(), flag(why == Removal::Unused)];
        let (word, mut rest) = answer::word(session.run(&REMOVE, keys, arguments).await?)?;
        match &word[..] {
            b"done" => return Ok(Removed::Done),
            b"missing" => return Ok(Removed::Missing),
            b"rules" => check_rules(queue, rules(rest.next().unwrap_or(Value::Nil))?)?,
            b"full" => return Ok(Removed::NotEmpty(counts(queue, rest)?)),
            // Jobs of a call for several queues, which are not where they belong yet.
            b"transfers" => drop(transfers::deliver(tools, session, queue).await?),
            _ => {}
        }
    }
    Err(Unreachable::passing("more jobs and transfers come than a removal can wait for").into())
}

/// Whether a queue has been defined, has taken jobs or transfers, or remembers something: then maintenance has to find it.
async fn is_there(tools: &Tools, session: &Session, queue: &Name) -> Result<bool, Fault> {
    let keys = tools.keys.queue(queue);
    let get = redis::cmd("HMGET").arg(&keys.meta()[..]).arg("version").arg("seq").to_owned();
    let count = redis::cmd("XLEN").arg(&keys.transfers()[..]).to_owned();
    let remembers = redis::cmd("EXISTS").arg(&keys.records()[..]).to_owned();
    let (found, waiting, remembers) =
        tokio::try_join!(session.command(get), session.command(count), session.command(remembers))?;
    let is_known = answer::array(found)?.iter().any(|field| *field != Value::Nil);
    Ok(is_known || answer::integer(waiting)? + answer::integer(remembers)? > 0)
}
