//! The processes that serve a store, and which of them are told of fresh work: about as many as there are jobs.
//!
//! A store reads them from its leases. What it knows may be some seconds old: one that is told may have gone, so one more
//! is told than there are jobs, and now and then another one is asked to look later on.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Fresh;
use crate::name::Name;
use crate::store::serves::{self, KINDS_KEPT};

/// Among so many or fewer, all are told: those that are not known yet hear it too.
const FEW: usize = 4;
/// More than this are told all at once, and so are those that it does not concern.
const TOLD_MAX: usize = 32;
/// How many more are told than there are jobs.
const SPARE: usize = 1;
/// So many processes come when a job is due; so many more come later, one after the other, and the rest does not.
const DUE_AT_ONCE: usize = 2;
const DUE_LATER: usize = 6;
const DUE_STEP: Duration = Duration::from_millis(200);
/// For so long the same processes come first. By the clocks of the machines: where they differ, others come.
const DUE_TURN: Duration = Duration::from_secs(10);

/// Where a process hears what it alone is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// It did not say.
    Unknown,
    /// It does not listen.
    Deaf,
    /// It is told by this number.
    Process(u64),
}

/// A worker, as its lease tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    address: Address,
    queues: Vec<Name>,
    kinds: Vec<Name>,
}

impl Peer {
    /// Reads what a lease says its worker serves.
    pub fn read(served: &str) -> Self {
        let (mut queues, mut kinds) = serves::read(served);
        queues.sort_unstable();
        kinds.sort_unstable();
        Self { address: serves::address(served), queues, kinds }
    }

    fn serves(&self, fresh: &Fresh) -> bool {
        let has = |names: &[Name], name: &Name| names.binary_search(name).is_ok();
        // A lease does not name all kinds of a worker that has many.
        let runs = |kind| self.kinds.len() >= KINDS_KEPT || has(&self.kinds, kind);
        has(&self.queues, &fresh.queue) && fresh.kind.as_ref().is_none_or(runs)
    }
}

/// Whom to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Everyone who listens.
    Everyone {
        /// How many jobs each should take it to be about.
        each: u32,
    },
    /// Some processes.
    These {
        /// Those that should come.
        now: Vec<u64>,
        /// How many jobs each should take it to be about.
        each: u32,
        /// One that may look later on.
        later: Option<u64>,
    },
}

/// The workers of a store, in all of its processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peers(Vec<Peer>);

impl FromIterator<Peer> for Peers {
    fn from_iter<I: IntoIterator<Item = Peer>>(peers: I) -> Self {
        Self(peers.into_iter().collect())
    }
}

impl Peers {
    /// How many workers serve a queue.
    pub fn serving(&self, queue: &Name) -> usize {
        self.0.iter().filter(|peer| peer.queues.binary_search(queue).is_ok()).count()
    }

    /// How much later than a job of this queue is due this process comes for it, so that not all do; nothing if it leaves
    /// it to others, and to its polls.
    pub fn due_delay(&self, own: u64, queue: &Name, now: SystemTime) -> Option<Duration> {
        let serving = self.0.iter().filter(|peer| peer.queues.binary_search(queue).is_ok());
        let processes = distinct(serving, &[]);
        if !processes.contains(&own) {
            return Some(Duration::ZERO);
        }
        let turn = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / DUE_TURN.as_secs();
        let place = |process: u64| {
            let mut hasher = DefaultHasher::new();
            (turn, process, queue.as_str()).hash(&mut hasher);
            hasher.finish()
        };
        let before = processes.iter().filter(|process| place(**process) < place(own)).count();
        match before.checked_sub(DUE_AT_ONCE) {
            None => Some(Duration::ZERO),
            Some(later @ ..DUE_LATER) => Some(DUE_STEP * (u32::try_from(later).unwrap_or(0) + 1)),
            Some(_) => None,
        }
    }

    /// Whom to tell of fresh work, apart from those who know.
    pub fn choose(&self, fresh: &Fresh, except: &[u64]) -> Choice {
        let serving: Vec<&Peer> = self.0.iter().filter(|peer| peer.serves(fresh)).collect();
        let all = distinct(serving.iter().copied(), except);
        let share = |told: usize| fresh.jobs.div_ceil(u32::try_from(told).unwrap_or(u32::MAX).max(1));
        let everyone = Choice::Everyone { each: share(all.len()) };
        if all.len() <= FEW || serving.iter().any(|peer| peer.address == Address::Unknown) {
            return everyone;
        }
        let (mut now, mut least) = (Vec::new(), usize::MAX);
        // Where the kind is not known, as many of each sort of worker.
        let mut rest = serving;
        while let Some(first) = rest.first().copied() {
            let is_same = |peer: &&Peer| fresh.kind.is_some() || peer.kinds == first.kinds;
            let (same, others) = rest.into_iter().partition::<Vec<_>, _>(is_same);
            let mut some = distinct(same.into_iter(), except);
            fastrand::shuffle(&mut some);
            some.truncate(usize::try_from(fresh.jobs).unwrap_or(usize::MAX).saturating_add(SPARE));
            if !some.is_empty() {
                least = least.min(some.len());
            }
            now.extend(some);
            rest = others;
        }
        if now.len() > TOLD_MAX {
            return everyone;
        }
        let others: Vec<u64> = all.into_iter().filter(|process| !now.contains(process)).collect();
        Choice::These { now, each: share(least), later: fastrand::choice(others) }
    }
}

