//! `queues`, `workers` and `prune`.

use std::time::{Duration, Instant};

use serde_json::json;
use windlass_core::Outcome;

use crate::shell::Shell;

#[test]
fn queues_show_what_they_hold_and_keep() {
    let shell = Shell::new();
    shell.enqueue(&["k"]);
    shell.enqueue(&["k", "--delay", "1h"]);
    shell.enqueue(&["mail", "--queue", "mail"]);
    shell.kill("k", "no");
    let queues = shell.run(["queues", "--json"]).ok().json();
    assert_eq!(
        shell.run(["queues", "list", "--json"]).ok().json(),
        queues,
        "by the word that jobs have, too"
    );
    assert_eq!(queues["queues"].as_array().unwrap().len(), 2);
    let default = &queues["queues"][0];
    assert_eq!(default["name"], "default");
    assert_eq!(
        default["counts"],
        json!({"blocked": 0, "scheduled": 1, "ready": 0, "running": 0, "completed": 0, "dead": 1, "cancelled": 0})
    );
    assert_eq!(default["keep"]["completed"], json!({"age_seconds": 86_400.0, "count": null}));
    assert_eq!(default["caps"], json!({"payload": 1_048_576, "output": 1_048_576, "error": 65_536}));
    let text = shell.run(["queues"]).ok().prints("COMPLETED").prints("mail");
    assert!(!text.stdout.contains("KEEPS"), "defaults are not worth a column:\n{}", text.stdout);
    shell.run(["queues", "define", "mail", "--keep-dead", "forever"]).ok();
    let text = shell.run(["queues"]).ok().prints("KEEPS").prints("completed 1d, dead forever, cancelled 7d");
    assert!(!text.stdout.contains("dead 90d"), "{}", text.stdout);
}

#[test]
fn queues_show_how_long_the_oldest_job_waits_and_who_serves_them() {
    let shell = Shell::new();
    shell.enqueue(&["k", "--delay", "1h"]);
    let default = || shell.run(["queues", "--json"]).ok().json()["queues"][0].clone();
    assert_eq!(default()["oldest_due_at"], json!(null), "nothing could have started");
    let first = shell.enqueue(&["k"]);
    shell.enqueue(&["k"]);
    assert_eq!(default()["oldest_due_at"], shell.show(&first)["due_at"]);
    assert_eq!((&default()["oldest_has_more"], &default()["served_by"]), (&json!(false), &json!([])));
    shell.run(["queues"]).ok().prints("OLDEST").prints("none");
    shell.attempt("k", None);
    assert_eq!((&default()["workers"], &default()["served_by"]), (&json!(1), &json!(["hand\u{1b}[2J"])));
    shell.run(["queues"]).ok().prints("hand\\u{1b}[2J");
    assert!(shell.run(["queues", "define", "other", "--json"]).ok().json()["served_by"].is_null());
}

#[test]
fn queues_show_what_is_overdue_and_that_no_worker_is_there() {
    let shell = Shell::new();
    for _ in 0..3 {
        shell.enqueue(&["k", "--delay", "1ms"]);
    }
    shell.enqueue(&["k", "--delay", "1h"]);
    shell.enqueue(&["mail", "--queue", "mail"]);
    let default = || shell.run(["queues", "--json"]).ok().json()["queues"][0].clone();
    // Their time comes, and no worker makes them ready.
    let asked = Instant::now();
    while default()["overdue"] != 3 {
        assert!(asked.elapsed() < Duration::from_secs(60), "{}", default());
    }
    assert_eq!((&default()["counts"]["scheduled"], &default()["counts"]["ready"]), (&json!(4), &json!(0)));
    assert_eq!((&default()["overdue_has_more"], &default()["workers"]), (&json!(false), &json!(0)));
    shell
        .run(["queues"])
        .ok()
        .prints("OVERDUE")
        .prints("WORKERS")
        .complains("no worker serves default, mail: jobs wait there");
    shell.attempt("k", None);
    assert_eq!(default()["workers"], 1);
    shell.run(["queues"]).ok().complains("no worker serves mail: jobs wait there");
}

#[test]
fn stats_show_what_happened() {
    let shell = Shell::new();
    for _ in 0..3 {
        shell.enqueue(&["k"]);
    }
    shell.kill("k", "no");
    let stats = shell.run(["queues", "stats", "--json"]).ok().json();
    let rows = stats["rows"].as_array().unwrap();
    let sum = |count: &str| rows.iter().filter_map(|row| row["counts"][count].as_u64()).sum::<u64>();
    assert_eq!((sum("accepted"), sum("started"), sum("completed"), sum("failed")), (3, 1, 0, 1), "{stats}");
    assert!(rows.iter().all(|row| row["queue"] == "default" && row["minutes"] == 1), "{stats}");
    shell.run(["queues", "stats", "default", "--since", "2h"]).ok().prints("ACCEPTED").prints("<= ");
    let days = shell.run(["queues", "stats", "default", "--since", "7d", "--json"]).ok().json();
    assert_eq!(days["rows"][0]["minutes"], 60, "{days}");
    assert_eq!(shell.run(["queues", "stats", "nowhere", "--json"]).ok().json()["rows"], json!([]));
    shell.run(["queues", "stats", "--step", "2m"]).exits(2).complains("use 1m, 10m or 1h");
}

