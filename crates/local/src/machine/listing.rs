//! What waits and what runs, as lists for people and dashboards.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Id, Machine};
use crate::work::Work;

/// A piece of work that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Its id.
    pub id: Id,
    /// The name it was given.
    pub name: Option<Arc<str>>,
    /// Its key.
    pub key: Option<Arc<str>>,
    /// Its priority.
    pub priority: i16,
}

/// A piece of work that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Running {
    /// Its id.
    pub id: Id,
    /// The name it was given.
    pub name: Option<Arc<str>>,
    /// Its key.
    pub key: Option<Arc<str>>,
    /// Its priority.
    pub priority: i16,
    /// How long it has been running. Without a timeout the clock starts when it first has to wait for something:
    /// work that never does would pay more for the clock than for itself.
    pub age: Duration,
    /// How long it may run.
    pub timeout: Option<Duration>,
}

impl Running {
    /// How long it still may run.
    pub fn remaining(&self) -> Option<Duration> {
        self.timeout.map(|timeout| timeout.saturating_sub(self.age))
    }
}

impl<W: Work> Machine<W> {
    /// The ids of everything that waits, the next to start first.
    pub(crate) fn waiting(&self) -> Vec<Id> {
        let slab = &self.lanes.slab;
        let id = |index| Id::new(index, slab[index].sequence);
        let Some(keys) = &self.keys else { return self.lanes.ready().map(id).collect() };
        let mut all: Vec<u32> = self.lanes.ready().chain(keys.all()).collect();
        all.sort_by_key(|index| self.lanes.place(*index));
        all.into_iter().map(id).collect()
    }

    pub(crate) fn list_waiting(&self) -> Vec<Waiting> {
        let describe = |id: Id| {
            let (entry, extra) = (&self.lanes.slab[id.index()], self.lanes.slab.extra(id.index()));
            Waiting {
                id,
                name: extra.and_then(|extra| extra.name.clone()),
                key: extra.and_then(|extra| extra.key.clone()),
                priority: entry.priority,
            }
        };
        self.waiting().into_iter().map(describe).collect()
    }

    /// The ids of everything that runs, the one that started first in front.
    pub(crate) fn running(&self) -> impl Iterator<Item = Id> {
        let begun = self.runners.begun().into_iter();
        let runs = begun.filter(|(index, runner)| self.lanes.slab.runs_at(*index, *runner));
        runs.map(|(index, _)| Id::new(index, self.lanes.slab[index].sequence))
    }

    pub(crate) fn list_running(&self) -> Vec<Running> {
        let now = Instant::now();
        let describe = |id: Id| {
            let (entry, extra) = (&self.lanes.slab[id.index()], self.lanes.slab.extra(id.index()));
            let started = self.runners.started(entry.runner());
            Running {
                id,
                name: extra.and_then(|extra| extra.name.clone()),
                key: extra.and_then(|extra| extra.key.clone()),
                priority: entry.priority,
                age: started.map_or(Duration::ZERO, |started| now.duration_since(started)),
                timeout: self.timeout_of(id.index()),
            }
        };
        self.running().map(describe).collect()
    }
}
