//! Slots against a slow oracle, and the steps of schedules by tables of cases.

mod oracle;
mod steps;

use std::time::Duration;

use super::*;

fn at(text: &str) -> Timestamp {
    humantime::parse_rfc3339_weak(text).expect("a time of a test").into()
}

/// The next slots of a schedule after an instant.
fn slots(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let recurrence = schedule.recurrence().expect("a schedule of a test");
    let mut slot = at(after);
    let mut found = Vec::new();
    while found.len() < count {
        let Some(next) = recurrence.next_after(slot) else { break };
        assert!(next > slot);
        slot = next;
        found.push(recurrence.civil(slot));
    }
    found
}

#[test]
fn every_part_of_the_grammar_has_its_slots() {
    let cases = [
        ("0 3 * * *", "2026-01-01T03:00:00Z", "2026-01-02 03:00:00+00:00"),
        ("*/10 * * * * *", "2026-01-01T00:00:05Z", "2026-01-01 00:00:10+00:00"),
        ("0 9 * * MON-FRI", "2026-11-20T12:00:00Z", "2026-11-23 09:00:00+00:00"),
        ("0 0 L * *", "2026-02-01T00:00:00Z", "2026-02-28 00:00:00+00:00"),
        ("0 12 29 2 *", "2026-03-01T00:00:00Z", "2028-02-29 12:00:00+00:00"),
        ("30 6 1,15 JAN-MAR *", "2026-03-15T06:30:00Z", "2027-01-01 06:30:00+00:00"),
        ("5-59/20 22 * * *", "2026-01-01T22:05:00Z", "2026-01-01 22:25:00+00:00"),
        ("@daily", "2026-01-01T00:00:00Z", "2026-01-02 00:00:00+00:00"),
        ("@Hourly", "2026-01-01T00:00:00.5Z", "2026-01-01 01:00:00+00:00"),
        ("0 0 * * 7", "2026-11-18T00:00:00Z", "2026-11-22 00:00:00+00:00"),
        ("0 0 * * FRI#L", "2026-11-18T00:00:00Z", "2026-11-27 00:00:00+00:00"),
    ];
    for (text, after, slot) in cases {
        assert_eq!(slots(&Schedule::cron(text), after, 1), [slot], "{text}");
    }
}

#[test]
fn a_bad_text_is_refused_and_its_field_is_named() {
    let cases = [
        ("0 25 * * *", "field 2 (hour) is \"25\""),
        ("60 * * * *", "field 1 (minute)"),
        ("61 0 * * * *", "field 1 (second)"),
        ("0 0 32 * *", "field 3 (day of month)"),
        ("0 0 * 13 *", "field 4 (month)"),
        ("0 0 * * BOB", "field 5 (day of week)"),
        ("*/0 * * * *", "a step of 0"),
        ("1,,2 * * * *", "field 1 (minute)"),
        ("0 0 30 2 *", "no year has such a date"),
        ("0 0 31 4,6,9,11 *", "no year has such a date"),
        ("0 0 *", "it has 3 fields"),
        ("0 0 0 1 1 * 2026", "it has 7 fields"),
        ("@reboot", "no such alias"),
        ("", "it has 0 fields"),
        ("\u{0} * * * *", "field 1 (minute)"),
        ("9999999999999999999999-1 * * * *", "field 1 (minute)"),
    ];
    for (text, wanted) in cases {
        let error = Schedule::cron(text).recurrence().unwrap_err().to_string();
        assert!(error.contains(wanted), "{text:?}: {error}");
    }
    assert!(Schedule::cron("* ".repeat(1_000)).recurrence().unwrap_err().to_string().len() < 200);
}

