//! The gates of a queue: where the ready jobs of each key stand, whose turn it is, and how many jobs of each key run.
//! Gates come and open by `moves`; the claim moves their turns, closes and forgets them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{GATES_LOOKED_MAX, KeyRules, Permits, Spent};

use crate::queue::Place;

#[derive(Debug, Default)]
pub(crate) struct Gates {
    /// What is known of each key; nothing of one that has no job, no gate and nothing spent.
    lines: HashMap<Name, Line>,
    /// Open gates by their turn.
    open: BTreeSet<(u64, Name)>,
    /// Closed ones by the instant at which they open.
    closed: BTreeSet<(Timestamp, Name)>,
    /// Keys by the instant at which all that they have spent is back.
    spenders: BTreeSet<(Timestamp, Name)>,
}

/// One key.
#[derive(Debug, Default)]
struct Line {
    ready: BTreeSet<Place>,
    gate: Option<Gate>,
    /// How many of its jobs run.
    running: u64,
    /// What was spent of its rate.
    spent: BTreeMap<Timestamp, u64>,
}

#[derive(Debug, Clone, Copy)]
enum Gate {
    Open { turn: u64 },
    Closed { until: Timestamp },
}

/// The instant at which a gate opens that waits for an end, or for another definition.
pub(crate) const NO_TIME: Timestamp = Timestamp::from_micros(i64::MAX);

/// How many keys a call forgets whose permits are all back: more than it spends for, so that none pile up.
const SPENDERS_FORGOTTEN: usize = 2;

impl Line {
    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.gate.is_none() && self.running == 0 && self.spent.is_empty()
    }
}

impl Gates {
    /// A job of a key is ready.
    pub(crate) fn add(&mut self, key: &Name, place: Place) {
        self.line_mut(key).ready.insert(place);
    }

    /// A job of a key has left the ready ones.
    pub(crate) fn take_out(&mut self, key: &Name, place: Place) {
        self.change(key, |line| line.ready.remove(&place));
    }

    /// The ready jobs of a key, in their order.
    pub(crate) fn behind(&self, key: &Name) -> impl Iterator<Item = Place> {
        self.lines.get(key).into_iter().flat_map(|line| &line.ready).copied()
    }

    /// The line of a key.
    pub(crate) fn line(&self, key: &Name) -> Option<&BTreeSet<Place>> {
        self.lines.get(key).map(|line| &line.ready)
    }

    /// Whether a key has a gate.
    pub(crate) fn has(&self, key: &Name) -> bool {
        self.lines.get(key).is_some_and(|line| line.gate.is_some())
    }

    /// A job of this key became ready: it has a gate from now on.
    pub(crate) fn came(&mut self, key: &Name) {
        if !self.has(key) {
            self.open_at(key, self.lowest());
        }
    }

    /// A job of this key started.
    pub(crate) fn started(&mut self, key: &Name) {
        self.line_mut(key).running += 1;
    }

    /// A job of this key runs no longer.
    pub(crate) fn stopped(&mut self, key: &Name) {
        self.change(key, |line| line.running -= 1);
    }

    /// Opens the gate of a key, if it has one that is closed.
    pub(crate) fn open(&mut self, key: &Name) {
        if let Some(Gate::Closed { .. }) = self.lines.get(key).and_then(|line| line.gate) {
            self.open_at(key, self.lowest());
        }
    }

    /// Opens those whose time has come, a bounded number.
    pub(crate) fn open_due(&mut self, now: Timestamp) {
        let turn = self.lowest();
        for _ in 0..GATES_LOOKED_MAX {
            let Some((until, key)) = self.closed.first().cloned() else { break };
            if until > now {
                break;
            }
            self.open_at(&key, turn);
        }
    }

    /// The time of all of them has come.
    pub(crate) fn hasten(&mut self) {
        const NOW: Timestamp = Timestamp::from_micros(0);
        for (_, key) in std::mem::take(&mut self.closed) {
            self.line_mut(&key).gate = Some(Gate::Closed { until: NOW });
            self.closed.insert((NOW, key));
        }
    }

    /// When the next one opens by itself.
    pub(crate) fn next_open(&self) -> Option<Timestamp> {
        self.closed.first().map(|&(until, _)| until).filter(|until| *until != NO_TIME)
    }

    /// The first open ones by their turns, those excepted.
    pub(crate) fn first_open(&self, count: usize, without: &BTreeSet<Name>) -> Vec<Name> {
        let keys = self.open.iter().map(|(_, key)| key).filter(|key| !without.contains(*key));
        keys.take(count).cloned().collect()
    }

