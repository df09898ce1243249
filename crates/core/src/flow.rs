//! Flows: jobs that wait for other jobs. A flow is a graph that never changes, and a progress that moves; what may start next
//! is computed here from both, without a store and without a clock. `worker/src/flows.rs` learns which jobs have ended, and acts.

mod advance;
mod graph;
mod progress;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::JobId;
use crate::job::Spec;
use crate::name::Name;

pub use advance::Step;
pub use graph::{Edge, Graph, Node, Place, Role, Waiting};
pub use progress::{Progress, Status, Tally};

/// The most jobs that a flow may have.
pub const NODES_MAX: usize = 100_000;
/// The most edges that a flow may have: what jobs wait for, all taken together.
pub const EDGES_MAX: usize = 1_000_000;
/// The most that the name of a flow may have, in bytes.
pub const NAME_MAX: usize = 128;
/// Says in the meta of a job which flow it belongs to, as which node, and in which queue the flow is.
pub const MEMBER: &str = "windlass.flow";
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
    /// Too many edges.
    #[error(
        "jobs of one flow wait for {count} others in all: at most {EDGES_MAX}; put a job between two groups that wait for each other"
    )]
    Edges {
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
    /// A node of another flow.
    #[error(
        "job {node} of the flow waits for a job of another flow: a job can wait only for jobs of its own flow"
    )]
    Foreign {
        /// The place of the job that waits.
        node: usize,
    },
    /// It is not sealed.
    #[error("the flow is still being submitted: wait until that is done, or cancel it")]
    Unsealed,
    /// An edge that says two things.
    #[error("job {node} of the flow waits twice for job {parent}, with two policies: say one of them")]
    Twice {
        /// The place of the job that waits.
        node: usize,
        /// The place that it names.
        parent: usize,
    },
    /// A job that waits for others and for a time.
    #[error(
        "job {node} of the flow has a delay or a time of its own: jobs of a flow start when what they wait for has ended; let the handler snooze instead"
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
    /// The flow.
    pub flow: JobId,
    /// Its place in the graph.
    pub node: u32,
    /// The queue that the flow is in.
    pub home: Name,
    /// Whether its output is kept for others of the flow.
    pub is_read: bool,
}

impl Member {
    /// The text for the meta of a job.
    pub fn text(&self) -> String {
        let Self { flow, node, home, is_read } = self;
        format!("{flow}/{node}{}/{home}", if *is_read { "+" } else { "" })
    }

    /// Reads what [`text`](Self::text) wrote; nothing for anything else.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '/');
        let flow = parts.next()?.parse().ok()?;
        let node = parts.next()?;
        let (node, is_read) = node.strip_suffix('+').map_or((node, false), |node| (node, true));
        Some(Self { flow, node: node.parse().ok()?, home: Name::new(parts.next()?).ok()?, is_read })
    }

    /// The flow of a job with this spec.
    pub fn of(spec: &Spec) -> Option<Self> {
        spec.meta.get(MEMBER).and_then(|text| Self::read(text))
    }
}
