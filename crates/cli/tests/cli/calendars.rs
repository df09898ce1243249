//! `calendars list`, `show`, `set` and `delete`, and schedules that name them.

use serde_json::json;

use crate::shell::Shell;

#[test]
fn calendars_are_set_shown_and_deleted_and_move_schedules() {
    let shell = Shell::new();
    shell.run(["calendars", "set", "spain", "12-25", "2027-01-06", "12-25"]).ok().prints("created spain");
    shell.run(["calendars", "set", "spain", "12-25", "2027-01-06"]).ok().prints("unchanged spain");
    let set = [
        "schedules",
        "set",
        "closing",
        "shop.close",
        "--cron",
        "0 20 * * *",
        "--calendar",
        "spain",
        "--json",
    ];
    let set = shell.run(set).ok().json();
    assert_eq!(set["definition"]["calendars"], json!(["spain"]));
    shell.run(["schedules", "show", "closing"]).ok().prints("spain: 2 days");
    let changed = shell.run(["calendars", "set", "spain", "12-25", "--json"]).ok().json();
    assert_eq!((&changed["set"], &changed["moved"]), (&json!("changed"), &json!(1)));
    shell.run(["calendars", "show", "spain"]).ok().prints("12-25");
    let page = shell.run(["calendars", "list", "--json"]).ok().json();
    assert_eq!(page, json!({ "calendars": [{ "name": "spain", "days": ["12-25"] }], "next": null }));
    shell.run(["calendars", "list"]).ok().prints("12-25");
    let after = ["schedules", "preview", "closing", "--after", "2026-12-24T21:00:00Z", "-n", "1", "--json"];
    let slots = shell.run(after).ok().json();
    assert_eq!(slots["slots"][0]["at"], "2026-12-26T20:00:00.000000Z");
    let typed = ["schedules", "preview", "--cron", "@daily", "--calendar", "spain", "-n", "1", "--json"];
    let slots = shell.run(typed.iter().chain(&["--after", "2026-12-24T21:00:00Z"])).ok().json();
    assert_eq!(slots["slots"][0]["at"], "2026-12-26T00:00:00.000000Z");
    shell.run(["calendars", "delete", "spain"]).exits(2).complains("\"closing\"");
    shell.run(["schedules", "delete", "closing"]).ok();
    shell.run(["calendars", "delete", "spain"]).ok().prints("deleted spain");
    shell.run(["calendars", "delete", "spain"]).exits(4).complains("no calendar spain");
    shell.run(["calendars", "show", "spain"]).exits(4);
}

#[test]
fn a_wrong_calendar_is_refused_before_anything_is_stored() {
    let shell = Shell::new();
    shell.run(["calendars", "set", "spain"]).exits(2);
    shell.run(["calendars", "set", "spain", "someday"]).exits(2).complains("\"someday\" is not a day");
    shell.run(["calendars", "set", "a\u{1b}[31m", "12-25"]).exits(2).complains("control characters");
    assert_eq!(std::fs::read_dir(shell.folder()).unwrap().count(), 0);
    let set = ["schedules", "set", "s", "k", "--cron", "@daily", "--calendar", "none"];
    shell.run(set).exits(2).complains("no calendar \"none\"");
}
