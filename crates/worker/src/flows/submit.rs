//! How a flow gets into a store. One that fits into a call of one queue is written by that call. A larger one, or one over several
//! queues, is invisible until it is sealed: its record says so, all its jobs are held, and the last write lets them begin.

use std::sync::Arc;

use windlass_core::flow::{FlowInvalid, Graph, MEMBER, Member, Node, Place, Progress, Role, Step, Waiting};
use windlass_core::follow_ups::{FollowUps, JOBS_MAX};
use windlass_core::job::Trace;
use windlass_core::options::Due;
use windlass_core::record::{Expect, RecordWrite, Version};
use windlass_core::{JobId, Name, NewJob, Options, Store};
use windlass_tx::Tx;

use super::draft::{Draft, FlowDraft};
use super::handle::FlowHandle;
use super::stored::{FAILURE_TTL, INLINE_MAX, chunks, text};
use super::{Notes, load, notes, open_key, over_key};
use crate::client::{Client, Records};
use crate::error::{ConfigError, Result};
use crate::trace;

/// The most that jobs of one call may weigh.
const WEIGHT_MAX: usize = 8 << 20;

/// A flow that can be stored.
pub(crate) struct Plan {
    client: Client,
    id: JobId,
    home: Name,
    graph: Graph,
    jobs: Vec<NewJob>,
    /// What must be there for it to be stored: nothing, or what an attempt that was lost has laid out.
    expect: Expect,
    /// Its caller chose its id: it may be there already.
    is_named: bool,
}

/// The id of the flow that a job gathers under a name.
pub(crate) fn gathered_flow(job: JobId, name: &str) -> JobId {
    JobId::from_key("windlass.gather", &format!("{job} {name}"))
}

impl Plan {
    /// Its jobs belong to this trace, unless they have one.
    pub(crate) fn traced(mut self, trace: Option<&Trace>) -> Self {
        trace::inherit(trace, &mut self.jobs);
        self
    }

    /// Checks a draft, and makes its jobs.
    pub(crate) async fn of(draft: FlowDraft) -> Result<Self> {
        let FlowDraft { client, id, name, home, alive_max, drafts, callbacks, error, is_named } = draft;
        if let Some(error) = error {
            return Err(error);
        }
        let mut is_read = vec![!callbacks.is_empty(); drafts.len()];
        for edge in drafts.iter().flat_map(|draft| &draft.parents) {
            if let Some(is_read) = is_read.get_mut(edge.parent as usize) {
                *is_read = true;
            }
        }
        let count = drafts.len() + callbacks.len();
        let (mut nodes, mut jobs) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (place, draft) in drafts.into_iter().chain(callbacks).enumerate() {
            let Draft { id, kind, payload, options, parents, role } = draft;
            let job = client.new_raw_within(kind, payload, options).await?.with_id(id);
            if job.unique.is_some() {
                return Err(FlowInvalid::Unique { node: place }.into());
            }
            if job.due != Due::Now {
                return Err(FlowInvalid::Due { node: place }.into());
            }
            let at = Place { id, queue: job.queue.clone() };
            nodes.push(Node { place: at, kind: job.kind.clone(), parents, role });
            jobs.push(job);
        }
        let home = match (home, jobs.first()) {
            (None, Some(first)) => Ok(first.queue.clone()),
            (Some(home), _) => Name::new(home),
            (None, None) => Options::new().queue_name(),
        };
        let home = home.map_err(|error| ConfigError::Name { what: "queue", error })?;
        for (place, job) in jobs.iter_mut().enumerate() {
            let is_read = is_read.get(place).copied().unwrap_or(false);
            let node = u32::try_from(place).unwrap_or(u32::MAX);
            let member = Member { flow: id, node, home: home.clone(), is_read };
            job.spec.meta.insert(MEMBER.to_owned(), member.text());
        }
        let graph = Graph { name, nodes, alive_max, wakes: None };
        graph.check()?;
        trace::capture(&mut jobs);
        Ok(Self { client, id, home, graph, jobs, expect: Expect::Absent, is_named })
    }

