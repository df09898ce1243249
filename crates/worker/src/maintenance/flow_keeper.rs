//! Goes on with flows whose mover has died, and learns of ends that left no note: jobs that were cancelled, removed or expired while
//! they waited.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_core::flow::Status;
use windlass_core::follow_ups::{FollowUps, RECORDS_MAX};
use windlass_core::record::{RecordKey, RecordWrite, Version};
use windlass_core::store::{Duty, StoreResult};
use windlass_core::{JobId, Name, State, StoreError};

use super::{Round, Sweep};
use crate::client::{Client, Records, records_of};
use crate::error::{Error, Result};
use crate::flows::{FlowHandle, Notes, OPEN, Stored, load, marked_page, notes};
use crate::health::Part;

/// Queues that one round looks at. The next round goes on after them.
const QUEUES: u32 = 200;
/// Notes of a queue that one round looks at.
const NOTES_MAX: u32 = 500;
/// Flows of a queue that one round looks at.
const FLOWS: u32 = 50;
/// Jobs of a flow that one round asks for.
const JOBS: usize = 5_000;
/// Jobs of one store call.
const CALL_MAX: usize = 1_000;
/// A flow that was not sealed for so long has lost the process that submitted it.
const UNSEALED_MAX: Duration = Duration::from_secs(3600);

/// Looks after flows, some in each round.
pub struct FlowKeeper {
    client: Client,
    seen: Mutex<SeenBefore>,
}

/// What earlier rounds have seen.
#[derive(Default)]
struct SeenBefore {
    /// Where the next round begins.
    after: Option<RecordKey>,
    /// Where the next look at flows of a queue begins.
    flows: HashMap<Name, RecordKey>,
    /// Notes that were there in the round before: their mover is slow, or gone.
    notes: HashSet<(Name, RecordKey, Version)>,
}

/// What one round of a [`FlowKeeper`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowSummary {
    /// Flows that were looked at.
    pub looked: u64,
    /// Notes that were left by others, and taken.
    pub taken: u64,
    /// Ends that had left no note.
    pub unnoted: u64,
}

impl FlowKeeper {
    /// A keeper for the store of this client.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, SeenBefore> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the next queues with flows.
    ///
    /// # Errors
    /// The store's, when it answers for no queue. What is wrong with one queue is logged, and the others go on.
    pub async fn run_once(&self) -> Result<FlowSummary> {
        if self.client.store().records().is_none() {
            return Ok(FlowSummary::default());
        }
        let after = self.seen().after.clone();
        let (queues, next) = marked_page(&self.client, after.as_ref(), QUEUES).await?;
        self.seen().after = next;
        let (mut summary, mut failed, mut succeeded) = (FlowSummary::default(), None, false);
        for queue in queues {
            match Box::pin(self.look(&queue, &mut summary)).await {
                Ok(()) => succeeded = true,
                Err(error) => {
                    tracing::warn!(job.queue = %queue, %error, "the flows of a queue were not looked at");
                    failed.get_or_insert(error);
                }
            }
        }
        match failed {
            Some(error) if !succeeded => Err(error),
            _ => Ok(summary),
        }
    }

    async fn look(&self, queue: &Name, summary: &mut FlowSummary) -> Result<()> {
        self.take_left(queue, summary).await?;
        let after = self.seen().flows.get(queue).cloned();
        let part = records_of(&**self.client.store())?;
        let page = part.list(queue, OPEN, after.as_ref(), FLOWS).await?;
        let ids: Vec<JobId> = page
            .records
            .iter()
            .filter_map(|record| record.key.as_str().strip_prefix(OPEN)?.parse().ok())
            .collect();
        match page.next {
            Some(next) => self.seen().flows.insert(queue.clone(), next),
            None => self.seen().flows.remove(queue),
        };
        for id in ids {
            // One by one, for they may be large. One that does not read is named where it is moved or shown.
            let found = load(&self.client, queue, &[id]).await?.pop().flatten();
            let Some(Ok(flow)) = found else { continue };
            summary.looked += 1;
            match self.check(&flow).await {
                Ok(unnoted) => summary.unnoted += unnoted,
                Err(error) => {
                    tracing::warn!(flow = %id, job.queue = %queue, %error, "a flow was not looked at");
                }
            }
        }
        Ok(())
    }

