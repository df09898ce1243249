//! The one thread that writes, and group commit.
//!
//! Callers hand in operations; the thread takes everything that waits, runs it in one transaction and answers
//! after the commit. There is no timer: a lone operation is committed at once, and what arrives while the disk
//! is busy shares the next commit. An operation runs to its end whether or not its caller still waits.

mod checkpoint;
mod copier;
mod group;
mod handover;
mod operation;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{Semaphore, mpsc, oneshot};
use windlass_core::clock::{Clock, Steps};
use windlass_core::store::StoreResult;
use windlass_core::{StoreError, bell::Bell};

use crate::conditions::Conditions;
use crate::error::{Fault, closed};
use crate::session::Session;
use crate::wakeup::Ringer;
use group::{Committer, HandOver};
use operation::{Operation, Pending};

/// Operations that may wait per lane; beyond it, callers wait for a place.
const WAITING_MAX: usize = 1_024;
/// Operations that share a commit at most.
const GROUP_MAX: usize = 256;
/// Rows that a group writes, about: it is closed by the operation that reaches this.
const GROUP_ROWS: usize = 4_096;

/// The longest moment that callers get to join the next group.
const STRAGGLERS_MAX: Duration = Duration::from_micros(200);

/// Which operations go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Leases: they must not run out because others have a lot to write.
    Urgent,
    /// Everything else.
    Normal,
    /// What brings jobs: in turn with everything else, but refused while the disk is full.
    Intake,
}

/// The handle of the writer thread. Dropping it ends the thread after everything that was handed in is done.
pub(crate) struct Writer {
    sender: Option<mpsc::UnboundedSender<Entry>>,
    urgent: Arc<Semaphore>,
    normal: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
    tally: Arc<Tally>,
}

/// What the thread has done so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) commits: AtomicU64,
    pub(crate) operations: AtomicU64,
}

/// What the thread works with.
pub(crate) struct Tools {
    pub(crate) connection: Connection,
    /// Where it leads; None for a store in memory.
    pub(crate) path: Option<PathBuf>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether the clock was set, which leases must outlive. Readers ask for it too.
    pub(crate) steps: Arc<Mutex<Steps>>,
    pub(crate) conditions: Arc<Conditions>,
    pub(crate) bell: Bell,
    /// None for a store that no other process can see.
    pub(crate) ringer: Option<Ringer>,
}

struct Entry {
    lane: Lane,
    rows: usize,
    operation: Box<dyn Operation>,
}

impl Writer {
    pub(crate) fn start(tools: Tools) -> std::io::Result<Self> {
        // Bounded by the places of the two lanes: an operation holds one until it is answered.
        let (sender, receiver) = mpsc::unbounded_channel();
        let tally = Arc::new(Tally::default());
        let counted = Arc::clone(&tally);
        let body = move || run(tools, receiver, counted);
        let thread = thread::Builder::new().name("windlass-sqlite-writer".to_owned()).spawn(body)?;
        Ok(Self {
            sender: Some(sender),
            urgent: Arc::new(Semaphore::new(WAITING_MAX)),
            normal: Arc::new(Semaphore::new(WAITING_MAX)),
            thread: Some(thread),
            tally,
        })
    }

    /// Runs an operation in a transaction and answers when it is committed. `rows` says about how many rows
    /// it writes. It may run more than once, when a transaction that it was in is rolled back.
    pub(crate) async fn call<T, F>(&self, lane: Lane, rows: usize, run: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Session<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let places = match lane {
            Lane::Urgent => &self.urgent,
            Lane::Normal | Lane::Intake => &self.normal,
        };
        let place = Arc::clone(places).acquire_owned().await.map_err(|_| closed())?;
        let (caller, answered) = oneshot::channel();
        let operation = Box::new(Pending { lane, run, result: None, caller, _place: place });
        let sender = self.sender.as_ref().expect("only dropping the writer takes the sender");
        sender.send(Entry { lane, rows, operation }).map_err(|_| closed())?;
        answered.await.unwrap_or_else(|_| {
            let what = "the writer ended before it answered".to_owned();
            Err(StoreError::Unknown { what, source: None })
        })
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.sender = None;
        // The answer to a handed-over claim may bring the last handle to the thread itself, which ends when it is done.
        let is_other = |thread: &JoinHandle<()>| thread.thread().id() != thread::current().id();
        if let Some(thread) = self.thread.take().filter(is_other)
            && thread.join().is_err()
        {
            tracing::error!("the SQLite writer ended in a panic");
        }
    }
}