    /// The flow as that of a job that waits for it: all outputs are kept.
    pub(crate) fn waited_for(mut self, by: Waiting) -> Self {
        self.graph.wakes = Some(by);
        for (place, job) in self.jobs.iter_mut().enumerate() {
            let is_read = self.graph.nodes[place].role == Role::Job;
            let member = Member { flow: self.id, node: place as u32, home: self.home.clone(), is_read };
            job.spec.meta.insert(MEMBER.to_owned(), member.text());
        }
        self
    }

    /// The flow in place of one that was not sealed.
    pub(crate) fn over(mut self, unsealed: Option<Version>) -> Self {
        self.expect = unsealed.map_or(Expect::Absent, Expect::Version);
        self
    }

    /// Lets what can start begin, and holds the rest.
    fn begin(&mut self) -> (Progress, Step) {
        let mut progress = Progress::new(&self.graph);
        let step = self.graph.advance(&mut progress, &[], usize::MAX);
        for job in &mut self.jobs {
            job.due = Due::Held;
        }
        for node in &step.release {
            self.jobs[*node as usize].due = Due::Now;
        }
        // A callback that can never start is not stored.
        let mut place = 0;
        self.jobs.retain(|_| {
            place += 1;
            step.withdraw.binary_search(&(place - 1)).is_err()
        });
        (progress, step)
    }

    fn handle(&self) -> FlowHandle {
        FlowHandle::new(self.client.clone(), self.id, self.home.clone())
    }

    fn fits(&self, graph: &[u8]) -> bool {
        let weight: usize = self.jobs.iter().map(NewJob::weight).sum();
        graph.len() <= INLINE_MAX && self.jobs.len() <= JOBS_MAX && weight <= WEIGHT_MAX
    }

    /// Stores it.
    pub(crate) async fn store(mut self) -> Result<FlowHandle> {
        if self.is_named {
            match load(&self.client, &self.home, &[self.id]).await?.pop().flatten().transpose()? {
                Some(there) if there.progress.is_sealed => return Ok(self.handle()),
                unsealed => self = self.over(unsealed.map(|unsealed| unsealed.version)),
            }
        }
        let graph = self.graph.text();
        let (client, queues) = (self.client.clone(), self.graph.queues());
        let is_at_home = queues.iter().all(|queue| **queue == self.home);
        client.mark_flow_queues(queues.into_iter().chain([&self.home])).await?;
        client.permit_keys(&self.jobs).await?;
        if !is_at_home || !self.fits(&graph) {
            return self.store_in_steps(&graph).await;
        }
        let (progress, _) = self.begin();
        let record = self.record(&progress, 0)?;
        let what = FollowUps { jobs: std::mem::take(&mut self.jobs), records: vec![record] };
        Records::of(client.clone(), self.home.clone()).write(what).await?;
        client.flow_graphs().keep(self.id, &Arc::new(std::mem::replace(&mut self.graph, empty())));
        Ok(self.handle())
    }

    fn record(&self, progress: &Progress, chunks: u32) -> Result<RecordWrite> {
        let value = text(&self.graph, progress, chunks);
        let key = if progress.is_over() { over_key(self.id)? } else { open_key(self.id)? };
        let write = RecordWrite::put(key, value).expect(self.expect);
        Ok(if progress.is_over() { write.ttl(FAILURE_TTL) } else { write })
    }

    /// Stores all of it but what lets it begin. Answers that.
    async fn lay_out(&mut self, graph: &[u8]) -> Result<Vec<RecordWrite>> {
        let records = Records::of(self.client.clone(), self.home.clone());
        let chunks = if graph.len() <= INLINE_MAX { Vec::new() } else { chunks(self.id, graph)? };
        let count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        for chunk in chunks {
            records.write(FollowUps::of_records(vec![chunk])).await?;
        }
        let mut progress = Progress::new(&self.graph);
        progress.is_sealed = false;
        let record = self.record(&progress, count)?;
        let version = record.version().expect("a put has a version");
        records.write(FollowUps::of_records(vec![record])).await?;
        let mut jobs = std::mem::take(&mut self.jobs);
        // Those of one queue together: a call about one queue is the cheapest.
        jobs.sort_by(|one, other| one.queue.cmp(&other.queue));
        for queue in jobs.chunk_by_mut(|one, other| one.queue == other.queue) {
            queue.iter_mut().for_each(|job| job.due = Due::Held);
            for some in parts(queue) {
                self.client.enqueue_whole(some.into()).await?;
            }
        }
        progress.is_sealed = true;
        let value = text(&self.graph, &progress, count);
        let sealed = RecordWrite::put(open_key(self.id)?, value).expect(Expect::Version(version));
        Ok(vec![sealed, notes::more(&self.home, self.id)?])
    }

