//! The flow that a job belongs to, for `jobs show`, and what the job waits for there.

use serde::Serialize;
use windlass::worker::{Cause, Why};
use windlass::{Client, Error};
use windlass_core::flow::Member;
use windlass_core::{JobRecord, State};

/// The flow of a job.
#[derive(Debug, Serialize)]
pub(crate) struct FlowOf {
    id: String,
    /// Nothing where the flow is gone or does not read.
    name: Option<String>,
    queue: String,
    /// The place of the job among its nodes.
    place: u32,
    /// What holds the job, as `explain` has it.
    #[serde(serialize_with = "why")]
    blocked: Option<Cause>,
}

fn why<S: serde::Serializer>(cause: &Option<Cause>, to: S) -> Result<S::Ok, S::Error> {
    cause.as_ref().map(|cause| &cause.why).serialize(to)
}

impl FlowOf {
    /// Reads it; nothing for a job of no flow.
    pub(crate) async fn read(client: &Client, job: &JobRecord) -> anyhow::Result<Option<Self>> {
        let Some(Member { flow, node, home, .. }) = Member::of(&job.spec) else { return Ok(None) };
        let name = match client.flow_handle(&home, flow)?.view().await {
            Ok(view) => Some(view.name),
            Err(Error::Store(error)) => return Err(error.into()),
            Err(_) => None,
        };
        let explanation = match job.state {
            State::Blocked => client.explain(job.id).await?,
            _ => None,
        };
        let causes = explanation.map(|explanation| explanation.causes).unwrap_or_default();
        let blocked = causes.into_iter().find(|cause| matches!(cause.why, Why::Blocked { .. }));
        Ok(Some(Self { id: flow.to_string(), name, queue: home.to_string(), place: node, blocked }))
    }

    /// The rows of a page about the job.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let flow = match &self.name {
            Some(name) => format!("{name} ({}) in queue {}", self.id, self.queue),
            None => format!("{} in queue {}, which is gone or does not read", self.id, self.queue),
        };
        let held = self.blocked.as_ref().map(|cause| ("held", cause.sentence.clone()));
        std::iter::once(("flow", flow)).chain(held).collect()
    }
}
