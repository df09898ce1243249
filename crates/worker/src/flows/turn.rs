//! One turn of flows: what has ended is written into their records, and then what follows from that is done. All of it may be done
//! again, by any process.

use std::time::Duration;

use windlass_core::flow::{Progress, Status, Step};
use windlass_core::follow_ups::{FollowUps, RECORDS_MAX};
use windlass_core::record::{Expect, RecordKey, RecordWrite, Version};
use windlass_core::store::{Amended, Seen};
use windlass_core::{JobId, JobRecord, Name, State};

use super::notes;
use super::stored::{FAILURE_TTL, GATHERED_TTL, SUCCESS_TTL, Stored, chunks};
use crate::client::{Client, Records};
use crate::error::Result;

/// Jobs of one flow that one turn sends. The next turn follows at once.
const RELEASE_MAX: usize = 1_000;
/// Jobs of one store call.
const CALL_MAX: usize = 1_000;

/// A flow whose next step was computed.
pub(super) struct Turn {
    stored: Stored,
    /// How far it is when the step is written.
    progress: Progress,
    step: Step,
    /// Jobs to send back although they have ended.
    again: Vec<u32>,
    /// All is to be done that follows from where the flow is: an earlier turn may not have been finished.
    is_redo: bool,
    /// A person asked for it.
    is_asked: bool,
    /// Nodes whose end the flow knew before: another turn does what follows from that.
    known: Vec<u32>,
}

impl Turn {
    /// The next step, by what has ended.
    pub(super) fn new(stored: Stored, ended: &[(u32, Status)], is_redo: bool) -> Self {
        let of_flow: Vec<_> =
            ended.iter().copied().filter(|(node, _)| (*node as usize) < stored.graph.nodes.len()).collect();
        let is_known = |(node, _): &&(u32, Status)| stored.progress.nodes[*node as usize].has_ended();
        let known = of_flow.iter().filter(is_known).map(|(node, _)| *node).collect();
        let mut progress = stored.progress.clone();
        let step = match progress.is_sealed {
            true => stored.graph.advance(&mut progress, &of_flow, RELEASE_MAX),
            false => Step::default(),
        };
        Self { stored, progress, step, again: Vec::new(), is_redo, is_asked: false, known }
    }

    /// A step that a person asks for.
    pub(super) fn asked(stored: Stored, change: impl FnOnce(&Stored, &mut Progress) -> Vec<u32>) -> Self {
        let mut turn = Self::new(stored, &[], false);
        turn.is_asked = true;
        turn.progress = turn.stored.progress.clone();
        turn.again = change(&turn.stored, &mut turn.progress);
        turn.step = turn.stored.graph.advance(&mut turn.progress, &[], RELEASE_MAX);
        turn
    }

    pub(super) fn flow(&self) -> JobId {
        self.stored.id
    }

    /// Whether another turn has to follow.
    pub(super) fn has_more(&self) -> bool {
        self.step.has_more
    }

    /// What is written first: nothing is done that a record does not say.
    pub(super) fn writes(&self) -> Result<Vec<RecordWrite>> {
        let Self { stored, progress, .. } = self;
        if *progress == stored.progress {
            return Ok(Vec::new());
        }
        let mut writes = stored.writes(progress)?;
        // Until all of it is done.
        if self.step.has_more {
            writes.push(notes::more(&stored.home, stored.id)?);
        }
        if self.is_asked {
            writes.push(notes::redo(&stored.home, stored.id)?);
        }
        Ok(writes)
    }

    /// Whether another turn does what follows from the end of this node.
    pub(super) fn leaves(&self, node: u32) -> bool {
        !self.is_redo && self.known.contains(&node)
    }

    /// The nodes whose jobs it sends, where it does nothing else.
    pub(super) fn sends_only(&self) -> Option<&[u32]> {
        let Self { progress, step, is_asked, is_redo, .. } = self;
        let is_plain = !is_redo && !is_asked && !progress.is_again;
        let is_all = step.withdraw.is_empty() && step.stop.is_empty() && !self.has_end();
        (is_plain && is_all).then_some(&step.release)
    }

    /// Whether something is to be done because the flow is over.
    fn has_end(&self) -> bool {
        let Self { stored, progress, .. } = self;
        let is_bare = stored.graph.wakes.is_none() && stored.chunks == 0;
        // A turn that changes nothing is not the one that ended it.
        let is_new = self.is_redo || *progress != stored.progress;
        is_new && progress.is_over() && !(is_bare && progress.of(Status::Yielded).next().is_none())
    }

