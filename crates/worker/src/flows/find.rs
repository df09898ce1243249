//! Finding flows by what is known of them: an id of the flow or of one of its jobs, or nothing but where a list had come to.

use windlass_core::flow::Member;
use windlass_core::record::RecordKey;
use windlass_core::{JobId, Name};

use super::{FlowHandle, FlowView, OPEN, OVER};
use crate::client::Client;
use crate::error::{Error, Result};

/// Queues of one store call, and flows: each comes with all of its jobs.
const QUEUES: u32 = 200;
const PAGE: u32 = 25;

/// Which flows a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowsListed {
    /// Those that are under way.
    Open,
    /// Those that are over and still remembered.
    Ended,
}

/// A flow of a list, behind which the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowPlace {
    /// The flow.
    pub id: JobId,
    /// The queue that keeps it.
    pub queue: Name,
}

impl Client {
    /// Every queue that has flows, or had, by name.
    ///
    /// # Errors
    /// The store's.
    pub async fn all_flow_queues(&self) -> Result<Vec<Name>> {
        let (mut queues, mut after) = (Vec::new(), None);
        loop {
            let (page, next) = self.flow_queues(after.as_ref(), QUEUES).await?;
            queues.extend(page);
            if next.is_none() {
                queues.sort_unstable();
                return Ok(queues);
            }
            after = next;
        }
    }

    /// The flow that an id means: the flow itself, or the one that a job belongs to; nothing if there is none. Without a queue
    /// all that have flows are asked.
    ///
    /// # Errors
    /// The store's.
    pub async fn find_flow(&self, id: JobId, queue: Option<&Name>) -> Result<Option<(FlowHandle, FlowView)>> {
        if let Some(member) = self.job(id).await?.and_then(|job| Member::of(&job.spec)) {
            return self.flow_at(&member.home, member.flow).await;
        }
        let queues = match queue {
            Some(queue) => vec![queue.clone()],
            None => self.all_flow_queues().await?,
        };
        for queue in &queues {
            if let Some(found) = self.flow_at(queue, id).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The flow that a queue keeps under this id.
    async fn flow_at(&self, queue: &Name, id: JobId) -> Result<Option<(FlowHandle, FlowView)>> {
        let handle = self.flow_handle(queue, id)?;
        match handle.view().await {
            Ok(view) => Ok(Some((handle, view))),
            Err(Error::NoFlow { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Flows of these queues, one queue after the other by name, the oldest of each first; at most so many, behind a place.
    /// What is kept of each is said by a function: a flow comes with all of its jobs.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_flows<T>(
        &self,
        which: FlowsListed,
        queues: &[Name],
        after: Option<&FlowPlace>,
        most: usize,
        keep: impl Fn(&FlowView) -> T,
    ) -> Result<Vec<T>> {
        let prefix = if which == FlowsListed::Open { OPEN } else { OVER };
        let mut flows = Vec::new();
        for queue in queues.iter().filter(|queue| after.is_none_or(|after| **queue >= after.queue)) {
            let here = after.filter(|after| after.queue == *queue).map(|after| after.id);
            let mut next = here.map(|id| RecordKey::new(format!("{prefix}{id}"))).transpose()?;
            loop {
                if flows.len() >= most {
                    return Ok(flows);
                }
                let left = u32::try_from(most - flows.len()).unwrap_or(u32::MAX).min(PAGE);
                let page = match which {
                    FlowsListed::Open => self.open_flows(queue, next.as_ref(), left).await?,
                    FlowsListed::Ended => self.ended_flows(queue, next.as_ref(), left).await?,
                };
                flows.extend(page.flows.iter().map(&keep));
                next = page.next;
                if next.is_none() {
                    break;
                }
            }
        }
        Ok(flows)
    }
}