#[test]
fn a_definition_changes_only_what_is_given() {
    let shell = Shell::new();
    let defined = shell
        .run([
            "queues",
            "define",
            "mail",
            "--keep-completed=2h",
            "--keep-dead-count=5",
            "--payload-cap=64KiB",
            "--json",
        ])
        .ok()
        .json();
    assert_eq!(defined["keep"]["completed"], json!({"age_seconds": 7_200.0, "count": null}));
    assert_eq!(defined["keep"]["dead"]["count"], 5);
    let again = shell
        .run(["queues", "define", "mail", "--keep-dead=forever", "--keep-cancelled-count=7", "--json"])
        .ok()
        .json();
    assert_eq!(again["keep"]["completed"], json!({"age_seconds": 7_200.0, "count": null}));
    assert_eq!(again["keep"]["dead"], json!({"age_seconds": null, "count": 5}));
    assert_eq!(again["caps"]["payload"], 65_536);
    shell
        .run(["queues", "define", "mail", "--keep-dead-count", "all"])
        .ok()
        .prints("dead forever")
        .prints("up to 64 KiB");
    let reset = shell.run(["queues", "define", "mail", "--reset", "--json"]).ok().json();
    assert_eq!(reset["caps"]["payload"], 1_048_576);

    shell.run(["queues", "define", "mail", "--payload-cap", "9"]).ok();
    let payload = "\"0123456789\"";
    shell
        .run(["enqueue", "k", payload, "--queue", "mail"])
        .exits(1)
        .complains("payload has 12 bytes, the cap is 9");
    shell.run(["queues", "define", "a b"]).exits(2).complains("name \"a b\" has ' '");
    shell.run(["queues", "define", "m", "--payload-cap", "1GB"]).exits(2).complains("5000, 64KiB or 2MiB");
    shell.run(["queues", "define", "m", "--keep-dead", "always"]).exits(2).complains("or forever");
    shell
        .run(["queues", "define", "m", "--payload-cap", "65MiB"])
        .exits(1)
        .complains("at most 67108864 is possible");
}

#[test]
fn an_empty_queue_is_removed_and_one_with_jobs_is_not() {
    let shell = Shell::new();
    shell.run(["queues", "define", "mail", "--keep-dead", "forever"]).ok();
    shell.run(["queues", "define", "old", "--payload-cap", "9"]).ok();
    shell.run(["queues", "remove", "old"]).ok().prints("old removed\n");
    shell
        .run(["queues", "remove", "old"])
        .exits(2)
        .complains("error: there is no queue old: the store has mail");
    shell.run(["queues", "remove", "nail"]).exits(2).complains("there is no queue nail, did you mean mail?");
    shell.run(["enqueue", "k", "\"0123456789\"", "--queue", "old"]).ok();
    shell.run(["enqueue", "k", "--queue", "mail", "--count", "2"]).ok();
    let last = shell.enqueue(&["k", "--queue", "mail", "--delay", "1h"]);
    shell.run(["queues", "remove", "mail"]).exits(1).complains(
        "error: queue mail holds 3 jobs (1 scheduled, 2 ready): only an empty queue is removed, see windlass jobs \
         delete --queue mail",
    );
    shell.run(["jobs", "cancel", &last]).ok();
    let refused = shell.run(["queues", "remove", "mail", "--json"]).exits(1).json();
    assert_eq!((&refused["removed"], &refused["counts"]["cancelled"]), (&json!(false), &json!(1)));
    shell.run(["jobs", "delete", "--queue", "mail", "--expect", "3"]).ok();
    let removed = shell.run(["queues", "remove", "mail", "--json"]).ok().json();
    assert_eq!((&removed["name"], &removed["removed"]), (&json!("mail"), &json!(true)));
    let queues = shell.run(["queues", "--json"]).ok().json();
    assert_eq!(queues["queues"].as_array().unwrap().len(), 1);
    assert_eq!(queues["queues"][0]["caps"]["payload"], 1_048_576, "what came to old is under the defaults");
}

