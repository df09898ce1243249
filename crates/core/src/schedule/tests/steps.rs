//! Steps of schedules: what is made, missed, skipped, and what waits.

use std::time::Duration;

use super::super::*;
use super::at;

const HOUR: Duration = Duration::from_secs(3_600);

fn hourly() -> Schedule {
    Schedule::every(HOUR)
}

/// A schedule that stands before this slot.
fn state(next: &str) -> ScheduleState {
    ScheduleState { next: Some(at(next)), ..ScheduleState::default() }
}

/// A step of an hourly schedule whose next slot is midnight: hours that have jobs, and when it is looked again.
fn step(schedule: &Schedule, now: &str) -> (Vec<String>, ScheduleState) {
    let mut state = state("2026-01-01T00:00:00Z");
    let step = schedule.recurrence().unwrap().advance(&mut state, at(now), Duration::ZERO, false);
    let hours = step.runs.iter().map(|run| {
        let mark = if run.is_made_up { "late " } else { "" };
        format!("{mark}{}", &run.slot.to_string()[11..16])
    });
    (hours.collect(), state)
}

#[test]
fn nothing_comes_early() {
    let (runs, state) = step(&hourly(), "2025-12-31T23:59:59.999999Z");
    assert!(runs.is_empty());
    assert_eq!(state.next, Some(at("2026-01-01T00:00:00Z")));
    assert_eq!(step(&hourly(), "2026-01-01T00:00:00Z").0, ["00:00"]);
}

#[test]
fn what_is_on_time_comes_whatever_the_policy() {
    for catch_up in [CatchUp::Skip, CatchUp::Once, CatchUp::All(5)] {
        let (runs, state) = step(&hourly().catch_up(catch_up), "2026-01-01T00:01:00Z");
        assert_eq!((runs, state.missed), (vec!["00:00".to_owned()], 0), "{catch_up:?}");
    }
}

#[test]
fn missed_slots_are_made_up_by_policy() {
    let hourly = |catch_up| hourly().catch_up(catch_up);
    let late = "2026-01-01T03:30:00Z";
    let with_one_on_time = "2026-01-01T03:00:30Z";
    for (catch_up, now, wanted, missed) in [
        (CatchUp::Skip, late, vec![], 4),
        (CatchUp::Skip, with_one_on_time, vec!["03:00"], 3),
        (CatchUp::Once, late, vec!["late 03:00"], 3),
        (CatchUp::Once, with_one_on_time, vec!["03:00"], 3),
        (CatchUp::All(2), late, vec!["late 02:00", "late 03:00"], 2),
        (CatchUp::All(9), with_one_on_time, vec!["late 00:00", "late 01:00", "late 02:00", "03:00"], 0),
    ] {
        let (runs, state) = step(&hourly(catch_up), now);
        assert_eq!((runs, state.missed), (wanted.into_iter().map(str::to_owned).collect(), missed));
        assert_eq!(state.next, Some(at("2026-01-01T04:00:00Z")));
    }
    let bounded = hourly(CatchUp::All(9)).max_late(Duration::from_secs(100 * 60));
    assert_eq!(step(&bounded, late).0, ["late 02:00", "late 03:00"]);
}

#[test]
fn a_long_rest_is_looked_through_in_bounded_steps() {
    let seconds = Schedule::cron("* * * * * *").catch_up(CatchUp::All(3));
    let recurrence = seconds.recurrence().unwrap();
    let mut state = state("2016-01-01T00:00:00Z");
    let now = at("2026-01-01T00:00:00Z");
    let mut made = Vec::new();
    loop {
        let step = recurrence.advance(&mut state, now, Duration::ZERO, false);
        assert!(step.runs.len() <= FIRE_MAX);
        made.extend(step.runs);
        if step.again.is_none_or(|again| again > now) {
            break;
        }
    }
    assert_eq!(made.len(), 3 + 61, "three of ten years, and a minute that is on time");
    assert_eq!(made.iter().filter(|run| run.is_made_up).count(), 3);
    assert!(made.is_sorted_by_key(|run| run.slot) && made.windows(2).all(|pair| pair[0].slot < pair[1].slot));
    assert_eq!(state.next, Some(at("2026-01-01T00:00:01Z")));
}

#[test]
fn many_made_up_slots_come_in_steps() {
    let minutes = Schedule::every(Duration::from_secs(60)).catch_up(CatchUp::All(1_000));
    let recurrence = minutes.recurrence().unwrap();
    let (mut state, now) = (state("2026-01-01T00:00:00Z"), at("2026-01-01T05:00:00Z"));
    let mut made = Vec::new();
    while state.next.is_some_and(|next| next <= now) {
        made.extend(recurrence.advance(&mut state, now, Duration::ZERO, false).runs);
    }
    assert_eq!(made.len(), 301, "each minute of five hours once");
    assert!(made.windows(2).all(|pair| pair[0].slot < pair[1].slot));
}