#[test]
fn other_settings_are_refused_by_name() {
    let daily = || Schedule::cron("@daily");
    let cases = [
        (daily().tz("Europe/Atlantis"), "`tz`"),
        (daily().tz("../../etc/passwd\0"), "`tz`"),
        (daily().except(["2026-02-30"]), "`except`"),
        (daily().except(["02-30"]), "`except`"),
        (daily().except(["2026-02-03..2026-02-01"]), "`except`"),
        (daily().except(["mon", "tue", "wed", "thu", "fri", "sat", "sun"]), "`except`"),
        (daily().from(at("2027-01-01T00:00:00Z")).until(at("2026-01-01T00:00:00Z")), "`until`"),
        (daily().count(0), "`count`"),
        (daily().spread(Duration::from_secs(367 * 86_400)), "`spread`"),
        (daily().catch_up(CatchUp::All(0)), "`catch_up`"),
        (Schedule::every(Duration::from_millis(10)), "`every`"),
        (Schedule::at(Vec::<std::time::SystemTime>::new()), "`at`"),
    ];
    for (schedule, wanted) in cases {
        let error = schedule.recurrence().unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn intervals_stand_on_a_grid() {
    let every = |secs| Schedule::every(Duration::from_secs(secs));
    assert_eq!(slots(&every(900), "2026-01-01T00:07:00Z", 1), ["2026-01-01 00:15:00+00:00"]);
    let shifted = every(3_600).offset(Duration::from_secs(300));
    let two = ["2026-01-01 00:05:00+00:00", "2026-01-01 01:05:00+00:00"];
    assert_eq!(slots(&shifted, "2026-01-01T00:00:00Z", 2), two);
}

#[test]
fn bounds_and_exceptions_leave_slots_out() {
    let times = ["2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"].map(at);
    assert_eq!(slots(&Schedule::at(times), "2025-01-01T00:00:00Z", 9).len(), 2);
    let bounded = Schedule::cron("@daily").from(times[0]).until(at("2026-01-04T00:00:00Z"));
    assert_eq!(slots(&bounded, "2025-01-01T00:00:00Z", 9).len(), 3);
    let rests = ["sat", "sun", "12-25", "2026-12-28..2026-12-31"];
    let workdays = Schedule::cron("0 9 * * *").tz("Europe/Madrid").except(rests);
    let found = slots(&workdays, "2026-12-23T12:00:00Z", 3);
    assert_eq!(
        found,
        ["2026-12-24 09:00:00+01:00", "2027-01-01 09:00:00+01:00", "2027-01-04 09:00:00+01:00"]
    );
    // Every second but those of two days: a search leaves days out as a whole.
    let seconds = Schedule::cron("* * * * * *").tz("Africa/Cairo").except(["2026-04-24", "2026-04-25"]);
    assert_eq!(slots(&seconds, "2026-04-23T21:59:59Z", 1), ["2026-04-26 00:00:00+03:00"]);
    let never = Schedule::cron("0 9 * * 6").except(["sat"]);
    assert_eq!(slots(&never, "2026-01-01T00:00:00Z", 1), Vec::<String>::new());
}

#[test]
fn policies_for_clock_changes_can_be_chosen() {
    let nightly = Schedule::cron("30 2 * * *").tz("Europe/Madrid");
    let spring = |gap| slots(&nightly.clone().gap(gap), "2026-03-28T12:00:00Z", 2);
    assert_eq!(spring(Gap::Shift), ["2026-03-29 03:00:00+02:00", "2026-03-30 02:30:00+02:00"]);
    assert_eq!(spring(Gap::Skip), ["2026-03-30 02:30:00+02:00", "2026-03-31 02:30:00+02:00"]);
    let autumn = |fold| slots(&nightly.clone().fold(fold), "2026-10-24T12:00:00Z", 2);
    assert_eq!(autumn(Fold::First), ["2026-10-25 02:30:00+02:00", "2026-10-26 02:30:00+01:00"]);
    assert_eq!(autumn(Fold::Last), ["2026-10-25 02:30:00+01:00", "2026-10-26 02:30:00+01:00"]);
    assert_eq!(autumn(Fold::Both), ["2026-10-25 02:30:00+02:00", "2026-10-25 02:30:00+01:00"]);
    let hourly = Schedule::cron("0 * * * *").tz("Europe/Madrid");
    assert_eq!(
        slots(&hourly, "2026-10-25T00:00:00Z", 3),
        ["2026-10-25 02:00:00+01:00", "2026-10-25 03:00:00+01:00", "2026-10-25 04:00:00+01:00"],
        "every real hour"
    );
}

#[test]
fn what_is_stored_is_read_again() {
    let schedule = Schedule::cron("0 3 * * *")
        .tz("Europe/Madrid")
        .except(["12-25"])
        .catch_up(CatchUp::All(3))
        .max_late(Duration::from_secs(60))
        .overlap(Overlap::WaitOne)
        .spread(Duration::from_secs(10));
    let job = crate::NewJob::new("k", vec![0xff, 0x00], crate::Options::new().tag("t")).unwrap();
    let mut record = ScheduleRecord::new(schedule, Template::of(&job).unwrap(), Some("shop".into()));
    record.state.waiting.push(Run { slot: at("2026-01-01T00:00:00Z"), is_made_up: true });
    let read = ScheduleRecord::read(&record.text()).unwrap();
    assert_eq!(read, record);
    assert_eq!(read.job.payload(), [0xff, 0x00]);
    let plain = Schedule::cron("@daily");
    assert_eq!(serde_json::to_string(&plain).unwrap(), r#"{"when":{"cron":"@daily"}}"#);
    let newer = String::from_utf8(record.text()).unwrap().replacen("\"v\":1", "\"v\":3", 1);
    assert!(ScheduleRecord::read(newer.as_bytes()).unwrap_err().to_string().contains("newer"));
}

#[test]
fn a_record_with_calendars_is_of_a_form_that_earlier_programs_leave_alone() {
    let job = crate::NewJob::new("k", "1", crate::Options::new()).unwrap();
    let noon = Schedule::cron("0 12 * * *").tz("Pacific/Auckland").calendar("rest");
    let mut record = ScheduleRecord::new(noon, Template::of(&job).unwrap(), None);
    record.days = Calendar::new(["2026-10-02", "sat"]).unwrap().days;
    assert_eq!(ScheduleRecord::read(&record.text()).unwrap(), record);
    assert!(String::from_utf8(record.text()).unwrap().contains("\"v\":2"));
    let next = record.recurrence().unwrap().next_after(at("2026-10-01T00:00:00Z")).unwrap();
    assert_eq!(next, at("2026-10-03T23:00:00Z"), "days count in its zone: Friday and Saturday are left out");
    record.schedule.calendars.clear();
    assert!(String::from_utf8(record.text()).unwrap().contains("\"v\":1"));
}

#[test]
fn a_record_leaves_room_for_slots_that_wait() {
    let record = |size: usize| {
        let job = crate::NewJob::new("k", "x".repeat(size), crate::Options::new()).unwrap();
        ScheduleRecord::new(Schedule::cron("@daily"), Template::of(&job).unwrap(), None)
    };
    assert!(record(1_000).check_size().is_ok());
    let error = record(200 << 10).check_size().unwrap_err().to_string();
    assert!(error.contains("`job`") && error.contains("at most"), "{error}");
    let mut full = record(0);
    let longest = Run { slot: at("2999-01-01T00:00:00.123456Z"), is_made_up: true };
    full.state.waiting = vec![longest; WAITING_MAX];
    assert!(full.text().len() < 64 << 10, "{}", full.text().len());
}

#[test]
fn a_job_of_a_slot_is_always_the_same() {
    let job = crate::NewJob::new("k", "1", crate::Options::new().queue("q").meta("a", "b")).unwrap();
    let record = || ScheduleRecord::new(Schedule::cron("@daily"), Template::of(&job).unwrap(), None);
    let (first, second) = (record(), record());
    let run = Run { slot: at("2026-01-01T03:00:00Z"), is_made_up: false };
    let made = |record: &ScheduleRecord| record.job_of(&job.queue, "nightly", run).unwrap();
    assert_eq!(made(&first), made(&first));
    assert_ne!(made(&first).id, made(&second).id, "a schedule that was deleted and made anew");
    assert_eq!(nominal_of(&made(&first).spec), Some(run.slot));
    assert_eq!((made(&first).spec.meta["a"].as_str(), made(&first).queue.as_str()), ("b", "q"));
    let late = crate::NewJob::new("k", "1", crate::Options::new().delay(Duration::from_secs(1))).unwrap();
    assert!(Template::of(&late).is_err());
}

#[test]
fn a_hundred_thousand_keys_fill_an_hour_evenly() {
    let hour = Duration::from_secs(3_600);
    for spread in [Spread::by_key(hour), Spread::evenly(hour)] {
        let mut minutes = [0_u32; 60];
        for index in 0..100_000 {
            let delay = spread.delay(index, 100_000, format!("user-{index}").as_bytes());
            minutes[usize::try_from(delay.as_secs() / 60).unwrap()] += 1;
        }
        let fullest = minutes.iter().max().copied().unwrap();
        assert!(f64::from(fullest) <= 1.1 * 100_000.0 / 60.0, "{fullest} of 100,000 in one minute");
    }
}
