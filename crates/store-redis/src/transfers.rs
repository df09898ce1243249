//! Transfers from one queue to others.
//!
//! Queues may live on different servers, and a script touches one queue. What concerns several is put as transfers into the
//! stream of one of them, all in one script, and is delivered from there: by the sender at once, and by any
//! worker's maintenance what is left. A transfer is applied in its target's script and counts once: the target remembers
//! the number of the last transfer from each source. For that transfers of one source are applied to one target in the order
//! of their numbers, so whoever delivers begins with the first that waits for that target. A target that is away holds up
//! its own transfers only.

mod deliver;
mod transfer;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use redis::{Cmd, Value};
use tokio::time::{Instant, sleep};
use windlass_core::Name;
use windlass_core::backoff::{Retries, Transient, with_retries};
use windlass_store_server::backoff::{PAUSE_MAX, PAUSE_MIN};

use crate::agenda::{Needs, Notes};
use crate::error::{Fault, Unreachable};
use crate::jobs::packed::GIVEN_MAX;
use crate::keys::QueueKeys;
use crate::script::flag;
use crate::scripts::{FORGET_CALL, KNOWS_CALL, POST_TRANSFERS};
use crate::session::Session;
use crate::{Tools, answer};
use deliver::Delivery;
pub(crate) use deliver::deliver;
use transfer::Posted;
pub(crate) use transfer::Transfer;

/// How long the sender of transfers tries to deliver them.
const DELIVERY_MAX: Duration = Duration::from_secs(5);

/// Sends transfers from a queue, all of them or none, and delivers them. Answers what each target said, nothing where
/// others have delivered the transfer; nothing at all of a call that was accepted before. What was accepted and could not be
/// delivered in time is unknown: it will be.
pub(crate) async fn send(
    tools: &Tools,
    session: &Session,
    source: &Name,
    call: &Bytes,
    transfers: Vec<Transfer>,
) -> Result<Option<Vec<Option<Bytes>>>, Fault> {
    let Some((posted, waiting)) = post(tools, session, source, call, transfers).await? else {
        return Ok(None);
    };
    let numbers: Vec<_> = posted.iter().map(|transfer| transfer.number).collect();
    let keyed = posted.iter().filter(|transfer| transfer.transfer.has_keys());
    let keyed: Vec<_> = keyed.map(|keyed| (keyed.number, keyed.transfer.target.clone())).collect();
    let targets = posted.iter().map(|transfer| transfer.transfer.target.clone()).collect();
    let delivery = Delivery::new(tools, session, source);
    let mut said: HashMap<u64, Bytes> = HashMap::new();
    let first = match waiting {
        0 => delivery.own(posted).await,
        _ => delivery.all_for(&targets, numbers.last().copied()).await,
    };
    said.extend(first.said);
    if first.fault.is_some() {
        said.extend(deliver_for_a_while(&delivery, session, &targets, numbers.last().copied()).await?);
    }
    // What became of a job with a unique key only its target knows, also where others have delivered it.
    for (number, target) in keyed {
        if let Entry::Vacant(unheard) = said.entry(number) {
            let answer = said_of(tools, session, source, &target, number).await.map_err(Fault::partial)?;
            answer.map(|answer| unheard.insert(answer));
        }
    }
    Ok(Some(numbers.iter().map(|number| said.remove(number)).collect()))
}

/// Where a script has posted transfers.
pub(crate) struct Posting {
    /// The number of the first one; the others follow.
    pub(crate) first: u64,
    /// Their first place in the order of acceptance, and when they were accepted.
    pub(crate) seq: Bytes,
    pub(crate) at: Bytes,
    /// How many waited before.
    pub(crate) waiting: i64,
}

