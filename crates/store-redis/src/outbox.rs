//! Letters from one queue to others.
//!
//! Queues may live on different servers, and a script touches one queue. What concerns several is put as letters into the
//! outbox of one of them, all in one script, and is delivered from there by whoever comes by: the sender at once, and any
//! worker's maintenance what is left. A letter is applied in its target's script and counts once: the target remembers
//! the number of the last letter from each source. For that letters of one source are applied to one target in the order
//! of their numbers, so whoever delivers begins with the first that waits for that target. A target that is away holds up
//! its own letters only.

mod deliver;
mod letter;

use std::collections::HashMap;

use bytes::Bytes;
use redis::Value;
use windlass_core::Name;

use crate::error::Fault;
use crate::script::{Script, script};
use crate::session::Session;
use crate::{Tools, answer};
use deliver::Delivery;
pub(crate) use deliver::deliver;
pub(crate) use letter::Letter;
use letter::Posted;

static POST: Script = script!("outbox/post", "keys", "clock");

/// Sends letters from a queue, all of them or none. Answers what each target said, as far as the letters could be
/// delivered at once; the others will be.
pub(crate) async fn send(
    tools: &Tools,
    session: &Session,
    source: &Name,
    letters: Vec<Letter>,
) -> Result<Vec<Option<Bytes>>, Fault> {
    let count = letters.len();
    let Some((posted, waiting)) = post(tools, session, source, letters).await? else {
        return Ok(vec![None; count]);
    };
    let numbers: Vec<_> = posted.iter().map(|letter| letter.number).collect();
    let delivery = Delivery::new(tools, session, source);
    let said = match waiting {
        0 => delivery.own(posted).await,
        _ => delivery.all_for(&posted).await,
    };
    let mut said: HashMap<u64, Bytes> = said.into_iter().collect();
    Ok(numbers.iter().map(|number| said.remove(number)).collect())
}

/// Puts letters into the outbox of a queue. Answers them with their numbers, and how many waited before; nothing where
/// they are posted and the answer does not read.
async fn post(
    tools: &Tools,
    session: &Session,
    source: &Name,
    letters: Vec<Letter>,
) -> Result<Option<(Vec<Posted>, i64)>, Fault> {
    let mut arguments = vec![tools.clock()];
    for letter in &letters {
        arguments.push(Bytes::copy_from_slice(letter.target.as_str().as_bytes()));
        arguments.push(letter.encode());
    }
    let keys = tools.keys.queue(source).all();
    let answer = session.run_acknowledged(&POST, keys, arguments).await?;
    // They are accepted by now: whatever goes wrong from here on is made good by a later delivery.
    let read = || {
        let [first, seq, at, waiting] = <[Value; 4]>::try_from(answer::array(answer).ok()?).ok()?;
        let numbers = answer::integer(first).ok()?.unsigned_abs()..;
        let (seq, at) = (answer::bytes(seq).ok()?, answer::bytes(at).ok()?);
        let posted = numbers.zip(letters).map(|(number, letter)| {
            let (seq, at) = (seq.clone(), at.clone());
            Posted { number, letter, seq, at }
        });
        Some((posted.collect(), answer::integer(waiting).ok()?))
    };
    Ok(read())
}

#[cfg(test)]
mod tests;
