//! `jobs wait`: the exit code says how a job ended.

use std::process::Stdio;

use serde_json::json;
use windlass_core::Outcome;

use crate::shell::Shell;

#[test]
fn the_exit_code_says_how_it_ended() {
    let shell = Shell::new();
    let done = shell.enqueue(&["done"]);
    shell.attempt("done", Some(Outcome::Completed { output: Some("{\"sum\":3}".into()) }));
    shell.run(["jobs", "wait", &done]).ok().prints("completed").prints("\"sum\": 3");
    let dead = shell.enqueue(&["dead"]);
    shell.kill("dead", "refused \u{1b}[2J");
    shell.run(["jobs", "wait", &dead]).exits(1).prints("dead (permanent): refused \\u{1b}[2J");
    let cancelled = shell.enqueue(&["cancelled"]);
    shell.run(["jobs", "cancel", &cancelled]).ok();
    let json = shell.run(["jobs", "wait", &cancelled, "--json"]).exits(5).json();
    assert_eq!((&json["id"], &json["state"]), (&json!(cancelled), &json!("cancelled")));
    let late = shell.enqueue(&["late"]);
    shell
        .run(["jobs", "wait", &late, "--timeout", "10ms"])
        .exits(6)
        .complains("has not ended in time: it is ready");
    shell.run(["jobs", "wait", "01890a5d-ac96-774b-bcce-b302099a8057"]).exits(4).complains("no such job");
    shell.run(["jobs", "wait", &late, "--timeout", "soon"]).exits(2).complains("use forms such as 300ms");
}

#[test]
fn it_waits_for_the_end() {
    let shell = Shell::new();
    let id = shell.enqueue(&["k"]);
    let mut command = shell.command(["jobs", "wait", &id]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(child.try_wait().unwrap().is_none(), "it has not ended");
    shell.kill("k", "refused");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}
