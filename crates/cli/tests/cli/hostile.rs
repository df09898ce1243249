//! Stored text that means harm, readers that go away, and colours.

use std::io::Read;
use std::process::Stdio;

use crate::shell::{Shell, finish};

pub(crate) const HOSTILE: &str =
    "red \u{1b}[31m clear \u{1b}[2J title \u{1b}]0;owned\u{7} \u{9b}1A reversed \u{202e}txt.exe";

pub(crate) fn assert_harmless(text: &str) {
    let hazard = |c: char| {
        c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(hazard), "{text:?}");
}

#[test]
fn stored_text_cannot_command_the_terminal() {
    let shell = Shell::new();
    let id = shell.enqueue(&["k", HOSTILE, "--raw"]);
    shell.kill("k", HOSTILE);
    for args in [vec!["jobs", "show", &id], vec!["jobs", "list"], vec!["workers"]] {
        assert_harmless(&shell.run(args).ok().stdout);
    }
    shell.run(["jobs", "show", &id]).ok().prints("\\u{1b}[31m").prints("\\u{202e}txt.exe");

    let json = shell.run(["jobs", "show", "--json", &id]).ok();
    assert_harmless(&json.stdout);
    assert_eq!(json.json()["payload"], HOSTILE, "programs get what was stored");
    assert_eq!(json.json()["attempts"][0]["error"], HOSTILE);
}

#[test]
fn dead_letters_and_records_cannot_command_the_terminal() {
    let shell = Shell::new();
    let huge = format!("{HOSTILE}{}\nsecond \u{1b}[2J", "x".repeat(50_000));
    let id = shell.enqueue(&["k", HOSTILE, "--raw", "--meta", "note=\u{1b}[2J"]);
    shell.kill("k", &huge);
    let edit = ["dead", "edit", &id, "--raw", "--payload", "-", "--why", HOSTILE, "--by", HOSTILE];
    let ran = shell.run_with_input(&edit, b"\xff\xfe\x1b[2J").ok();
    assert_harmless(&ran.stdout);
    let again = shell.run_with_input(&edit, b"1").exits(1);
    assert_harmless(&again.stderr);
    let key = &HOSTILE[..HOSTILE.len().min(200)];
    let value = serde_json::to_string(HOSTILE).unwrap();
    shell.run(["records", "put", "default", key, &value]).ok();
    for args in [
        vec!["dead", "list"],
        vec!["dead", "sample"],
        vec!["dead", "groups"],
        vec!["dead", "show", &id],
        vec!["dead", "replay", "--error", HOSTILE],
        vec!["jobs", "list"],
        vec!["records", "list", "default"],
        vec!["records", "get", "default", key],
        vec!["records", "put", "default", key, &value],
        vec!["records", "remove", "default", key],
    ] {
        let with_json = args.iter().copied().chain(["--json"]);
        for ran in [shell.run(args.clone()), shell.run(with_json)] {
            assert_harmless(&ran.stdout);
            assert_harmless(&ran.stderr);
        }
    }
    let lines = shell.run(["dead", "list"]).ok();
    assert!(lines.stdout.lines().all(|line| line.len() < 1_000), "a huge error is cut");
    let json = shell.run(["dead", "list", "--json"]).ok().json();
    assert_eq!(json["jobs"][0]["payload"], HOSTILE, "programs get what was stored");
}

#[test]
fn hostile_json_stays_the_same_json_on_one_line() {
    let shell = Shell::new();
    let payload = "{\n\t\"name\": \"a\u{202e}b\u{9b}c\"\r\n}";
    let id = shell.enqueue(&["k", payload]);
    let json = shell.run(["jobs", "list", "--json"]).ok();
    assert_harmless(&json.stdout);
    assert_eq!(json.json()["jobs"][0]["payload"], serde_json::json!({"name": "a\u{202e}b\u{9b}c"}));
    assert_harmless(&shell.run(["jobs", "show", &id]).ok().stdout);
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let shell = Shell::new();
    shell.run(["enqueue", "k", "--count", "1000"]).ok();
    for args in [
        vec!["jobs", "list", "--limit", "1000"],
        vec!["jobs", "list", "--limit", "1000", "--json"],
        vec!["completions", "bash"],
    ] {
        let mut command = shell.command(&args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 1];
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut first).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        assert!(!stderr.contains("error") && !stderr.contains("panicked"), "{args:?}: {stderr}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let shell = Shell::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = finish(shell.command(["enqueue", "k"]).stdout(full).stderr(Stdio::piped()));
    ran.exits(1).complains("error: cannot write the output: No space left");
}

#[test]
fn colours_can_be_forced_and_are_off_otherwise() {
    let shell = Shell::new();
    let forced = finish(shell.command(["jobs", "list"]).env("CLICOLOR_FORCE", "1")).exits(3);
    assert!(forced.stderr.contains("\u{1b}["), "{:?}", forced.stderr);
    let refused = finish(shell.command(["jobs", "list"]).env("NO_COLOR", "1")).exits(3);
    assert!(!refused.stderr.contains('\u{1b}'));
    assert!(!shell.run(["jobs", "list"]).exits(3).stderr.contains('\u{1b}'));
}