fn run(tools: Tools, receiver: mpsc::UnboundedReceiver<Entry>, tally: Arc<Tally>) {
    let mut committer = Committer::new(tools, tally);
    let mut waiting = Waiting::new(receiver);
    let mut before = Pace::default();
    while let Some((group, rows)) = waiting.next_group(before) {
        let (size, began) = (group.len(), Instant::now());
        committer.run(group, HandOver::Try);
        before = Pace { size, took: began.elapsed() };
        committer.tidy(rows);
    }
}

/// How large the group before was and how long it took.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    size: usize,
    took: Duration,
}

/// What was handed in and has not run yet.
struct Waiting {
    receiver: mpsc::UnboundedReceiver<Entry>,
    urgent: VecDeque<Entry>,
    normal: VecDeque<Entry>,
}

impl Waiting {
    fn new(receiver: mpsc::UnboundedReceiver<Entry>) -> Self {
        Self { receiver, urgent: VecDeque::new(), normal: VecDeque::new() }
    }

    /// The next operations, and about how many rows they write. Waits for the first; nothing when none is left and none
    /// will come.
    ///
    /// The callers of the group before are just waking up, and many are about to hand in their next call.
    /// They get the processor for a moment, a fraction of what a commit costs: without it, callers that come
    /// one by one split into two halves that wait for each other's commits. A lone caller is never held up.
    fn next_group(&mut self, before: Pace) -> Option<(Vec<Box<dyn Operation>>, usize)> {
        let mut received = match self.len() {
            0 => Ok(self.receiver.blocking_recv()?),
            _ => self.receiver.try_recv(),
        };
        let began = Instant::now();
        let moment = if before.size > 1 { (before.took / 4).min(STRAGGLERS_MAX) } else { Duration::ZERO };
        loop {
            match received {
                Ok(entry) if entry.lane == Lane::Urgent => self.urgent.push_back(entry),
                Ok(entry) => self.normal.push_back(entry),
                Err(TryRecvError::Empty) if self.len() < before.size && began.elapsed() < moment => {
                    thread::yield_now();
                }
                Err(_) => break,
            }
            received = self.receiver.try_recv();
        }
        let (mut group, mut rows) = (Vec::new(), 0_usize);
        while group.len() < GROUP_MAX && rows < GROUP_ROWS {
            let Some(entry) = self.urgent.pop_front().or_else(|| self.normal.pop_front()) else { break };
            rows = rows.saturating_add(entry.rows);
            group.push(entry.operation);
        }
        Some((group, rows))
    }

    fn len(&self) -> usize {
        self.urgent.len() + self.normal.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does nothing; its number of rows tells it from others.
    struct Nothing;

    impl Operation for Nothing {
        fn lane(&self) -> Lane {
            Lane::Normal
        }

        fn run(&mut self, _session: &Session<'_>) -> Result<(), Fault> {
            Ok(())
        }

        fn answer(self: Box<Self>) {}

        fn fail(self: Box<Self>, _error: StoreError) {}
    }

    /// Operations that were handed in, after which none will come.
    fn waiting(entries: impl IntoIterator<Item = (Lane, usize)>) -> Waiting {
        let (sender, receiver) = mpsc::unbounded_channel();
        for (lane, rows) in entries {
            assert!(sender.send(Entry { lane, rows, operation: Box::new(Nothing) }).is_ok());
        }
        Waiting::new(receiver)
    }

    /// How many operations each group has, and how many rows.
    fn groups(mut waiting: Waiting) -> Vec<(usize, usize)> {
        let groups = std::iter::from_fn(|| waiting.next_group(Pace::default()));
        groups.map(|(group, rows)| (group.len(), rows)).collect()
    }

    #[test]
    fn urgent_operations_go_first_and_large_ones_close_their_group() {
        let handed_in = [(Lane::Normal, GROUP_ROWS), (Lane::Normal, 3), (Lane::Urgent, 1)];
        assert_eq!(groups(waiting(handed_in)), [(2, GROUP_ROWS + 1), (1, 3)]);
    }

    #[test]
    fn a_group_is_bounded() {
        let handed_in = waiting((0..=GROUP_MAX).map(|_| (Lane::Normal, 1)));
        assert_eq!(groups(handed_in), [(GROUP_MAX, GROUP_MAX), (1, 1)]);
    }
}
