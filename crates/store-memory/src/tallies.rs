//! Tallies: what `moves` counts by the minute, and how minutes that are over are put into the rows of each interval that are
//! kept.

use std::collections::BTreeMap;

use async_trait::async_trait;
use windlass_core::clock::Timestamp;
use windlass_core::store::{Cause, Move, Settlement, StoreResult, Tallies, Told};
use windlass_core::tally::{Gather, Interval, KINDS_MAX, Row, Tally, Window};
use windlass_core::{Name, NewJob, State};

use crate::MemoryStore;
use crate::bug::Bug;
use crate::table::Table;

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct TallyBook {
    /// The time of the running call.
    pub(crate) now: Timestamp,
    /// By minute, queue and kind; not yet among those that are kept.
    fresh: BTreeMap<(Timestamp, Name, Option<Name>), Tally>,
    /// By interval, instant, queue and kind.
    kept: BTreeMap<(Interval, Timestamp, Name, Option<Name>), Tally>,
}

#[async_trait]
impl Tallies for MemoryStore {
    async fn tallies(&self, window: &Window) -> StoreResult<Vec<Row>> {
        window.check()?;
        Ok(self.read(|table, now| table.tallies.rows(window, now)))
    }
}

impl TallyBook {
    /// Counts a change of state.
    pub(crate) fn count(&mut self, change: Move<'_>) {
        let Some(cell) = change.cell(self.now) else { return };
        let minute = Interval::Minute.floor(self.now);
        let kind = change.kind.cloned();
        self.fresh.entry((minute, change.queue.clone(), kind)).or_default().add(cell, 1);
    }

    fn rows(&self, window: &Window, now: Timestamp) -> Vec<Row> {
        let mut gather = Gather::new(window, now);
        for ((interval, at, queue, kind), tally) in &self.kept {
            gather.add_kept(queue, kind.clone(), *interval, *at, tally);
        }
        for ((minute, queue, kind), tally) in &self.fresh {
            gather.add_fresh(queue, kind.clone(), *minute, tally);
        }
        gather.rows()
    }

    /// Puts a minute of a queue and kind into the rows of each interval.
    fn keep(
        &mut self,
        (minute, queue, kind): (Timestamp, Name, Option<Name>),
        tally: &Tally,
        bug: Option<Bug>,
    ) {
        for interval in Interval::ALL {
            let place = |kind| (interval, interval.floor(minute), queue.clone(), kind);
            let mut kind = kind.clone();
            if kind.is_some() && !self.kept.contains_key(&place(kind.clone())) {
                let others = self.kept.range(place(None)..);
                let named = others.take_while(|(other, _)| other.1 == place(None).1 && other.2 == queue);
                if named.filter(|(other, _)| other.3.is_some()).count() >= KINDS_MAX {
                    kind = None;
                }
            }
            if bug == Some(Bug::LoseTallyAtFold) && self.kept.contains_key(&place(kind.clone())) {
                continue;
            }
            self.kept.entry(place(kind)).or_default().merge(tally);
        }
    }
}

impl Table {
    /// Counts a job that is accepted for good.
    pub(crate) fn count_accepted(&mut self, job: &NewJob) {
        self.tallies.count(Move {
            queue: &job.queue,
            kind: Some(&job.kind),
            from: None,
            to: Some(State::Ready),
            cause: Cause::Accepted,
            told: Told::default(),
        });
    }

    /// With a bug: counts an outcome that is not written.
    pub(crate) fn count_stale(&mut self, settlement: &Settlement) {
        let Some(kind) = self.get(settlement.id).map(|job| job.new.kind.clone()) else { return };
        self.tallies.count(Move {
            queue: &settlement.queue,
            kind: Some(&kind),
            from: Some(State::Running),
            to: Some(settlement.transition.state),
            cause: Cause::Settled,
            told: Told { reason: settlement.transition.reason, ..Told::default() },
        });
    }

    /// Folds minutes that are over, and removes what is no longer kept, at most so many rows.
    pub(crate) fn tidy_tallies(&mut self, now: Timestamp, limit: u32) -> u32 {
        let bug = self.planted();
        let this_minute = Interval::Minute.floor(now);
        let mut tidied = 0;
        while tidied < limit {
            let Some(first) = self.tallies.fresh.first_entry().filter(|first| first.key().0 < this_minute)
            else {
                break;
            };
            let (place, tally) = first.remove_entry();
            self.tallies.keep(place, &tally, bug);
            tidied += 1;
        }
        let is_old = |(interval, at, _, _): &&(Interval, Timestamp, Name, Option<Name>)| {
            *at < now.minus(interval.removed_after())
        };
        let old: Vec<_> =
            self.tallies.kept.keys().filter(is_old).take((limit - tidied) as usize).cloned().collect();
        for place in &old {
            self.tallies.kept.remove(place);
        }
        tidied + old.len() as u32
    }
}
