//! The builder behind `client.flow("import")`: jobs are added, then all of them are stored.

use std::ops::Range;

use windlass_core::flow::{Edge, FlowInvalid, NODES_MAX, Role};
use windlass_core::{Bytes, JobId, Options};
use windlass_tx::Tx;

use super::after::{After, Edges, FlowNode};
use super::handle::FlowHandle;
use super::submit::Plan;
use crate::client::{Client, own_key};
use crate::error::{Error, Result};
use crate::job::{IntoJob, Job, With};

/// Jobs that depend on each other, on their way into a store: add them, then [submit](FlowDraft::submit) the flow.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass_worker::Result<()> {
/// # use std::sync::Arc;
/// # use serde::{Deserialize, Serialize};
/// # use windlass_worker::Job;
/// # #[derive(Serialize, Deserialize)] struct Fetch { url: String }
/// # #[derive(Serialize, Deserialize)] struct Parse;
/// # #[derive(Serialize, Deserialize)] struct Report;
/// # impl Job for Fetch { const KIND: &'static str = "fetch"; type Output = String; }
/// # impl Job for Parse { const KIND: &'static str = "parse"; type Output = u32; }
/// # impl Job for Report { const KIND: &'static str = "report"; type Output = (); }
/// # let client = windlass_worker::Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
/// let mut flow = client.flow("import");
/// let pages = flow.add_all(["a", "b"].map(|url| Fetch { url: url.into() }));
/// let parsed = flow.add_after(&pages, Parse);
/// flow.add_after(parsed, Report);
/// let flow = flow.submit().await?;
/// println!("{} jobs of {} have ended", flow.view().await?.tally.ended(), flow.id());
/// # Ok(())
/// # }
/// ```
#[must_use = "a flow is stored when it is submitted"]
pub struct FlowDraft {
    pub(super) client: Client,
    pub(super) id: JobId,
    pub(super) name: String,
    pub(super) home: Option<String>,
    pub(super) alive_max: Option<u32>,
    pub(super) drafts: Vec<Draft>,
    pub(super) callbacks: Vec<Draft>,
    pub(super) error: Option<Error>,
    /// Its jobs have ids that follow from its own, so that it can be laid out again.
    pub(super) is_named: bool,
}

/// One job of a flow that is not stored yet.
pub(super) struct Draft {
    pub(super) id: JobId,
    pub(super) kind: &'static str,
    pub(super) payload: Bytes,
    pub(super) options: Options,
    pub(super) parents: Vec<Edge>,
    pub(super) role: Role,
}

impl Client {
    /// A new flow under a name that people know it by: add jobs to it, then submit it.
    pub fn flow(&self, name: impl Into<String>) -> FlowDraft {
        FlowDraft::new(self.clone(), JobId::new(), name.into())
    }
}

impl FlowDraft {
    pub(crate) fn new(client: Client, id: JobId, name: String) -> Self {
        Self {
            client,
            id,
            name,
            home: None,
            alive_max: None,
            drafts: Vec::new(),
            callbacks: Vec::new(),
            error: None,
            is_named: false,
        }
    }

    /// A flow that a job waits for: an attempt that takes over lays out the same one.
    pub(crate) fn gathered(client: Client, id: JobId, name: String) -> Self {
        Self { is_named: true, ..Self::new(client, id, name) }
    }

    /// The id of the flow, chosen by the caller: a flow that is submitted again under it, because an answer was lost, is there
    /// once. Say it first, for the ids of jobs follow from it.
    pub fn with_id(mut self, id: JobId) -> Self {
        (self.id, self.is_named) = (id, true);
        self
    }

    /// The id that the flow will have.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The queue that keeps the flow; that of its first job if nothing is said.
    pub fn home(&mut self, queue: impl Into<String>) -> &mut Self {
        self.home = Some(queue.into());
        self
    }

    /// At most so many of its jobs are under way at once: ready, running or between two attempts.
    pub fn at_most(&mut self, jobs: u32) -> &mut Self {
        self.alive_max = Some(jobs);
        self
    }

    /// Adds a job that waits for no other.
    pub fn add<I: IntoJob>(&mut self, job: I) -> FlowNode<I::Job> {
        self.add_after(Edges::default(), job)
    }

    /// Adds a job that starts when these have ended. It gets their outputs, see [`Ctx::outputs`](crate::Ctx::outputs).
    pub fn add_after<I: IntoJob>(&mut self, after: impl After, job: I) -> FlowNode<I::Job> {
        let (place, With { job, id, options }) = (self.drafts.len(), job.into_job());
        let Edges { flow, edges: mut parents } = after.edges();
        if flow.is_some_and(|flow| flow != self.id) {
            self.refuse(FlowInvalid::Foreign { node: place }.into());
        }
        parents.sort_unstable_by_key(|edge| edge.parent);
        if let Some(twice) = parents.windows(2).find(|two| two[0].parent == two[1].parent && two[0] != two[1])
        {
            self.refuse(FlowInvalid::Twice { node: place, parent: twice[0].parent as usize }.into());
        }
        parents.dedup_by_key(|edge| edge.parent);
        if place >= NODES_MAX {
            self.refuse(FlowInvalid::Nodes { count: place + 1 }.into());
        }
        let draft = self.draft(job, id, options, parents, Role::Job);
        let node = FlowNode::new(self.id, u32::try_from(place).unwrap_or(u32::MAX), draft.id);
        self.drafts.push(draft);
        node
    }

