//! The workers of this process that wait for jobs, and which of them a ring wakes.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Fresh, Served};
use crate::name::Name;
use crate::store::{ClaimAnswer, ClaimRequest, StoreResult};

/// A worker, as the bell sees it.
pub trait Waiter: Send + Sync {
    /// How many jobs of this queue the worker could start at once if it were woken. None while it asks for jobs already:
    /// what it will find is not known.
    fn room(&self, queue: &Name) -> u32;

    /// There may be jobs in this queue, or in any if none is named. A worker without room asks when it has some.
    fn wake(&self, queue: Option<&Name>);

    /// The claim that the worker makes for jobs of this queue, for a store that runs it in the transaction which stores them.
    /// Nothing if the worker has to be woken for it. Called by threads of the store, so it must not wait.
    fn claim(&self, _queue: &Name) -> Option<Box<dyn Claiming>> {
        None
    }
}

/// A claim that a worker has made and a store runs. The worker makes no other until this one is answered; if it is dropped,
/// its answer is lost.
pub trait Claiming: Send {
    /// What is asked for.
    fn request(&self) -> &ClaimRequest;

    /// Brings the answer to the worker, once what it says is stored. Called by threads of the store, so it must not wait.
    fn answer(self: Box<Self>, answer: StoreResult<ClaimAnswer>);
}

/// The workers of a process. Copied when one comes or goes, so that a ring holds no lock while it asks them.
#[derive(Debug, Default)]
pub(super) struct Roster(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    entries: Mutex<Arc<[Arc<Entry>]>>,
    /// Where the next ring begins, so that all get their turn.
    turn: AtomicUsize,
}

struct Entry {
    queues: Vec<Name>,
    kinds: Vec<Name>,
    waiter: Arc<dyn Waiter>,
}

impl Entry {
    fn serves(&self, fresh: &Fresh) -> bool {
        let has = |names: &[Name], name: &Name| names.binary_search(name).is_ok();
        has(&self.queues, &fresh.queue) && fresh.kind.as_ref().is_none_or(|kind| has(&self.kinds, kind))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("queues", &self.queues).finish_non_exhaustive()
    }
}

/// A worker's place among those that are woken. Dropped, it leaves, and those that stay look for what it was woken for
/// and did not come to.
#[derive(Debug)]
pub struct Enrolled {
    shared: Arc<Shared>,
    entry: Arc<Entry>,
}

impl Roster {
    pub(super) fn enroll(&self, queues: &[Name], kinds: &[Name], waiter: Arc<dyn Waiter>) -> Enrolled {
        let sorted = |names: &[Name]| {
            let mut names = names.to_vec();
            names.sort_unstable();
            names
        };
        let entry = Arc::new(Entry { queues: sorted(queues), kinds: sorted(kinds), waiter });
        self.0.change(|entries| entries.push(Arc::clone(&entry)));
        Enrolled { shared: Arc::clone(&self.0), entry }
    }

    /// What each worker waits for.
    pub(super) fn served(&self) -> Vec<Served> {
        let served = |entry: &Arc<Entry>| Served { queues: entry.queues.clone(), kinds: entry.kinds.clone() };
        self.0.entries().iter().map(served).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.entries().is_empty()
    }

    /// Every worker may find something in any of its queues.
    pub(super) fn wake_all(&self) {
        self.0.entries().iter().for_each(|entry| entry.waiter.wake(None));
    }

    /// Wakes as many workers as there are jobs, of those that have room; where these are too few, the others are told to
    /// ask when they have some. Answers for how many jobs there is no room here; for all of them if their kind is not
    /// known, since others may be meant.
    pub(super) fn call(&self, fresh: &Fresh) -> u32 {
        let entries = self.0.entries();
        let serving = self.serving(&entries, fresh);
        if fresh.kind.is_some() {
            return call_those(fresh, &serving);
        }
        // Which kind is not known: of those who run the same kinds, as many as there are jobs.
        let mut rest = serving;
        while let Some(kinds) = rest.first().map(|entry| &entry.kinds) {
            let (same, others) = rest.iter().partition::<Vec<_>, _>(|entry| entry.kinds == *kinds);
            call_those(fresh, &same);
            rest = others;
        }
        fresh.jobs
    }

    /// The claim that a worker with room makes for these jobs at once, and how many of them it has room for.
    pub(super) fn claim(&self, fresh: &Fresh) -> Option<(Box<dyn Claiming>, u32)> {
        let entries = self.0.entries();
        self.serving(&entries, fresh).into_iter().find_map(|entry| {
            let room = entry.waiter.room(&fresh.queue);
            let claim = if room > 0 { entry.waiter.claim(&fresh.queue) } else { None };
            Some((claim?, room))
        })
    }

    /// Those who serve these jobs, beginning with the one whose turn it is.
    fn serving<'e>(&self, entries: &'e [Arc<Entry>], fresh: &Fresh) -> Vec<&'e Arc<Entry>> {
        let first = self.0.turn.fetch_add(1, Ordering::Relaxed);
        let in_turn = (0..entries.len()).map(|step| &entries[(first + step) % entries.len()]);
        in_turn.filter(|entry| entry.serves(fresh)).collect()
    }
}

fn call_those(fresh: &Fresh, serving: &[&Arc<Entry>]) -> u32 {
    let (mut woken, mut left) = (0, fresh.jobs);
    let mut busy = Vec::new();
    for entry in serving {
        if woken == fresh.jobs {
            return left;
        }
        match entry.waiter.room(&fresh.queue) {
            0 => busy.push(entry),
            room => {
                entry.waiter.wake(Some(&fresh.queue));
                woken += 1;
                left = left.saturating_sub(room);
            }
        }
    }
    if woken < fresh.jobs {
        busy.iter().for_each(|entry| entry.waiter.wake(Some(&fresh.queue)));
    }
    left
}

