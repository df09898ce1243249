//! All clock changes of six zones from 2020 to 2040, minute by minute, against what the slots say.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::super::*;
use super::at;

/// Northern and southern, by an hour and by half of one, at midnight, and four times a year.
const ZONES: [&str; 6] = [
    "Europe/Madrid",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Santiago",
];

/// A pattern as the oracle knows it: minutes and hours that match, and whether it follows real time.
struct Case {
    text: &'static str,
    minutes: fn(i8) -> bool,
    hours: fn(i8) -> bool,
    is_cadence: bool,
}

const CASES: [Case; 8] = [
    Case { text: "30 2 * * *", minutes: |m| m == 30, hours: |h| h == 2, is_cadence: false },
    Case { text: "0 0 * * *", minutes: |m| m == 0, hours: |h| h == 0, is_cadence: false },
    Case {
        text: "*/15 1-3 * * *",
        minutes: |m| m % 15 == 0,
        hours: |h| (1..=3).contains(&h),
        is_cadence: false,
    },
    Case { text: "45 1,23 * * *", minutes: |m| m == 45, hours: |h| h == 1 || h == 23, is_cadence: false },
    Case { text: "0 3 * * *", minutes: |m| m == 0, hours: |h| h == 3, is_cadence: false },
    Case { text: "0 * * * *", minutes: |m| m == 0, hours: |_| true, is_cadence: true },
    Case { text: "*/20 * * * *", minutes: |m| m % 20 == 0, hours: |_| true, is_cadence: true },
    Case { text: "10 */2 * * *", minutes: |m| m == 10, hours: |h| h % 2 == 0, is_cadence: true },
];

const MINUTE: i64 = 60;
const AROUND: i64 = 20 * 60 * MINUTE;
/// How far a wall clock may be from UTC, and more.
const SLACK: i64 = 15 * 60 * MINUTE;

fn instant(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap()
}

impl Case {
    fn matches(&self, (hour, minute): (i64, i64)) -> bool {
        (self.minutes)(minute.try_into().unwrap()) && (self.hours)(hour.try_into().unwrap())
    }

    /// Every slot in a span of time, found without any cleverness. `shown` is what a wall clock shows in each minute of it.
    fn slots(&self, zone: &TimeZone, shown: &[Shown], gap: Gap, fold: Fold) -> BTreeSet<i64> {
        if self.is_cadence {
            let matching = shown.iter().filter(|shown| self.matches(shown.clock));
            return matching.map(|shown| shown.second).collect();
        }
        // Every minute that a wall clock could show, whether it does or not.
        let (from, to) = (shown[0].second, shown[shown.len() - 1].second);
        let civil = (from - SLACK..to + SLACK).step_by(60).filter(|&civil| self.matches(clock_of(civil)));
        let mut found: BTreeSet<i64> = civil
            .map(|civil| jiff::tz::Offset::UTC.to_datetime(instant(civil)))
            .flat_map(|civil| seconds_of(zone, civil, gap, fold))
            .collect();
        found.retain(|second| (from..=to).contains(second));
        found
    }
}

/// Hour and minute of a day that this many seconds belong to.
fn clock_of(second: i64) -> (i64, i64) {
    let minute = second.div_euclid(MINUTE).rem_euclid(24 * 60);
    (minute / 60, minute % 60)
}

/// What a wall clock shows at a second: its hour and minute.
struct Shown {
    second: i64,
    clock: (i64, i64),
}

fn shown(zone: &TimeZone, (from, to): (i64, i64)) -> Vec<Shown> {
    let show = |second: i64| {
        let offset = i64::from(zone.to_offset(instant(second)).seconds());
        Shown { second, clock: clock_of(second + offset) }
    };
    (from..to).step_by(60).map(show).collect()
}

/// The instants of a fixed time.
fn seconds_of(zone: &TimeZone, civil: DateTime, gap: Gap, fold: Fold) -> Vec<i64> {
    let second = |offset: jiff::tz::Offset| offset.to_timestamp(civil).unwrap().as_second();
    match zone.to_ambiguous_timestamp(civil).offset() {
        AmbiguousOffset::Unambiguous { offset } => vec![second(offset)],
        AmbiguousOffset::Gap { before, .. } => {
            // The first minute after the gap that a wall clock shows.
            let shown = |at: i64| zone.to_datetime(instant(at)) > civil;
            let start = (second(before) - 3 * 60 * MINUTE).div_euclid(MINUTE) * MINUTE;
            let first = (start..).step_by(60).find(|&at| shown(at)).unwrap();
            if gap == Gap::Shift { vec![first] } else { Vec::new() }
        }
        AmbiguousOffset::Fold { before, after } => match fold {
            Fold::First => vec![second(before)],
            Fold::Last => vec![second(after)],
            Fold::Both => vec![second(before), second(after)],
        },
    }
}

#[test]
fn all_clock_changes_of_six_zones() {
    let (begin, end) = (at("2020-01-01T00:00:00Z"), at("2040-12-31T00:00:00Z"));
    let (begin, end) = (begin.as_micros() / 1_000_000, end.as_micros() / 1_000_000);
    let (mut changes, mut compared) = (0, 0);
    for name in ZONES {
        let zone = TimeZone::get(name).unwrap();
        let policies = [(Gap::Shift, Fold::First), (Gap::Skip, Fold::Last), (Gap::Shift, Fold::Both)];
        let recurrences = CASES.each_ref().map(|case| {
            policies.map(|(gap, fold)| {
                Schedule::cron(case.text).tz(name).gap(gap).fold(fold).recurrence().unwrap()
            })
        });
        let all = zone.following(instant(begin)).map(|change| change.timestamp().as_second());
        for change in all.take_while(|change| *change < end) {
            changes += 1;
            let minute = change.div_euclid(MINUTE) * MINUTE;
            let shown = shown(&zone, (minute - AROUND, minute + AROUND));
            // Each policy has its changes, the default more than others.
            for (case, policies) in CASES.iter().zip(&recurrences) {
                compared += compare(&policies[changes % 4 % 3], case, &zone, &shown);
            }
        }
    }
    assert!(changes > 200, "{changes} clock changes");
    assert!(compared > 10_000, "{compared} slots");
}

fn compare(recurrence: &Recurrence, case: &Case, zone: &TimeZone, shown: &[Shown]) -> usize {
    let schedule = recurrence.schedule();
    let (from, to) = (shown[0].second, shown[shown.len() - 1].second);
    let wanted = case.slots(zone, shown, schedule.gap, schedule.fold);
    let mut found = BTreeSet::new();
    let mut slot = Timestamp::from_micros(from * 1_000_000 - 1);
    while let Some(next) = recurrence.next_after(slot) {
        slot = next;
        if next.as_micros() / 1_000_000 > to {
            break;
        }
        found.insert(next.as_micros() / 1_000_000);
    }
    let text = |seconds: &BTreeSet<i64>| -> Vec<String> {
        seconds.iter().map(|&at| recurrence.civil(Timestamp::from_micros(at * 1_000_000))).collect()
    };
    assert_eq!(text(&found), text(&wanted), "{} in {:?}", case.text, schedule.tz);
    found.len()
}
