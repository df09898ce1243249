//! Opening, renewing and closing. The copies of a lease beside the jobs of its queues decide where it lives; the
//! namespace's record is what people see, and all there is of a lease without queues.
//!
//! Each copy counts for itself. One whose server is away or hangs must neither let the others run out nor keep the
//! caller from hearing of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use redis::Value;
use tokio::time::timeout;
use windlass_core::store::{NewLease, Renewal};
use windlass_core::{Fence, JobId, LeaseId, Name};

use super::copies::LeaseCopy;
use super::holders::{Holder, Holders};
use crate::error::Fault;
use crate::pauses::sick;
use crate::scripts::{CLOSE_LEASE, CLOSE_RECORD, OPEN_LEASE, OPEN_RECORD, RENEW_LEASE, RENEW_RECORD};
use crate::session::Session;
use crate::{Tools, answer, row};

/// The most jobs of one queue that a renewal tells to stop; others are told by the next one.
const STOPPING_MAX: u32 = 500;

/// How long a renewal whose copies live waits for the record, which people see and no job depends on.
const RECORD_PATIENCE: Duration = Duration::from_secs(1);

/// How long copies are waited for, at most.
const COPY_PATIENCE: Duration = Duration::from_secs(2);

/// Jobs that are asked to stop; nothing of a copy that has run out.
type Asked = Option<Vec<(JobId, Fence)>>;

/// Opens a lease: the record first, so that a repeat finds what the first call began. It is open with the first copy that
/// could be written, and renewals write the others. The server of the record may be away, and those of the queues there.
pub(super) async fn open(tools: &Tools, session: &Session, lease: &NewLease) -> Result<(), Fault> {
    let found = brief(session, Box::pin(open_record(tools, session, lease))).await;
    let (holder, left) = match found {
        Ok(found) => found,
        Err(fault) if lease.queues.is_empty() || matches!(fault, Fault::Refused(_)) => return Err(fault),
        Err(fault) => {
            tracing::debug!(?fault, lease = %lease.id, "a lease is opened without its record");
            (Holder::of(lease, tools.address()), row::micros(lease.ttl))
        }
    };
    let holder = tools.holders.remember(lease.id, Arc::new(holder));
    if left == 0 || holder.queues.is_empty() {
        return Ok(());
    }
    let open = Opening { tools, session: &session.hasty(), lease: lease.id };
    let opened = join_all(holder.queues.iter().map(|queue| async move {
        let began = Instant::now();
        (queue, began, brief(session, open.copy(queue, left)).await)
    }));
    let (mut is_open, mut first) = (false, None);
    for (queue, began, opened) in opened.await {
        match (opened, holder.copies.of(queue)) {
            (Ok(()), LeaseCopy::Lives(None) | LeaseCopy::Missing) => {
                holder.copies.lives(queue, began, Duration::from_micros(left));
                is_open = true;
            }
            (Ok(()), _) => is_open = true,
            (Err(fault), _) => {
                let sick = sick(queue, fault);
                tracing::warn!(%queue, what = %sick.what, lease = %lease.id, "a lease is not open in a queue yet");
                holder.copies.missing(queue);
                first = first.or(Some(sick));
            }
        }
    }
    match first {
        Some(sick) if !is_open => {
            tools.holders.forget(lease.id);
            Err(Fault::Sick(sick))
        }
        _ => Ok(()),
    }
}

/// Enters the queues and writes the record. Answers who holds the lease, and for how many micros it lives.
async fn open_record(tools: &Tools, session: &Session, lease: &NewLease) -> Result<(Holder, u64), Fault> {
    let holder = Holder::of(lease, tools.address());
    tools.registry.enter(session, &tools.keys, &lease.queues).await?;
    let arguments = vec![tools.clock(), id(lease.id), micros(lease.ttl), holder.pack()];
    let found = answer::array(session.run(&OPEN_RECORD, record_keys(tools), arguments).await?)?;
    let [packed, left, is_new] = <[Value; 3]>::try_from(found)
        .map_err(|_| Fault::Corrupt("an open lease has no record".to_owned()))?;
    if is_new == Value::Int(1) {
        // What this process knows is about another one that had the same id, and is forgotten.
        tools.holders.forget(lease.id);
    }
    Ok((Holder::unpack(&answer::bytes(packed)?)?, answer::integer(left)?.unsigned_abs()))
}

