//! What waits and what runs, as lists for people and dashboards.

use std::cmp::Reverse;
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
    /// Everything that waits, the next to start first.
    pub(crate) fn listed(&self) -> Vec<((Reverse<i16>, i64), Id)> {
        let waiting = self.lanes.waiting();
        let mut listed: Vec<_> = waiting
            .map(|(index, entry)| {
                ((Reverse(entry.priority), entry.order), Id { index, sequence: entry.sequence })
            })
            .collect();
        listed.sort_unstable_by_key(|(place, _)| *place);
        listed
    }

    pub(crate) fn list_waiting(&mut self) -> Vec<Waiting> {
        let listed = self.listed();
        let describe = |(_, id): (_, Id)| {
            let entry = self.lanes.entry(id.index);
            let extra = entry.extra.as_deref();
            Waiting {
                id,
                name: extra.and_then(|extra| extra.name.clone()),
                key: extra.and_then(|extra| extra.key.clone()),
                priority: entry.priority,
            }
        };
        listed.into_iter().map(describe).collect()
    }

    pub(crate) fn list_running(&self) -> Vec<Running> {
        let now = Instant::now();
        let describe = |(index, entry): (u32, &super::lanes::Entry<W>)| {
            let extra = entry.extra.as_deref();
            let own = extra.and_then(|extra| extra.timeout);
            Running {
                id: Id { index, sequence: entry.sequence },
                name: extra.and_then(|extra| extra.name.clone()),
                key: extra.and_then(|extra| extra.key.clone()),
                priority: entry.priority,
                age: self
                    .seats
                    .started(entry.seat)
                    .map_or(Duration::ZERO, |started| now.duration_since(started)),
                timeout: own.or(self.settings.timeout).filter(|timeout| *timeout != Duration::MAX),
            }
        };
        self.lanes.running().map(describe).collect()
    }
}