#[test]
fn no_slot_vanishes_where_the_search_is_cut_short() {
    let from = at("2026-01-01T00:00:00Z");
    let cases = [
        (CatchUp::All(1_000), 10_080, 1_000),
        (CatchUp::All(10_000), 10_001, 10_000),
        (CatchUp::All(10_000), 25_000, 10_000),
        (CatchUp::Once, 10_000, 1),
        (CatchUp::Once, 10_001, 1),
        (CatchUp::Skip, 10_000, 0),
    ];
    for (catch_up, missed, wanted) in cases {
        let recurrence = hourly().catch_up(catch_up).recurrence().unwrap();
        let mut state = state("2026-01-01T00:00:00Z");
        // Half an hour after the last of them.
        let now = from.plus(HOUR * missed).minus(HOUR / 2);
        let mut made = Vec::new();
        while state.next.is_some_and(|next| next <= now) {
            made.extend(recurrence.advance(&mut state, now, Duration::ZERO, false).runs);
        }
        assert_eq!(made.len(), wanted, "{catch_up:?} of {missed}");
        let newest = (0..missed).rev().take(wanted).rev().map(|hour| from.plus(HOUR * hour));
        assert!(made.iter().map(|run| run.slot).eq(newest), "{catch_up:?} of {missed}: the newest, in order");
        assert!(state.missed + state.made <= u64::from(missed), "none is counted twice");
        if missed < 10_100 && wanted > 0 {
            assert_eq!(
                state.missed + state.made,
                u64::from(missed),
                "{catch_up:?} of {missed}: each is counted"
            );
        }
    }
}

#[test]
fn a_slot_meets_the_job_before_it() {
    let cases = [
        (Overlap::Allow, 1, 0, 0, false),
        (Overlap::Skip, 0, 0, 1, false),
        (Overlap::WaitOne, 0, 1, 0, false),
        (Overlap::WaitAll, 0, 1, 0, false),
        (Overlap::CancelRunning, 0, 1, 0, true),
    ];
    for (overlap, made, waiting, skipped, cancels) in cases {
        let recurrence = hourly().overlap(overlap).recurrence().unwrap();
        let mut state = state("2026-01-01T00:00:00Z");
        let step = recurrence.advance(&mut state, at("2026-01-01T00:00:01Z"), Duration::ZERO, true);
        let seen = (step.runs.len(), state.waiting.len(), state.skipped, step.cancels);
        assert_eq!(seen, (made, waiting, skipped, cancels), "{overlap:?}");
        // An hour later it still runs.
        recurrence.advance(&mut state, at("2026-01-01T01:00:01Z"), Duration::ZERO, true);
        let waits = state.waiting.iter().map(|run| &run.slot.to_string()[11..13] == "00").collect::<Vec<_>>();
        match overlap {
            Overlap::WaitOne => assert_eq!(waits, [true], "the first one waits"),
            Overlap::WaitAll => assert_eq!(waits, [true, false]),
            Overlap::CancelRunning => assert_eq!(waits, [false], "the newest one waits"),
            Overlap::Allow | Overlap::Skip => assert!(waits.is_empty()),
        }
        // It ends.
        let waiting = state.waiting.len();
        let step = recurrence.advance(&mut state, at("2026-01-01T01:10:00Z"), Duration::ZERO, false);
        assert_eq!(step.runs.len(), waiting.min(1));
        assert_eq!(state.waiting.len(), waiting.saturating_sub(1));
    }
}

#[test]
fn a_count_ends_a_schedule() {
    let recurrence = hourly().count(2).catch_up(CatchUp::All(9)).recurrence().unwrap();
    let mut state = state("2026-01-01T00:00:00Z");
    let step = recurrence.advance(&mut state, at("2026-01-01T09:00:00Z"), Duration::ZERO, false);
    assert_eq!((step.runs.len(), step.again, state.next), (2, None, None));
}

#[test]
fn a_spread_moves_starts_and_keeps_slots() {
    let schedule = hourly().spread(HOUR);
    let (recurrence, offset) = (schedule.recurrence().unwrap(), schedule.start_delay("q", "a"));
    assert!(
        offset < HOUR && offset == schedule.start_delay("q", "a") && offset != schedule.start_delay("q", "b")
    );
    let mut state = state("2026-01-01T00:00:00Z");
    let early = at("2026-01-01T00:00:00Z").plus(offset).minus(Duration::from_micros(1));
    let step = recurrence.advance(&mut state, early, offset, false);
    assert_eq!((step.runs.len(), step.again), (0, Some(at("2026-01-01T00:00:00Z").plus(offset))));
    let step = recurrence.advance(&mut state, at("2026-01-01T00:00:00Z").plus(offset), offset, false);
    assert_eq!(step.runs[0].slot, at("2026-01-01T00:00:00Z"));
}

#[test]
fn a_simulation_shows_what_becomes_of_each_slot() {
    let schedule = hourly().tz("Europe/Madrid").overlap(Overlap::Skip).catch_up(CatchUp::Once);
    let what = Simulation {
        from: at("2026-10-24T22:00:00Z"),
        to: at("2026-10-25T06:00:00Z"),
        takes: Duration::from_secs(90 * 60),
        down: Some((at("2026-10-25T02:30:00Z"), at("2026-10-25T04:30:00Z"))),
        limit: 100,
    };
    let shown = schedule.recurrence().unwrap().simulate(&what, Duration::ZERO);
    let verdicts: Vec<&str> = shown
        .iter()
        .map(|slot| match slot.verdict {
            Verdict::Starts(_) => "starts",
            Verdict::MadeUp(_) => "made up",
            Verdict::Missed => "missed",
            Verdict::Skipped => "skipped",
        })
        .collect();
    assert_eq!(
        verdicts,
        ["starts", "skipped", "starts", "skipped", "starts", "missed", "made up", "skipped"]
    );
    let changes: Vec<i64> = shown.iter().map(|slot| slot.clock_change).collect();
    assert_eq!(changes, [0, 0, 0, -3_600, 0, 0, 0, 0]);
}
