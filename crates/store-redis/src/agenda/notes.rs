//! Notes: what a program tells maintenance of a queue that it writes to. A note goes beside the write and holds it up for a
//! short while at most; one that fails does not fail the call, and goes with a later one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, OptionFuture};
use tokio::time::timeout;
use windlass_core::Name;
use windlass_core::store::Duty;

use crate::Tools;
use crate::error::Fault;
use crate::row;
use crate::scripts::NOTE_QUEUES;
use crate::session::Session;

/// How long a note is good for.
const GOOD_FOR: Duration = Duration::from_secs(60);

/// How long a process does not repeat one. What is left is for writes that are under way.
const QUIET_FOR: Duration = Duration::from_secs(30);

/// How long until one that failed is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// How long a note may hold up the call that makes it.
const PATIENCE: Duration = Duration::from_millis(500);

/// The most queues that are remembered as noted, and the most notes that wait.
const REMEMBERED_MAX: usize = 10_000;

/// How many notes one script makes, and how many one call makes for others: so few that [`PATIENCE`] is enough for them.
const PAGE: usize = 250;
const OTHERS_MAX: usize = PAGE;

/// The duties that notes are for.
const DUTIES: [Duty; 2] = [Duty::Promote, Duty::Prune];

/// What maintenance has to look for in a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Jobs that become due or expire, places that jobs have left in a line, transfers to other queues.
    pub(crate) promote: bool,
    /// Ended jobs that are not kept for ever.
    pub(crate) prune: bool,
}

impl Needs {
    pub(crate) const PROMOTE: Self = Self { promote: true, prune: false };
    pub(crate) const PRUNE: Self = Self { promote: false, prune: true };
    pub(crate) const BOTH: Self = Self { promote: true, prune: true };

    /// These and those.
    pub(crate) fn and(self, more: Self) -> Self {
        Self { promote: self.promote || more.promote, prune: self.prune || more.prune }
    }

    fn is_for(self, duty: usize) -> bool {
        [self.promote, self.prune][duty]
    }
}

/// A queue, and which of [`DUTIES`] has to visit it.
type Note = (Name, usize);

/// Notes that are being made; mostly none are.
pub(crate) type Making<'a> = OptionFuture<BoxFuture<'a, ()>>;

/// The notes of this process.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    /// When queues were noted for each duty.
    at: HashMap<Name, [Option<Duration>; DUTIES.len()]>,
    /// Those that failed, and those that no call has been held up for.
    waiting: BTreeSet<Note>,
    /// When these are tried again.
    again: Duration,
}

impl Notes {
    /// Notes what maintenance has to look for in a queue, if that has to be said. The caller joins it with its write, and
    /// names it first, so that it is sent first.
    pub(crate) fn note<'a>(tools: &'a Tools, session: &'a Session, queue: &Name, needs: Needs) -> Making<'a> {
        if needs == Needs::default() {
            return None.into();
        }
        making(tools, session, tools.agenda.notes.due(Some((queue, needs)), tools.time()))
    }

    /// Leaves a note to be made by a later call, if it has to be made.
    pub(crate) fn later(&self, queue: &Name, needs: Needs, now: Duration) {
        let mut made = self.made();
        let notes = made.missing(queue, needs, now);
        made.wait(notes);
    }

    /// Makes the notes that wait, if it is time.
    pub(crate) fn flush<'a>(tools: &'a Tools, session: &'a Session) -> Making<'a> {
        making(tools, session, tools.agenda.notes.due(None, tools.time()))
    }

    /// The notes that have to be made now. They count as made until they fail, so that no other call makes them too.
    fn due(&self, queue: Option<(&Name, Needs)>, now: Duration) -> Vec<Note> {
        let mut made = self.made();
        let mut due = queue.map_or_else(Vec::new, |(queue, needs)| made.missing(queue, needs, now));
        if now < made.again {
            // Their server did not answer a moment ago, and calls are not held up one after the other.
            made.count_as_made(&due, now);
            made.wait(due);
            return Vec::new();
        }
        for _ in 0..OTHERS_MAX {
            let Some(note) = made.waiting.pop_first() else { break };
            if !due.contains(&note) {
                due.push(note);
            }
        }
        made.count_as_made(&due, now);
        due
    }

    fn failed(&self, notes: Vec<Note>, now: Duration) {
        let mut made = self.made();
        made.again = now + AGAIN;
        made.wait(notes);
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Made {
    fn count_as_made(&mut self, notes: &[Note], now: Duration) {
        if self.at.len() + notes.len() > REMEMBERED_MAX {
            self.at.clear();
        }
        for (queue, duty) in notes {
            self.at.entry(queue.clone()).or_default()[*duty] = Some(now);
        }
    }

    /// The notes that this process has not made a short while ago.
    fn missing(&self, queue: &Name, needs: Needs, now: Duration) -> Vec<Note> {
        let at = self.at.get(queue).copied().unwrap_or_default();
        // A clock that tests move may also stand before.
        let is_fresh = |at: Duration| now >= at && now - at < QUIET_FOR;
        let duties = (0..DUTIES.len()).filter(|&duty| needs.is_for(duty) && !at[duty].is_some_and(is_fresh));
        duties.map(|duty| (queue.clone(), duty)).collect()
    }

    /// Those that find no place do not count as made: the next write makes them.
    fn wait(&mut self, notes: Vec<Note>) {
        for note in notes {
            if self.waiting.len() < REMEMBERED_MAX {
                self.waiting.insert(note);
            } else if let Some(at) = self.at.get_mut(&note.0) {
                at[note.1] = None;
            }
        }
    }
}

fn making<'a>(tools: &'a Tools, session: &'a Session, notes: Vec<Note>) -> Making<'a> {
    (!notes.is_empty()).then(|| send(UnderWay { tools, notes }, session).boxed()).into()
}

/// Notes that are being made. Those that fail wait, also where their call is given up meanwhile.
struct UnderWay<'a> {
    tools: &'a Tools,
    notes: Vec<Note>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.notes.is_empty() {
            self.tools.agenda.notes.failed(std::mem::take(&mut self.notes), self.tools.time());
        }
    }
}

