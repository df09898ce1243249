//! `enqueue`.

use serde_json::json;

use crate::shell::Shell;

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[test]
fn says_id_newness_place_and_durability() {
    let shell = Shell::new();
    shell
        .run(["enqueue", "ping", "--id", ID])
        .ok()
        .prints(&format!("accepted {ID} (new, ready): ping in queue default, survives a power cut\n"))
        .complains("windlass.db")
        .complains("survives a power cut");
    let again = shell.run(["enqueue", "ping", "--id", ID, "--quiet"]).ok().prints("(not new, ready)");
    assert_eq!(again.stderr, "", "--quiet is quiet");
    assert!(shell.path("windlass.db").is_file());
}

#[test]
fn every_option_reaches_the_job() {
    let shell = Shell::new();
    let id = shell.enqueue(&[
        "report",
        r#"{"b": 12345678901234567890123, "a": [1]}"#,
        "--queue=reports",
        "--priority=-7",
        "--delay=1h",
        "--expires-in=2h",
        "--attempts=3",
        "--backoff=linear:10s",
        "--backoff-max=1m",
        "--jitter=none",
        "--timeout=1m 30s",
        "--max-stalls=0",
        "--tag=b",
        "--tag=a",
        "--meta=tenant=acme=1",
        "--meta=empty=",
        "--trace=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ]);
    let job = shell.show(&id);
    for (field, value) in [
        ("id", json!(id)),
        ("kind", json!("report")),
        ("queue", json!("reports")),
        ("state", json!("scheduled")),
        ("priority", json!(-7)),
        ("timeout_seconds", json!(90.0)),
        ("stalls_max", json!(0)),
        ("tags", json!(["a", "b"])),
        ("meta", json!({"tenant": "acme=1", "empty": ""})),
        ("trace", json!({"parent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})),
        ("payload_encoding", json!("json")),
        ("output", json!(null)),
        ("attempts", json!([])),
        (
            "retry",
            json!({"attempts_max": 3, "ambiguous_max": 3, "backoff": "linear", "base_seconds": 10.0,
                   "max_seconds": 60.0, "jitter": "none"}),
        ),
    ] {
        assert_eq!(job[field], value, "{field}");
    }
    let seconds = |from: &str, to: &str| {
        let at = |field: &str| humantime::parse_rfc3339(job[field].as_str().unwrap()).unwrap();
        at(to).duration_since(at(from)).unwrap().as_secs()
    };
    assert_eq!(seconds("enqueued_at", "due_at"), 3_600);
    assert_eq!(seconds("enqueued_at", "expires_at"), 7_200);
    let raw = shell.run(["jobs", "show", "--json", &id]).ok();
    raw.prints("12345678901234567890123"); // every digit
}

#[test]
fn an_instant_can_be_given() {
    let shell = Shell::new();
    let id = shell.enqueue(&["ping", "--at", "2130-01-01T00:00:00Z"]);
    assert_eq!(shell.show(&id)["due_at"], "2130-01-01T00:00:00.000000Z");
    shell.run(["enqueue", "ping", "--at", "2130-01-01T00:00:00Z", "--delay", "1s"]).exits(2);
}

#[test]
fn options_that_make_no_sense_store_nothing() {
    let shell = Shell::new();
    shell.run(["enqueue", "k", "--timeout", "0s"]).exits(2).complains("a timeout of zero");
    shell.run(["enqueue", "k", "--attempts", "0"]).exits(2);
    shell.run(["enqueue", "k", "--backoff", "exponential:1s:NaN"]).exits(2).complains("exponential:2s:3");
    shell.run(["jobs", "list"]).exits(3);
}

#[test]
fn payloads_come_from_arguments_files_and_standard_input() {
    let shell = Shell::new();
    std::fs::write(shell.path("payload.json"), "{\"from\":\n \"file\"}\n").unwrap();
    let file = shell.enqueue(&["k", "@payload.json"]);
    assert_eq!(shell.show(&file)["payload"], json!({"from": "file"}));
    let ran = shell.run_with_input(&["enqueue", "k", "-", "--json"], b" [1, 2] \n").ok();
    assert_eq!(shell.show(ran.json()["id"].as_str().unwrap())["payload"], json!([1, 2]));
    let none = shell.enqueue(&["k"]);
    assert_eq!(shell.show(&none)["payload"], json!(null));
    let negative = shell.enqueue(&["k", "-5"]);
    assert_eq!(shell.show(&negative)["payload"], json!(-5));
}

#[test]
fn raw_payloads_are_kept_as_they_are_and_marked() {
    let shell = Shell::new();
    let text = shell.enqueue(&["k", "a,b", "--raw"]);
    let job = shell.show(&text);
    assert_eq!((&job["payload"], &job["payload_encoding"]), (&json!("a,b"), &json!("utf8")));
    std::fs::write(shell.path("bytes"), [0xff, 0x00, 0xfe]).unwrap();
    let bytes = shell.enqueue(&["k", "@bytes", "--raw"]);
    let job = shell.show(&bytes);
    assert_eq!((&job["payload"], &job["payload_encoding"]), (&json!("/wD+"), &json!("base64")));
    shell.run(["jobs", "show", &bytes]).ok().prints("3 bytes that are no text: ff 00 fe");
    let empty = shell.enqueue(&["k", "--raw"]);
    assert_eq!(shell.show(&empty)["payload"], json!(""));
}

#[test]
fn many_jobs_are_handed_in_at_once() {
    let shell = Shell::new();
    shell.run(["enqueue", "k", "--count", "2500"]).ok().prints("accepted 2500 jobs: k in queue default");
    let lines = shell.run(["enqueue", "k", "--count", "3", "--json"]).ok().json_lines();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line["new"] == true && line["durability"] == "power_cut"));
    let queues = shell.run(["queues", "--json"]).ok().json();
    assert_eq!(queues["queues"][0]["counts"]["ready"], 2503);
}

#[test]
fn what_makes_no_sense_is_refused_before_a_store_is_made() {
    let shell = Shell::new();
    for (args, complaint) in [
        (vec!["k", "{\"a\":1,}"], "the payload is not JSON: key must be a string at line 1 column 8"),
        (vec!["k", "{} {}"], "trailing characters at line 1 column 4"),
        (vec!["k", ""], "EOF while parsing"),
        (vec!["k", "@missing.json"], "cannot read the payload from missing.json: No such file"),
        (vec!["two\nlines"], "bad kind: name \"two\\nlines\" has '\\n' at position 3"),
        (vec!["k", "--queue", "a b"], "bad queue: name \"a b\""),
        (vec!["k", "--tag", ""], "bad tag: name is empty"),
        (vec!["k", "--delay", "soon"], "use forms such as 300ms, 2h or 1h 30m"),
        (vec!["k", "--at", "tomorrow"], "use UTC, as 2026-11-15T08:30:00Z"),
        (vec!["k", "--priority", "40000"], "40000 is not in -32768..=32767"),
        (vec!["k", "--attempts", "0"], "0 is not in 1.."),
        (vec!["k", "--backoff", "sometimes:1s"], "no such backoff; use fixed:10s"),
        (vec!["k", "--jitter", "some"], "use none, equal, full, decorrelated or share:0.1"),
        (vec!["k", "--id", "12"], "\"12\" is not a job id: expected a UUID"),
        (vec!["k", "--id", ID, "--count", "2"], "cannot be used with"),
    ] {
        shell.run(["enqueue"].iter().chain(&args)).exits(2).complains(complaint);
    }
    assert!(!shell.path("windlass.db").exists(), "nothing was touched");
}

#[test]
fn what_the_store_refuses_is_a_failure() {
    let shell = Shell::new();
    shell.run(["enqueue", "k", "1", "--id", ID]).ok();
    shell
        .run(["enqueue", "k", "2", "--id", ID])
        .exits(1)
        .complains(&format!("error: job id {ID} is taken by a different job"));
    let large = format!("\"{}\"", "x".repeat(2 << 20));
    shell
        .run_with_input(&["enqueue", "k", "-"], large.as_bytes())
        .exits(1)
        .complains("payload has 2097154 bytes, the cap is 1048576");
}
