//! The order of a queue with aged priority: made from the levels of each line, which stand in the documented order.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use windlass_core::clock::Timestamp;
use windlass_core::queue::{Aged, LEVELS_LOOKED_MAX};

use crate::job::Seq;
use crate::queue::Place;

/// The first places of some lines in the order of a claim, at most so many.
pub(crate) fn first<'a>(
    lines: impl Iterator<Item = &'a BTreeSet<Place>>,
    aged: Aged,
    count: usize,
) -> Vec<Place> {
    let mut found = Vec::new();
    for line in lines {
        for level in levels(line, aged) {
            found.extend(line.range(bounds(level)).take(count).copied());
        }
    }
    found.sort_unstable_by_key(|&(Reverse(priority), due_at, seq)| aged.place(priority, due_at, seq));
    found.truncate(count);
    found
}

/// The levels of a line that a claim looks at.
fn levels(line: &BTreeSet<Place>, aged: Aged) -> Vec<i16> {
    let Some(&(Reverse(highest), ..)) = line.first() else { return Vec::new() };
    let (mut upper, mut lower, mut next) = (Vec::new(), Vec::new(), Some(highest));
    while let Some(level) = next {
        let part = if i32::from(level) > aged.start(highest) { &mut upper } else { &mut lower };
        part.push(level);
        let (_, last) = bounds(level).into_inner();
        next = line.range(last..).next().map(|&(Reverse(level), ..)| level);
    }
    lower.into_iter().chain(upper).take(LEVELS_LOOKED_MAX).collect()
}

/// All places of a level; nothing stands at its last one.
fn bounds(level: i16) -> std::ops::RangeInclusive<Place> {
    let at = |micros, seq| (Reverse(level), Timestamp::from_micros(micros), seq);
    at(i64::MIN, Seq::MIN)..=at(i64::MAX, Seq::MAX)
}
