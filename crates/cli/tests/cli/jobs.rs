//! `jobs list`, `show`, `cancel`, `retry` and `delete`.

use serde_json::{Value, json};
use windlass_core::Outcome;

use crate::shell::Shell;

const NO_SUCH: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

fn ids(page: &Value) -> Vec<&str> {
    page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect()
}

#[test]
fn lists_the_newest_first_and_filters() {
    let shell = Shell::new();
    let mail = shell.enqueue(&["mail", "--queue", "out", "--tag", "monthly"]);
    let late = shell.enqueue(&["mail", "--delay", "1h"]);
    let ping = shell.enqueue(&["ping"]);
    let list = |args: &[&str]| shell.run(["jobs", "list", "--json"].iter().chain(args)).ok().json();
    assert_eq!(ids(&list(&[])), [&ping, &late, &mail]);
    assert_eq!(ids(&list(&["--kind", "mail"])), [&late, &mail]);
    assert_eq!(ids(&list(&["--queue", "out"])), [&mail]);
    assert_eq!(ids(&list(&["--state", "scheduled"])), [&late]);
    assert_eq!(ids(&list(&["--tag", "monthly", "--kind", "mail"])), [&mail]);
    assert_eq!(list(&["--tag", "nothing"]), json!({"jobs": [], "next": null}));
    assert_eq!(list(&["--queue", "out", "--kind", "ping"]), json!({"jobs": [], "next": null}));

    let text = shell.run(["jobs", "list"]).ok();
    let lines: Vec<&str> = text.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "a header and one line per job:\n{}", text.stdout);
    assert!(lines[0].trim().starts_with("ID") && lines[1].contains(&ping) && lines[2].contains("due 2"));
    assert!(!text.stdout.contains('\u{1b}'), "no colours outside a terminal");
    shell.run(["jobs", "list", "--state", "dead"]).ok().complains("no jobs");
}

#[test]
fn pages_lead_to_the_end() {
    let shell = Shell::new();
    shell.run(["enqueue", "k", "--count", "25"]).ok();
    let mut seen = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut args = vec!["jobs", "list", "--json", "--limit", "10"];
        if let Some(cursor) = &after {
            args.extend(["--after", cursor]);
        }
        let page = shell.run(args).ok().json();
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(seen.len(), 25);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 25, "no job twice");

    let text = shell.run(["jobs", "list", "--limit", "10"]).ok();
    let hint = text.stderr.lines().find(|line| line.contains("--after")).expect("a hint for the next page");
    let cursor = hint.split("--after ").nth(1).unwrap().trim();
    assert_eq!(ids(&shell.run(["jobs", "list", "--json", "--after", cursor]).ok().json()).len(), 15);
    shell
        .run(["jobs", "list", "--after", "nonsense"])
        .exits(2)
        .complains("\"nonsense\" is not a page cursor");
}