    /// Moves the turn of an open one.
    pub(crate) fn pay(&mut self, key: &Name, cost: u64) {
        if let Some(Gate::Open { turn }) = self.lines.get(key).and_then(|line| line.gate) {
            self.open_at(key, turn.saturating_add(cost));
        }
    }

    /// Closes one until an instant.
    pub(crate) fn close(&mut self, key: &Name, until: Timestamp) {
        self.replace(key, Some(Gate::Closed { until }));
        self.closed.insert((until, key.clone()));
    }

    /// Forgets one.
    pub(crate) fn forget(&mut self, key: &Name) {
        self.replace(key, None);
    }

    pub(crate) fn running(&self, key: &Name) -> u64 {
        self.lines.get(key).map_or(0, |line| line.running)
    }

    /// What the rate of keys permits this one; nothing where they have none.
    pub(crate) fn permits(&self, key: &Name, rules: &KeyRules, now: Timestamp) -> Option<Permits> {
        Some(rules.rate?.permits(self.spent(key), now))
    }

    /// Spends permits of a key for jobs that start.
    pub(crate) fn spend(&mut self, key: &Name, rules: &KeyRules, jobs: u64, now: Timestamp) {
        let Some(rate) = rules.rate.filter(|_| jobs > 0) else { return };
        let Spent { back_at, jobs } = rate.spend(jobs, self.spent(key), now);
        self.forget_spenders(now);
        let spent = &mut self.line_mut(key).spent;
        let all_back_at = spent.last_key_value().map(|(&at, _)| at);
        spent.retain(|kept_until, kept| *kept_until > now && (jobs > 0 || *kept > 0));
        *spent.entry(back_at).or_default() += jobs;
        let all_back_now_at = spent.last_key_value().map_or(back_at, |(&at, _)| at);
        if let Some(at) = all_back_at {
            self.spenders.remove(&(at, key.clone()));
        }
        self.spenders.insert((all_back_now_at, key.clone()));
    }

    /// Begins rates anew.
    pub(crate) fn forget_spent(&mut self) {
        for (_, key) in std::mem::take(&mut self.spenders) {
            self.change(&key, |line| line.spent.clear());
        }
    }

    /// Forgets some keys whose permits are all back.
    fn forget_spenders(&mut self, now: Timestamp) {
        for _ in 0..SPENDERS_FORGOTTEN {
            if self.spenders.first().is_none_or(|&(back_at, _)| back_at > now) {
                break;
            }
            let (_, key) = self.spenders.pop_first().expect("there is a first one");
            self.change(&key, |line| line.spent.clear());
        }
    }

    fn spent(&self, key: &Name) -> impl Iterator<Item = Spent> {
        let spent = self.lines.get(key).into_iter().flat_map(|line| &line.spent);
        spent.map(|(&back_at, &jobs)| Spent { back_at, jobs })
    }

    fn lowest(&self) -> u64 {
        self.open.first().map_or(0, |&(turn, _)| turn)
    }

    fn open_at(&mut self, key: &Name, turn: u64) {
        self.replace(key, Some(Gate::Open { turn }));
        self.open.insert((turn, key.clone()));
    }

    /// Gives a key another gate, or none, and takes the one it had out of its order.
    fn replace(&mut self, key: &Name, gate: Option<Gate>) {
        let before = match gate {
            Some(gate) => self.line_mut(key).gate.replace(gate),
            None => self.change(key, |line| line.gate.take()).flatten(),
        };
        match before {
            Some(Gate::Open { turn }) => self.open.remove(&(turn, key.clone())),
            Some(Gate::Closed { until }) => self.closed.remove(&(until, key.clone())),
            None => false,
        };
    }

    /// What is known of a key, from now on.
    fn line_mut(&mut self, key: &Name) -> &mut Line {
        if !self.lines.contains_key(key) {
            self.lines.insert(key.clone(), Line::default());
        }
        self.lines.get_mut(key).expect("it was made above")
    }

    /// Takes something from what is known of a key, and forgets it when nothing is left.
    fn change<T>(&mut self, key: &Name, change: impl FnOnce(&mut Line) -> T) -> Option<T> {
        let line = self.lines.get_mut(key)?;
        let changed = change(line);
        if line.is_empty() {
            self.lines.remove(key);
        }
        Some(changed)
    }
}
