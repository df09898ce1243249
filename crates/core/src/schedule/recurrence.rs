//! A schedule that has been checked, and its slots.

use std::time::Duration;

use super::cron::Cron;
use super::except::Except;
use super::invalid::ScheduleInvalid;
use super::slots::CronSlots;
use super::zone::Zone;
use super::{CatchUp, Schedule, When};
use crate::clock::Timestamp;

/// A second, in the unit of instants.
const SECOND: i64 = 1_000_000;
/// The shortest distance of slots, in microseconds.
const PERIOD_MIN: u64 = 1_000_000;
/// The most instants that a schedule lists.
const TIMES_MAX: usize = 1_000;
/// The most slots that are made up.
const ALL_MAX: u32 = 10_000;
/// The longest window of a spread.
const SPREAD_MAX: Duration = Duration::from_secs(366 * 86_400);
/// Days in a row that exceptions may leave out before a search ends.
const REST_DAYS_MAX: usize = 10_000;

/// A schedule that has been checked: it can be asked for slots.
#[derive(Debug, Clone)]
pub struct Recurrence {
    pub(super) schedule: Schedule,
    slots: Slots,
    zone: Zone,
    except: Except,
}

#[derive(Debug, Clone)]
enum Slots {
    Cron(Box<CronSlots>),
    Every { period: i64, offset: i64 },
    At(Vec<Timestamp>),
}

impl Recurrence {
    pub(super) fn new(schedule: &Schedule, days: &[String]) -> Result<Self, ScheduleInvalid> {
        let zone = Zone::get(schedule.tz.as_deref().unwrap_or("UTC"))?;
        let slots = match &schedule.when {
            When::Cron(text) => {
                let (cron, zone) = (Cron::parse(text)?, zone.clone());
                Slots::Cron(Box::new(CronSlots { cron, zone, gap: schedule.gap, fold: schedule.fold }))
            }
            When::Every { period, .. } if *period < PERIOD_MIN => {
                let why = format!("{period} µs is too short: use a second or more");
                return Err(ScheduleInvalid::field("every", why));
            }
            When::Every { period, offset } => {
                let period = i64::try_from(*period).unwrap_or(i64::MAX);
                let offset = i64::try_from(*offset).unwrap_or(i64::MAX) % period;
                Slots::Every { period, offset }
            }
            When::At(times) if times.is_empty() || times.len() > TIMES_MAX => {
                let why = format!("{} instants: give 1 to {TIMES_MAX}", times.len());
                return Err(ScheduleInvalid::field("at", why));
            }
            When::At(times) => Slots::At(times.clone()),
        };
        check_bounds(schedule)?;
        let except = Except::parse(schedule.except.iter().chain(days))?;
        Ok(Self { schedule: schedule.clone(), slots, zone, except })
    }

    /// The schedule that it was made of.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The first slot after an instant, within the bounds; nothing if there is none.
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        self.next_at(Timestamp::from_micros(instant.as_micros().checked_add(1)?))
    }

    /// The first slot at or after an instant, within the bounds; nothing if there is none.
    pub fn next_at(&self, instant: Timestamp) -> Option<Timestamp> {
        let from = self.schedule.from.map_or(instant, |from| from.max(instant));
        let mut slot = self.unbounded_at(from)?;
        if !self.except.is_empty() {
            slot = self.after_exceptions(slot)?;
        }
        (self.schedule.until.is_none_or(|until| slot <= until)).then_some(slot)
    }

    fn after_exceptions(&self, mut slot: Timestamp) -> Option<Timestamp> {
        for _ in 0..REST_DAYS_MAX {
            let date = self.zone.date(slot.as_micros().div_euclid(SECOND))?;
            if !self.except.has(date) {
                return Some(slot);
            }
            let rest_of_day = self.zone.end_of(date)?.checked_add(1)?.checked_mul(SECOND)?;
            slot = self.unbounded_at(Timestamp::from_micros(rest_of_day))?;
        }
        None
    }

    fn unbounded_at(&self, instant: Timestamp) -> Option<Timestamp> {
        let at = instant.as_micros();
        match &self.slots {
            Slots::Cron(cron) => {
                // Slots are whole seconds.
                let second = at.div_euclid(SECOND) + i64::from(at.rem_euclid(SECOND) > 0);
                let slot = cron.next(second)?.checked_mul(SECOND)?;
                Some(Timestamp::from_micros(slot))
            }
            Slots::Every { period, offset } => {
                let past = at.checked_sub(*offset)?.rem_euclid(*period);
                let wait = if past == 0 { 0 } else { period - past };
                Some(Timestamp::from_micros(at.checked_add(wait)?))
            }
            Slots::At(times) => times.get(times.partition_point(|time| *time < instant)).copied(),
        }
    }

    /// What the zone adds to UTC at an instant, in seconds.
    pub(super) fn utc_offset(&self, instant: Timestamp) -> i64 {
        self.zone.offset(instant.as_micros().div_euclid(SECOND))
    }

    /// An instant as a person in the schedule's zone writes it.
    pub fn civil(&self, instant: Timestamp) -> String {
        self.zone.text(instant.as_micros().div_euclid(SECOND))
    }
}

fn check_bounds(schedule: &Schedule) -> Result<(), ScheduleInvalid> {
    let Schedule { from, until, count, catch_up, spread, .. } = schedule;
    match (from, until) {
        (Some(from), Some(until)) if from > until => {
            let why = format!("{until} is before its beginning, {from}");
            return Err(ScheduleInvalid::field("until", why));
        }
        _ => {}
    }
    if *count == Some(0) {
        return Err(ScheduleInvalid::field("count", "0 jobs: leave it out, or pause the schedule"));
    }
    if let Some(window) = spread.filter(|window| *window > SPREAD_MAX) {
        let why = format!("{} days: a window has at most 366", window.as_secs() / 86_400);
        return Err(ScheduleInvalid::field("spread", why));
    }
    match catch_up {
        CatchUp::All(0) => {
            Err(ScheduleInvalid::field("catch_up", "all of 0 slots: say skip, or how many at most"))
        }
        CatchUp::All(most) if *most > ALL_MAX => {
            let why = format!("all of {most} slots: at most {ALL_MAX} are made up");
            Err(ScheduleInvalid::field("catch_up", why))
        }
        _ => schedule.calendars.iter().try_for_each(|name| super::check_calendar(name)),
    }
}
