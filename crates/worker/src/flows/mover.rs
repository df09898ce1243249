//! The mover: takes the notes of a queue, and lets the flows that they are about have their turns. At most one round runs in a
//! process at a time; what comes meanwhile goes with the next one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use windlass_core::flow::Status;
use windlass_core::follow_ups::{FollowUps, RECORD_BYTES_MAX, RECORDS_MAX};
use windlass_core::record::{Record, RecordWrite};
use windlass_core::store::Seen;
use windlass_core::{JobId, Name, State};

use super::graphs::Graphs;
use super::notes::{self, Note};
use super::turn::{Turn, remove_read};
use super::{INDEX, Stored, load};
use crate::client::{Client, Records};
use crate::error::Result;
use crate::retries::backoff;

/// Notes of one page.
const PAGE: u32 = 500;
/// Flows whose turns are written together.
const TOGETHER_MAX: usize = 40;
/// How often a turn is computed anew because another process was faster.
const TRIES_MAX: u32 = 20;
/// How often a round that fails is begun anew; then maintenance goes on with it.
const ROUNDS_MAX: u32 = 5;
/// Jobs of one call.
const CALL_MAX: usize = 1_000;

/// What a client knows of flows.
pub(crate) struct Mover {
    runtime: Handle,
    pending: Mutex<BTreeSet<(Name, Name)>>,
    is_running: watch::Sender<bool>,
    pub(super) graphs: Graphs,
    /// Queues that are known to be in the index.
    marked: Mutex<HashSet<Name>>,
}

impl Mover {
    pub(crate) fn new(runtime: Handle) -> Self {
        let (pending, marked) = (Mutex::default(), Mutex::default());
        Self { runtime, pending, is_running: watch::Sender::new(false), graphs: Graphs::default(), marked }
    }