    /// A note for a job that was to be sent, by the answer: that it has ended and never started.
    pub(super) fn unsent(&self, node: u32, answer: Amended) -> Option<RecordWrite> {
        let status = unsent(answer)?;
        notes::ended(&self.stored.home, self.stored.id, node, status).ok()
    }

    /// Does what follows. Answers notes of jobs that have ended without one.
    pub(super) async fn act(&self, client: &Client) -> Result<Vec<RecordWrite>> {
        self.reopen(client).await?;
        let (mut ended, jobs) = (self.release(client).await?, self.stored.graph.jobs());
        for ids in self.ids(client, &self.withdrawn()).chunks(CALL_MAX) {
            client.store().withdraw(ids.into()).await?;
        }
        let stopped = match self.is_redo && self.progress.is_cancelled {
            // Callbacks run also if the flow is cancelled.
            true => self.progress.of(Status::Open).take_while(|node| (*node as usize) < jobs).collect(),
            false => self.step.stop.clone(),
        };
        for nodes in stopped.chunks(CALL_MAX) {
            let answers = client.store().cancel(self.ids(client, nodes).into()).await?;
            let is_cancelled = |answer: &Amended| *answer == Amended::Done(State::Cancelled);
            let answered = nodes.iter().zip(answers).filter(|(_, answer)| is_cancelled(answer));
            ended.extend(answered.map(|(node, _)| (*node, Status::Cancelled)));
        }
        if self.has_end() {
            self.end(client).await?;
        }
        let Stored { home, id, .. } = &self.stored;
        ended.into_iter().map(|(node, status)| notes::ended(home, *id, node, status)).collect()
    }

    fn nodes(&self, status: Status) -> Vec<u32> {
        self.progress.of(status).collect()
    }

    /// The ids of these, of which the store is told where they are.
    pub(super) fn ids(&self, client: &Client, nodes: &[u32]) -> Vec<JobId> {
        self.stored.ids(client, nodes)
    }

    fn withdrawn(&self) -> Vec<u32> {
        if !self.is_redo {
            return self.step.withdraw.clone();
        }
        let never = [Status::Cancelled, Status::Failed, Status::Skipped];
        never.into_iter().flat_map(|status| self.progress.of(status)).collect()
    }

    /// Sends jobs that may start. Answers which of them have ended and never started.
    async fn release(&self, client: &Client) -> Result<Vec<(u32, Status)>> {
        let mut nodes = if self.is_redo { self.nodes(Status::Open) } else { self.step.release.clone() };
        if self.progress.is_cancelled {
            // Only callbacks.
            nodes.retain(|node| *node as usize >= self.stored.graph.jobs());
        }
        let mut ended = Vec::new();
        for nodes in nodes.chunks(CALL_MAX) {
            let seen = self.seen(client, nodes, false).await?;
            let answers = client.store().retry_seen(seen.into()).await?;
            let unsent = |(node, answer): (&u32, Amended)| Some((*node, unsent(answer)?));
            ended.extend(nodes.iter().zip(answers).filter_map(unsent));
        }
        // What runs has notes of its own: only jobs that were never sent end without one.
        if self.is_redo && !ended.is_empty() {
            let nodes: Vec<u32> = ended.iter().map(|(node, _)| *node).collect();
            let records = client.store().get(self.ids(client, &nodes).into()).await?;
            let has_run = |record: &Option<JobRecord>| record.as_ref().is_some_and(|job| job.fence > 0);
            let mut records = records.iter();
            ended.retain(|_| !records.next().is_some_and(has_run));
        }
        for nodes in self.again.chunks(CALL_MAX) {
            let seen = self.seen(client, nodes, true).await?;
            client.store().retry_seen(seen.into()).await?;
        }
        Ok(ended)
    }

    /// Jobs as they are before they start: held, or ended if parts of the flow were sent back.
    async fn seen(&self, client: &Client, nodes: &[u32], takes_dead: bool) -> Result<Vec<Seen>> {
        let ids = self.ids(client, nodes);
        let held = |id: &JobId| Seen { id: *id, state: State::Blocked, fence: 0 };
        if !self.progress.is_again {
            return Ok(ids.iter().map(held).collect());
        }
        let records = client.store().get(ids.as_slice().into()).await?;
        let is_sent = |job: &&JobRecord| match job.state {
            // One that was cancelled by hand is not sent by a turn that is done again.
            State::Cancelled => !self.is_redo || job.fence == 0,
            State::Dead => takes_dead,
            _ => false,
        };
        let seen =
            |(id, job): (&JobId, Option<JobRecord>)| job.as_ref().filter(is_sent).map_or(held(id), Seen::of);
        Ok(ids.iter().zip(records).map(seen).collect())
    }

