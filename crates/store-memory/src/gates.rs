//! The gates of a queue: where the ready jobs of each key stand, whose turn it is, and how many jobs of each key run.
//! Gates come and open by `moves`; the claim moves their turns, closes and forgets them.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{GATES_LOOKED_MAX, KeyRules, Permits, Spent};

use crate::queue::Place;

#[derive(Debug, Default)]
pub(crate) struct Gates {
    /// Ready jobs by key.
    ready: BTreeMap<Name, BTreeSet<Place>>,
    gates: BTreeMap<Name, Gate>,
    /// Open ones by their turn.
    open: BTreeSet<(u64, Name)>,
    /// Closed ones by the instant at which they open.
    closed: BTreeSet<(Timestamp, Name)>,
    /// Jobs that run, by key; none where none does.
    running: BTreeMap<Name, u64>,
    /// What was spent of the rate of each key.
    spent: BTreeMap<Name, BTreeMap<Timestamp, u64>>,
}

#[derive(Debug, Clone, Copy)]
enum Gate {
    Open { turn: u64 },
    Closed { until: Timestamp },
}

/// The instant at which a gate opens that waits for an end, or for another definition.
pub(crate) const NO_TIME: Timestamp = Timestamp::from_micros(i64::MAX);

impl Gates {
    /// A job of a key is ready.
    pub(crate) fn add(&mut self, key: &Name, place: Place) {
        self.ready.entry(key.clone()).or_default().insert(place);
    }

    /// A job of a key has left the ready ones.
    pub(crate) fn take_out(&mut self, key: &Name, place: Place) {
        if let Some(places) = self.ready.get_mut(key) {
            places.remove(&place);
            if places.is_empty() {
                self.ready.remove(key);
            }
        }
    }

    /// The ready jobs of a key, in their order.
    pub(crate) fn behind(&self, key: &Name) -> impl Iterator<Item = Place> {
        self.ready.get(key).into_iter().flatten().copied()
    }

    /// The line of a key.
    pub(crate) fn line(&self, key: &Name) -> Option<&BTreeSet<Place>> {
        self.ready.get(key)
    }

    /// Whether a key has a gate.
    pub(crate) fn has(&self, key: &Name) -> bool {
        self.gates.contains_key(key)
    }

    /// A job of this key became ready: it has a gate from now on.
    pub(crate) fn came(&mut self, key: &Name) {
        if !self.gates.contains_key(key) {
            self.open_at(key, self.lowest());
        }
    }

    /// A job of this key started.
    pub(crate) fn started(&mut self, key: &Name) {
        *self.running.entry(key.clone()).or_default() += 1;
    }

    /// A job of this key runs no longer.
    pub(crate) fn stopped(&mut self, key: &Name) {
        if let Some(running) = self.running.get_mut(key) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(key);
            }
        }
    }

    /// Opens the gate of a key, if it has one that is closed.
    pub(crate) fn open(&mut self, key: &Name) {
        if let Some(Gate::Closed { .. }) = self.gates.get(key) {
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
            self.gates.insert(key.clone(), Gate::Closed { until: NOW });
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
        if let Some(&Gate::Open { turn }) = self.gates.get(key) {
            self.open_at(key, turn.saturating_add(cost));
        }
    }

    /// Closes one until an instant.
    pub(crate) fn close(&mut self, key: &Name, until: Timestamp) {
        self.forget(key);
        self.gates.insert(key.clone(), Gate::Closed { until });
        self.closed.insert((until, key.clone()));
    }

    /// Forgets one.
    pub(crate) fn forget(&mut self, key: &Name) {
        match self.gates.remove(key) {
            Some(Gate::Open { turn }) => self.open.remove(&(turn, key.clone())),
            Some(Gate::Closed { until }) => self.closed.remove(&(until, key.clone())),
            None => false,
        };
    }

    pub(crate) fn running(&self, key: &Name) -> u64 {
        self.running.get(key).copied().unwrap_or(0)
    }

    /// What the rate of keys permits this one; nothing where they have none.
    pub(crate) fn permits(&self, key: &Name, rules: &KeyRules, now: Timestamp) -> Option<Permits> {
        Some(rules.rate?.permits(self.spent(key), now))
    }

    /// Spends permits of a key for jobs that start.
    pub(crate) fn spend(&mut self, key: &Name, rules: &KeyRules, jobs: u64, now: Timestamp) {
        let Some(rate) = rules.rate.filter(|_| jobs > 0) else { return };
        let Spent { back_at, jobs } = rate.spend(jobs, self.spent(key), now);
        self.spent.retain(|_, spent| spent.last_key_value().is_some_and(|(&back_at, _)| back_at > now));
        let spent = self.spent.entry(key.clone()).or_default();
        spent.retain(|kept_until, kept| *kept_until > now && (jobs > 0 || *kept > 0));
        *spent.entry(back_at).or_default() += jobs;
    }

    /// Begins rates anew.
    pub(crate) fn forget_spent(&mut self) {
        self.spent.clear();
    }

    fn spent(&self, key: &Name) -> impl Iterator<Item = Spent> {
        let spent = self.spent.get(key).into_iter().flatten();
        spent.map(|(&back_at, &jobs)| Spent { back_at, jobs })
    }

    fn lowest(&self) -> u64 {
        self.open.first().map_or(0, |&(turn, _)| turn)
    }

    fn open_at(&mut self, key: &Name, turn: u64) {
        self.forget(key);
        self.gates.insert(key.clone(), Gate::Open { turn });
        self.open.insert((turn, key.clone()));
    }
}
