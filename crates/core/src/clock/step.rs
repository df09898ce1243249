//! Noticing that a clock was set: it is compared with the time that has really passed.
//!
//! An embedded store keeps instants, so a clock that is set forward would end every lease at once, and one that is
//! set back would let the leases of dead workers live on. The store looks for a step before each of its writes and
//! gives what lives one more term.

use std::time::Duration;

use super::{Clock, Timestamp};

/// Steps that are smaller are left alone: they are short against a lease, and clocks are corrected all the time.
const STEP_MIN_MICROS: i64 = 1_000_000;
/// How far apart two readings of one moment may be.
const MOMENT: Duration = Duration::from_millis(100);
const READS_MAX: u32 = 8;

/// Compares a clock with the time that has really passed. Belongs to one store, which looks before each write.
#[derive(Debug, Clone, Default)]
pub struct Steps {
    seen: Option<Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    /// What the clock said more than had passed, when it was last taken to be right.
    ahead: i64,
    /// How much had passed at the last look.
    passed: Duration,
}

/// The clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What the clock would say now if it had not been set.
    pub unset: Timestamp,
    /// What it says now.
    pub now: Timestamp,
    /// How long before this look the clock was still as it had been.
    pub within: Duration,
}

impl Steps {
    /// Whether the next look would tell of a step.
    pub fn has_news(&self, clock: &dyn Clock) -> bool {
        self.clone().look(clock).1.is_some()
    }

    /// Reads the clock, and tells if it was set since the last look. Small changes add up until they count.
    pub fn look(&mut self, clock: &dyn Clock) -> (Timestamp, Option<Step>) {
        let (now, passed) = read(clock);
        let Some(passed) = passed else { return (now, None) };
        let ahead = now.as_micros().saturating_sub(super::micros(passed));
        let Some(seen) = self.seen.replace(Seen { ahead, passed }) else { return (now, None) };
        let by = ahead.saturating_sub(seen.ahead);
        if by.saturating_abs() < STEP_MIN_MICROS {
            self.seen = Some(Seen { ahead: seen.ahead, passed });
            return (now, None);
        }
        let unset = Timestamp::from_micros(now.as_micros().saturating_sub(by));
        (now, Some(Step { unset, now, within: passed.saturating_sub(seen.passed) }))
    }
}

/// Reads both times at one moment. A thread that was held up between the two would see a step that was none; where
/// that happens again and again, only the instant is told.
fn read(clock: &dyn Clock) -> (Timestamp, Option<Duration>) {
    for _ in 0..READS_MAX {
        let (before, now, after) = (clock.passed(), clock.now(), clock.passed());
        let is_one_moment =
            before.zip(after).is_none_or(|(before, after)| after.saturating_sub(before) < MOMENT);
        if is_one_moment {
            return (now, after);
        }
    }
    (clock.now(), None)
}

impl Step {
    /// When a lease runs out now that would have run out at `expires_at`. One that lived gets one more term from
    /// now, whichever way the clock was set; one that had run out stays so.
    pub fn renewed(&self, expires_at: Timestamp, ttl: Duration) -> Timestamp {
        if expires_at > self.unset { self.now.plus(ttl) } else { expires_at.min(self.now) }
    }

    /// By how many microseconds the clock was set, forward or, with a negative number, back.
    pub fn micros(&self) -> i64 {
        self.now.as_micros().saturating_sub(self.unset.as_micros())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ManualClock;
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn time_that_passes_is_not_a_step() {
        let (clock, mut steps) = (ManualClock::default(), Steps::default());
        for _ in 0..3 {
            assert_eq!(steps.look(&clock), (clock.now(), None));
            clock.advance(HOUR);
        }
    }

    #[test]
    fn a_step_is_told_once_and_either_way() {
        let (clock, mut steps) = (ManualClock::default(), Steps::default());
        steps.look(&clock);
        for hours in [2, -2] {
            clock.advance(Duration::from_secs(5));
            let before = clock.now();
            clock.set(Timestamp::from_micros(before.as_micros() + hours * 3_600_000_000));
            assert!(steps.has_news(&clock) && steps.has_news(&clock), "asking changes nothing");
            let (now, step) = steps.look(&clock);
            let step = step.expect("the clock was set");
            assert_eq!((step.unset, step.now, step.within), (before, now, Duration::from_secs(5)));
            assert_eq!(step.micros(), hours * 3_600_000_000);
            assert_eq!(steps.look(&clock).1, None);
        }
    }

    #[test]
    fn small_corrections_add_up() {
        let (clock, mut steps) = (ManualClock::default(), Steps::default());
        let told = |steps: &mut Steps| steps.look(&clock).1.map(|step| step.micros());
        told(&mut steps);
        let found: Vec<_> = (0..4)
            .map(|_| {
                clock.set(clock.now().plus(Duration::from_millis(400)));
                told(&mut steps)
            })
            .collect();
        assert_eq!(found, [None, None, Some(1_200_000), None]);
    }

    #[test]
    fn what_lived_gets_a_term_and_what_was_lost_stays_lost() {
        let (noon, ttl) = (Timestamp::from_micros(1_893_456_000_000_000), Duration::from_secs(30));
        for now in [noon.plus(HOUR), noon.minus(HOUR)] {
            let step = Step { unset: noon, now, within: ttl };
            assert_eq!(step.renewed(noon.plus(Duration::from_micros(1)), ttl), now.plus(ttl));
            assert!(step.renewed(noon, ttl) <= now);
        }
    }
}
