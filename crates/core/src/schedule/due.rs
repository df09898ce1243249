//! Which slots have their jobs now: what is on time, and of what was missed what is made up.

use std::collections::VecDeque;
use std::time::Duration;

use super::record::Run;
use super::{CatchUp, Recurrence};
use crate::clock::Timestamp;

/// How late a slot may be before it counts as missed: longer than it takes until the jobs of a lost worker go to another.
pub const ON_TIME: Duration = Duration::from_secs(60);
/// The most jobs that one tick makes. The next one follows at once.
pub const FIRE_MAX: usize = 50;
/// Slots that are looked at one by one; where there are more, the search goes back from the present instead.
const LOOK_MAX: u32 = 10_000;

/// What is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DueSlots {
    /// Slots that have their jobs, in order; at most [`FIRE_MAX`].
    pub(super) runs: Vec<Run>,
    /// Slots that have none, as far as they were counted.
    pub(super) missed: u64,
    /// The first slot that was not decided about; nothing where there is none.
    pub(super) next: Option<Timestamp>,
}

impl Recurrence {
    /// What is due at `now` when `first` is the first slot that was not decided about, and jobs come `offset` after slots.
    pub(super) fn due(&self, first: Timestamp, now: Timestamp, offset: Duration) -> DueSlots {
        let now = now.minus(offset);
        let on_time = now.minus(ON_TIME);
        let mut look = Look { missed: VecDeque::new(), dropped: 0 };
        let (keep, oldest) = (self.keep(), self.schedule.max_late.map(|late| now.minus(late)));
        let (mut next, mut looked) = (Some(first), 0);
        let mut runs = Vec::new();
        while let Some(slot) = next.filter(|slot| *slot <= now) {
            if slot >= on_time {
                if runs.len() == FIRE_MAX {
                    break;
                }
                runs.push(Run { slot, is_made_up: false });
            } else {
                look.add(slot, keep, oldest);
                looked += 1;
                if looked == LOOK_MAX {
                    let newest = self.newest_before(on_time, keep, slot);
                    // What was found so far is older than all that are kept only if the search goes past a slot.
                    if newest != self.next_after(slot) {
                        look.drop_all();
                    }
                    next = newest;
                    continue;
                }
            }
            next = self.next_after(slot);
        }
        if self.schedule.catch_up == CatchUp::Once && !runs.is_empty() {
            look.drop_all();
        }
        let made_up = look.missed.iter().map(|&slot| Run { slot, is_made_up: true });
        let mut all: Vec<Run> = made_up.chain(runs).collect();
        if all.len() > FIRE_MAX {
            next = Some(all[FIRE_MAX].slot);
            all.truncate(FIRE_MAX);
        }
        DueSlots { runs: all, missed: look.dropped, next }
    }

    fn keep(&self) -> usize {
        match self.schedule.catch_up {
            CatchUp::Skip => 0,
            CatchUp::Once => 1,
            CatchUp::All(most) => most as usize,
        }
    }

    /// Where the newest `count` slots before `end` begin, or a little earlier; not before `start`. Doubles the span that it
    /// looks at, so it looks at no more slots than a few times as many.
    fn newest_before(&self, end: Timestamp, count: usize, start: Timestamp) -> Option<Timestamp> {
        let mut span = Duration::from_secs(60);
        loop {
            let from = end.minus(span).max(start);
            let first = self.next_at(from);
            let mut slot = first;
            let mut found = 0;
            while let Some(at) = slot.filter(|at| *at < end && found < count) {
                found += 1;
                slot = self.next_after(at);
            }
            if found >= count || from == start {
                // A slot that was looked at is not looked at again.
                return if from == start { self.next_after(start) } else { first };
            }
            span *= 2;
        }
    }
}

/// Missed slots: those that may be made up, and how many were let go.
struct Look {
    missed: VecDeque<Timestamp>,
    dropped: u64,
}

impl Look {
    fn add(&mut self, slot: Timestamp, keep: usize, oldest: Option<Timestamp>) {
        if oldest.is_some_and(|oldest| slot < oldest) {
            self.dropped += 1;
            return;
        }
        self.missed.push_back(slot);
        if self.missed.len() > keep {
            self.missed.pop_front();
            self.dropped += 1;
        }
    }

    fn drop_all(&mut self) {
        self.dropped += self.missed.len() as u64;
        self.missed.clear();
    }
}