    fn pending(&self) -> MutexGuard<'_, BTreeSet<(Name, Name)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    pub(super) fn flow_graphs(&self) -> &Graphs {
        &self.mover().graphs
    }

    /// Flows of this home have notes in this queue: they are taken soon.
    pub(crate) fn move_soon(&self, home: Name, queue: Name) {
        let mover = self.mover();
        // The flag changes under the lock of what is pending, so none is left behind.
        let mut pending = mover.pending();
        pending.insert((home, queue));
        if !mover.is_running.send_replace(true) {
            mover.runtime.spawn(rounds(self.clone()));
        }
    }

    /// Waits until this process has no flow to move.
    pub(crate) async fn flows_at_rest(&self) {
        let mut is_running = self.mover().is_running.subscribe();
        let _never_closed = is_running.wait_for(|is_running| !is_running).await;
    }

    /// Takes the notes of a queue that are about flows of this home. Answers how many there were.
    pub(crate) async fn move_flows(&self, home: &Name, queue: &Name, notes_are: Notes) -> Result<usize> {
        let (records, prefix) = (Records::of(self.clone(), queue.clone()), notes::prefix(home));
        let (mut after, mut taken) = (None, 0);
        loop {
            let page = records.list(&prefix, after.as_ref(), PAGE).await?;
            taken += page.records.len();
            self.take_turns(home, queue, &page.records, notes_are).await?;
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(taken),
            }
        }
    }

    async fn take_turns(
        &self,
        home: &Name,
        queue: &Name,
        records: &[Record],
        notes_are: Notes,
    ) -> Result<()> {
        let mut by_flow: BTreeMap<JobId, Vec<Note>> = BTreeMap::new();
        for note in records.iter().filter_map(Note::read) {
            by_flow.entry(note.flow).or_default().push(note);
        }
        let flows: Vec<(JobId, Vec<Note>)> = by_flow.into_iter().collect();
        for flows in flows.chunks(TOGETHER_MAX) {
            let ids: Vec<JobId> = flows.iter().map(|(id, _)| *id).collect();
            let (mut turns, mut done) = (Vec::new(), Vec::new());
            for ((id, notes), found) in flows.iter().zip(load(self, home, &ids).await?) {
                match found {
                    // What it says counts when it is sealed.
                    Some(Ok(stored)) if !stored.progress.is_sealed => {}
                    Some(Ok(stored)) => {
                        let ended = self.ended(&stored, notes).await?;
                        turns.push(Turn::new(stored, &ended, notes_are.is_redo(notes)));
                        done.push(notes);
                    }
                    // Its notes are about nothing.
                    None => done.push(notes),
                    Some(Err(error)) => {
                        tracing::warn!(flow = %id, job.queue = %home, %error, "a flow does not read and is left alone");
                    }
                }
            }
            let left = self.write_turns(home, turns, flows, notes_are).await?;
            // A note goes when all is done that follows from it.
            let is_done = |note: &&Note| match (left.get(&note.flow), note.ended) {
                (None, _) => true,
                (Some(Left::All), _) => false,
                (Some(Left::Known { nodes, .. }), Some((node, _))) => !nodes.contains(&node),
                (Some(Left::Known { has_more, .. }), None) => note.is_redo || !has_more,
            };
            let read =
                done.into_iter().flatten().filter(is_done).map(|note| (note.key.clone(), note.version));
            remove_read(self, queue, read.collect()).await?;
        }
        Ok(())
    }

    /// What has ended, by these notes. Where parts of a flow were sent back, notes of the time before may be left, by a mover that
    /// has died: jobs that go on have not ended.
    async fn ended(&self, stored: &Stored, notes: &[Note]) -> Result<Vec<(u32, Status)>> {
        let is_node = |(node, _): &(u32, Status)| (*node as usize) < stored.graph.nodes.len();
        let mut ended: Vec<_> = notes.iter().filter_map(|note| note.ended).filter(is_node).collect();
        if stored.progress.is_again && !ended.is_empty() {
            let nodes: Vec<u32> = ended.iter().map(|(node, _)| *node).collect();
            let states = self.store().states(stored.ids(self, &nodes).into()).await?;
            let mut states = states.into_iter();
            ended.retain(|_| states.next().flatten().is_none_or(State::is_terminal));
        }
        Ok(ended)
    }

    /// Writes turns and does what follows from them. Answers the flows that are not done with.
    async fn write_turns(
        &self,
        home: &Name,
        turns: Vec<Turn>,
        flows: &[(JobId, Vec<Note>)],
        notes_are: Notes,
    ) -> Result<HashMap<JobId, Left>> {
        let records = Records::of(self.clone(), home.clone());
        let mut writes = Vec::new();
        for turn in &turns {
            writes.extend(turn.writes()?);
        }
        let weight: usize = writes.iter().map(RecordWrite::weight).sum();
        let fits = writes.len() <= RECORDS_MAX && weight <= RECORD_BYTES_MAX;
        let written = match fits {
            _ if writes.is_empty() => true,
            false => false,
            true => match records.write(FollowUps::of_records(writes)).await {
                Ok(_) => true,
                Err(error) if error.is_conflict() => false,
                Err(error) => return Err(error),
            },
        };
        let mut current = Vec::with_capacity(turns.len());
        for turn in turns {
            if written {
                current.push(turn);
            } else if let Some(turn) = self.write_turn(&records, turn, flows, notes_are).await? {
                current.push(turn);
            }
        }
        let notes_of =
            |id: JobId| flows.iter().find(|(flow, _)| *flow == id).map_or(&[][..], |(_, notes)| notes);
        let left_of = |turn: &Turn| {
            let ended = notes_of(turn.flow()).iter().filter_map(|note| note.ended);
            let nodes = ended.map(|(node, _)| node).filter(|node| turn.leaves(*node)).collect();
            Left::Known { nodes, has_more: turn.has_more() }
        };
        let mut left: HashMap<JobId, Left> =
            current.iter().map(|turn| (turn.flow(), left_of(turn))).collect();
        let (unsent, failed) = self.act(&current).await;
        let is_again = !unsent.is_empty() || current.iter().any(Turn::has_more);
        for some in unsent.chunks(RECORDS_MAX) {
            records.write(FollowUps::of_records(some.to_vec())).await?;
        }
        left.extend(failed.into_iter().map(|flow| (flow, Left::All)));
        if is_again {
            self.move_soon(home.clone(), home.clone());
        }
        Ok(left)
    }

    /// Writes one turn, anew each time that another process was faster. Nothing if its flow is gone.
    async fn write_turn(
        &self,
        records: &Records,
        mut turn: Turn,
        flows: &[(JobId, Vec<Note>)],
        notes_are: Notes,
    ) -> Result<Option<Turn>> {
        let mut tries = 0;
        loop {
            let what = FollowUps::of_records(turn.writes()?);
            match if what.is_empty() { Ok(Vec::new()) } else { records.write(what).await } {
                Ok(_) => return Ok(Some(turn)),
                Err(error) if error.is_conflict() && tries < TRIES_MAX => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(0..u64::from(2 * tries)))).await;
                }
                Err(error) => return Err(error),
            }
            let id = turn.flow();
            let notes = flows.iter().find(|(flow, _)| *flow == id).map_or(&[][..], |(_, notes)| notes);
            match load(self, records.queue(), &[id]).await?.pop().flatten().transpose()? {
                Some(stored) => {
                    let ended = self.ended(&stored, notes).await?;
                    turn = Turn::new(stored, &ended, notes_are.is_redo(notes));
                }
                None => return Ok(None),
            }
        }
    }

    /// Does what follows from turns that are written: most only send jobs, and share a call. Answers notes of jobs that have
    /// ended without one, and flows for which it failed: what is wrong with the queue of one holds up no other.
    pub(super) async fn act(&self, turns: &[Turn]) -> (Vec<RecordWrite>, Vec<JobId>) {
        let (mut unsent, mut failed, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        let mut sent: Vec<(&Turn, u32, JobId)> = Vec::new();
        for turn in turns {
            match turn.sends_only() {
                Some(nodes) => {
                    let ids = turn.ids(self, nodes);
                    sent.extend(nodes.iter().zip(ids).map(|(node, id)| (turn, *node, id)));
                }
                None => alone.push(turn),
            }
        }
        for some in sent.chunks(CALL_MAX) {
            let seen = |(_, _, id): &(&Turn, u32, JobId)| Seen { id: *id, state: State::Blocked, fence: 0 };
            let Ok(answers) = self.store().retry_seen(some.iter().map(seen).collect()).await else {
                let flows = some.chunk_by(|(one, ..), (other, ..)| one.flow() == other.flow());
                alone.extend(flows.map(|flow| flow[0].0));
                continue;
            };
            unsent.extend(
                some.iter().zip(answers).filter_map(|((turn, node, _), answer)| turn.unsent(*node, answer)),
            );
        }
        for turn in alone {
            match turn.act(self).await {
                Ok(notes) => unsent.extend(notes),
                Err(error) => {
                    tracing::info!(flow = %turn.flow(), %error, "a flow was not moved on: maintenance tries again");
                    failed.push(turn.flow());
                }
            }
        }
        (unsent, failed)
    }

    /// Sees to it that maintenance finds notes in these queues: before there can be any.
    pub(super) async fn mark_flow_queues<'a>(&self, queues: impl Iterator<Item = &'a Name>) -> Result<()> {
        let is_new = |queue: &&Name| {
            !self.mover().marked.lock().unwrap_or_else(PoisonError::into_inner).contains(*queue)
        };
        let queues: Vec<Name> = queues.filter(is_new).cloned().collect();
        for queue in queues {
            self.records(INDEX)?.put(queue.as_str(), &()).await?;
            self.mover().marked.lock().unwrap_or_else(PoisonError::into_inner).insert(queue);
        }
        Ok(())
    }

    /// The same in the background, for callers that may hold what it waits for.
    pub(super) fn mark_flow_queues_soon(&self, queues: Vec<Name>) {
        let client = self.clone();
        self.mover().runtime.spawn(async move {
            if let Err(error) = client.mark_flow_queues(queues.iter()).await {
                tracing::info!(%error, "queues of a flow were not marked for maintenance: the worker that ends a job of it does so");
            }
        });
    }
}

