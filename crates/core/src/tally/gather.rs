//! Reading tallies: which rows of a store make up an answer. Each store finds the rows; which of them count, and how they are
//! put together, is decided here once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Interval, Tally};
use crate::clock::Timestamp;
use crate::name::Name;

/// How many kinds an answer names for each queue and instant, and how many a store keeps; the others are counted together.
pub const KINDS_MAX: usize = 50;
/// How many intervals, of all queues together, may be asked for at once: a day of one queue by the minute, or the last hour of
/// twenty-four.
pub const WINDOWS_MAX: u64 = 1_440;

/// What to read of tallies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Of which queues.
    pub queues: Vec<Name>,
    /// From when on, by the store's clock; the interval that it is in is read whole.
    pub from: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// How long rows should be. Where such short ones are no longer kept they are longer.
    pub interval: Interval,
}

impl Window {
    /// Tests whether the answer is bounded.
    ///
    /// # Errors
    /// When it has more than [`WINDOWS_MAX`] intervals.
    pub fn check(&self) -> Result<(), WindowInvalid> {
        let each = self
            .until
            .since(self.interval.floor(self.from))
            .as_secs()
            .div_ceil(self.interval.span().as_secs());
        let intervals = each.saturating_mul(self.queues.len() as u64);
        if intervals > WINDOWS_MAX { Err(WindowInvalid { intervals }) } else { Ok(()) }
    }

    /// Between which instants rows of any length begin that may count: whole hours.
    pub fn bounds(&self) -> (Timestamp, Timestamp) {
        let last = Timestamp::from_micros(self.until.as_micros() - 1);
        (Interval::Hour.floor(self.from), Interval::Hour.floor(last).plus(Interval::Hour.span()))
    }
}

/// More than is read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{intervals} intervals of tallies are asked for at once: ask for at most {WINDOWS_MAX}, by longer steps or in parts"
)]
pub struct WindowInvalid {
    /// How many, of all queues together.
    pub intervals: u64,
}

/// What was counted of a kind in an interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The queue.
    pub queue: Name,
    /// When the interval began.
    pub at: Timestamp,
    /// How long it is.
    pub interval: Interval,
    /// The kind; nothing for kinds beyond [`KINDS_MAX`] together, and for what was counted by a program that did not tell.
    pub kind: Option<Name>,
    /// What was counted.
    pub tally: Tally,
}

/// Puts an answer together.
#[derive(Debug)]
pub struct Gather<'a> {
    window: &'a Window,
    now: Timestamp,
    /// By queue and instant.
    found: BTreeMap<(Name, Timestamp), Found>,
}

/// What is found of a queue and an instant: how long it is, and what was counted of each kind.
type Found = (Interval, BTreeMap<Option<Name>, Tally>);

impl<'a> Gather<'a> {
    /// An answer at this time of the store.
    pub const fn new(window: &'a Window, now: Timestamp) -> Self {
        Self { window, now, found: BTreeMap::new() }
    }

    /// How long rows are of the hour that an instant is in. All of an hour are of one length.
    pub fn interval(&self, at: Timestamp) -> Interval {
        Interval::kept_at(at, self.now).max(self.window.interval)
    }

    /// A row that the store keeps for an interval. It counts if rows of that hour are of its length.
    pub fn add_kept(
        &mut self,
        queue: &Name,
        kind: Option<Name>,
        interval: Interval,
        at: Timestamp,
        tally: &Tally,
    ) {
        if interval == self.interval(at) {
            self.add(queue, kind, interval, at, tally);
        }
    }

    /// What was counted in a minute and does not stand in rows of intervals yet.
    pub fn add_fresh(&mut self, queue: &Name, kind: Option<Name>, minute: Timestamp, tally: &Tally) {
        let interval = self.interval(minute);
        self.add(queue, kind, interval, interval.floor(minute), tally);
    }

    fn add(&mut self, queue: &Name, kind: Option<Name>, interval: Interval, at: Timestamp, tally: &Tally) {
        let Window { queues, from, until, .. } = self.window;
        let first = interval.floor(*from).max(Interval::Hour.oldest(self.now));
        let is_within = at >= first && at < *until;
        if is_within && !tally.is_empty() && queues.contains(queue) {
            let (_, kinds) = self.found.entry((queue.clone(), at)).or_insert((interval, BTreeMap::new()));
            kinds.entry(kind).or_default().merge(tally);
        }
    }

