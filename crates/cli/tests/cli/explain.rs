//! `explain`, on SQLite: every state, what keeps a job, and text that means harm.

use serde_json::{Value, json};
use windlass_core::Outcome;
use windlass_core::outcome::Failure;

use crate::hostile::{HOSTILE, assert_harmless};
use crate::shell::Shell;

/// The words of a job's causes.
fn causes(shell: &Shell, id: &str) -> Vec<String> {
    let causes = explained(shell, id)["causes"].as_array().unwrap().clone();
    causes.iter().map(|cause| cause["cause"].as_str().unwrap().to_owned()).collect()
}

fn explained(shell: &Shell, id: &str) -> Value {
    shell.run(["explain", "--json", id]).ok().json()
}

#[test]
fn every_state_is_explained() {
    let shell = Shell::new();
    let id = shell.enqueue(&["k", "--delay", "1h", "--unique", "order"]);
    assert_eq!(causes(&shell, &id), ["not_due", "no_worker"]);
    shell.run(["explain", &id]).ok().prints("CAUSE").prints(&format!("windlass jobs retry {id}"));
    shell.run(["jobs", "retry", &id]).ok();
    assert_eq!(causes(&shell, &id), ["no_worker"]);
    shell.run(["queues", "pause", "default", "--why", "the mail server is ill"]).ok();
    assert_eq!(causes(&shell, &id), ["paused", "no_worker"]);
    let told = shell.run(["explain", &id]).ok().prints("(the mail server is ill), until it is resumed");
    told.prints("windlass queues resume default");
    shell.run(["queues", "resume", "default"]).ok();
    shell.attempt("k", None);
    let held = &explained(&shell, &id)["causes"][0];
    assert_eq!((&held["cause"], &held["worker"]), (&json!("held"), &json!("hand\u{1b}[2J")));
    let next = shell.enqueue(&["k"]);
    shell.run(["queues", "set", "default", "--concurrency", "1"]).ok();
    let full = &explained(&shell, &next)["causes"][0];
    assert_eq!(
        (&full["cause"], &full["most"], &full["running"]),
        (&json!("queue_concurrency"), &json!(1), &json!(1))
    );
    shell.run(["queues", "set", "default", "--concurrency", "none"]).ok();
    assert_eq!(causes(&shell, &next), ["ready"]);
    let other = shell.enqueue(&["k", "--priority", "5"]);
    assert_eq!(causes(&shell, &next), ["behind"]);
    shell.run(["jobs", "cancel", &other]).ok();
    assert_eq!(causes(&shell, &other), ["cancelled"]);
    shell.attempt("k", Some(Outcome::Completed { output: None }));
    assert_eq!(causes(&shell, &next), ["completed"]);
    assert_eq!(explained(&shell, &next)["causes"][0]["remedy"], json!(null));
}

#[test]
fn ends_lost_jobs_and_ids_that_are_not_there() {
    let shell = Shell::new();
    let dead = shell.enqueue(&["k", "--unique", "order"]);
    shell.kill("k", "no such user");
    let holder = shell.enqueue(&["k", "--unique", "order"]);
    let told = &explained(&shell, &dead)["causes"][0];
    assert_eq!((&told["cause"], &told["held_by"]), (&json!("dead"), &json!(holder)));
    shell.stall("k");
    shell.run(["jobs", "retry", &holder]).ok();
    assert!(causes(&shell, &holder).contains(&"stalled_before".to_owned()));
    let failed =
        Outcome::RetryAfter { after: std::time::Duration::from_secs(600), failure: Failure::error("busy") };
    shell.attempt("k", Some(failed));
    assert_eq!(causes(&shell, &holder)[0], "retry");
    shell.run(["explain", &holder]).ok().prints("failed: busy");
    let missing = "01890a5d-ac96-774b-bcce-b302099a8057";
    shell.run(["explain", missing, &dead]).exits(4).prints(&dead).complains(missing);
    shell.run(["explain", "12"]).exits(2);
}

#[test]
fn what_is_quoted_cannot_command_the_terminal() {
    let shell = Shell::new();
    let id = shell.enqueue(&["k"]);
    shell.run(["queues", "pause", "default", "--why", HOSTILE]).ok();
    let harmless = || assert_harmless(&shell.run(["explain", &id]).ok().stdout);
    harmless();
    shell.run(["queues", "resume", "default"]).ok();
    // The label of this worker is hostile, too.
    shell.attempt("k", None);
    harmless();
    let id = shell.enqueue(&["k"]);
    shell.kill("k", HOSTILE);
    shell.run(["explain", &id]).ok().prints("\\u{1b}[31m");
    assert_harmless(&shell.run(["explain", &id]).ok().stdout);
    let json = shell.run(["explain", "--json", &id]).ok();
    assert_harmless(&json.stdout);
    assert_eq!(json.json()["causes"][0]["error"], HOSTILE, "programs get what was stored");
}