/// What opens copies of a lease.
#[derive(Clone, Copy)]
struct Opening<'a> {
    tools: &'a Tools,
    session: &'a Session,
    lease: LeaseId,
}

impl Opening<'_> {
    async fn copy(self, queue: &Name, micros: u64) -> Result<(), Fault> {
        let Self { tools, session, lease } = self;
        let arguments = vec![tools.clock(), id(lease), micros.to_string().into()];
        session.run(&OPEN_LEASE, tools.keys.queue(queue).all(), arguments).await?;
        Ok(())
    }

    /// Renews the copy in a queue, or writes one that was never there.
    async fn renew(self, queue: &Name, copy: LeaseCopy, ttl: Duration, limit: u32) -> Result<Asked, Fault> {
        let Self { tools, session, lease } = self;
        match copy {
            LeaseCopy::Lost => return Ok(None),
            LeaseCopy::Missing => return self.copy(queue, row::micros(ttl)).await.map(|()| Some(Vec::new())),
            LeaseCopy::Lives(_) => {}
        }
        let limit = Bytes::from(limit.min(STOPPING_MAX).to_string());
        let arguments = vec![tools.clock(), id(lease), micros(ttl), limit];
        match session.run(&RENEW_LEASE, tools.keys.queue(queue).all(), arguments).await? {
            Value::Nil => Ok(None),
            asked => {
                let asked = answer::byte_strings(asked)?;
                asked.iter().map(|asked| stop(asked)).collect::<Result<_, _>>().map(Some)
            }
        }
    }
}

/// Renews every copy, then the record. A queue whose copy has run out, or could not be renewed for longer than it lives,
/// is named; the lease is lost when it lives in none.
pub(super) async fn renew(
    tools: &Tools,
    session: &Session,
    lease: LeaseId,
    ttl: Duration,
    limit: u32,
) -> Result<Renewal, Fault> {
    let Some(holder) = Holders::of(tools, session, lease).await? else { return Ok(Renewal::Lost) };
    let copies = renew_copies(tools, session, &holder, lease, ttl, limit).await;
    let has_copies = !holder.queues.is_empty();
    if has_copies && !copies.lives {
        return match copies.fault {
            Some(fault) => Err(fault),
            None => {
                tools.holders.forget(lease);
                Ok(Renewal::Lost)
            }
        };
    }
    let flag = Bytes::from_static(if has_copies { b"1" } else { b"0" });
    let arguments = vec![tools.clock(), id(lease), micros(ttl), holder.pack(), flag];
    let patience = RECORD_PATIENCE.min(session.left() / 2);
    let hasty = if has_copies { session.hasty() } else { session.clone() };
    let record = timeout(patience, hasty.run(&RENEW_RECORD, record_keys(tools), arguments)).await;
    match record.unwrap_or(Err(Fault::Timeout(patience))) {
        Ok(Value::Int(0)) => {
            tools.holders.forget(lease);
            return Ok(Renewal::Lost);
        }
        Ok(_) => {}
        // The jobs are safe; the next renewal shows that the lease lives.
        Err(fault) if has_copies => {
            tracing::debug!(?fault, %lease, "the record of a lease was not renewed");
        }
        Err(fault) => return Err(fault),
    }
    let mut cancel = copies.asked;
    cancel.truncate(limit as usize);
    Ok(Renewal::Renewed { cancel, lost: copies.lost })
}

/// What became of the copies.
#[derive(Default)]
struct Renewed {
    /// Whether any of them lives.
    lives: bool,
    asked: Vec<(JobId, Fence)>,
    lost: Vec<Name>,
    /// Why one was not renewed that may live.
    fault: Option<Fault>,
}

