//! Jobs that wait for other jobs: [`Client::flow`](crate::Client::flow) takes them, [`Ctx::outputs`](crate::Ctx::outputs) gives
//! what those before have given back, [`Ctx::gather`](crate::Ctx::gather) adds jobs and waits for them.

pub use windlass_core::flow::{FlowInvalid, OnFailure, Role, Status, Tally};
pub use windlass_worker::{
    After, Edges, FlowDraft, FlowHandle, FlowNode, FlowPage, FlowPlace, FlowView, FlowsListed, Gathered,
    NodeView, Parent,
};