/// The processes of these workers, each once.
fn distinct<'p>(peers: impl Iterator<Item = &'p Peer>, except: &[u64]) -> Vec<u64> {
    let process = |peer: &Peer| match peer.address {
        Address::Process(number) => Some(number).filter(|number| !except.contains(number)),
        Address::Unknown | Address::Deaf => None,
    };
    let mut processes: Vec<u64> = peers.filter_map(process).collect();
    processes.sort_unstable();
    processes.dedup();
    processes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(served: impl IntoIterator<Item = String>) -> Peers {
        served.into_iter().map(|served| Peer::read(&served)).collect()
    }

    /// So many processes on one queue, from number 1 on.
    fn fleet(size: u64) -> Peers {
        peers((1..=size).map(|number| format!("q r|k l|{number:016x}")))
    }

    fn fresh(queue: &str, kind: Option<&str>, jobs: u32) -> Fresh {
        let name = |text| Name::new(text).expect("a good name");
        Fresh { queue: name(queue), kind: kind.map(name), jobs }
    }

    fn these(choice: Choice) -> (Vec<u64>, u32, Option<u64>) {
        match choice {
            Choice::These { now, each, later } => (now, each, later),
            Choice::Everyone { .. } => panic!("all are told"),
        }
    }

    #[test]
    fn one_more_is_told_than_there_are_jobs_and_all_get_their_turn() {
        for size in [10, 50, 200] {
            let fleet = fleet(size);
            let mut told = vec![0; usize::try_from(size).expect("a small number")];
            for _ in 0..5_000 {
                let (now, each, later) = these(fleet.choose(&fresh("q", Some("k"), 1), &[]));
                assert_eq!((now.len(), each), (2, 1));
                assert!(later.is_some_and(|later| !now.contains(&later)));
                now.iter().for_each(|&process| told[usize::try_from(process).expect("it is small") - 1] += 1);
            }
            let fair = 10_000 / size;
            assert!(told.iter().all(|&told| told > fair / 3 && told < fair * 3), "{told:?}");
        }
        assert_eq!(these(fleet(50).choose(&fresh("q", Some("k"), 9), &[])).0.len(), 10);
    }

    #[test]
    fn few_and_very_many_are_told_all_at_once() {
        assert_eq!(fleet(0).choose(&fresh("q", Some("k"), 3), &[]), Choice::Everyone { each: 3 });
        assert_eq!(fleet(4).choose(&fresh("q", Some("k"), 1), &[]), Choice::Everyone { each: 1 });
        assert_eq!(fleet(4).choose(&fresh("q", Some("k"), 40), &[]), Choice::Everyone { each: 10 });
        assert_eq!(fleet(100).choose(&fresh("q", Some("k"), 1_000), &[]), Choice::Everyone { each: 10 });
        let (now, each, later) = these(fleet(8).choose(&fresh("q", Some("k"), 80), &[]));
        assert_eq!((now.len(), each, later), (8, 10, None));
    }

    #[test]
    fn only_those_who_serve_it_and_do_not_know_are_told() {
        let others = (11..=40).map(|number| format!("q|m|{number:016x}"));
        let ours = (1..=10).map(|number| format!("q|k|{number:016x}"));
        let fleet = peers(ours.chain(others).chain((50..60).map(|number| format!("x|k|{number:016x}"))));
        for _ in 0..200 {
            let (now, _, later) = these(fleet.choose(&fresh("q", Some("k"), 3), &[1, 2]));
            assert!(now.iter().chain(&later).all(|process| (3..=10).contains(process)), "{now:?} {later:?}");
            // Any kind may be meant: some of each sort.
            let (now, each, _) = these(fleet.choose(&fresh("q", None, 3), &[]));
            assert_eq!((now.len(), now.iter().filter(|process| **process <= 10).count(), each), (8, 4, 1));
        }
        assert_eq!(fleet.serving(&Name::new("q").expect("a good name")), 40);
    }

    #[test]
    fn few_come_when_a_job_is_due_and_others_in_their_turn() {
        let queue = Name::new("q").expect("a good name");
        for size in [1, 2, 5, 50, 200] {
            let (fleet, mut first) = (fleet(size), std::collections::HashSet::new());
            for turn in 0..50 {
                let now = UNIX_EPOCH + DUE_TURN * turn;
                let delays: Vec<_> = (1..=size).map(|own| fleet.due_delay(own, &queue, now)).collect();
                let at_once = delays.iter().filter(|delay| **delay == Some(Duration::ZERO)).count();
                let coming = delays.iter().flatten().count();
                let size = usize::try_from(size).expect("a small number");
                assert_eq!((at_once, coming), (size.min(DUE_AT_ONCE), size.min(DUE_AT_ONCE + DUE_LATER)));
                first.extend((0..size).filter(|place| delays[*place] == Some(Duration::ZERO)));
            }
            assert!(first.len() as u64 > size / 4, "{} of {size} had their turn", first.len());
            let unknown = fleet.due_delay(u64::MAX, &queue, UNIX_EPOCH);
            assert_eq!(unknown, Some(Duration::ZERO), "one that is not known comes");
        }
    }

    #[test]
    fn workers_of_one_process_are_told_once_and_the_deaf_are_not() {
        let twice = (1..=10).flat_map(|number| [number, number]).map(|number| format!("q|k|{number:016x}"));
        let fleet = peers(twice.chain((0..10).map(|_| "q|k|-".to_owned())));
        let (now, each, _) = these(fleet.choose(&fresh("q", Some("k"), 30), &[]));
        assert_eq!((now.len(), each), (10, 3));
        // One of them hears only what all are told.
        let mixed = peers((1..=10).map(|number| format!("q|k|{number:016x}")).chain(["q|k".to_owned()]));
        assert_eq!(mixed.choose(&fresh("q", Some("k"), 1), &[]), Choice::Everyone { each: 1 });
    }
}
