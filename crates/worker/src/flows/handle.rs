//! A flow that was submitted: how far it is, and what a person can do about it.

use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::flow::{FlowInvalid, Graph, Progress, Role, Status, Tally};
use windlass_core::follow_ups::{FollowUps, RECORDS_MAX};
use windlass_core::{JobId, Name};

use super::stored::{Stored, load};
use super::turn::Turn;
use crate::client::{Client, Records};
use crate::error::{Error, Result};

/// How long to wait between two looks at a flow, at first and at last.
const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// How often a change is tried while others change the flow.
const TRIES_MAX: u32 = 20;

/// A flow that was submitted. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FlowHandle {
    client: Client,
    id: JobId,
    home: Name,
}

/// A flow as it is now.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FlowView {
    /// Its id.
    pub id: JobId,
    /// What people call it.
    pub name: String,
    /// The queue that keeps it.
    pub home: Name,
    /// How many of its jobs are where.
    pub tally: Tally,
    /// All jobs and callbacks have ended.
    pub is_over: bool,
    /// What had not begun does not begin any more.
    pub is_cancelled: bool,
    /// Its jobs and callbacks, in the order in which they were added.
    pub nodes: Vec<NodeView>,
    /// When something about it was last written.
    pub changed_at: Timestamp,
}

/// A job of a flow as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeView {
    /// Its id.
    pub id: JobId,
    /// What it is.
    pub kind: Name,
    /// Its queue.
    pub queue: Name,
    /// Where it is.
    pub status: Status,
    /// What it is to the flow.
    pub role: Role,
    /// The places of those that it waits for.
    pub parents: Vec<u32>,
}

impl FlowView {
    pub(super) fn of(stored: &Stored) -> Self {
        let Stored { id, home, graph, progress, written_at, .. } = stored;
        let node = |(node, status): (&windlass_core::flow::Node, &Status)| NodeView {
            id: node.place.id,
            kind: node.kind.clone(),
            queue: node.place.queue.clone(),
            status: *status,
            role: node.role,
            parents: node.parents.iter().map(|edge| edge.parent).collect(),
        };
        Self {
            id: *id,
            name: graph.name.clone(),
            home: home.clone(),
            tally: progress.tally(graph),
            is_over: progress.is_over(),
            is_cancelled: progress.is_cancelled,
            nodes: graph.nodes.iter().zip(&progress.nodes).map(node).collect(),
            changed_at: *written_at,
        }
    }
}

impl Client {
    /// A flow that was submitted elsewhere, to this queue.
    ///
    /// # Errors
    /// When the text cannot be the name of a queue.
    pub fn flow_handle(&self, home: impl AsRef<str>, id: JobId) -> Result<FlowHandle> {
        let home = self.queue(home)?.name().clone();
        Ok(FlowHandle::new(self.clone(), id, home))
    }
}

impl FlowHandle {
    pub(crate) fn new(client: Client, id: JobId, home: Name) -> Self {
        Self { client, id, home }
    }

    /// Its id.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The queue that keeps it.
    pub fn home(&self) -> &Name {
        &self.home
    }

    pub(crate) async fn stored(&self) -> Result<Stored> {
        let found = load(&self.client, &self.home, &[self.id]).await?.pop().flatten();
        found.unwrap_or_else(|| Err(Error::NoFlow { id: self.id, queue: self.home.clone() }))
    }

    /// How far it is.
    ///
    /// # Errors
    /// [`Error::NoFlow`] if it is not there, or no longer; else the store's.
    pub async fn view(&self) -> Result<FlowView> {
        Ok(FlowView::of(&self.stored().await?))
    }

    /// Waits until all of its jobs and callbacks have ended.
    ///
    /// # Errors
    /// As [`view`](Self::view).
    pub async fn ended(&self) -> Result<FlowView> {
        let mut pause = LOOK_MIN;
        loop {
            let view = self.view().await?;
            if view.is_over {
                return Ok(view);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_MAX);
        }
    }

    /// Cancels what has not begun, and asks what runs to stop. Callbacks run as ever. A flow that is over stays as it is. Answers
    /// how it is now.
    ///
    /// # Errors
    /// As [`view`](Self::view).
    pub async fn cancel(&self) -> Result<FlowView> {
        let view = self.view().await?;
        if view.is_over {
            return Ok(view);
        }
        self.change(|_, progress| {
            progress.is_cancelled = true;
            // One that was never sealed has nothing that could start.
            progress.is_abandoned |= !progress.is_sealed;
            progress.is_sealed = true;
            Vec::new()
        })
        .await
    }

    /// Sends back what is dead or was cancelled, and lets run what did not because of that. Answers how it is now.
    ///
    /// # Errors
    /// As [`view`](Self::view), and while it is being submitted.
    pub async fn retry(&self) -> Result<FlowView> {
        if !self.stored().await?.progress.is_sealed {
            return Err(FlowInvalid::Unsealed.into());
        }
        self.change(Graph::send_back).await
    }

    async fn change(&self, change: impl Fn(&Graph, &mut Progress) -> Vec<u32>) -> Result<FlowView> {
        let records = Records::of(self.client.clone(), self.home.clone());
        let mut tries = 0;
        loop {
            let turn = Turn::asked(self.stored().await?, |stored, progress| change(&stored.graph, progress));
            let writes = turn.writes()?;
            if writes.is_empty() {
                return self.view().await;
            }
            match records.write(FollowUps::of_records(writes)).await {
                Err(error) if error.is_conflict() && tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(error),
                Ok(_) => {
                    // If this fails, a mover does it later: a note says so.
                    let unsent = turn.act(&self.client).await?;
                    for unsent in unsent.chunks(RECORDS_MAX) {
                        records.write(FollowUps::of_records(unsent.to_vec())).await?;
                    }
                    break;
                }
            }
        }
        // The note that was written goes when a mover has seen that all is done.
        self.client.move_soon(self.home.clone(), self.home.clone());
        self.view().await
    }
}
