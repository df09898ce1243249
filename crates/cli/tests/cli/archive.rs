//! `dead archive` and `dead import`.

use serde_json::{Value, json};

use crate::shell::Shell;

/// A dead job with everything that an archive must keep.
fn scene() -> (Shell, String) {
    let shell = Shell::new();
    let id = shell.enqueue(&[
        "charge",
        r#"{"n":12345678901234567890123}"#,
        "--tag",
        "eu",
        "--meta",
        "tenant=acme",
        "--key",
        "acme",
        "--priority",
        "7",
        "--attempts",
        "3",
        "--timeout",
        "5s",
        "--unique",
        "order-7",
    ]);
    shell.kill("charge", "refused \u{1b}[2J \u{202e}");
    (shell, id)
}

fn imported(shell: &Shell) -> Vec<Value> {
    let page = shell.run(["jobs", "list", "--state", "ready", "--json"]).ok().json();
    page["jobs"].as_array().unwrap().clone()
}

#[test]
fn an_archive_holds_all_of_a_job_and_is_imported_once() {
    let (shell, id) = scene();
    for file in ["dead.jsonl", "dead.jsonl.gz"] {
        let answer = shell.run(["dead", "archive", "--to", file, "--json"]).ok().json();
        assert_eq!((&answer["written"], &answer["removed"]), (&json!(1), &json!(0)));
        shell.run(["dead", "archive", "--to", file]).exits(2).complains("is there already");
    }
    let plain = std::fs::read_to_string(shell.path("dead.jsonl")).unwrap();
    assert!(!plain.trim_end().contains(|c: char| c.is_control() || c == '\u{202e}'), "{plain:?}");
    let line: Value = serde_json::from_str(&plain).unwrap();
    assert_eq!((&line["id"], &line["queue"], &line["key"]), (&json!(id), &json!("default"), &json!("acme")));
    assert_eq!((&line["tags"], &line["meta"]), (&json!(["eu"]), &json!({"tenant": "acme"})));
    assert_eq!(line["attempts"][0]["error"], "refused \u{1b}[2J \u{202e}");
    let compressed = std::fs::read(shell.path("dead.jsonl.gz")).unwrap();
    assert_eq!(compressed[..2], [0x1f, 0x8b]);

    let first = shell.run(["dead", "import", "dead.jsonl.gz", "--json"]).ok().json();
    assert_eq!(first, json!({"read": 1, "stored": 1, "known": 0, "held": 0}));
    let second = shell.run(["dead", "import", "dead.jsonl", "--json"]).ok().json();
    assert_eq!(second, json!({"read": 1, "stored": 0, "known": 1, "held": 0}));
    let jobs = imported(&shell);
    assert_eq!(jobs.len(), 1, "stored once");
    let (new, old) = (&jobs[0], shell.show(&id));
    for field in ["queue", "kind", "key", "priority", "payload", "tags", "retry", "timeout_seconds"] {
        assert_eq!(new[field], old[field], "{field}");
    }
    assert_eq!(new["meta"], json!({"tenant": "acme", "windlass.again_of": id}));
    assert_eq!(old["state"], "dead", "it was not to be purged");
    shell.run(["enqueue", "charge", "--unique", "order-7"]).ok().prints("not stored: job ");
}

#[test]
fn a_purge_follows_the_archive() {
    let shell = Shell::new();
    shell.bury("k", 250, "gone");
    shell.bury("other", 1, "gone");
    let args = ["dead", "archive", "--kind", "k", "--to", "k.jsonl.gz", "--purge", "--json"];
    let answer = shell.run(args).ok().json();
    assert_eq!(
        (&answer["written"], &answer["removed"], &answer["left"]),
        (&json!(250), &json!(250), &json!(0))
    );
    let left = shell.run(["dead", "groups", "--json"]).ok().json();
    assert_eq!((&left["looked"], &left["groups"][0]["kind"]), (&json!(1), &json!("other")));
    shell.run(["dead", "import", "k.jsonl.gz"]).ok().prints("250 jobs read: 250 stored");
    shell.run(["dead", "import", "k.jsonl.gz"]).ok().prints("0 stored, 250 known");
}

#[test]
fn nothing_is_removed_without_a_file() {
    let (shell, id) = scene();
    let lost = shell.run(["dead", "archive", "--to", "no/such/folder/dead.jsonl", "--purge"]);
    lost.exits(1).complains("cannot make no/such/folder/dead.jsonl");
    assert_eq!(shell.show(&id)["state"], "dead");
    let names: Vec<_> =
        std::fs::read_dir(shell.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name.to_str().unwrap().starts_with("windlass.db")), "{names:?}");
}

#[test]
fn a_file_that_is_not_an_archive_is_refused_with_its_line() {
    let (shell, _) = scene();
    shell.run(["dead", "archive", "--to", "dead.jsonl"]).ok();
    let whole = std::fs::read_to_string(shell.path("dead.jsonl")).unwrap();
    let mut line: Value = serde_json::from_str(&whole).unwrap();
    let import = |content: &[u8]| {
        std::fs::write(shell.path("bad"), content).unwrap();
        shell.run(["dead", "import", "bad"]).exits(1)
    };
    import(b"{}\n").complains("line 1 of bad: not a dead job: missing field");
    import(b"\x1b[2J\xff\xfe\n").complains("line 1 of bad: not a dead job");
    import(whole.trim_end().as_bytes()).complains("line 1 of bad has no end");
    import(&[0x1f, 0x8b, 8, 0, 1, 2, 3]).complains("bad is damaged after line 0");
    line["form"] = json!(99);
    import(format!("{line}\n").as_bytes()).complains("form 99 is newer than this program");
    line["form"] = json!(1);
    line["payload"] = json!("%%%");
    import(format!("{line}\n").as_bytes()).complains("its payload:");
    assert!(imported(&shell).is_empty(), "nothing of these was stored");

    // What stands before the damage is stored, and only once.
    let half = import(format!("{whole}{{}}\n").as_bytes());
    half.prints("1 job read: 1 stored").complains("it can be repeated: line 2 of bad");
    import(format!("{whole}{{}}\n").as_bytes()).prints("0 stored, 1 known");
    shell.run(["dead", "archive", "--to", "whole.gz"]).ok();
    let compressed = std::fs::read(shell.path("whole.gz")).unwrap();
    import(&compressed[..compressed.len() - 9]).complains("bad is damaged after line ");
    shell.run(["dead", "import", "no-such-file"]).exits(2).complains("cannot read no-such-file");
}