    /// Adds jobs that wait for no other.
    pub fn add_all<I: IntoJob>(&mut self, jobs: impl IntoIterator<Item = I>) -> Vec<FlowNode<I::Job>> {
        jobs.into_iter().map(|job| self.add(job)).collect()
    }

    /// Adds jobs that share a range: each gets so many of it, the last one what is left.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)] struct SendMails { from: u64, to: u64 }
    /// # impl windlass_worker::Job for SendMails { const KIND: &'static str = "send"; type Output = u64; }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let client = windlass_worker::Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
    /// let mut flow = client.flow("campaign");
    /// let parts = flow.add_ranges(0..1_200, 500, |part| SendMails { from: part.start, to: part.end });
    /// assert_eq!(parts.len(), 3);
    /// # }
    /// ```
    pub fn add_ranges<I: IntoJob>(
        &mut self,
        range: Range<u64>,
        size: u64,
        job: impl FnMut(Range<u64>) -> I,
    ) -> Vec<FlowNode<I::Job>> {
        let (size, mut next) = (size.max(1), range.start);
        let parts = std::iter::from_fn(|| {
            let part = next..next.saturating_add(size).min(range.end);
            next = part.end;
            (!part.is_empty()).then_some(part)
        });
        // One more than a flow may have is refused like a million more.
        self.add_all(parts.take(NODES_MAX + 1).map(job))
    }

    /// Adds jobs that share items: each gets so many of them, the last one what is left.
    pub fn add_chunks<T, I: IntoJob>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        size: usize,
        job: impl FnMut(Vec<T>) -> I,
    ) -> Vec<FlowNode<I::Job>> {
        let (size, mut items) = (size.max(1), items.into_iter().fuse());
        let chunks = std::iter::from_fn(|| {
            let chunk: Vec<T> = items.by_ref().take(size).collect();
            (!chunk.is_empty()).then_some(chunk)
        });
        self.add_all(chunks.take(NODES_MAX + 1).map(job))
    }

    /// Adds jobs of which each waits for the one before. Answers the last one; nothing if there is none.
    pub fn chain<I: IntoJob>(&mut self, jobs: impl IntoIterator<Item = I>) -> Option<FlowNode<I::Job>> {
        let mut last = None;
        for job in jobs {
            last = Some(match last {
                None => self.add(job),
                Some(before) => self.add_after(before, job),
            });
        }
        last
    }

    /// A job that starts when every job of the flow has completed, or was skipped.
    pub fn on_success<I: IntoJob>(&mut self, job: I) -> JobId {
        self.call_back(job, Role::OnSuccess)
    }

    /// A job that starts when every job of the flow has ended, however.
    pub fn on_end<I: IntoJob>(&mut self, job: I) -> JobId {
        self.call_back(job, Role::OnEnd)
    }

    /// A job that starts when the first job of the flow is dead, cancelled, or fails because of one that it waited for.
    pub fn on_first_failure<I: IntoJob>(&mut self, job: I) -> JobId {
        self.call_back(job, Role::OnFirstFailure)
    }

    fn call_back<I: IntoJob>(&mut self, job: I, role: Role) -> JobId {
        let With { job, id, options } = job.into_job();
        let draft = self.draft(job, id, options, Vec::new(), role);
        let id = draft.id;
        self.callbacks.push(draft);
        id
    }

    fn draft<J: Job>(
        &mut self,
        job: J,
        id: Option<JobId>,
        options: Options,
        parents: Vec<Edge>,
        role: Role,
    ) -> Draft {
        let payload = serde_json::to_vec(&job).map(Bytes::from).unwrap_or_else(|error| {
            self.refuse(Error::Encode { kind: J::KIND, error });
            Bytes::new()
        });
        let options = options.over(own_key(&job)).over(J::options());
        let made = || match self.is_named {
            false => JobId::new(),
            true => {
                let place = (self.drafts.len(), self.callbacks.len());
                JobId::from_key("windlass.gather", &format!("{} {place:?}", self.id))
            }
        };
        Draft { id: id.unwrap_or_else(made), kind: J::KIND, payload, options, parents, role }
    }

    /// The first thing that is wrong is said when the flow is submitted.
    fn refuse(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// Stores the flow: all of it, or nothing that can ever start.
    ///
    /// # Errors
    /// When something of the flow or of one of its jobs makes no sense, with the place of the job; else the store's.
    pub async fn submit(self) -> Result<FlowHandle> {
        let plan = Box::pin(Plan::of(self)).await?;
        Box::pin(plan.store()).await
    }

    /// As [`submit`](Self::submit), inside a transaction of the caller's own: the flow is there when that has been committed.
    /// A job with a key needs a queue that has keys, as for [`Enqueue::within`](crate::Enqueue::within).
    ///
    /// # Errors
    /// As there, and when the transaction is not one of the database that the store is in.
    pub async fn within<T: Tx>(self, tx: &mut T) -> Result<FlowHandle> {
        let plan = Box::pin(Plan::of(self)).await?;
        Box::pin(plan.store_within(tx)).await
    }
}