/// Delivers transfers that a script has just posted in a queue. What they say is accepted: those that cannot be delivered now
/// are left to maintenance.
pub(crate) async fn deliver_posted(
    tools: &Tools,
    session: &Session,
    source: &Name,
    transfers: Vec<Transfer>,
    posting: Posting,
) {
    let session = session.hasty();
    let Posting { first, seq, at, waiting } = posting;
    let targets = transfers.iter().map(|transfer| transfer.target.clone()).collect();
    let posted = (first..).zip(transfers).map(|(number, transfer)| {
        let (seq, at) = (seq.clone(), at.clone());
        Posted { number, transfer, name: Bytes::new(), seq, at }
    });
    let posted: Vec<_> = posted.collect();
    let last = posted.last().map(|posted| posted.number);
    let delivery = Delivery::new(tools, &session, source);
    let delivered = match waiting {
        0 => delivery.own(posted).await,
        _ => delivery.all_for(&targets, last).await,
    };
    if let Some(fault) = delivered.fault {
        tracing::warn!(%source, ?fault, "jobs that follow attempts are on their way to other queues");
    }
}

/// What was answered of a transfer whose jobs have unique keys, as long as that is kept.
pub(crate) async fn said_of(
    tools: &Tools,
    session: &Session,
    source: &Name,
    target: &Name,
    number: u64,
) -> Result<Option<Bytes>, Fault> {
    let mut get = redis::cmd("GET");
    get.arg(&tools.keys.queue(target).said(source, number)[..]);
    answer::optional_bytes(session.command(get).await?)
}

/// Forgets a call that was accepted, with transfers from this queue, and has stored nothing.
pub(crate) async fn forget(
    tools: &Tools,
    session: &Session,
    source: &Name,
    call: &Bytes,
) -> Result<(), Fault> {
    let keys = tools.keys.queue(source).all();
    session.run(&FORGET_CALL, keys, vec![tools.clock(), call.clone()]).await.map(drop)
}

/// The number of the first transfer of a call that was accepted before, with transfers from this queue.
pub(crate) async fn knows(
    tools: &Tools,
    session: &Session,
    source: &Name,
    call: &Bytes,
) -> Result<Option<u64>, Fault> {
    let keys = tools.keys.queue(source).all();
    match session.run(&KNOWS_CALL, keys, vec![tools.clock(), call.clone()]).await? {
        Value::Nil => Ok(None),
        known => answer::integer(known).map(|number| Some(number.unsigned_abs())),
    }
}

/// Waits until no transfers from this queue to these wait: those of a call that was accepted before are delivered then. Until
/// then whoever repeats the call has to come again.
pub(crate) async fn settled(
    tools: &Tools,
    session: &Session,
    source: &Name,
    targets: HashSet<Name>,
) -> Result<(), Fault> {
    let delivery = Delivery::new(tools, session, source);
    match deliver_for_a_while(&delivery, session, &targets, None).await {
        Ok(_) => Ok(()),
        Err(fault) => {
            tracing::debug!(?fault, %source, "jobs of a repeated call are on their way");
            Err(Unreachable::passing("the call was accepted before, and its jobs are still on their way")
                .into())
        }
    }
}

/// A delivery that failed. It is repeated whatever the reason: other senders may have delivered meanwhile.
struct Undelivered(Fault);

impl Transient for Undelivered {
    fn is_transient(&self) -> bool {
        true
    }
}

/// Delivers transfers to some targets until none is left, up to one of them; for a while.
async fn deliver_for_a_while(
    delivery: &Delivery<'_>,
    session: &Session,
    targets: &HashSet<Name>,
    last: Option<u64>,
) -> Result<Vec<(u64, Bytes)>, Fault> {
    let until = Instant::now() + DELIVERY_MAX.min(session.left() / 2);
    let said = Mutex::new(Vec::new());
    let deliver = || async {
        let delivered = delivery.all_for(targets, last).await;
        said.lock().unwrap_or_else(PoisonError::into_inner).extend(delivered.said);
        delivered.fault.map_or(Ok(()), |fault| Err(Undelivered(fault)))
    };
    let pause = |_fault: &Undelivered, pause: Duration| async move {
        let is_early = Instant::now() < until;
        if is_early {
            sleep(pause).await;
        }
        is_early
    };
    let mut retries = Retries::endless(PAUSE_MIN, PAUSE_MAX);
    match with_retries(&mut retries, deliver, pause).await {
        Ok(()) => Ok(said.into_inner().unwrap_or_else(PoisonError::into_inner)),
        Err(Undelivered(fault)) => Err(fault.partial()),
    }
}

