//! One step of a schedule: what is due, and what the jobs of earlier slots leave of it.

use std::time::Duration;

use super::due::DueSlots;
use super::record::{Run, ScheduleState};
use super::{Overlap, Recurrence};
use crate::clock::Timestamp;

/// The most slots of a schedule that wait for a job before them.
pub const WAITING_MAX: usize = 1_000;
/// How often it is looked whether the job has ended that others wait for: at first, and at last.
const LOOK_FIRST: Duration = Duration::from_secs(1);
const LOOK_LAST: Duration = Duration::from_secs(30);

/// What a step of a schedule comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advance {
    /// Jobs to make now, in order.
    pub runs: Vec<Run>,
    /// The job of the earlier slot is to be cancelled.
    pub cancels: bool,
    /// When to look again; nothing when the schedule has ended.
    pub again: Option<Timestamp>,
}

impl Recurrence {
    /// Moves the state of a schedule on to the present. `is_open` says whether the newest job that it made has not ended.
    pub fn advance(
        &self,
        state: &mut ScheduleState,
        now: Timestamp,
        offset: Duration,
        is_open: bool,
    ) -> Advance {
        let due = match state.next {
            Some(first) => self.due(first, now, offset),
            None => DueSlots { runs: Vec::new(), missed: 0, next: None },
        };
        state.missed += due.missed;
        state.next = due.next;
        let mut line = std::mem::take(&mut state.waiting);
        let counted = state.made + line.len() as u64;
        line.extend(self.within_count(counted, due.runs));
        if let Some(last) = line.last() {
            state.last = Some(state.last.map_or(last.slot, |before| before.max(last.slot)));
        }
        let waiting_before = line.len();
        let (mut runs, mut cancels) = (Vec::new(), false);
        match self.schedule.overlap {
            Overlap::Allow => runs = std::mem::take(&mut line),
            overlap => {
                if overlap == Overlap::CancelRunning {
                    let newest = line.len().saturating_sub(1);
                    line.drain(..newest);
                    cancels = is_open && !line.is_empty();
                }
                if !is_open && !line.is_empty() {
                    runs.push(line.remove(0));
                }
                line.truncate(match overlap {
                    Overlap::Allow | Overlap::Skip => 0,
                    Overlap::WaitOne | Overlap::CancelRunning => 1,
                    Overlap::WaitAll => WAITING_MAX,
                });
            }
        }
        state.skipped += (waiting_before - runs.len() - line.len()) as u64;
        state.made += runs.len() as u64;
        state.waiting = line;
        if self.schedule.count.is_some_and(|count| state.made + state.waiting.len() as u64 >= count) {
            state.next = None;
        }
        Advance { runs, cancels, again: self.look_again(state, now, offset) }
    }

    /// As many runs as the schedule may still make after so many.
    fn within_count(&self, counted: u64, mut runs: Vec<Run>) -> Vec<Run> {
        if let Some(count) = self.schedule.count {
            let left = count.saturating_sub(counted);
            runs.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        }
        runs
    }

    fn look_again(&self, state: &ScheduleState, now: Timestamp, offset: Duration) -> Option<Timestamp> {
        let next = state.next.map(|slot| slot.plus(offset));
        let Some(first) = state.waiting.first() else { return next };
        // The longer it waits, the more rarely it is looked.
        let waited = now.since(first.slot.plus(offset));
        let look = now.plus((waited / 4).clamp(LOOK_FIRST, LOOK_LAST));
        Some(next.map_or(look, |next| next.min(look)))
    }
}