    /// Takes notes that were there in the round before.
    async fn take_left(&self, queue: &Name, summary: &mut FlowSummary) -> Result<()> {
        let part = records_of(&**self.client.store())?;
        let page = part.list(queue, notes::NOTES, None, NOTES_MAX).await?;
        let (mut homes, mut now) = (HashSet::new(), HashSet::new());
        {
            let mut seen = self.seen();
            for record in &page.records {
                let Some(note) = notes::Note::read(record) else { continue };
                let place = (queue.clone(), note.key, record.version);
                if seen.notes.contains(&place) {
                    homes.insert(note.home);
                }
                now.insert(place);
            }
            seen.notes.retain(|(of, _, _)| of != queue);
            seen.notes.extend(now);
        }
        for home in homes {
            match self.client.move_flows(&home, queue, Notes::Left).await {
                Ok(taken) => summary.taken += taken as u64,
                Err(error) => {
                    tracing::warn!(job.queue = %home, %error, "notes of flows that were left are not taken");
                }
            }
        }
        Ok(())
    }

    /// Writes notes for jobs that have ended without one. They are read after the flow and before the notes that there are: what
    /// another process has taken in between makes the flow another one than was read.
    async fn check(&self, flow: &Stored) -> Result<u64> {
        if !flow.progress.is_sealed {
            return self.give_up(flow).await;
        }
        let open: Vec<u32> = flow.progress.of(Status::Open).take(JOBS).collect();
        // Jobs that are held although they may start, or none that may: the process that should send them has died.
        let (mut ended, mut is_stuck) = (Vec::new(), open.is_empty());
        for nodes in open.chunks(CALL_MAX) {
            let ids = flow.ids(&self.client, nodes);
            let states = self.client.store().states(ids.into()).await?;
            is_stuck |= states.contains(&Some(State::Blocked));
            ended.extend(nodes.iter().zip(states).filter_map(|(node, state)| {
                let status = state.map_or(Some(Status::Cancelled), Status::of_end)?;
                Some((*node, status))
            }));
        }
        if ended.is_empty() && !is_stuck {
            return Ok(0);
        }
        self.without_notes(flow, &mut ended).await?;
        let now = load(&self.client, &flow.home, &[flow.id]).await?.pop().flatten().transpose()?;
        if now.is_none_or(|now| now.version != flow.version) {
            return Ok(0);
        }
        let mut writes: Vec<RecordWrite> = Vec::with_capacity(ended.len());
        for (node, status) in &ended {
            writes.push(notes::ended(&flow.home, flow.id, *node, *status)?);
        }
        if is_stuck {
            writes.push(notes::redo(&flow.home, flow.id)?);
        }
        let records = Records::of(self.client.clone(), flow.home.clone());
        for some in writes.chunks(RECORDS_MAX) {
            records.write(FollowUps::of_records(some.to_vec())).await?;
        }
        self.client.move_flows(&flow.home, &flow.home, Notes::Fresh).await?;
        Ok(writes.len() as u64)
    }

    /// Leaves out ends that have a note, which is taken as any other.
    async fn without_notes(&self, flow: &Stored, ended: &mut Vec<(u32, Status)>) -> Result<()> {
        let part = records_of(&**self.client.store())?;
        let (mut noted, mut by_queue) = (HashSet::new(), HashMap::<&Name, Vec<(u32, RecordKey)>>::new());
        for (node, status) in ended.iter() {
            let place = &flow.graph.nodes[*node as usize].place;
            let key = notes::ended(&flow.home, flow.id, *node, *status)?.key;
            by_queue.entry(&place.queue).or_default().push((*node, key));
        }
        for (queue, nodes) in by_queue {
            for some in nodes.chunks(RECORDS_MAX) {
                let keys = some.iter().map(|(_, key)| key.clone()).collect();
                let found = part.read(queue, keys).await?;
                noted.extend(
                    some.iter().zip(found).filter(|(_, found)| found.is_some()).map(|((node, _), _)| *node),
                );
            }
        }
        ended.retain(|(node, _)| !noted.contains(node));
        Ok(())
    }

    /// Cancels a flow whose submitter has died, after a while.
    async fn give_up(&self, flow: &Stored) -> Result<u64> {
        if self.client.store().now().await?.since(flow.written_at) < UNSEALED_MAX {
            return Ok(0);
        }
        tracing::warn!(flow = %flow.id, job.queue = %flow.home, "a flow was never submitted to its end, and is cancelled");
        FlowHandle::new(self.client.clone(), flow.id, flow.home.clone()).cancel().await?;
        Ok(0)
    }
}

impl Sweep for FlowKeeper {
    const PART: Part = Part::FlowKeeper;
    // With the reaper: what the death of a worker has left undone is done together.
    const DUTY: Duty = Duty::Reap;

    async fn sweep(&self) -> StoreResult<Round> {
        match self.run_once().await {
            Ok(_) => Ok(Round::Whole),
            Err(Error::Store(error)) => Err(error),
            Err(error) => Err(StoreError::Internal { what: error.to_string(), source: None }),
        }
    }
}