/// Puts transfers into the stream of a queue. Answers them with their numbers, and how many waited before; nothing if the
/// call was accepted before.
async fn post(
    tools: &Tools,
    session: &Session,
    source: &Name,
    call: &Bytes,
    transfers: Vec<Transfer>,
) -> Result<Option<(Vec<Posted>, i64)>, Fault> {
    let contents: Vec<_> = transfers.iter().map(Transfer::encode).collect();
    let is_short = contents.iter().map(Bytes::len).sum::<usize>() <= GIVEN_MAX;
    let mut names = Vec::new();
    let answer = if is_short || !session.may_transact() {
        post_given(tools, session, source, call, &transfers, &contents, &[]).await
    } else {
        let (made, before) = writes(&tools.keys.queue(source), &contents);
        match post_given(tools, session, source, call, &transfers, &made, &before).await {
            // The user has no right to transactions.
            Err(Fault::Server(error)) if error.code == "NOPERM" => {
                post_given(tools, session, source, call, &transfers, &contents, &[]).await
            }
            answer => {
                names = made;
                answer
            }
        }
    }?;
    if answer == Value::Nil {
        return Ok(None);
    }
    let read = || {
        let [first, seq, at, waiting] = <[Value; 4]>::try_from(answer::array(answer).ok()?).ok()?;
        let numbers = answer::integer(first).ok()?.unsigned_abs()..;
        let (seq, at) = (answer::bytes(seq).ok()?, answer::bytes(at).ok()?);
        let names = names.into_iter().chain(std::iter::repeat(Bytes::new()));
        let posted = numbers.zip(transfers).zip(names).map(|((number, transfer), name)| {
            let (seq, at) = (seq.clone(), at.clone());
            Posted { number, transfer, name, seq, at }
        });
        Some((posted.collect(), answer::integer(waiting).ok()?))
    };
    // They are accepted by now, and a later delivery makes good whatever goes wrong.
    let wrong = || Fault::Corrupt("transfers have no numbers".to_owned()).partial();
    read().ok_or_else(wrong).map(Some)
}

/// Runs the script, which is given the contents of transfers, or their names if commands before it write them.
async fn post_given(
    tools: &Tools,
    session: &Session,
    source: &Name,
    call: &Bytes,
    transfers: &[Transfer],
    given: &[Bytes],
    before: &[Cmd],
) -> Result<Value, Fault> {
    let keys = tools.keys.queue(source);
    let mut arguments = vec![tools.clock(), call.clone(), flag(false), flag(before.is_empty())];
    for (transfer, given) in transfers.iter().zip(given) {
        arguments.push(Bytes::copy_from_slice(transfer.target.as_str().as_bytes()));
        arguments.push(given.clone());
    }
    // If this process does not deliver them, maintenance does.
    let note = Notes::note(tools, session, source, Needs::PROMOTE);
    let write = session.run_acknowledged(before, &POST_TRANSFERS, keys.all(), arguments.clone());
    let answer = tokio::join!(note, write).1?;
    if answer != Value::Array(Vec::new()) {
        return Ok(answer);
    }
    tools.registry.enter_anew(session, &tools.keys, source).await?;
    arguments[2] = flag(true);
    let answer = session.run_acknowledged(before, &POST_TRANSFERS, keys.all(), arguments).await?;
    tools.registry.confirm(session, &tools.keys, source).await;
    Ok(answer)
}

/// Names for contents that a script is not given, and the commands that write them.
fn writes(keys: &QueueKeys, contents: &[Bytes]) -> (Vec<Bytes>, Vec<Cmd>) {
    let post = fastrand::u128(..);
    let write = |(place, content): (usize, &Bytes)| {
        let name = Bytes::from(format!("{post:032x}:{place}"));
        let write = redis::cmd("HSET").arg(&keys.contents()[..]).arg(&name[..]).arg(&content[..]).to_owned();
        (name, write)
    };
    contents.iter().enumerate().map(write).unzip()
}

#[cfg(test)]
mod tests;
