//! Choosing a store, and stores that cannot be used.

use serde_json::json;

use crate::shell::{Shell, finish};

#[test]
fn looking_makes_no_store() {
    let shell = Shell::new();
    for args in [
        vec!["jobs", "list"],
        vec!["queues"],
        vec!["workers"],
        vec!["prune"],
        vec!["dead", "groups"],
        vec!["dead", "archive", "--to", "dead.jsonl"],
        vec!["records", "list", "mail"],
    ] {
        shell
            .run(&args)
            .exits(3)
            .complains("there is no store at")
            .complains("windlass.db")
            .complains("--store");
        let named = [args.as_slice(), &["--store", "sqlite://typo.db"]].concat();
        shell.run(named).exits(3).complains("there is no store at typo.db");
    }
    assert_eq!(std::fs::read_dir(shell.folder()).unwrap().count(), 0);
}

#[test]
fn the_argument_wins_over_the_environment_and_that_over_the_default() {
    let shell = Shell::new();
    shell.run(["enqueue", "in-default"]).ok();
    finish(shell.command(["enqueue", "in-environment"]).env("WINDLASS_STORE", "sqlite://environment.db"))
        .ok();
    finish(
        shell
            .command(["enqueue", "in-argument", "--store", "sqlite:argument.db?synchronous=normal"])
            .env("WINDLASS_STORE", "sqlite://environment.db"),
    )
    .ok()
    .prints("survives a crash, a power cut may take the newest jobs")
    .complains("argument.db");
    for (file, kind) in
        [("windlass.db", "in-default"), ("environment.db", "in-environment"), ("argument.db", "in-argument")]
    {
        let page = shell.run(["jobs", "list", "--json", "--store", &format!("sqlite://{file}")]).ok().json();
        assert_eq!(page["jobs"].as_array().unwrap().len(), 1);
        assert_eq!(page["jobs"][0]["kind"], kind);
    }
}

#[test]
fn a_store_that_cannot_be_used_says_why() {
    let shell = Shell::new();
    std::fs::write(shell.path("notes.txt"), "these are notes, and they are long enough to be looked at")
        .unwrap();
    std::fs::create_dir(shell.path("folder")).unwrap();
    for (url, complaint) in [
        ("mysql://db/jobs", "sqlite"),
        ("postgres:///jobs", "the URL names no host"),
        ("redis:///jobs", "the database is not a number"),
        ("jobs.db", "sqlite"),
        ("sqlite://", "names no file"),
        ("sqlite://nowhere/jobs.db", "there is no directory nowhere"),
        ("sqlite://folder", "is a directory"),
        ("sqlite://notes.txt", "is not an SQLite database"),
        ("sqlite://jobs.db?mode=ro", "unknown parameter \"mode\""),
    ] {
        let ran =
            shell.run(["enqueue", "k", "--store", url]).exits(3).complains("error: ").complains(complaint);
        assert_eq!(ran.stderr.lines().count(), 1, "one line, no backtrace, no structure: {}", ran.stderr);
    }
    assert!(!shell.path("jobs.db").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_place_without_the_right_to_write_says_so() {
    let shell = Shell::new();
    // Not even root makes files there.
    shell
        .run(["enqueue", "k", "--store", "sqlite:///sys/windlass.db"])
        .exits(3)
        .complains("ermission denied");
}

#[test]
fn a_newer_schema_is_left_alone() {
    let shell = Shell::new();
    let id = shell.enqueue(&["k"]);
    let file = rusqlite::Connection::open(shell.path("windlass.db")).unwrap();
    assert_eq!(file.execute("UPDATE windlass_meta SET value = 99 WHERE key = 'layout'", []).unwrap(), 1);
    for args in
        [vec!["jobs", "show", &id], vec!["enqueue", "k"], vec!["migrate"], vec!["migrate", "--dry-run"]]
    {
        shell.run(args).exits(3).complains("the store has schema 99").complains("upgrade the program");
    }
}

#[test]
fn migrate_shows_applies_and_then_has_nothing_to_do() {
    let shell = Shell::new();
    shell.run(["migrate", "--dry-run"]).ok().prints("-- 0001 jobs").prints("CREATE TABLE");
    assert!(!shell.path("windlass.db").exists(), "a dry run changes nothing");
    let pending = shell.run(["migrate", "--dry-run", "--json"]).ok().json();
    assert_eq!((&pending["found"], &pending["applied"]), (&json!(0), &json!(false)));
    assert_eq!(pending["pending"][0]["version"], 1);
    shell.run(["migrate"]).ok().prints("applied 0001 jobs");
    shell.run(["migrate"]).ok().prints("is up to date");
    shell.run(["migrate", "--store", "memory:"]).ok().prints("nothing to migrate");
    shell.run(["migrate", "--store", "nonsense:"]).exits(3);
}
