//! Opening, renewing and closing. The copies of a lease beside the jobs of its queues decide whether it lives; the
//! namespace's record is what people see, and all there is of a lease without queues.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use redis::Value;
use tokio::time::timeout;
use windlass_core::store::{NewLease, Renewal};
use windlass_core::{Fence, JobId, LeaseId, Name};

use super::holders::{Holder, Holders};
use crate::error::Fault;
use crate::script::{Script, script};
use crate::session::Session;
use crate::{Tools, answer, spread};

static OPEN: Script = script!("leases/open", "keys", "clock", "lease");
static RENEW: Script = script!("leases/renew", "keys", "clock", "record", "lease");
static CLOSE: Script = script!("leases/close", "keys", "clock", "record");
static OPEN_RECORD: Script = script!("leases/namespace/open", "clock", "lease", "lease_record");
static RENEW_RECORD: Script = script!("leases/namespace/renew", "clock", "lease", "lease_record");
static CLOSE_RECORD: Script = script!("leases/namespace/close", "clock", "lease_record");

/// The most jobs of one queue that a renewal tells to stop; others are told by the next one.
const STOPPING_MAX: u32 = 500;

/// How long a renewal whose copies live waits for the record, which people see and no job depends on.
const RECORD_PATIENCE: Duration = Duration::from_secs(1);

/// Opens a lease: the record first, so that a repeat finds what the first call began.
pub(super) async fn open(tools: &Tools, session: &Session, lease: &NewLease) -> Result<(), Fault> {
    let holder = Holder { label: lease.label(), queues: lease.queues.clone() };
    tools.registry.enter(session, &tools.keys, &lease.queues).await?;
    let arguments = vec![tools.clock(), id(lease.id), micros(lease.ttl), holder.pack()];
    let found = answer::byte_strings(session.run(&OPEN_RECORD, record_keys(tools), arguments).await?)?;
    let [packed, left] = &found[..] else {
        return Err(Fault::Corrupt("an open lease has no record".to_owned()));
    };
    let holder = Arc::new(Holder::unpack(packed)?);
    if &left[..] != b"0" {
        spread::each(holder.queues.clone(), |queue| {
            let arguments = vec![tools.clock(), id(lease.id), left.clone()];
            session.run(&OPEN, tools.keys.queue(&queue).all(), arguments)
        })
        .await?;
    }
    tools.holders.remember(lease.id, holder);
    Ok(())
}

/// Renews every copy, then the record. A lease that one copy has lost is lost as a whole.
pub(super) async fn renew(
    tools: &Tools,
    session: &Session,
    lease: LeaseId,
    ttl: Duration,
    limit: u32,
) -> Result<Renewal, Fault> {
    let Some(holder) = Holders::of(tools, session, lease).await? else { return Ok(Renewal::Lost) };
    let asked = renew_copies(tools, session, lease, ttl, limit, &holder.queues).await?;
    let has_copies = !asked.is_empty();
    let Some(asked) = asked.into_iter().collect::<Option<Vec<_>>>() else {
        return lose(tools, session, lease, &holder.queues).await;
    };
    let flag = Bytes::from_static(if has_copies { b"1" } else { b"0" });
    let arguments = vec![tools.clock(), id(lease), micros(ttl), holder.pack(), flag];
    let record = timeout(RECORD_PATIENCE, session.run(&RENEW_RECORD, record_keys(tools), arguments)).await;
    match record {
        Ok(Ok(Value::Int(0))) => return lose(tools, session, lease, &[]).await,
        Ok(Ok(_)) => {}
        // The jobs are safe; the next renewal shows that the lease lives.
        Ok(Err(fault)) if has_copies => {
            tracing::debug!(?fault, %lease, "the record of a lease was not renewed");
        }
        Err(_) if has_copies => tracing::debug!(%lease, "the record of a lease was not renewed in time"),
        Ok(Err(fault)) => return Err(fault),
        Err(_) => return Err(Fault::Timeout(RECORD_PATIENCE)),
    }
    let mut cancel: Vec<_> = asked.into_iter().flatten().collect();
    cancel.truncate(limit as usize);
    Ok(Renewal::Renewed { cancel })
}

/// Renews the copies: for each what is asked to stop, or nothing when it is lost. All of them at once, and all of them to
/// the end: a server that is away or hangs must not let the copies on others run out.
async fn renew_copies(
    tools: &Tools,
    session: &Session,
    lease: LeaseId,
    ttl: Duration,
    limit: u32,
    queues: &[Name],
) -> Result<Vec<Option<Vec<(JobId, Fence)>>>, Fault> {
    let limit = Bytes::from(limit.min(STOPPING_MAX).to_string());
    let renewed = join_all(queues.iter().map(|queue| {
        let arguments = vec![tools.clock(), id(lease), micros(ttl), limit.clone()];
        let keys = tools.keys.queue(queue).all();
        async move {
            match session.run(&RENEW, keys, arguments).await? {
                Value::Nil => Ok(None),
                asked => answer::byte_strings(asked)?
                    .iter()
                    .map(|asked| stop(asked))
                    .collect::<Result<_, _>>()
                    .map(Some),
            }
        }
    }));
    renewed.await.into_iter().collect()
}

/// A lease that one queue has lost: the copies that still live end, so that all of its jobs can be reaped.
async fn lose(tools: &Tools, session: &Session, lease: LeaseId, queues: &[Name]) -> Result<Renewal, Fault> {
    tools.holders.forget(lease);
    if let Err(fault) = close_copies(tools, session, lease, queues).await {
        tracing::debug!(?fault, %lease, "copies of a lost lease run out by themselves");
    }
    Ok(Renewal::Lost)
}

/// Ends the copies, then the record.
pub(super) async fn close(tools: &Tools, session: &Session, lease: LeaseId) -> Result<(), Fault> {
    let Some(holder) = Holders::of(tools, session, lease).await? else { return Ok(()) };
    let running = close_copies(tools, session, lease, &holder.queues).await?;
    let arguments = vec![tools.clock(), id(lease), Bytes::from(running.to_string())];
    session.run(&CLOSE_RECORD, record_keys(tools), arguments).await?;
    tools.holders.forget(lease);
    Ok(())
}

async fn close_copies(
    tools: &Tools,
    session: &Session,
    lease: LeaseId,
    queues: &[Name],
) -> Result<i64, Fault> {
    let running = spread::each(queues.to_vec(), |queue| {
        let keys = tools.keys.queue(&queue).all();
        let arguments = vec![tools.clock(), id(lease)];
        async move { answer::integer(session.run(&CLOSE, keys, arguments).await?) }
    });
    Ok(running.await?.into_iter().sum())
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

/// A span in micros, rounded up.
fn micros(span: Duration) -> Bytes {
    windlass_core::clock::whole_micros(span).as_micros().to_string().into()
}
