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

/// Sends letters from a queue, all of them or none. They need so many places in the order of acceptance. Answers what
/// each target said, as far as the letters could be delivered at once; the others will be.
pub(crate) async fn send(
    tools: &Tools,
    session: &Session,
    source: &Name,
    letters: Vec<Letter>,
    places: usize,
) -> Result<Vec<Option<Bytes>>, Fault> {
    let mut arguments = vec![tools.clock(), places.to_string().into()];
    for letter in &letters {
        arguments.push(Bytes::copy_from_slice(letter.target.as_str().as_bytes()));
        arguments.push(letter.encode());
    }
    let keys = tools.keys.queue(source).all();
    let posted = answer::array(session.run_acknowledged(&POST, keys, arguments).await?)?;
    // They are accepted by now: whatever goes wrong from here on is made good by a later delivery.
    let Ok([first, seq, at, waiting]) = <[Value; 4]>::try_from(posted) else {
        tracing::warn!(%source, "letters were posted, and the server's answer does not read");
        return Ok(vec![None; letters.len()]);
    };
    let read = || Some((answer::integer(first).ok()?, answer::bytes(seq).ok()?, answer::bytes(at).ok()?));
    let Some((first, seq, at)) = read() else {
        return Ok(vec![None; letters.len()]);
    };
    let numbers = first.unsigned_abs()..;
    let posted: Vec<_> = numbers
        .zip(letters)
        .map(|(number, letter)| Posted { number, letter, seq: seq.clone(), at: at.clone() })
        .collect();
    let numbers: Vec<_> = posted.iter().map(|letter| letter.number).collect();
    let delivery = Delivery::new(tools, session, source);
    let said = match answer::integer(waiting) {
        Ok(0) => delivery.own(posted).await,
        _ => delivery.all_for(&posted).await,
    };
    let mut said: HashMap<u64, Bytes> = said.into_iter().collect();
    Ok(numbers.iter().map(|number| said.remove(number)).collect())
}
