//! Which flows there are.

use windlass_core::Name;
use windlass_core::record::RecordKey;

use super::handle::FlowView;
use super::{INDEX, OPEN, OVER, stored};
use crate::client::{Client, Records};
use crate::error::Result;

/// A page of flows.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct FlowPage {
    /// The flows, the oldest first.
    pub flows: Vec<FlowView>,
    /// Where the next page begins; nothing at the end.
    pub next: Option<RecordKey>,
}

impl Client {
    /// Flows of a queue that are under way, the oldest first, after the given place, at most `limit` and 100.
    ///
    /// # Errors
    /// The store's.
    pub async fn open_flows(&self, home: &Name, after: Option<&RecordKey>, limit: u32) -> Result<FlowPage> {
        self.flow_page(home, OPEN, after, limit).await
    }

    /// Flows of a queue that are over and still remembered, as [`open_flows`](Self::open_flows).
    ///
    /// # Errors
    /// The store's.
    pub async fn ended_flows(&self, home: &Name, after: Option<&RecordKey>, limit: u32) -> Result<FlowPage> {
        self.flow_page(home, OVER, after, limit).await
    }

    /// The queues that have, or had, jobs of flows, by name, after the given one.
    ///
    /// # Errors
    /// The store's.
    pub async fn flow_queues(
        &self,
        after: Option<&RecordKey>,
        limit: u32,
    ) -> Result<(Vec<Name>, Option<RecordKey>)> {
        marked_page(self, after, limit).await
    }

    async fn flow_page(
        &self,
        home: &Name,
        prefix: &str,
        after: Option<&RecordKey>,
        limit: u32,
    ) -> Result<FlowPage> {
        let records = Records::of(self.clone(), home.clone());
        let page = records.list(prefix, after, limit.min(100)).await?;
        let mut flows = Vec::with_capacity(page.records.len());
        for record in &page.records {
            let Some(id) = record.key.as_str().strip_prefix(prefix).and_then(|id| id.parse().ok()) else {
                continue;
            };
            match stored::read(self, home, id, record, prefix == OVER).await {
                Ok(stored) => flows.push(FlowView::of(&stored)),
                Err(error) => tracing::warn!(flow = %id, job.queue = %home, %error, "a flow does not read"),
            }
        }
        Ok(FlowPage { flows, next: page.next })
    }
}

/// Queues of the index.
pub(crate) async fn marked_page(
    client: &Client,
    after: Option<&RecordKey>,
    limit: u32,
) -> Result<(Vec<Name>, Option<RecordKey>)> {
    let page = client.records(INDEX)?.list("", after, limit).await?;
    let queues = page.records.iter().filter_map(|record| Name::new(record.key.as_str()).ok()).collect();
    Ok((queues, page.next))
}