    async fn store_in_steps(mut self, graph: &[u8]) -> Result<FlowHandle> {
        let (client, home) = (self.client.clone(), self.home.clone());
        let stored = match Box::pin(self.lay_out(graph)).await {
            Ok(seal) => Records::of(client.clone(), home.clone()).write(FollowUps::of_records(seal)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = stored {
            // What is there already never starts. If this fails too, maintenance does it later.
            let _left_to_maintenance = Box::pin(self.handle().cancel()).await;
            return Err(error);
        }
        client.flow_graphs().keep(self.id, &Arc::new(std::mem::replace(&mut self.graph, empty())));
        // Its first jobs start also if this process ends right after.
        if client.move_flows(&home, &home, Notes::Fresh).await.is_err() {
            client.move_soon(home.clone(), home);
        }
        Ok(self.handle())
    }

    /// What an attempt writes when it begins to wait for this flow.
    pub(crate) async fn follow(mut self) -> Result<FollowUps> {
        let graph = self.graph.text();
        let (client, queues) = (self.client.clone(), self.graph.queues());
        let is_at_home = queues.iter().all(|queue| **queue == self.home);
        client.mark_flow_queues(queues.into_iter().chain([&self.home])).await?;
        client.permit_keys(&self.jobs).await?;
        // A store that keeps queues apart delivers jobs for others after the write: until then they would look removed.
        if !is_at_home || !self.fits(&graph) {
            let records = Box::pin(self.lay_out(&graph)).await?;
            return Ok(FollowUps::of_records(records));
        }
        let (progress, step) = self.begin();
        let mut records = vec![self.record(&progress, 0)?];
        if progress.is_over() || step.release.is_empty() {
            // Nothing will end, and so nothing would say that it is over.
            records.push(notes::redo(&self.home, self.id)?);
        }
        Ok(FollowUps { jobs: self.jobs, records })
    }

    /// Stores it inside a transaction, which is whole however much is written.
    pub(crate) async fn store_within<T: Tx>(mut self, tx: &mut T) -> Result<FlowHandle> {
        let graph = self.graph.text();
        let (progress, _) = self.begin();
        let store: &dyn Store = &**self.client.store();
        for some in parts(&self.jobs) {
            windlass_tx::enqueue(store, tx, some).await?;
        }
        let mut records = if graph.len() <= INLINE_MAX { Vec::new() } else { chunks(self.id, &graph)? };
        records.push(self.record(&progress, u32::try_from(records.len()).unwrap_or(u32::MAX))?);
        for record in records {
            let what = FollowUps::of_records(vec![record]);
            windlass_tx::write_records(store, tx, &self.home, &what).await?;
        }
        // Beside the transaction, which may hold what that waits for.
        self.client
            .mark_flow_queues_soon(self.graph.queues().into_iter().chain([&self.home]).cloned().collect());
        Ok(self.handle())
    }
}

/// Jobs in calls that are not too large.
fn parts(jobs: &[NewJob]) -> impl Iterator<Item = &[NewJob]> {
    let mut rest = jobs;
    std::iter::from_fn(move || {
        let mut weight = 0;
        let fits = |job: &&NewJob| {
            weight += job.weight();
            weight <= WEIGHT_MAX
        };
        let count = rest.iter().take(JOBS_MAX).take_while(fits).count().max(1).min(rest.len());
        let (some, later) = rest.split_at(count);
        rest = later;
        (!some.is_empty()).then_some(some)
    })
}

fn empty() -> Graph {
    Graph { name: String::new(), nodes: Vec::new(), alive_max: None, wakes: None }
}