/// Makes notes.
async fn send(mut under_way: UnderWay<'_>, session: &Session) {
    let session = session.apart();
    let written = timeout(PATIENCE, write(under_way.tools, &session, &under_way.notes)).await;
    let why = match written {
        Ok(Ok(())) => return under_way.notes.clear(),
        Ok(Err(fault)) => format!("{fault:?}"),
        Err(_) => format!("no answer within {PATIENCE:?}"),
    };
    tracing::debug!(why, "queues are not noted for maintenance yet");
}

async fn write(tools: &Tools, session: &Session, notes: &[Note]) -> Result<(), Fault> {
    for page in notes.chunks(PAGE) {
        let mut arguments = vec![tools.clock(), row::micros(GOOD_FOR).to_string().into()];
        for (queue, duty) in page {
            arguments.push((duty + 1).to_string().into());
            arguments.push(Bytes::copy_from_slice(queue.as_str().as_bytes()));
        }
        let keys = DUTIES.map(|duty| tools.keys.noted(duty)).to_vec();
        session.run(&NOTE_QUEUES, keys, arguments).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use windlass_store_testkit::servers::RedisServer;

    use super::*;
    use crate::connect::Call;
    use crate::{RedisOptions, RedisStore};

    fn queue(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn a_note_is_made_once_in_a_while_for_each_queue_and_duty() {
        let (notes, q, r) = (Notes::default(), queue("q"), queue("r"));
        let due = |queue: &Name, needs, seconds| {
            notes.due(Some((queue, needs)), Duration::from_secs(seconds)).len()
        };
        assert_eq!((due(&q, Needs::PROMOTE, 0), due(&q, Needs::PROMOTE, 29)), (1, 0));
        assert_eq!((due(&q, Needs::BOTH, 29), due(&r, Needs::BOTH, 29)), (1, 2));
        assert_eq!(
            (due(&q, Needs::BOTH, 30), due(&q, Needs::PRUNE, 31), due(&q, Needs::BOTH, 60)),
            (1, 0, 2)
        );
        assert_eq!(due(&q, Needs::BOTH, 1), 2, "a clock was set back");
    }

    #[test]
    fn what_failed_goes_with_a_later_note_and_not_at_once() {
        let (notes, q, r) = (Notes::default(), queue("q"), queue("r"));
        let seconds = Duration::from_secs;
        let made = notes.due(Some((&q, Needs::PROMOTE)), seconds(0));
        notes.failed(made, seconds(1));
        assert_eq!(notes.due(Some((&r, Needs::PRUNE)), seconds(2)), [], "no other call is held up");
        assert_eq!(
            notes.due(Some((&r, Needs::PROMOTE)), seconds(6)),
            [(r.clone(), 0), (q.clone(), 0), (r.clone(), 1)]
        );
        assert_eq!(notes.due(None, seconds(60)), []);
        notes.later(&q, Needs::BOTH, seconds(61));
        assert_eq!(notes.due(None, seconds(61)), [(q.clone(), 0), (q.clone(), 1)]);
        notes.later(&q, Needs::BOTH, seconds(62));
        assert_eq!(notes.due(None, seconds(62)), [], "it was made a moment ago");
    }

    /// A caller's deadline may end any call.
    #[tokio::test]
    async fn what_a_call_that_is_dropped_had_taken_waits() {
        let namespace = format!("notes-{:x}", fastrand::u64(..));
        let options =
            RedisOptions::parse(RedisServer::shared().url()).unwrap().namespace(&namespace).unwrap();
        let store = RedisStore::open_with(options).await.unwrap();
        let waiting = store.remote.call(Call::WRITE, async |tools, session| {
            drop(Notes::note(&tools, &session, &queue("q"), Needs::PROMOTE));
            Ok(tools.agenda.notes.made().waiting.iter().cloned().collect::<Vec<_>>())
        });
        assert_eq!(waiting.await.unwrap(), [(queue("q"), 0)]);
    }

    #[test]
    fn after_an_outage_each_call_makes_some_of_those_that_wait() {
        let notes = Notes::default();
        for place in 0..2 * OTHERS_MAX {
            notes.later(&queue(&place.to_string()), Needs::PRUNE, Duration::ZERO);
        }
        let sizes = [(); 3].map(|()| notes.due(None, Duration::ZERO).len());
        assert_eq!(sizes, [OTHERS_MAX, OTHERS_MAX, 0]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let notes = Notes::default();
        for place in 0..=REMEMBERED_MAX {
            let queue = queue(&place.to_string());
            notes.due(Some((&queue, Needs::PROMOTE)), Duration::ZERO);
            notes.later(&queue, Needs::PRUNE, Duration::ZERO);
            notes.made().again = Duration::MAX;
        }
        let made = notes.made();
        assert!(made.at.len() <= REMEMBERED_MAX && made.waiting.len() == REMEMBERED_MAX);
    }
}
