//! Flows: jobs that wait for other jobs. A flow is a graph that never changes, and a progress that moves; what may start next
//! is computed here from both, without a store and without a clock. `worker/src/flows.rs` asks which jobs have ended, and acts.

mod advance;
mod graph;
mod progress;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use advance::Step;
pub use graph::{Callbacks, Edge, Graph, Node, Place};
pub use progress::{Progress, Status, Tally};

use crate::clock::Timestamp;

/// The most jobs that a flow may have.
pub const NODES_MAX: usize = 100_000;
/// The most that the name of a flow may have, in bytes.
pub const NAME_MAX: usize = 128;
/// Says in the meta of a job which flow it belongs to, as which node, and in which queue the flow is.
pub const MEMBER: &str = "windlass.flow";
/// The instant that jobs are due at while they wait for others: the year 2200, which every store can order by.
pub const HELD: Timestamp = Timestamp::from_micros(7_258_118_400_000_000);

/// What becomes of a job when one that it waits for is dead or cancelled, or has itself failed for such a reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It does not run, and counts as failed itself.
    #[default]
    Fail,
    /// It runs all the same.
    Run,
    /// It does not run, and what waits for it goes on.
    Skip,
    /// It does not run, and neither does anything else of the flow: what runs is asked to stop.
    CancelRest,
}

/// Why a graph is not one that can be run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FlowInvalid {
    /// Too many jobs.
    #[error(
        "{count} jobs in one flow: at most {NODES_MAX}; let jobs do more each, or let one of them gather others"
    )]
    Nodes {
        /// How many.
        count: usize,
    },
    /// A name that is empty, too long, or not printable.
    #[error("{name:?} is not a name for a flow: use 1 to {NAME_MAX} bytes without control characters")]
    Name {
        /// The name.
        name: String,
    },
    /// An edge from nowhere.
    #[error(
        "job {node} of the flow waits for job {parent}, which was not added before it: a job can wait only for earlier ones of the same flow, so that none waits for itself"
    )]
    Parent {
        /// The place of the job that waits.
        node: usize,
        /// The place that it names.
        parent: usize,
    },
    /// A job that waits for others and for a time.
    #[error(
        "job {node} of the flow has a delay or a time of its own: only the first jobs of a flow that is added in one call and has no bound on jobs alive may have one; others start when what they wait for has ended"
    )]
    Due {
        /// Its place.
        node: usize,
    },
    /// A unique key.
    #[error(
        "job {node} of the flow has a unique key: a job that another one stands for never ends for its flow; use `ctx.once` in the handler"
    )]
    Unique {
        /// Its place.
        node: usize,
    },
    /// A bound of zero.
    #[error("at most 0 jobs alive at once: none would ever start")]
    NoneAlive,
    /// What is stored does not read.
    #[error("what is stored of the flow does not read: {0}")]
    Broken(String),
}

/// Which flow a job belongs to, as its meta says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The flow: the id of the job that moves it on.
    pub flow: crate::JobId,
    /// Its place in the graph; none for a callback.
    pub node: Option<u32>,
    /// The queue that the flow is in.
    pub queue: crate::Name,
}

impl Member {
    /// The text for the meta of a job.
    pub fn text(&self) -> String {
        let node = self.node.map_or_else(|| "-".to_owned(), |node| node.to_string());
        format!("{}/{node}/{}", self.flow, self.queue)
    }

    /// Reads what [`text`](Self::text) wrote; nothing for anything else.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '/');
        let flow = parts.next()?.parse().ok()?;
        let node = match parts.next()? {
            "-" => None,
            node => Some(node.parse().ok()?),
        };
        Some(Self { flow, node, queue: crate::Name::new(parts.next()?).ok()? })
    }

    /// The flow of a job with this spec.
    pub fn of(spec: &crate::job::Spec) -> Option<Self> {
        spec.meta.get(MEMBER).and_then(|text| Self::read(text))
    }
}
