//! Work that no job asks for: delivering transfers between queues, promoting what is due, pruning what is old.

mod gates;
mod promote;
mod prune;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use windlass_core::clock::whole_micros;
use windlass_core::store::{Duty, Maintenance, Promotion, Shift, StoreResult};
use windlass_core::{HolderId, Name};

use crate::connect::Call;
use crate::scripts::{LEAVE_DUTY, TAKE_DUTY};
use crate::session::Session;
use crate::{RedisStore, Tools, answer, spread, transfers};

#[async_trait]
impl Maintenance for RedisStore {
    async fn promote(&self, limit: u32) -> StoreResult<Promotion> {
        if limit == 0 {
            return Ok(Promotion::default());
        }
        self.remote
            .call(Call::WRITE, async move |tools, session| promote::promote(&tools, &session, limit).await)
            .await
    }

    /// Delivers transfers that their sender did not deliver, from the queues where a promotion has seen some.
    async fn tidy(&self, limit: u32) -> StoreResult<u32> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                let senders = tools.senders.take(limit as usize);
                let count = senders.len() as u32;
                deliver(&tools, &session, senders).await;
                Ok(count)
            })
            .await
    }

    async fn prune(&self, limit: u32) -> StoreResult<u32> {
        if limit == 0 {
            return Ok(0);
        }
        self.remote
            .call(Call::WRITE, async move |tools, session| prune::prune(&tools, &session, limit).await)
            .await
    }

    async fn take_duty(&self, duty: Duty, holder: HolderId, ttl: Duration) -> StoreResult<Shift> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                let ttl = whole_micros(ttl).as_micros().to_string();
                let arguments =
                    vec![tools.clock(), duty.name().into(), holder.to_string().into(), ttl.into()];
                let left = session.run(&TAKE_DUTY, vec![tools.keys.duties()], arguments).await?;
                let left = Duration::from_micros(answer::integer(left)?.unsigned_abs());
                Ok(if left.is_zero() { Shift::Own } else { Shift::Other(left) })
            })
            .await
    }

    async fn leave_duty(&self, duty: Duty, holder: HolderId) -> StoreResult<()> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                let arguments: Vec<Bytes> = vec![duty.name().into(), holder.to_string().into()];
                session.run(&LEAVE_DUTY, vec![tools.keys.duties()], arguments).await.map(drop)
            })
            .await
    }
}

/// Queues in which transfers to others waited when they were last promoted. A queue that transfers wait in is noted for
/// promotion, so that tidying needs no walk of its own.
#[derive(Debug, Default)]
pub(crate) struct Senders(Mutex<BTreeSet<Name>>);

impl Senders {
    fn note(&self, queue: Name) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(queue);
    }

    /// Takes some of them out. What is not delivered now is noted again by the next promotion.
    fn take(&self, limit: usize) -> Vec<Name> {
        let mut senders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(queue) = senders.pop_first()
        {
            taken.push(queue);
        }
        taken
    }
}

/// Delivers transfers that their sender did not deliver.
/// Several senders at once: those whose transfers go to a server that is away wait for it, and the others do not.
async fn deliver(tools: &Tools, session: &Session, senders: Vec<Name>) {
    let deliveries = spread::each(senders, |queue| async move {
        if let Err(fault) = transfers::deliver(tools, session, &queue).await {
            tracing::debug!(?fault, %queue, "transfers to other queues wait");
        }
        Ok(())
    });
    if let Err(fault) = deliveries.await {
        tracing::debug!(?fault, "transfers to other queues wait");
    }
}
