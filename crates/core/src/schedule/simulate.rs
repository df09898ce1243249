//! What a schedule would do over a span of time, for people who want to see it before it happens.

use std::time::Duration;

use super::record::{Run, ScheduleState};
use super::{Overlap, Recurrence};
use crate::clock::Timestamp;

/// The most slots that are shown.
const SHOWN_MAX: usize = 10_000;

/// What to play through.
#[derive(Debug, Clone, Copy)]
pub struct Simulation {
    /// Slots from this instant on.
    pub from: Timestamp,
    /// Slots before this instant.
    pub to: Timestamp,
    /// How long each job takes.
    pub takes: Duration,
    /// No worker is there between these instants.
    pub down: Option<(Timestamp, Timestamp)>,
    /// How many slots at most.
    pub limit: usize,
}

/// A slot and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Simulated {
    /// The slot.
    pub slot: Timestamp,
    /// What becomes of it.
    pub verdict: Verdict,
    /// By how much the clock of the zone was changed since the slot before, in seconds.
    pub clock_change: i64,
}

/// What becomes of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its job starts at this instant.
    Starts(Timestamp),
    /// It was missed, and its job starts at this instant.
    MadeUp(Timestamp),
    /// It was missed.
    Missed,
    /// The job before it had not ended.
    Skipped,
}

impl Recurrence {
    /// Plays the schedule through, with jobs that start `offset` after their slots. A job that is cancelled ends at once.
    pub fn simulate(&self, what: &Simulation, offset: Duration) -> Vec<Simulated> {
        let mut slots = Vec::new();
        let mut slot = self.next_at(what.from);
        while let Some(at) = slot.filter(|at| *at < what.to && slots.len() < what.limit.min(SHOWN_MAX)) {
            slots.push(at);
            slot = self.next_after(at);
        }
        let (Some(&first), Some(&last)) = (slots.first(), slots.last()) else { return Vec::new() };
        let started = self.play(what, offset, first, last);
        let verdict = |slot: Timestamp| {
            let found = started.iter().find(|(run, _)| run.slot == slot);
            match found {
                Some((run, at)) if run.is_made_up => Verdict::MadeUp(*at),
                Some((_, at)) => Verdict::Starts(*at),
                None if self.was_missed(what, slot.plus(offset)) => Verdict::Missed,
                None => Verdict::Skipped,
            }
        };
        let mut offset_before = self.utc_offset(first);
        let shown = slots.iter().map(|&slot| {
            let now = self.utc_offset(slot);
            let clock_change = now - offset_before;
            offset_before = now;
            Simulated { slot, verdict: verdict(slot), clock_change }
        });
        shown.collect()
    }

    /// The runs that start, and when.
    fn play(
        &self,
        what: &Simulation,
        offset: Duration,
        first: Timestamp,
        last: Timestamp,
    ) -> Vec<(Run, Timestamp)> {
        let mut state = ScheduleState { next: Some(first), ..ScheduleState::default() };
        let (mut started, mut busy_until) = (Vec::new(), None::<Timestamp>);
        let mut now = first.plus(offset);
        // Each step decides about a slot, or waits for the end of a job: bounded by what is shown.
        for _ in 0..4 * SHOWN_MAX {
            if let Some((_, up)) = what.down.filter(|(down, up)| *down <= now && now < *up) {
                now = up;
            }
            let is_open = busy_until.is_some_and(|until| until > now);
            let step = self.advance(&mut state, now, offset, is_open);
            if step.cancels {
                busy_until = Some(now);
            }
            for run in &step.runs {
                started.push((*run, now));
            }
            if !step.runs.is_empty() {
                busy_until = Some(now.plus(what.takes));
            }
            let is_waiting = !state.waiting.is_empty();
            let next = state.next.filter(|slot| *slot <= last).map(|slot| slot.plus(offset));
            let end = busy_until.filter(|until| is_waiting && *until > now);
            now = match (next, end, is_waiting) {
                (Some(next), Some(end), _) => next.min(end),
                (Some(next), None, false) => next,
                (None, Some(end), _) => end,
                (_, None, true) => now,
                (None, None, false) => break,
            };
        }
        if self.schedule.overlap == Overlap::Allow {
            started.sort_by_key(|(run, _)| run.slot);
        }
        started
    }

    /// Whether no worker was there when a slot should have had its job.
    fn was_missed(&self, what: &Simulation, fires: Timestamp) -> bool {
        what.down.is_some_and(|(down, up)| down <= fires && fires < up && up.since(fires) > super::ON_TIME)
    }
}
