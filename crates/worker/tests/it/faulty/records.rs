//! The records of a store that fails on demand.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Record, RecordKey};
use windlass_core::store::{
    AttemptWrite, AttemptWritten, Enqueued, RecordPage, RecordTotals, Records, Right, StoreResult,
};
use windlass_core::{CallId, Name};

use super::{Call, Faulty};

#[async_trait]
impl Records for Faulty {
    async fn read(&self, queue: &Name, keys: Arc<[RecordKey]>) -> StoreResult<Vec<Option<Record>>> {
        Records::read(&self.inner, queue, keys).await
    }
    async fn list(
        &self,
        queue: &Name,
        prefix: &str,
        after: Option<&RecordKey>,
        limit: u32,
    ) -> StoreResult<RecordPage> {
        Records::list(&self.inner, queue, prefix, after, limit).await
    }
    async fn totals(&self, queue: &Name) -> StoreResult<RecordTotals> {
        Records::totals(&self.inner, queue).await
    }
    async fn write(&self, call: CallId, queue: &Name, what: FollowUps) -> StoreResult<Vec<Enqueued>> {
        self.around(Call::Write, Records::write(&self.inner, call, queue, what)).await
    }
    async fn write_fenced(
        &self,
        right: Right,
        items: Arc<[AttemptWrite]>,
    ) -> StoreResult<Vec<AttemptWritten>> {
        let queues: Vec<_> = items.iter().map(|item| item.queue.clone()).collect();
        let write = Records::write_fenced(&self.inner, right, items);
        self.about(Call::WriteFenced, queues.iter(), write).await
    }
}
