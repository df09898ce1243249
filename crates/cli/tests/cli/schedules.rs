//! `schedules list`, `show`, `set`, `preview`, `simulate`, `pause`, `resume`, `run` and `delete`.

use serde_json::{Value, json};

use crate::hostile::{HOSTILE, assert_harmless};
use crate::shell::Shell;

const NIGHTLY: [&str; 8] =
    ["schedules", "set", "nightly", "report.build", "--cron", "0 3 * * *", "--tz", "Europe/Madrid"];

#[test]
fn schedules_are_set_shown_changed_and_deleted() {
    let shell = Shell::new();
    shell.run(NIGHTLY).ok().prints("created nightly, starts 2");
    shell.run(NIGHTLY).ok().prints("unchanged nightly");
    let changed = shell.run(NIGHTLY.iter().chain(&["--overlap", "skip", "--json"])).ok().json();
    assert_eq!((&changed["set"], &changed["definition"]["overlap"]), (&json!("changed"), &json!("skip")));

    let page = shell.run(["schedules", "list", "--json"]).ok().json();
    assert_eq!(page["schedules"][0]["id"], "nightly");
    assert_eq!((&page["schedules"][0]["when"], &page["next"]), (&json!("0 3 * * *"), &Value::Null));
    shell.run(["schedules", "list"]).ok().prints("report.build");
    shell.run(["schedules", "show", "nightly"]).ok().prints("0 3 * * * in Europe/Madrid");
    shell.run(["schedules", "show", "weekly"]).exits(4).complains("there is no schedule weekly");

    let job = shell.run(["schedules", "run", "nightly", "--json"]).ok().json();
    let shown = shell.run(["jobs", "show", job["job"].as_str().unwrap(), "--json"]).ok().json();
    assert_eq!(shown["meta"]["windlass.schedule"], "nightly");

    let paused = shell.run(["schedules", "pause", "nightly", "--json"]).ok().json();
    assert_eq!((&paused["paused"], &paused["tick"]), (&json!(true), &Value::Null));
    shell.run(["schedules", "resume", "nightly"]).ok().prints("resumed nightly, starts");
    let jobs = shell.run(["jobs", "list", "--json"]).ok().json();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "ticks are hidden");
    let ticks = shell.run(["jobs", "list", "--kind", "windlass.tick", "--json"]).ok().json();
    assert_eq!(ticks["jobs"].as_array().unwrap().len(), 1);

    shell.run(["schedules", "delete", "nightly"]).ok().prints("deleted nightly");
    shell.run(["schedules", "delete", "nightly"]).exits(4);
    shell.run(["schedules", "pause", "nightly"]).exits(4);
}

#[test]
fn what_makes_no_sense_names_its_field_and_touches_nothing() {
    let shell = Shell::new();
    let set = |args: &[&str]| shell.run(["schedules", "set", "s", "k"].iter().chain(args));
    set(&["--cron", "0 25 * * *"]).exits(2).complains("field 2 (hour) is \"25\"");
    set(&["--cron", "0 0 30 2 *"]).exits(2).complains("no year has such a date");
    set(&["--cron", "@daily", "--tz", "Mars/Base"]).exits(2).complains("`tz`");
    set(&["--cron", "@daily", "--except", "someday"]).exits(2).complains("`except`");
    set(&["--every", "10ms"]).exits(2).complains("`every`");
    set(&["--at", "2001-01-01T00:00:00Z"]).exits(2).complains("no slot after");
    set(&["--cron", "@daily", "--every", "1h"]).exits(2);
    set(&["--cron", "@daily", "--catch-up", "some"]).exits(2).complains("skip, once or all:N");
    set(&[]).exits(2).complains("--cron, --every or --at");
    shell.run(["schedules", "preview"]).exits(2).complains("which schedule");
}

#[test]
fn slots_are_shown_without_a_store() {
    let shell = Shell::new();
    let cron = ["--cron", "30 2 * * *", "--tz", "Europe/Madrid"];
    let args = ["schedules", "preview", "--after", "2026-03-28T12:00:00Z", "-n", "2", "--json"];
    let slots = shell.run(args.iter().chain(&cron)).ok().json();
    assert_eq!(slots["slots"][0]["local"], "2026-03-29 03:00:00+02:00");
    assert_eq!(slots["slots"][1]["local"], "2026-03-30 02:30:00+02:00");

    let args = ["schedules", "simulate", "--every", "1h", "--overlap", "skip", "--takes", "90m", "--json"];
    let when = ["--begin", "2026-01-01T00:00:00Z", "--for", "4h"];
    let slots = shell.run(args.iter().chain(&when)).ok().json();
    let outcomes: Vec<_> = slots["slots"].as_array().unwrap().iter().map(|slot| &slot["outcome"]).collect();
    assert_eq!(outcomes, ["starts", "skipped", "starts", "skipped"]);
    let args = ["schedules", "simulate", "--cron", "0 * * * *", "--tz", "Europe/Madrid"];
    let when = ["--begin", "2026-10-25T00:00:00Z", "--for", "3h"];
    shell.run(args.iter().chain(&when)).ok().prints("1h back");
}

#[test]
fn names_of_schedules_and_calendars_cannot_command_the_terminal() {
    let shell = Shell::new();
    let name = HOSTILE.replace(char::is_control, "");
    shell.run(["schedules", "set", HOSTILE, "k", "--every", "1h"]).exits(2).complains("control characters");
    shell.run(["calendars", "set", &name, "12-25"]).ok();
    shell.run(["schedules", "set", &name, "k", "--cron", "@daily", "--calendar", &name]).ok();
    let unknown = format!("{name} too");
    for args in [
        vec!["schedules", "list"],
        vec!["schedules", "show", &name],
        vec!["schedules", "show", HOSTILE],
        vec!["schedules", "preview", &name],
        vec!["schedules", "simulate", &name],
        vec!["schedules", "pause", &name],
        vec!["schedules", "resume", &name],
        vec!["schedules", "run", &name],
        vec!["schedules", "delete", &unknown],
        vec!["schedules", "preview", "--cron", HOSTILE],
        vec!["schedules", "preview", "--cron", "@daily", "--tz", HOSTILE],
        vec!["schedules", "preview", "--cron", "@daily", "--except", HOSTILE],
        vec!["schedules", "preview", "--cron", "@daily", "--calendar", &unknown],
        vec!["calendars", "list"],
        vec!["calendars", "show", &name],
        vec!["calendars", "show", &unknown],
        vec!["calendars", "set", &name, HOSTILE],
        vec!["calendars", "delete", &name],
        vec!["schedules", "delete", &name],
        vec!["calendars", "delete", &name],
    ] {
        for ran in [shell.run(args.clone()), shell.run(args.iter().chain(&["--json"]))] {
            assert_harmless(&ran.stdout);
            assert_harmless(&ran.stderr);
        }
    }
}