    /// The rows, by queue, instant and kind.
    pub fn rows(self) -> Vec<Row> {
        let mut rows = Vec::new();
        for ((queue, at), (interval, mut kinds)) in self.found {
            bound_kinds(&mut kinds);
            rows.extend(kinds.into_iter().map(|(kind, tally)| Row {
                queue: queue.clone(),
                at,
                interval,
                kind,
                tally,
            }));
        }
        rows
    }
}

/// Counts all but the first [`KINDS_MAX`] kinds together.
fn bound_kinds(kinds: &mut BTreeMap<Option<Name>, Tally>) {
    let named = kinds.keys().filter(|kind| kind.is_some());
    let Some(first_beyond) = named.clone().nth(KINDS_MAX).cloned() else { return };
    let beyond = kinds.split_off(&first_beyond);
    let others = kinds.entry(None).or_default();
    beyond.values().for_each(|tally| others.merge(tally));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::{Bucket, Cell, Count};

    fn minute(minute: i64) -> Timestamp {
        Timestamp::from_micros(minute * 60_000_000)
    }

    fn window(from: i64, until: i64, interval: Interval) -> Window {
        Window { queues: vec![Name::new("q").unwrap()], from: minute(from), until: minute(until), interval }
    }

    fn times(count: u64) -> Tally {
        [(Cell::new(Count::Accepted, Bucket::UNTIMED), count)].into_iter().collect()
    }

    fn seen(gather: Gather<'_>) -> Vec<(i64, Interval, u64)> {
        let rows = gather.rows().into_iter();
        rows.map(|row| (row.at.as_micros() / 60_000_000, row.interval, row.tally.of(Count::Accepted)))
            .collect()
    }

    #[test]
    fn rows_of_one_length_count_for_each_hour() {
        let queue = Name::new("q").unwrap();
        let asked = window(0, 600, Interval::Minute);
        let mut gather = Gather::new(&asked, minute(599));
        for at in [125, 485] {
            for interval in Interval::ALL {
                gather.add_kept(&queue, None, interval, interval.floor(minute(at)), &times(7));
            }
            gather.add_fresh(&queue, None, minute(at), &times(1));
        }
        let other = Name::new("r").unwrap();
        gather.add_fresh(&other, None, minute(485), &times(1));
        gather.add_fresh(&queue, None, minute(600), &times(1));
        assert_eq!(seen(gather), [(120, Interval::TenMinutes, 8), (485, Interval::Minute, 8)]);
    }

    #[test]
    fn longer_rows_may_be_asked_for_and_the_first_is_whole() {
        let queue = Name::new("q").unwrap();
        let asked = window(485, 486, Interval::Hour);
        let mut gather = Gather::new(&asked, minute(500));
        for at in [479, 480, 485, 499] {
            gather.add_fresh(&queue, None, minute(at), &times(1));
        }
        gather.add_kept(&queue, None, Interval::Minute, minute(485), &times(99));
        assert_eq!(seen(gather), [(480, Interval::Hour, 3)]);
    }

    #[test]
    fn kinds_beyond_the_bound_are_counted_together() {
        let queue = Name::new("q").unwrap();
        let asked = window(0, 60, Interval::Minute);
        let mut gather = Gather::new(&asked, minute(60));
        gather.add_fresh(&queue, None, minute(1), &times(5));
        for kind in 0..KINDS_MAX as u64 + 7 {
            let kind = Name::new(format!("k{kind:03}")).unwrap();
            gather.add_fresh(&queue, Some(kind), minute(1), &times(1));
        }
        let rows = gather.rows();
        assert_eq!(rows.len(), KINDS_MAX + 1);
        assert_eq!((&rows[0].kind, rows[0].tally.of(Count::Accepted)), (&None, 12));
        assert!(rows[1..].iter().all(|row| row.tally.of(Count::Accepted) == 1));
    }

    #[test]
    fn no_more_is_read_than_is_bounded() {
        assert_eq!(window(0, 1_440, Interval::Minute).check(), Ok(()));
        assert_eq!(window(0, 1_441, Interval::Minute).check(), Err(WindowInvalid { intervals: 1_441 }));
        assert_eq!(window(0, 1_441, Interval::Hour).check(), Ok(()));
        assert_eq!(window(9, 3, Interval::Minute).check(), Ok(()));
    }
}