#[test]
fn a_queue_that_only_a_worker_knows_has_nothing_to_remove() {
    let shell = Shell::new();
    shell.enqueue(&["k"]);
    shell.attempt("k", Some(Outcome::Completed { output: None }));
    shell.run(["jobs", "delete", "--queue", "default", "--expect", "1"]).ok();
    shell.run(["queues", "remove", "default"]).ok().complains("nothing to remove");
}

#[test]
fn workers_are_their_leases() {
    let shell = Shell::new();
    shell.enqueue(&["k"]);
    shell.run(["workers"]).ok().complains("no workers");
    shell.attempt("k", None);
    let workers = shell.run(["workers", "--json"]).ok().json();
    let worker = &workers["workers"][0];
    assert_eq!((&worker["running"], &worker["lost"]), (&json!(1), &json!(false)));
    assert_eq!(worker["queues"], json!(["default"]));
    humantime::parse_rfc3339(worker["expires_at"].as_str().unwrap()).unwrap();
    shell.run(["workers"]).ok().prints("alive").prints("hand\\u{1b}[2J");
}

#[test]
fn prune_removes_what_is_no_longer_kept_step_by_step() {
    let shell = Shell::new();
    shell.run(["enqueue", "k", "--count", "5"]).ok();
    for _ in 0..5 {
        shell.attempt("k", Some(Outcome::Completed { output: None }));
    }
    assert_eq!(shell.run(["prune", "--json"]).ok().json(), json!({"removed": 0, "done": true}));
    shell.run(["queues", "define", "default", "--keep-completed-count", "1"]).ok();
    let once = shell.run(["prune", "--once", "--limit", "1", "--json"]).ok().json();
    assert_eq!(once, json!({"removed": 1, "done": false}));
    shell.run(["prune", "--limit", "2"]).ok().prints("removed 3 jobs\n");
    let queues = shell.run(["queues", "--json"]).ok().json();
    assert_eq!(queues["queues"][0]["counts"]["completed"], 1);
}

#[test]
fn a_queue_is_paused_limited_and_resumed() {
    let shell = Shell::new();
    shell.enqueue(&["k"]);
    shell
        .run(["queues", "pause", "default", "--by", "ada", "--why", "ill\u{1b}[2J"])
        .ok()
        .prints("default paused");
    let text = shell.run(["queues"]).ok().prints("RULES").prints("nothing: paused by ada");
    assert!(!text.stdout.contains("\u{1b}[2J"), "what was stored is shown harmless");
    shell.run(["queues", "show", "default"]).ok().prints("hands out nothing: paused by ada (ill\\u{1b}[2J)");
    shell.run(["queues", "resume", "default"]).ok().prints("default resumed");
    assert_eq!(shell.run(["queues", "resume", "default"]).code, Some(1), "it was not paused");
    shell
        .run(["queues", "pause", "default", "--kind", "k", "--for", "1h"])
        .ok()
        .prints("kind k of default paused");
    let set = ["queues", "set", "default", "--concurrency", "20", "--rate", "500/1m"];
    shell.run(set).ok().prints("20 at once, 500 in 1m");
    let queue = shell.run(["queues", "show", "default", "--json"]).ok().json();
    assert_eq!(queue["rules"]["rate"], json!({"jobs": 500, "per": 60_000_000, "shape": "sliding"}));
    assert_eq!(queue["rules"]["concurrency"], 20);
    assert_eq!(queue["rules"]["permits"], json!({"jobs": 500, "more_at": null}));
    shell.run(["queues", "show", "default"]).ok().prints("its rate permits 500 now");
    assert!(queue["rules"]["pauses"]["kinds"]["k"]["until"].is_number(), "a change keeps the rest: {queue}");
    shell.run(["queues", "set", "default", "--concurrency", "none", "--rate", "none"]).ok();
    for bad in [["--rate", "0/1s"], ["--rate", "5"], ["--concurrency", "0"], ["--rate", "5/-1s"]] {
        let refused = shell.run(["queues", "set", "default", bad[0], bad[1]]);
        assert_eq!(refused.code, Some(2), "{bad:?}: {}", refused.stderr);
    }
    assert_eq!(shell.run(["queues", "show", "defalt"]).code, Some(2));
}

#[test]
fn a_unique_job_is_stored_once() {
    let shell = Shell::new();
    let first = shell.run(["enqueue", "k", "1", "--unique", "a", "--json"]).ok().json();
    assert_eq!(first["new"], true);
    let second = shell.run(["enqueue", "k", "2", "--unique", "a", "--json"]).ok().json();
    assert_eq!(
        (&second["id"], &second["new"], &second["duplicate"]),
        (&first["id"], &json!(false), &json!("kept"))
    );
    shell.run(["enqueue", "k", "2", "--unique", "a"]).ok().prints("not stored: job");
    shell.run(["enqueue", "k", "2", "--unique", "a", "--replace"]).ok().prints("replaced: job");
    assert_eq!(shell.run(["enqueue", "k", "--unique-until", "start"]).code, Some(2), "of what?");
    shell
        .run(["enqueue", "k", "3", "--unique", "a", "--unique-until", "1h", "--queue", "other"])
        .ok()
        .prints("accepted");
}