impl Shared {
    fn entries(&self) -> Arc<[Arc<Entry>]> {
        Arc::clone(&self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Entry>>)) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut copy = entries.to_vec();
        change(&mut copy);
        *entries = copy.into();
    }
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        self.shared.change(|entries| entries.retain(|entry| !Arc::ptr_eq(entry, &self.entry)));
        for queue in &self.entry.queues {
            let serves = |other: &&Arc<Entry>| other.queues.binary_search(queue).is_ok();
            if let Some(other) = self.shared.entries().iter().find(serves) {
                other.waiter.wake(Some(queue));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// A worker with so much room, which counts how often it is woken.
    #[derive(Default)]
    struct CountingWaiter {
        room: AtomicU32,
        woken: AtomicU32,
    }

    impl CountingWaiter {
        fn with(room: u32) -> Arc<Self> {
            Arc::new(Self { room: AtomicU32::new(room), woken: AtomicU32::new(0) })
        }

        fn woken(&self) -> u32 {
            self.woken.swap(0, Ordering::Relaxed)
        }
    }

    impl Waiter for CountingWaiter {
        fn room(&self, _queue: &Name) -> u32 {
            self.room.load(Ordering::Relaxed)
        }

        fn wake(&self, _queue: Option<&Name>) {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn names(names: &[&str]) -> Vec<Name> {
        names.iter().map(|name| Name::new(name).expect("a good name")).collect()
    }

    fn fresh(queue: &str, kind: Option<&str>, jobs: u32) -> Fresh {
        let name = |text| Name::new(text).expect("a good name");
        Fresh { queue: name(queue), kind: kind.map(name), jobs }
    }

    fn enroll(
        roster: &Roster,
        waiters: &[Arc<CountingWaiter>],
        queues: &[&str],
        kinds: &[&str],
    ) -> Vec<Enrolled> {
        let enroll = |waiter: &Arc<CountingWaiter>| {
            roster.enroll(&names(queues), &names(kinds), Arc::clone(waiter) as _)
        };
        waiters.iter().map(enroll).collect()
    }

    fn total(waiters: &[Arc<CountingWaiter>]) -> u32 {
        waiters.iter().map(|waiter| waiter.woken()).sum()
    }

    #[test]
    fn as_many_are_woken_as_there_are_jobs_and_all_get_their_turn() {
        let (roster, waiters) = (Roster::default(), [(); 10].map(|()| CountingWaiter::with(64)));
        let _enrolled = enroll(&roster, &waiters, &["q"], &["k"]);
        let mut turns = [0; 10];
        for _ in 0..100 {
            assert_eq!(roster.call(&fresh("q", Some("k"), 1)), 0);
            let woken = waiters.each_ref().map(|waiter| waiter.woken());
            assert_eq!(woken.iter().sum::<u32>(), 1);
            turns = std::array::from_fn(|place| turns[place] + woken[place]);
        }
        assert_eq!(turns, [10; 10]);
        assert_eq!((roster.call(&fresh("q", Some("k"), 3)), total(&waiters)), (0, 3));
        assert_eq!((roster.call(&fresh("q", Some("k"), 1_000)), total(&waiters)), (1_000 - 640, 10));
    }

    #[test]
    fn only_those_who_serve_queue_and_kind_are_woken() {
        let roster = Roster::default();
        let (here, elsewhere) = ([CountingWaiter::with(1)], [CountingWaiter::with(1)]);
        let _here = enroll(&roster, &here, &["q", "r"], &["k", "l"]);
        let _elsewhere = enroll(&roster, &elsewhere, &["r"], &["m"]);
        assert_eq!((roster.call(&fresh("q", Some("k"), 1)), total(&here), total(&elsewhere)), (0, 1, 0));
        assert_eq!((roster.call(&fresh("r", Some("m"), 1)), total(&here), total(&elsewhere)), (0, 0, 1));
        assert_eq!((roster.call(&fresh("r", Some("x"), 1)), total(&here), total(&elsewhere)), (1, 0, 0));
        // Of those who run other kinds, one each.
        assert_eq!((roster.call(&fresh("r", None, 1)), total(&here), total(&elsewhere)), (1, 1, 1));
        roster.wake_all();
        assert_eq!((total(&here), total(&elsewhere)), (1, 1));
    }

    #[test]
    fn those_without_room_are_told_only_where_others_do_not_suffice() {
        let roster = Roster::default();
        let (busy, idle) = ([CountingWaiter::with(0), CountingWaiter::with(0)], [CountingWaiter::with(2)]);
        let _busy = enroll(&roster, &busy, &["q"], &["k"]);
        let enrolled = enroll(&roster, &idle, &["q"], &["k"]);
        for _ in 0..3 {
            assert_eq!((roster.call(&fresh("q", Some("k"), 1)), total(&busy), total(&idle)), (0, 0, 1));
        }
        assert_eq!((roster.call(&fresh("q", Some("k"), 5)), total(&busy), total(&idle)), (3, 2, 1));
        drop(enrolled);
        assert_eq!(total(&busy), 1, "one looks for what the one that left was woken for");
        assert_eq!((roster.call(&fresh("q", Some("k"), 1)), total(&busy)), (1, 2));
    }
}
