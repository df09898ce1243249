//! `doctor`, on SQLite: what it finds, what it tells to do, and how it ends.

use serde_json::Value;

use crate::hostile::{HOSTILE, assert_harmless};
use crate::shell::Shell;

/// What is not well, as `level subject: what`.
fn troubles(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let bad = findings.iter().filter(|finding| finding["level"] != "ok");
    bad.map(|finding| {
        assert!(finding["remedy"].is_string(), "{finding}");
        format!("{} {}: {}", text(finding, "level"), text(finding, "subject"), text(finding, "what"))
    })
    .collect()
}

#[test]
fn a_store_that_is_well_says_so() {
    let shell = Shell::new();
    shell.run(["doctor"]).exits(3).complains("no store");
    shell.run(["queues", "define", "mail"]).ok();
    let report = shell.run(["doctor", "--strict", "--deep", "--json"]).ok().json();
    assert_eq!((troubles(&report), &report["problems"]), (Vec::new(), &Value::from(0)), "{report}");
    let text =
        shell.run(["doctor", "--deep"]).ok().prints("survives a power cut").prints("0 problems, 0 warnings");
    text.prints("queue mail").prints("holds no jobs");
}

#[test]
fn what_keeps_jobs_from_starting_is_a_problem() {
    let shell = Shell::new();
    shell.enqueue(&["k"]);
    shell.enqueue(&["other"]);
    let report = shell.run(["doctor", "--json"]).exits(2).json();
    let expected = "problem queue default: 2 jobs could start, and no living worker serves it";
    assert_eq!(troubles(&report), [expected]);
    shell.run(["queues", "pause", "default", "--why", "ill"]).ok();
    let report = shell.run(["doctor", "--json"]).ok().json();
    assert!(
        troubles(&report)[0].contains("paused")
            && troubles(&report)[0].contains("(ill), until it is resumed")
    );
    shell.run(["doctor", "--strict"]).exits(1).prints("windlass queues resume default");
    shell.run(["queues", "resume", "default"]).ok();
    shell.attempt("k", None);
    let report = shell.run(["doctor", "--json"]).ok().json();
    assert_eq!(troubles(&report), Vec::<String>::new(), "a lease that names no kinds may run any");
}

#[test]
fn lost_jobs_unreadable_rows_and_wrong_counts_are_found() {
    let shell = Shell::new();
    shell.enqueue(&["k"]);
    shell.stall("k");
    let report = shell.run(["doctor", "--json"]).ok().json();
    assert_eq!(
        troubles(&report),
        ["warning queue default: 1 jobs were lost with a worker and go on, 0 died of it"]
    );
    shell.run(["queues", "define", "mail"]).ok();
    shell.enqueue(&["k", "--queue", "broken"]);
    shell.enqueue(&["k", "--queue", "miscounted", "--delay", "1h"]);
    let file = rusqlite::Connection::open(shell.path("windlass.db")).unwrap();
    for change in [
        "UPDATE windlass_queues SET config = 'nonsense' WHERE name = 'mail'",
        "UPDATE windlass_jobs SET spec = 'nonsense' WHERE queue = 'broken'",
        "UPDATE windlass_queues SET dead = 7 WHERE name = 'miscounted'",
    ] {
        assert_eq!(file.execute(change, []).unwrap(), 1, "{change}");
    }
    let found = troubles(&shell.run(["doctor", "--json"]).exits(2).json());
    for start in [
        "problem queue mail: its definition does not read",
        "problem queue broken: 1 jobs do not read, one of them ",
        "problem queue miscounted: it counts 1 scheduled, 7 dead, and has 1 scheduled",
    ] {
        assert!(found.iter().any(|found| found.starts_with(start)), "{start}: {found:?}");
    }
}

#[test]
fn what_is_quoted_cannot_command_the_terminal() {
    let shell = Shell::new();
    shell.enqueue(&["k"]);
    shell.run(["queues", "pause", "default", "--why", HOSTILE]).ok();
    let text = shell.run(["doctor"]).ok().prints("\\u{1b}[31m");
    assert_harmless(&text.stdout);
    assert_harmless(&shell.run(["doctor", "--json"]).ok().stdout);
}