#[test]
fn keys_are_limited_paused_and_shown() {
    let shell = Shell::new();
    let id = shell.enqueue(&["k", "--key", "acme"]);
    shell.run(["enqueue", "k", "--key", "acme", "--count", "3"]).ok();
    assert_eq!(shell.show(&id)["key"], "acme");
    shell.run(["jobs", "list"]).ok().prints("key acme");
    let set = [
        "queues",
        "set",
        "default",
        "--per-key-concurrency",
        "1",
        "--per-key-rate",
        "10/1s",
        "--weight",
        "acme=3",
    ];
    shell.run(set).ok().prints("keys in turn, each 1 at once and 10 in 1s, weights acme=3");
    shell.attempt("k", None);
    let show = shell.run(["queues", "show", "default"]).ok();
    show.prints("key acme: 3 ready, 1 running").prints("wait for one of those that run to end");
    shell.run(["queues", "pause", "default", "--key", "acme"]).ok().prints("key acme of default paused");
    shell.run(["queues", "show", "default"]).ok().prints("the key is paused");
    shell.run(["queues", "resume", "default", "--key", "acme"]).ok().prints("key acme of default resumed");
    let json = shell.run(["queues", "set", "default", "--weight", "acme=1", "--json"]).ok().json();
    assert_eq!(
        (&json["rules"]["keys"]["concurrency"], &json["rules"]["keys"]["weights"]),
        (&json!(1), &json!(null))
    );
    shell.run(["queues", "set", "default", "--weight", "acme"]).exits(2).complains("use KEY=N, as acme=5");
    shell.run(["queues", "set", "default", "--weight", "acme=0"]).exits(2).complains("from 1 to 1000");
    shell.run(["enqueue", "k", "--key", "two words"]).exits(2).complains("bad key");
}

#[test]
fn a_full_queue_refuses_and_says_so() {
    let shell = Shell::new();
    shell.run(["queues", "set", "small", "--capacity", "2"]).ok().prints("at most 2 wait");
    shell.run(["enqueue", "k", "--queue", "small", "--count", "2"]).ok();
    shell
        .run(["enqueue", "k", "--queue", "small"])
        .exits(1)
        .complains("queue small is full: 2 jobs wait, and it takes 2");
    shell.run(["queues", "set", "small", "--capacity", "0"]).exits(2).complains("no job could be enqueued");
    shell.run(["queues", "set", "small", "--capacity", "none"]).ok();
    shell.enqueue(&["k", "--queue", "small"]);
}

#[test]
fn priority_can_be_aged() {
    let shell = Shell::new();
    let aged = "priorities aged, 10s for each level";
    shell.run(["queues", "set", "mail", "--aging", "10s"]).ok().prints(aged);
    shell.run(["queues", "show", "mail"]).ok().prints(aged);
    shell.run(["--json", "queues", "show", "mail"]).ok().prints("\"aging_seconds\":10.0");
    for bad in ["0s", "25h"] {
        shell.run(["queues", "set", "mail", "--aging", bad]).exits(2).complains("--aging");
    }
    shell.run(["queues", "set", "mail", "--aging", "500us"]).exits(2).complains("worth 1ms to 24h");
    shell.run(["queues", "set", "mail", "--aging", "none"]).ok();
    shell.run(["queues", "show", "mail"]).ok().prints("mail keeps");
}

#[test]
fn a_queue_has_defaults_for_its_jobs() {
    let shell = Shell::new();
    let set = [
        "queues",
        "set",
        "reports",
        "--default-timeout",
        "5m",
        "--default-attempts",
        "3",
        "--default-priority",
        "-2",
    ];
    shell.run(set).ok().prints("a timeout of 5m, priority -2");
    let id = shell.enqueue(&["k", "--queue", "reports"]);
    let job = shell.show(&id);
    assert_eq!((&job["timeout_seconds"], &job["priority"]), (&json!(300.0), &json!(-2)));
    assert_eq!(job["retry"]["attempts_max"], 3);
    let own =
        shell.enqueue(&["k", "--queue", "reports", "--timeout", "1s", "--priority", "9", "--attempts", "7"]);
    let job = shell.show(&own);
    assert_eq!((&job["timeout_seconds"], &job["priority"]), (&json!(1.0), &json!(9)));
    assert_eq!(job["retry"]["attempts_max"], 7);
    shell.run(["queues", "set", "reports", "--default-timeout", "-1s"]).exits(2);
}
