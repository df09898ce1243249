//! `dead list`, `show`, `groups`, `sample`, `replay`, `edit`, `again`, `purge`, `rules` and `index`.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass::worker::{RedriveSummary, Redriver};

use crate::shell::Shell;

const NO_SUCH: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// Three dead jobs: two of one error, one of another.
fn scene() -> (Shell, [String; 3]) {
    let shell = Shell::new();
    let first = shell.enqueue(&["charge", r#"{"order":{"id":41}}"#, "--tag", "eu"]);
    shell.kill("charge", "order 41 refused");
    let second = shell.enqueue(&["charge", r#"{"order":{"id":42}}"#]);
    shell.kill("charge", "order 42 refused");
    let third = shell.enqueue(&["mail", "null"]);
    shell.kill("mail", "timed out\nafter 5s");
    shell.enqueue(&["alive"]);
    (shell, [first, second, third])
}

fn ids(page: &Value) -> Vec<&str> {
    page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect()
}

#[test]
fn dead_jobs_are_found_by_what_is_said_about_them() {
    let (shell, [first, second, third]) = scene();
    let list = |args: &[&str]| shell.run(["dead", "list", "--json"].iter().chain(args)).ok().json();
    assert_eq!(ids(&list(&[])), [&third, &second, &first]);
    assert_eq!(ids(&list(&["--kind", "charge"])), [&second, &first]);
    assert_eq!(ids(&list(&["--tag", "eu"])), [&first]);
    assert_eq!(ids(&list(&["--error", "TIMED"])), [&third]);
    assert_eq!(ids(&list(&["--field", "order.id=42"])), [&second]);
    assert_eq!(ids(&list(&["--since", "2h", "--queue", "default"])), [&third, &second, &first]);
    assert_eq!(list(&["--before", "2h"]), json!({"jobs": [], "looked": 3, "next": null}));
    assert_eq!(list(&["--before", "2020-01-01T00:00:00Z"])["jobs"], json!([]));
    let found = list(&["--kind", "charge"]);
    let fingerprint = found["jobs"][0]["fingerprint"].as_str().unwrap();
    assert_eq!(ids(&list(&["--fingerprint", fingerprint])), [&second, &first]);
    assert_eq!(found["jobs"][0]["cause"], "order 42 refused");
    assert_eq!(found["jobs"][0]["payload"], json!({"order": {"id": 42}}));
    shell.run(["dead", "list"]).ok().prints(&third).prints("timed out…").prints(fingerprint);
    shell.run(["dead", "list", "--kind", "alive"]).ok().complains("no dead jobs");
    shell.run(["dead", "list", "--queue", "defualt"]).exits(2).complains("did you mean default?");

    let page = list(&["--limit", "2"]);
    assert_eq!(ids(&page), [&third, &second]);
    let rest = list(&["--limit", "2", "--after", page["next"].as_str().unwrap()]);
    assert_eq!((ids(&rest), &rest["next"]), (vec![first.as_str()], &Value::Null));
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let (shell, _) = scene();
    for (args, why) in [
        (["--since", "yesterday"], "use a duration such as 2h, or an instant"),
        (["--since", "-2h"], "cannot be negative"),
        (["--field", "order"], "use PATH=VALUE"),
        (["--field", "order..id=4"], "a field of the path is empty"),
        (["--fingerprint", "xyz"], "16 hexadecimal digits"),
        (["--queue", "a\u{1b}b"], "name"),
    ] {
        shell.run(["dead", "list"].iter().chain(&args)).exits(2).complains(why);
    }
    shell.run(["dead", "list", "--after", "nonsense"]).exits(2).complains("is not a page cursor");
}

#[test]
fn groups_say_how_many_died_of_what() {
    let (shell, [_, second, third]) = scene();
    let found = shell.run(["dead", "groups", "--json"]).ok().json();
    assert_eq!((&found["looked"], &found["all"], &found["others"]), (&json!(3), &json!(true), &json!(0)));
    let groups = found["groups"].as_array().unwrap();
    let seen: Vec<_> = groups.iter().map(|group| (&group["count"], &group["pattern"])).collect();
    assert_eq!(seen, [(&json!(2), &json!("order # refused")), (&json!(1), &json!("timed out"))]);
    assert_eq!((&groups[0]["ids"][0], &groups[1]["ids"][0]), (&json!(second), &json!(third)));
    assert!(groups[0]["first_at"].as_str() < groups[0]["last_at"].as_str());
    let text = shell.run(["dead", "groups"]).ok().prints("order # refused").complains("looked at all 3 dead");
    assert_eq!(text.stdout.lines().count(), 3, "{}", text.stdout);
    shell.run(["dead", "groups", "--kind", "mail"]).ok().prints("timed out");

    let sample = shell.run(["dead", "sample", "--count", "2", "--json"]).ok().json();
    assert_eq!(ids(&sample).len(), 2);
    shell.run(["dead", "sample", "--kind", "mail"]).ok().prints(&third);
}

#[test]
fn a_dead_job_is_shown_with_its_fingerprint() {
    let (shell, [first, ..]) = scene();
    shell
        .run(["dead", "show", &first])
        .ok()
        .prints("order 41 refused")
        .prints("fingerprint ")
        .prints("order # refused");
    let shown = shell.run(["dead", "show", "--json", &first]).ok().json();
    assert_eq!((&shown["pattern"], &shown["edited"]), (&json!("order # refused"), &Value::Null));
    assert_eq!(shown["attempts"][0]["ending"], "failed_for_good");
    shell.run(["dead", "show", NO_SUCH]).exits(4).complains("no such job");
    let alive = shell.enqueue(&["alive"]);
    shell.run(["dead", "show", &alive]).exits(1).complains("is ready, not dead");
}

#[test]
fn a_replay_counts_first_and_sends_back_what_was_expected() {
    let (shell, [first, second, third]) = scene();
    let preview = shell.run(["dead", "replay", "--kind", "charge"]).ok();
    preview.prints("2 jobs would be sent back").complains("repeat with --expect 2");
    assert_eq!(shell.show(&first)["state"], "dead");
    let other = shell.run(["dead", "replay", "--kind", "charge", "--expect", "3"]).exits(1);
    other.complains("2 jobs match, 3 were expected: nothing was changed");
    let done = shell
        .run(["dead", "replay", "--kind", "charge", "--rate", "50", "--expect", "2", "--json"])
        .ok()
        .json();
    assert_eq!((&done["matched"], &done["replayed"], &done["left"]), (&json!(2), &json!(2), &json!(0)));
    for id in [&first, &second] {
        let job = shell.show(id);
        assert_eq!((&job["state"], &job["attempt"]), (&json!("ready"), &json!(0)));
    }
    // What dies again is not sent back by the same replay.
    shell.kill("charge", "order 41 refused");
    let began = done["began_at"].as_str().unwrap();
    let again = shell.run(["dead", "replay", "--kind", "charge", "--begun-at", began]).ok();
    again.prints("0 jobs would be sent back");
    shell.run(["dead", "replay", "--most", "1", "--expect", "2"]).ok().prints("sent back: 1 job");
    assert_eq!(shell.show(&third)["state"], "ready", "the newest accepted first");
}

#[cfg(unix)]
#[test]
fn an_interrupted_replay_says_how_to_go_on() {
    let shell = Shell::new();
    shell.bury("k", 300, "it's gone");
    let args = ["dead", "replay", "--error", "it's gone", "--rate", "1", "--expect", "300"];
    let mut command = shell.command(args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // At one a second it has minutes left when the first one is back.
    while ids(&shell.run(["jobs", "list", "--state", "ready", "--json"]).ok().json()).is_empty() {}
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let go_on = said.lines().find_map(|line| line.strip_prefix("to go on: windlass ")).expect(&said);

    // The same command, faster: a shell reads it as it was meant.
    let go_on = go_on.replace("--rate 1", "--rate 100000");
    let program = env!("CARGO_BIN_EXE_windlass");
    let mut sh = Command::new("sh");
    sh.args(["-c", &format!("{program} {go_on} --json")])
        .current_dir(shell.folder())
        .env_remove("WINDLASS_STORE");
    let rest = crate::shell::finish(&mut sh).ok().json();
    assert_eq!(rest["matched"], rest["replayed"]);
    let sent: u64 = said.split_once("sent back: ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    assert_eq!(sent + rest["replayed"].as_u64().unwrap(), 300, "each was sent back once");
    shell.run(["dead", "list", "--json"]).ok().prints(r#""jobs":[]"#);
}

#[test]
fn an_ended_job_runs_again_as_a_new_one() {
    let (shell, [first, ..]) = scene();
    let answer = shell.run(["dead", "again", "--json", &first]).ok().json();
    let new = shell.show(answer["new_id"].as_str().unwrap());
    assert_eq!((&new["state"], &new["meta"]["windlass.again_of"]), (&json!("ready"), &json!(first)));
    assert_eq!(shell.show(&first)["state"], "dead", "the old one stays");
    shell.run(["dead", "again", new["id"].as_str().unwrap()]).exits(1).complains("only jobs that have ended");
    shell.run(["dead", "again", NO_SUCH]).exits(4).complains("no such job");
}

#[test]
fn a_payload_is_edited_once_and_it_is_known_by_whom() {
    let (shell, [first, ..]) = scene();
    let edit = ["dead", "edit", &first, "--payload", "-", "--why", "a typo", "--by", "ada", "--json"];
    shell.run_with_input(&edit, b"{\"order\":").exits(2).complains("the payload is not JSON");
    let answer = shell.run_with_input(&edit, b"{\"order\":{\"id\":43}}").ok().json();
    let new = answer["new_id"].as_str().unwrap();
    assert_eq!(shell.show(new)["payload"], json!({"order": {"id": 43}}));
    shell.run(["dead", "show", &first]).ok().prints(&format!("edited by ada as job {new}: a typo"));
    let shown = shell.run(["dead", "show", "--json", &first]).ok().json();
    assert_eq!((&shown["edited"]["by"], &shown["edited"]["new"]), (&json!("ada"), &json!(new)));
    let again = shell.run_with_input(&edit, b"1").exits(1);
    again.complains(&format!("was edited before, by ada as job {new}"));
    let file = shell.path("new.json");
    std::fs::write(&file, "7").unwrap();
    let args = ["dead", "edit", NO_SUCH, "--payload", file.to_str().unwrap(), "--why", "x"];
    shell.run(args).exits(4).complains("no such job");
    let args = ["dead", "edit", new, "--payload", file.to_str().unwrap(), "--why", "x"];
    shell.run(args).exits(1).complains("only jobs that have ended");
    shell.run(["dead", "edit", &first, "--payload", "no-file", "--why", "x"]).exits(2).complains("no-file");
}

#[test]
fn a_purge_removes_what_was_expected() {
    let (shell, [first, _, third]) = scene();
    shell.run(["dead", "purge", "--kind", "charge"]).ok().prints("2 jobs would be removed");
    shell.run(["dead", "purge", "--kind", "charge", "--expect", "1"]).exits(1).complains("2 jobs match");
    assert_eq!(shell.show(&first)["state"], "dead");
    let purged = shell.run(["dead", "purge", "--kind", "charge", "--expect", "2", "--json"]).ok().json();
    assert_eq!(purged, json!({"matched": 2, "removed": 2, "left": 0}));
    shell.run(["jobs", "show", &first]).exits(4);
    assert_eq!(shell.show(&third)["state"], "dead");
}

/// A round of maintenance in which nothing is held back.
fn look_after(shell: &Shell) -> RedriveSummary {
    let url = format!("sqlite://{}", shell.path("windlass.db").display());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Arc::clone(windlass::open(&url).await.unwrap().store());
        Redriver::new(store).hold_back(Duration::ZERO).run_once().await.unwrap()
    })
}

#[test]
fn rules_are_set_heeded_shown_and_removed() {
    let (shell, [first, _, third]) = scene();
    let rule = ["dead", "rules", "set", "default", "outages", "--error", "TIMED\u{1b}[2J", "--after", "0s"];
    shell.run(rule).ok().prints("are sent back 0s after their death, each once");
    shell.run(["dead", "rules", "list"]).ok().prints("outages");
    let rule = [
        "dead",
        "rules",
        "set",
        "default",
        "outages",
        "--error",
        "timed out",
        "--after",
        "0s",
        "--most",
        "2",
    ];
    shell.run(rule).ok().prints("each at most 2 times");
    let rules = shell.run(["dead", "rules", "list", "--json"]).ok().json();
    let expected = json!({"queue": "default", "name": "outages", "kind": null, "fingerprint": null,
        "error": "timed out", "after_seconds": 0, "most": 2});
    assert_eq!(rules, json!({"rules": [expected]}));
    for round in 1..=3 {
        assert_eq!(look_after(&shell).redriven, u64::from(round < 3));
        if round < 3 {
            shell.kill("mail", "timed out");
        }
    }
    shell.run(["dead", "show", &third]).ok().prints("sent back 2 times by rules, the last time by outages");
    let shown = shell.run(["dead", "show", "--json", &third]).ok().json();
    assert_eq!((&shown["redriven"]["count"], &shown["redriven"]["rule"]), (&json!(2), &json!("outages")));
    let other = shell.run(["dead", "show", "--json", &first]).ok().json();
    assert_eq!(other["redriven"], Value::Null);
    shell.run(["dead", "rules", "remove", "default", "outages"]).ok().prints("is removed");
    shell.run(["dead", "rules", "remove", "default", "outages"]).exits(4).complains("has no rule outages");
    shell.run(["dead", "rules", "list"]).ok().complains("no rules");
    shell.run(["dead", "rules", "set", "default", "x", "--most", "0"]).exits(2);
}

#[test]
fn a_search_goes_by_the_index_where_there_is_one() {
    let (shell, [first, second, _]) = scene();
    let groups = shell.run(["dead", "groups", "--json"]).ok().json();
    let fingerprint = groups["groups"][0]["fingerprint"].as_str().unwrap();
    let args = ["dead", "list", "--queue", "default", "--fingerprint", fingerprint, "--json"];
    let list = |more: &[&str]| shell.run(args.iter().chain(more)).ok().json();
    assert_eq!(list(&[])["looked"], json!(3));
    shell.run(["dead", "index", "default"]).ok().prints("workers index the dead jobs");
    look_after(&shell);
    let found = list(&[]);
    assert_eq!((ids(&found), &found["looked"]), (vec![second.as_str(), &first], &json!(2)));
    let page = list(&["--limit", "1"]);
    let rest = list(&["--limit", "1", "--after", page["next"].as_str().unwrap()]);
    assert_eq!((ids(&page), ids(&rest)), (vec![second.as_str()], vec![first.as_str()]));
    shell.run(["dead", "index", "default", "--forget"]).ok();
    shell.run(["dead", "index", "default", "--forget"]).exits(4).complains("has no index");
    assert_eq!(list(&[])["looked"], json!(3));
}

#[test]
fn a_queue_may_send_its_dead_jobs_on() {
    let shell = Shell::new();
    shell.run(["queues", "set", "default", "--default-forward-dead", "letters"]).ok();
    shell.run(["queues", "show", "default"]).ok().prints("dead ones go on to letters");
    let defined = shell.run(["queues", "show", "default", "--json"]).ok().json();
    assert_eq!(defined["defaults"]["forward_dead"], "letters");
    let id = shell.enqueue(&["charge"]);
    assert_eq!(shell.run(["jobs", "show", &id, "--json"]).ok().json()["kind"], "charge");
    shell.run(["queues", "set", "default", "--default-forward-dead", "none"]).ok();
    let defined = shell.run(["queues", "show", "default", "--json"]).ok().json();
    assert_eq!(defined["defaults"], Value::Null);
    shell.run(["queues", "set", "default", "--default-forward-dead", "a b"]).exits(2);
}