#[test]
fn shows_everything_about_a_job() {
    let shell = Shell::new();
    let id = shell.enqueue(&["mail", r#"{"to":"ada"}"#, "--tag", "monthly", "--timeout", "5s"]);
    shell.kill("mail", "mailbox is gone\nsecond line");
    let text = shell.run(["jobs", "show", &id]).ok();
    for part in [
        id.as_str(),
        "dead",
        "permanent",
        "monthly",
        "1 of 25",
        "5s",
        "payload (12 B):\n{\n  \"to\": \"ada\"\n}",
        "last error:\nmailbox is gone\nsecond line",
        "failed_for_good",
        "mailbox is gone…",
    ] {
        assert!(text.stdout.contains(part), "no {part:?} in\n{}", text.stdout);
    }
    let job = shell.show(&id);
    assert_eq!(job["reason"], "permanent");
    assert_eq!(job["attempt"], 1);
    let attempt = &job["attempts"][0];
    assert_eq!(attempt["ending"], "failed_for_good");
    assert_eq!(attempt["error"], "mailbox is gone\nsecond line");
    for field in ["started_at", "ended_at"] {
        humantime::parse_rfc3339(attempt[field].as_str().unwrap()).unwrap();
    }
}

#[test]
fn outputs_are_shown() {
    let shell = Shell::new();
    let id = shell.enqueue(&["sum", "[1,2]"]);
    shell.attempt("sum", Some(Outcome::Completed { output: Some("{\"sum\":3}".into()) }));
    let job = shell.show(&id);
    assert_eq!((&job["output"], &job["output_encoding"]), (&json!({"sum": 3}), &json!("json")));
    shell.run(["jobs", "show", &id]).ok().prints("output (9 B):\n{\n  \"sum\": 3\n}");
}

#[test]
fn a_job_that_is_not_there_is_told_apart() {
    let shell = Shell::new();
    let id = shell.enqueue(&["k"]);
    shell.run(["jobs", "show", NO_SUCH]).exits(4).complains(&format!("error: no such job: {NO_SUCH}"));
    let both = shell.run(["jobs", "show", "--json", NO_SUCH, &id]).exits(4);
    assert_eq!(both.json()["id"], json!(id), "the one that exists is shown all the same");
    for change in [vec!["cancel"], vec!["retry"], vec!["delete", "--yes"]] {
        let ran = shell.run(["jobs"].iter().chain(&change).copied().chain([NO_SUCH])).exits(4);
        ran.prints(&format!("{NO_SUCH} refused: no such job"));
    }
    shell.run(["jobs", "show", "12"]).exits(2).complains("\"12\" is not a job id: expected a UUID such as");
    shell
        .run(["jobs", "list", "--state", "ded"])
        .exits(2)
        .complains("\"ded\" is not a state: use blocked, scheduled");
}

#[test]
fn cancel_answers_for_each_id() {
    let shell = Shell::new();
    let (waiting, running) = (shell.enqueue(&["wait"]), shell.enqueue(&["run"]));
    shell.attempt("run", None);
    let ran = shell.run(["jobs", "cancel", "--json", &waiting, &running, NO_SUCH]).exits(4);
    assert_eq!(
        ran.json_lines(),
        [
            json!({"id": waiting, "answer": "done", "state": "cancelled"}),
            json!({"id": running, "answer": "done", "state": "running"}),
            json!({"id": NO_SUCH, "answer": "missing", "state": null}),
        ]
    );
    assert_eq!(shell.show(&running)["cancel_requested"], true);
    shell.run(["jobs", "cancel", &running]).ok().prints("running, asked to stop");
    shell
        .run(["jobs", "cancel", &waiting, NO_SUCH])
        .exits(1)
        .prints(&format!("{waiting} refused: it is cancelled already\n"));
}

#[test]
fn retry_sends_dead_and_scheduled_jobs_to_ready() {
    let shell = Shell::new();
    let (dead, late, ready) =
        (shell.enqueue(&["die"]), shell.enqueue(&["late", "--delay", "1h"]), shell.enqueue(&["ready"]));
    shell.kill("die", "no");
    let ran = shell.run(["jobs", "retry", &dead, &late]).ok();
    assert_eq!(ran.stdout, format!("{dead} ready\n{late} ready\n"));
    assert_eq!(shell.show(&dead)["attempt"], 0);
    shell
        .run(["jobs", "retry", &ready])
        .exits(1)
        .prints("refused: it is ready, only dead, cancelled and scheduled");
}

#[test]
fn delete_needs_a_yes_and_spares_running_jobs() {
    let shell = Shell::new();
    let (waiting, running) = (shell.enqueue(&["wait"]), shell.enqueue(&["run"]));
    shell.attempt("run", None);
    shell.run(["jobs", "delete", &waiting]).exits(2).complains("deleting needs --yes");
    assert_eq!(shell.show(&waiting)["state"], "ready");
    let ran = shell.run(["jobs", "delete", "--yes", &waiting, &running]).exits(1);
    assert_eq!(
        ran.stdout,
        format!("{waiting} deleted, was ready\n{running} refused: it is running, cancel it first\n")
    );
    shell.run(["jobs", "show", &waiting]).exits(4);
}

#[test]
fn a_name_that_nothing_knows_is_told_with_the_one_that_was_meant() {
    let shell = Shell::new();
    shell.enqueue(&["mail.send", "--queue", "mail", "--tag", "monthly"]);
    shell.enqueue(&["ping"]);
    shell.attempt("ping", None);
    let list = |args: &[&str]| shell.run(["jobs", "list"].iter().chain(args));
    list(&["--queue", "nail"]).exits(2).complains("error: there is no queue nail, did you mean mail?");
    list(&["--queue", "invoices", "--json"]).exits(2).complains("the store has default, mail");
    list(&["--queue", "mail", "--state", "dead"]).ok().complains("no jobs");
    list(&["--worker", "hand"]).exits(2).complains("there is no worker hand: the store has hand");
    list(&["--kind", "mail.sned"]).ok().complains("no job of kind mail.sned, did you mean mail.send?");
    list(&["--tag", "montly"]).ok().complains("no job with tag montly, did you mean monthly?");
    let known = list(&["--kind", "mail.send", "--state", "dead"]).ok();
    assert!(!known.stderr.contains("no job of kind"), "{}", known.stderr);
    shell.run(["jobs", "retry", "--queue", "nail"]).exits(2).complains("did you mean mail?");
}

#[test]
fn a_negative_duration_is_answered_in_words() {
    let shell = Shell::new();
    for args in [
        ["enqueue", "k", "--delay", "-5m"],
        ["enqueue", "k", "--timeout", "-1s"],
        ["queues", "define", "mail", "--keep-dead=-1d"],
        ["demo", "--quiet", "--lease", "-2s"],
    ] {
        shell.run(args).exits(2).complains("a duration cannot be negative; use forms such as");
    }
    shell.run(["enqueue", "k", "--delay", "--json"]).exits(2).complains("an option stands where a duration");
    shell
        .run(["enqueue", "k", "--backoff", "fixed:-5s"])
        .exits(2)
        .complains("cannot be negative; use fixed:10s");
}

#[test]
fn running_jobs_are_listed_with_their_worker_and_since_when() {
    let shell = Shell::new();
    let (running, waiting) = (shell.enqueue(&["run"]), shell.enqueue(&["wait"]));
    shell.attempt("run", None);
    let since = shell.show(&running)["attempts"][0]["started_at"].as_str().unwrap().to_owned();
    shell
        .run(["jobs", "list", "--state", "running"])
        .ok()
        .prints(&format!("since {since} on hand\\u{{1b}}[2J"));
    let page = shell.run(["jobs", "list", "--json"]).ok().json();
    assert_eq!(ids(&page), [&waiting, &running]);
    assert_eq!((&page["jobs"][0]["worker"], &page["jobs"][0]["started_at"]), (&json!(null), &json!(null)));
    assert_eq!(page["jobs"][1]["worker"], "hand\u{1b}[2J");
    assert_eq!(page["jobs"][1]["started_at"], json!(since));
    let there = shell.run(["jobs", "list", "--json", "--worker", "hand\u{1b}[2J"]).ok().json();
    assert_eq!(ids(&there), [&running]);
    shell.run(["jobs", "list", "--worker", "w", "--state", "dead"]).exits(2).complains("cannot be used with");
}

#[test]
fn lists_carry_the_last_error() {
    let shell = Shell::new();
    let (late, dead) = (shell.enqueue(&["late"]), shell.enqueue(&["die"]));
    shell.kill("die", "mailbox is gone\nsecond line");
    let failure = windlass_core::outcome::Failure::error("no route");
    shell.attempt("late", Some(Outcome::Retry { failure }));
    shell
        .run(["jobs", "list"])
        .ok()
        .prints("permanent, last error: mailbox is gone…")
        .prints(", last error: no route");
    let page = shell.run(["jobs", "list", "--json"]).ok().json();
    assert_eq!(ids(&page), [&dead, &late]);
    assert_eq!(page["jobs"][0]["last_error"], "mailbox is gone\nsecond line");
    assert_eq!(
        (&page["jobs"][1]["state"], &page["jobs"][1]["last_error"]),
        (&json!("scheduled"), &json!("no route"))
    );
}

#[test]
fn a_job_that_is_claimed_and_has_not_begun_is_shown_as_claimed() {
    let shell = Shell::new();
    let id = shell.enqueue(&["k"]);
    shell.attempt("k", None);
    shell.run(["jobs", "list"]).ok().prints("claimed");
    shell.run(["jobs", "show", &id]).ok().prints("claimed");
    let job = shell.show(&id);
    assert_eq!((&job["state"], &job["has_begun"]), (&json!("running"), &json!(false)));
}

#[test]
fn a_dead_letter_by_stall_says_which_worker_died_with_it() {
    let shell = Shell::new();
    let id = shell.enqueue(&["poison", "--max-stalls", "0"]);
    shell.stall("poison");
    let job = shell.show(&id);
    assert_eq!((&job["state"], &job["reason"]), (&json!("dead"), &json!("stalled")));
    let ended = job["attempts"][0]["ended_at"].as_str().unwrap();
    shell.run(["jobs", "show", &id]).ok().prints(&format!("died with  hand\\u{{1b}}[2J ({ended})"));
}

#[test]
fn a_job_that_does_not_read_is_named_and_hides_no_other() {
    let shell = Shell::new();
    let (bad, good) = (shell.enqueue(&["bad"]), shell.enqueue(&["good"]));
    let database = rusqlite::Connection::open(shell.path("windlass.db")).unwrap();
    let changed = database.execute("UPDATE windlass_jobs SET spec = 'nonsense' WHERE kind = 'bad'", ());
    assert_eq!(changed.unwrap(), 1);
    let listed = shell.run(["jobs", "list"]).ok().prints(&good).prints(&bad).prints("does not read");
    assert_eq!(listed.stdout.lines().count(), 3, "{}", listed.stdout);
    assert_eq!(shell.show(&good)["unreadable"], json!(null));
    assert!(shell.show(&bad)["unreadable"].is_string());
    shell.run(["jobs", "show", &bad]).ok().prints("unreadable");
}

#[test]
fn a_cancelled_job_says_who_and_why() {
    let shell = Shell::new();
    let (one, other) = (shell.enqueue(&["k"]), shell.enqueue(&["k"]));
    let why = "wrong \u{1b}[31mcustomer";
    shell.run(["jobs", "cancel", &one, "--why", why, "--by", "ann"]).ok().prints("cancelled");
    shell.run(["jobs", "show", &one]).ok().prints(r"ann: wrong \u{1b}[31mcustomer");
    assert_eq!(shell.show(&one)["cancelled_by"], json!({"by": "ann", "why": why}));
    shell.run(["jobs", "cancel", &other]).ok();
    assert_eq!(shell.show(&other)["cancelled_by"], json!(null));
}