/// What is left of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Left {
    /// The notes about these nodes, from whose ends another turn does what follows; and one that asks for more, if so.
    Known { nodes: HashSet<u32>, has_more: bool },
    /// What follows was not done.
    All,
}

/// Where notes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notes {
    /// They were written just now. If one is about an end that its flow knows, a mover is at it.
    Fresh,
    /// They were left: all is done again that follows from where their flows are.
    Left,
}

impl Notes {
    fn is_redo(self, notes: &[Note]) -> bool {
        self == Self::Left || notes.iter().any(|note| note.is_redo)
    }
}

/// Says that rounds have ended, also if they panic.
struct Guard(Client);

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.mover().is_running.send_replace(false);
        }
    }
}

/// Rounds, as long as something is pending.
async fn rounds(client: Client) {
    let _guard = Guard(client.clone());
    let mut failures = 0;
    loop {
        let pending = {
            let mut pending = client.mover().pending();
            if pending.is_empty() {
                client.mover().is_running.send_replace(false);
                return;
            }
            std::mem::take(&mut *pending)
        };
        let mut failed = BTreeSet::new();
        for (home, queue) in pending {
            if let Err(error) = Box::pin(move_on(&client, &home, &queue)).await {
                tracing::info!(job.queue = %home, %error, "flows were not moved on");
                failed.insert((home, queue));
            }
        }
        if failed.is_empty() {
            failures = 0;
            continue;
        }
        failures += 1;
        if failures < ROUNDS_MAX {
            client.mover().pending().append(&mut failed);
        }
        tokio::time::sleep(backoff(failures)).await;
    }
}

async fn move_on(client: &Client, home: &Name, queue: &Name) -> Result<()> {
    client.mark_flow_queues([home, queue].into_iter()).await?;
    client.move_flows(home, queue, Notes::Fresh).await.map(drop)
}
