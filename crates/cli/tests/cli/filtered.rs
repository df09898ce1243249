//! `jobs retry`, `cancel` and `delete` by filter, with an expected count.

use serde_json::json;

use crate::shell::Shell;

/// How many jobs the filter finds.
fn found(shell: &Shell, args: &[&str]) -> usize {
    let page = shell.run(["jobs", "list", "--json", "--limit", "1000"].iter().chain(args)).ok().json();
    page["jobs"].as_array().unwrap().len()
}

#[test]
fn without_an_expected_count_nothing_is_changed() {
    let shell = Shell::new();
    shell.run(["enqueue", "k", "--count", "3"]).ok();
    for (change, verb) in [("cancel", "cancel"), ("delete", "delete")] {
        shell
            .run(["jobs", change, "--kind", "k"])
            .ok()
            .prints(&format!("3 jobs would be changed by {verb}\n"))
            .complains(&format!("nothing was changed; to {verb} them, repeat with --expect 3"));
    }
    let retry = shell.run(["jobs", "retry", "--kind", "k", "--json"]).ok();
    assert_eq!(retry.json(), json!({"matched": 0, "changed": 0, "refused": 0}), "ready jobs are not retried");
    assert_eq!(found(&shell, &["--state", "ready"]), 3);
}

#[test]
fn another_number_than_expected_changes_nothing() {
    let shell = Shell::new();
    shell.run(["enqueue", "k", "--count", "3"]).ok();
    shell
        .run(["jobs", "delete", "--kind", "k", "--expect", "2"])
        .exits(1)
        .complains("3 jobs match, 2 were expected: nothing was changed");
    assert_eq!(found(&shell, &[]), 3);
}

#[test]
fn what_matches_is_changed_page_by_page_and_a_repeat_finds_nothing() {
    let shell = Shell::new();
    shell.run(["enqueue", "k", "--count", "250", "--tag", "old"]).ok();
    shell.run(["enqueue", "k", "--count", "5"]).ok();
    shell.run(["enqueue", "k", "--queue", "other", "--tag", "old"]).ok();
    let filter = ["--queue", "default", "--kind", "k", "--tag", "old"];
    let run = |change: &str, args: &[&str]| {
        shell.run(["jobs", change].iter().chain(&filter).chain(args).chain(&["--expect", "250", "--json"]))
    };
    let all = json!({"matched": 250, "changed": 250, "refused": 0});
    assert_eq!(run("cancel", &[]).ok().json(), all);
    assert_eq!((found(&shell, &["--state", "cancelled"]), found(&shell, &["--state", "ready"])), (250, 6));
    run("cancel", &[]).exits(1).complains("0 jobs match, 250 were expected");
    assert_eq!(run("retry", &["--state", "cancelled"]).ok().json(), all);
    assert_eq!(found(&shell, &["--state", "ready"]), 256);
    assert_eq!(run("delete", &[]).ok().json(), all);
    assert_eq!(found(&shell, &[]), 6);
}

#[test]
fn a_running_job_is_asked_once() {
    let shell = Shell::new();
    let running = shell.enqueue(&["k"]);
    shell.enqueue(&["k"]);
    shell.attempt("k", None);
    shell.run(["jobs", "delete", "--kind", "k"]).ok().prints("1 job would be changed by delete\n");
    let cancel = ["jobs", "cancel", "--kind", "k"];
    shell.run(cancel.iter().chain(&["--expect", "2"])).ok().prints("cancelled or asked to stop: 2 jobs\n");
    assert_eq!(shell.show(&running)["cancel_requested"], true);
    shell.run(cancel).ok().prints("0 jobs would be changed by cancel\n");
}

#[test]
fn a_choice_is_ids_or_a_filter_and_a_state_that_fits() {
    let shell = Shell::new();
    let id = shell.enqueue(&["k"]);
    for args in [
        vec!["jobs", "retry"],
        vec!["jobs", "retry", "--expect", "1"],
        vec!["jobs", "retry", &id, "--queue", "default"],
        vec!["jobs", "cancel", &id, "--expect", "1"],
        vec!["jobs", "delete", "--kind", "k", "--expect", "-1"],
    ] {
        shell.run(&args).exits(2);
    }
    shell
        .run(["jobs", "retry", "--state", "running"])
        .exits(2)
        .complains("retry takes no running jobs: use --state with one of scheduled, dead, cancelled");
    shell.run(["jobs", "delete", "--state", "running"]).exits(2).complains("delete takes no running jobs");
    shell.run(["jobs", "cancel", "--state", "dead"]).exits(2).complains("cancel takes no dead jobs");
}

#[test]
fn jobs_move_to_another_queue_by_id_and_by_filter() {
    let shell = Shell::new();
    shell.run(["enqueue", "k", "--count", "3", "--tag", "slow", "--meta", "tenant=acme"]).ok();
    let page = shell.run(["jobs", "list", "--json"]).ok().json();
    let id = page["jobs"][0]["id"].as_str().unwrap();
    let moved = shell.run(["jobs", "move", "--to", "mail.slow", "--json", id]).ok().json();
    assert_eq!((&moved["answer"], &moved["id"]), (&json!("done"), &json!(id)));
    let moved = moved["moved_to"].as_str().unwrap();
    let shown = shell.run(["jobs", "show", "--json", moved]).ok().json();
    assert_eq!((&shown["queue"], &shown["state"]), (&json!("mail.slow"), &json!("ready")));
    assert_eq!((&shown["tags"], &shown["meta"]), (&json!(["slow"]), &json!({"tenant": "acme"})));
    // A repeat finds what it did; elsewhere there is nothing to move.
    let again = format!("{id} moved to mail.slow as {moved}\n");
    shell.run(["jobs", "move", "--to", "mail.slow", id]).ok().prints(&again);
    let missing = format!("{id} refused: no such job\n");
    shell.run(["jobs", "move", "--to", "mail.fast", id]).exits(4).prints(&missing);
    shell
        .run(["jobs", "move", "--to", "mail.slow", moved])
        .exits(1)
        .prints(&format!("{moved} refused: it is in mail.slow already, or does not read\n"));
    let by_filter = ["jobs", "move", "--to", "mail.slow", "--kind", "k", "--expect", "2", "--json"];
    assert_eq!(shell.run(by_filter).ok().json(), json!({"matched": 2, "changed": 2, "refused": 0}));
    assert_eq!(found(&shell, &["--queue", "mail.slow", "--state", "ready"]), 3);
    assert_eq!(found(&shell, &[]), 3);
    shell.run(["jobs", "move", "--to", "two words", moved]).exits(2).complains("two words");
}