/// Renews the copies, all of them at once and all of them to the end.
async fn renew_copies(
    tools: &Tools,
    session: &Session,
    holder: &Holder,
    lease: LeaseId,
    ttl: Duration,
    limit: u32,
) -> Renewed {
    let open = Opening { tools, session: &session.hasty(), lease };
    let patience = COPY_PATIENCE.min(session.left() / 2).min(ttl / 4);
    let answers = join_all(holder.queues.iter().map(|queue| async move {
        let (began, copy) = (Instant::now(), holder.copies.of(queue));
        let asked = timeout(patience, open.renew(queue, copy, ttl, limit)).await;
        (queue, began, copy, asked.unwrap_or(Err(Fault::Timeout(patience))))
    }));
    let mut renewed = Renewed::default();
    for (queue, began, copy, asked) in answers.await {
        match asked {
            Ok(Some(asked)) => {
                holder.copies.lives(queue, began, ttl);
                renewed.lives = true;
                renewed.asked.extend(asked);
            }
            Ok(None) => {
                holder.copies.lost(queue);
                renewed.lost.push(queue.clone());
            }
            Err(fault) => {
                tracing::debug!(?fault, %lease, %queue, "the copy of a lease was not renewed");
                if holder.copies.not_renewed(queue) == LeaseCopy::Lost {
                    renewed.lost.push(queue.clone());
                } else if copy != LeaseCopy::Missing {
                    renewed.fault = renewed.fault.or(Some(fault));
                }
            }
        }
    }
    renewed
}

/// Ends the copies, then the record. A copy that cannot be reached runs out by itself.
pub(super) async fn close(tools: &Tools, session: &Session, lease: LeaseId) -> Result<(), Fault> {
    let Some(holder) = Holders::of(tools, session, lease).await? else { return Ok(()) };
    let hasty = &session.hasty();
    let closed = join_all(holder.queues.iter().map(|queue| async move {
        let arguments = vec![tools.clock(), id(lease)];
        let running = hasty.run(&CLOSE_LEASE, tools.keys.queue(queue).all(), arguments);
        brief(session, Box::pin(async { answer::integer(running.await?) })).await
    }));
    let (mut running, mut has_closed, mut first) = (0, holder.queues.is_empty(), None);
    for closed in closed.await {
        match closed {
            Ok(more) => {
                running += more;
                has_closed = true;
            }
            Err(fault) => {
                // Jobs may hang on it there: the record stays as one that has run out.
                running += 1;
                first = first.or(Some(fault));
            }
        }
    }
    match first {
        Some(fault) if !has_closed => return Err(fault),
        Some(fault) => tracing::debug!(?fault, %lease, "a copy of a closed lease runs out by itself"),
        None => {}
    }
    let arguments = vec![tools.clock(), id(lease), Bytes::from(running.to_string())];
    brief(session, session.run(&CLOSE_RECORD, record_keys(tools), arguments)).await?;
    tools.holders.forget(lease);
    Ok(())
}

/// Waits for a part of a call only so long that the rest can follow.
async fn brief<T>(session: &Session, part: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let patience = COPY_PATIENCE.min(session.left() / 2);
    timeout(patience, part).await.unwrap_or(Err(Fault::Timeout(patience)))
}

/// A job that is asked to stop: its id and its fence.
fn stop(asked: &[u8]) -> Result<(JobId, Fence), Fault> {
    let read = || {
        let (id, fence) = asked.split_first_chunk()?;
        let (number, nonce) = fence.split_first_chunk()?;
        let nonce = nonce.try_into().ok()?;
        let fence = Fence { number: u64::from_be_bytes(*number), nonce: u64::from_be_bytes(nonce) };
        Some((JobId::from_bytes(*id), fence))
    };
    read().ok_or_else(|| Fault::Corrupt("a job that is to stop has no fence".to_owned()))
}

/// The keys of scripts about records of leases.
pub(super) fn record_keys(tools: &Tools) -> Vec<Bytes> {
    vec![tools.keys.leases(), tools.keys.lease_expiry(), tools.keys.lease_order()]
}

pub(super) fn id(lease: LeaseId) -> Bytes {
    Bytes::copy_from_slice(lease.as_bytes())
}

/// A span as scripts get it.
fn micros(span: Duration) -> Bytes {
    row::micros(span).to_string().into()
}
