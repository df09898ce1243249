//! Setting the definition of a queue, whatever it was or only if it is the one that the caller has read.

use bytes::Bytes;
use redis::Value;
use windlass_core::bell::Rings;
use windlass_core::queue::{QueueConfig, check_rules};
use windlass_core::{Name, State};

use crate::agenda::{Needs, Notes};
use crate::definitions::{self, ROUNDS, never_stands_still};
use crate::error::Fault;
use crate::script::flag;
use crate::scripts::DEFINE;
use crate::session::Session;
use crate::{Tools, answer};

/// What became of a definition that was to be set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Set {
    Done,
    /// The queue has another version of its definition than was expected.
    Stale,
}

pub(super) async fn define(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    config: &QueueConfig,
) -> Result<(), Fault> {
    set(tools, session, queue, config, Bytes::new()).await.map(drop)
}

/// The text of a stored definition may have another form than this program gives it. So what it says is compared here, and
/// the script compares the version that was read.
pub(super) async fn redefine(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    before: &QueueConfig,
    config: &QueueConfig,
) -> Result<bool, Fault> {
    for _ in 0..ROUNDS {
        let found = definitions::load(session, &tools.keys, queue).await?;
        found.check_rules(queue)?;
        if found.config != *before {
            return Ok(false);
        }
        if set(tools, session, queue, config, found.version()).await? == Set::Done {
            return Ok(true);
        }
    }
    Err(never_stands_still())
}

/// Sets a definition if the one before has this version; an empty one is any.
async fn set(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    config: &QueueConfig,
    version: Bytes,
) -> Result<Set, Fault> {
    let (text, rules) = (Bytes::from(config.text()), Bytes::from(config.rules().to_string()));
    let mut is_entered = tools.registry.enter(session, &tools.keys, [queue]).await?;
    for _ in 0..ROUNDS {
        let arguments = vec![tools.clock(), text.clone(), rules.clone(), flag(is_entered), version.clone()];
        let said = session.run(&DEFINE, tools.keys.queue(queue).all(), arguments).await?;
        let (word, mut rest) = answer::word(said)?;
        match &word[..] {
            b"rules" => check_rules(queue, definitions::rules(rest.next().unwrap_or(Value::Nil))?)?,
            b"stale" => return Ok(Set::Stale),
            b"unentered" => {
                tools.registry.enter_anew(session, &tools.keys, queue).await?;
                is_entered = true;
                continue;
            }
            _ => {
                let [has_ended, is_new] = [rest.next(), rest.next()].map(|said| said == Some(Value::Int(1)));
                if has_ended {
                    Notes::note(tools, session, queue, Needs::PRUNE).await;
                }
                if is_new {
                    tools.registry.confirm(session, &tools.keys, queue).await;
                }
            }
        }
        tools.definitions.forget(queue);
        // There may be more to claim now.
        tools.ring(Rings::entered(State::Ready, queue));
        return Ok(Set::Done);
    }
    Err(never_stands_still())
}
