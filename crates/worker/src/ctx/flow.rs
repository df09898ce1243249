//! What a handler sees of the flow that its job belongs to, and how it waits for jobs of its own.

use std::time::Duration;

use windlass_core::flow::{Member, Role, Waiting};

use super::Ctx;
use crate::error::{Error, Result};
use crate::flows::{FlowDraft, FlowHandle, Gathered, Parent, Plan, gathered_flow, load, of_nodes, outputs};
use crate::job::Job;
use crate::job_error::JobError;

/// How long a job waits for those that it gathers, unless they end. A century.
const LONG: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How soon a job looks again that was sent while those that it gathers had not ended.
const AGAIN: Duration = Duration::from_secs(5);

impl Ctx {
    /// The flow that the job belongs to, if it does.
    pub fn flow(&self) -> Option<FlowHandle> {
        let member = Member::of(&self.inner().job.facts.spec)?;
        Some(FlowHandle::new(self.client().clone(), member.flow, member.home))
    }

    /// The jobs that this one has waited for, with what they gave back, in the order of the flow; for a callback all jobs of
    /// the flow. Nothing for a job without a flow.
    ///
    /// # Errors
    /// The store's, and [`Error::NoFlow`](crate::Error::NoFlow) when the flow is gone.
    pub async fn parents(&self) -> Result<Vec<Parent>> {
        let Some(member) = Member::of(&self.inner().job.facts.spec) else { return Ok(Vec::new()) };
        let stored = FlowHandle::new(self.client().clone(), member.flow, member.home).stored().await?;
        let nodes: Vec<u32> = match stored.graph.nodes.get(member.node as usize) {
            Some(node) if node.role == Role::Job => node.parents.iter().map(|edge| edge.parent).collect(),
            _ => (0..stored.graph.jobs() as u32).collect(),
        };
        of_nodes(self.client(), &stored, &nodes).await
    }

    /// What the jobs of this type gave back that this one has waited for, in the order of the flow. Those that did not
    /// complete are left out.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass_worker::{Ctx, Job, JobError};
    /// # #[derive(Serialize, Deserialize)] struct Count { page: u32 }
    /// # #[derive(Serialize, Deserialize)] struct Sum;
    /// # impl Job for Count { const KIND: &'static str = "count"; type Output = u64; }
    /// # impl Job for Sum { const KIND: &'static str = "sum"; type Output = u64; }
    /// async fn sum(_job: Sum, ctx: Ctx) -> Result<u64, JobError> {
    ///     Ok(ctx.outputs::<Count>().await?.into_iter().sum())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`parents`](Self::parents), and when an output is not of the type that the job says.
    pub async fn outputs<J: Job>(&self) -> Result<Vec<J::Output>> {
        outputs::<J>(&self.parents().await?)
    }

    /// Adds jobs, and comes back when all of them have ended. Call it with `?`: the first time it ends the attempt, which costs no
    /// attempt and holds no slot; the jobs are added in the same write. In a later attempt it answers with what they gave back. The
    /// name tells several such groups of one job apart.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass_worker::{Ctx, Job, JobError};
    /// # #[derive(Serialize, Deserialize)] struct Campaign { mails: u64 }
    /// # #[derive(Serialize, Deserialize)] struct SendChunk { from: u64, to: u64 }
    /// # impl Job for Campaign { const KIND: &'static str = "campaign"; type Output = u64; }
    /// # impl Job for SendChunk { const KIND: &'static str = "send_chunk"; type Output = u64; }
    /// async fn campaign(job: Campaign, ctx: Ctx) -> Result<u64, JobError> {
    ///     let chunks = (0..job.mails).step_by(500);
    ///     let sent = ctx.gather("chunks", |flow| {
    ///         flow.at_most(20);
    ///         flow.add_all(chunks.map(|from| SendChunk { from, to: (from + 500).min(job.mails) }));
    ///     });
    ///     Ok(sent.await?.outputs::<SendChunk>()?.into_iter().sum())
    /// }
    /// ```
    ///
    /// # Errors
    /// While they have not ended, an error that puts the job back until then; else the store's, and what is wrong with the jobs.
    pub async fn gather(&self, name: &str, add: impl FnOnce(&mut FlowDraft)) -> Result<Gathered, JobError> {
        let flow = gathered_flow(self.id(), name);
        let client = self.client();
        let found = load(client, self.queue(), &[flow]).await?.pop().flatten().transpose()?;
        match found {
            Some(stored) if stored.progress.is_over() => {
                let nodes: Vec<u32> = (0..stored.graph.jobs() as u32).collect();
                let jobs = of_nodes(client, &stored, &nodes).await?;
                // They go when this job completes.
                self.inner().follow.forget(stored.keys()?);
                Ok(Gathered { jobs })
            }
            // The job was sent by hand, or the flow was laid out by an attempt that was lost: the wait begins anew.
            Some(stored) if stored.progress.is_sealed => Err(JobError::snooze(AGAIN)),
            found => {
                let mut draft = FlowDraft::gathered(client.clone(), flow, name.to_owned());
                add(&mut draft);
                draft.home(self.queue().as_str());
                let plan = Box::pin(Plan::of(draft))
                    .await
                    .map_err(senseless)?
                    .over(found.map(|unsealed| unsealed.version))
                    .traced(self.trace());
                let by = Waiting { id: self.id(), fence: self.fence().number };
                let then = Box::pin(plan.waited_for(by).follow()).await?;
                self.inner().follow.leave(then);
                Err(JobError::snooze(LONG))
            }
        }
    }
}

/// A flow that makes no sense makes none the next time either.
fn senseless(error: Error) -> JobError {
    match error {
        Error::Flow(invalid) => JobError::fail(invalid.to_string()),
        error => error.into(),
    }
}