    /// The flow is over: wakes the job that waits for that, and removes what is no longer needed.
    async fn end(&self, client: &Client) -> Result<()> {
        let Self { stored, progress, .. } = self;
        let is_success = progress.tally(&stored.graph).is_success() && stored.graph.wakes.is_none();
        let ttl = match (stored.graph.wakes, is_success) {
            (Some(_), _) => GATHERED_TTL,
            (None, true) => SUCCESS_TTL,
            (None, false) => FAILURE_TTL,
        };
        self.write_chunks(client, Some(ttl)).await?;
        if let Some(waiting) = stored.graph.wakes {
            client.store().seen_in(&stored.home, &[waiting.id]);
            let seen = Seen { id: waiting.id, state: State::Scheduled, fence: waiting.fence };
            let answer = client.store().retry_seen([seen].into()).await?.pop();
            if answer == Some(Amended::Refused(State::Scheduled)) {
                // It was sent meanwhile, and looks after the flow by itself, but later.
                let job = client.store().get([waiting.id].into()).await?.pop().flatten();
                if let Some(job) = job.filter(|job| job.state == State::Scheduled) {
                    client.store().retry_seen([Seen::of(&job)].into()).await?;
                }
            }
            return Ok(());
        }
        if !is_success {
            // Its parts can be sent back, and may need outputs of others.
            return Ok(());
        }
        let mut gone: Vec<(Name, RecordKey)> =
            progress.of(Status::Yielded).map(|node| self.output_of(node)).collect();
        gone.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        for queue in gone.chunk_by(|one, other| one.0 == other.0) {
            remove(client, &queue[0].0, queue.iter().map(|(_, key)| key.clone())).await?;
        }
        Ok(())
    }

    /// A flow that was over goes on: its graph has no end of its time.
    async fn reopen(&self, client: &Client) -> Result<()> {
        match self.stored.is_over && !self.progress.is_over() {
            true => self.write_chunks(client, None).await,
            false => Ok(()),
        }
    }

    /// Writes its graph anew, where that has records of its own.
    async fn write_chunks(&self, client: &Client, ttl: Option<Duration>) -> Result<()> {
        if self.stored.chunks == 0 {
            return Ok(());
        }
        let records = Records::of(client.clone(), self.stored.home.clone());
        for chunk in chunks(self.stored.id, &self.stored.graph.text())? {
            let chunk = ttl.into_iter().fold(chunk, RecordWrite::ttl);
            records.write(FollowUps::of_records(vec![chunk])).await?;
        }
        Ok(())
    }

    /// Further pieces of a large output go by their time.
    fn output_of(&self, node: u32) -> (Name, RecordKey) {
        let place = &self.stored.graph.nodes[node as usize].place;
        (place.queue.clone(), notes::piece_key(self.stored.id, node, 0))
    }
}

/// How a job that was to be sent has ended, if it has: it was cancelled or expired while it was held. One that is not there may
/// have been sent by another mover and be done, with a note that is on its way, where its queue keeps none that are: maintenance
/// looks for that before it takes it for removed.
fn unsent(answer: Amended) -> Option<Status> {
    match answer {
        Amended::Refused(State::Cancelled) => Some(Status::Cancelled),
        Amended::Refused(State::Dead) => Some(Status::Dead),
        _ => None,
    }
}

/// Removes records of a queue, some at a time. Those that are not as they were read stay.
pub(super) async fn remove_read(
    client: &Client,
    queue: &Name,
    read: Vec<(RecordKey, Version)>,
) -> Result<()> {
    let records = Records::of(client.clone(), queue.clone());
    let removal = |(key, version): &(RecordKey, Version)| {
        RecordWrite::remove(key.clone()).expect(Expect::Version(*version))
    };
    for some in read.chunks(RECORDS_MAX) {
        match records.write(FollowUps::of_records(some.iter().map(removal).collect())).await {
            Ok(_) => continue,
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
        for one in some {
            match records.write(FollowUps::of_records(vec![removal(one)])).await {
                Err(error) if !error.is_conflict() => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Removes records of a queue, some at a time.
async fn remove(client: &Client, queue: &Name, keys: impl Iterator<Item = RecordKey>) -> Result<()> {
    let records = Records::of(client.clone(), queue.clone());
    let writes: Vec<RecordWrite> = keys.map(RecordWrite::remove).collect();
    for some in writes.chunks(RECORDS_MAX) {
        records.write(FollowUps::of_records(some.to_vec())).await?;
    }
    Ok(())
}
