//! Flows: jobs that wait for other jobs. What a flow consists of and how far it is stands in a record of its home queue; jobs that
//! wait are held by the store (`blocked`). The end of a job that belongs to a flow is written together with a *note*, a record of the
//! job's own queue. A *mover* reads notes, asks `core::flow` what comes next, writes that into the record of the flow if it is
//! as it was read, sends the jobs that may start, and removes the notes. The process that ended the job does so at once; if it
//! dies in between, maintenance finds the note (`maintenance/flow_keeper.rs`). All of it may be done twice: a held job is sent once.

mod after;
mod draft;
mod find;
mod graphs;
mod handle;
mod list;
mod mover;
pub(crate) mod notes;
mod outputs;
mod stored;
mod submit;
mod turn;

use windlass_core::JobId;
use windlass_core::record::RecordKey;

pub use after::{After, Edges, FlowNode};
pub use draft::FlowDraft;
pub use find::{FlowPlace, FlowsListed};
pub use handle::{FlowHandle, FlowView, NodeView};
pub use list::FlowPage;
pub(crate) use list::marked_page;
pub(crate) use mover::{Mover, Notes};
pub use outputs::{Gathered, Parent};
pub(crate) use outputs::{of_nodes, outputs};
pub(crate) use stored::{Stored, load};
pub(crate) use submit::{Plan, gathered_flow};

use crate::error::Result;

/// The queue that says which queues have jobs of flows. It holds no jobs.
pub(crate) const INDEX: &str = "windlass.flows";
/// What records of flows that are under way begin with.
pub(crate) const OPEN: &str = "flow/";
/// What records of flows that are over begin with.
pub(crate) const OVER: &str = "flow-over/";

fn key(text: String) -> Result<RecordKey> {
    Ok(RecordKey::new(text)?)
}

fn open_key(flow: JobId) -> Result<RecordKey> {
    key(format!("{OPEN}{flow}"))
}

fn over_key(flow: JobId) -> Result<RecordKey> {
    key(format!("{OVER}{flow}"))
}

fn chunk_key(flow: JobId, chunk: u32) -> Result<RecordKey> {
    key(format!("flow-graph/{flow}/{chunk}"))
}
