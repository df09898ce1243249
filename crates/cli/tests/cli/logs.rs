//! `jobs logs` and `jobs tail`: what attempts have said, and what happens to a job until its end.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::worker::LogLevel;
use windlass::{Ctx, Job, JobError, Options, Retry, Worker};

use crate::hostile::{HOSTILE, assert_harmless};
use crate::shell::Shell;

#[derive(Serialize, Deserialize)]
struct Chat {
    lines: Vec<String>,
    /// How often it says all of them.
    times: u32,
    attempts: u32,
}

impl Job for Chat {
    const KIND: &'static str = "chat";
    type Output = ();

    fn options() -> Options {
        Options::new().retry(Retry::fixed(5, Duration::ZERO))
    }
}

async fn chat(job: Chat, ctx: Ctx) -> Result<(), JobError> {
    for _ in 0..job.times {
        job.lines.iter().for_each(|line| ctx.log(LogLevel::Info, line));
    }
    ctx.progress(&json!({ "percent": 50, "note": job.lines.first() }))?;
    match ctx.attempt() < job.attempts {
        true => Err(JobError::new(format!("not yet {HOSTILE}"))),
        false => Ok(()),
    }
}

impl Shell {
    /// Runs every job that waits.
    fn drain(&self) {
        let url = format!("sqlite://{}", self.path("windlass.db").display());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = windlass::open(&url).await.unwrap();
            Worker::new(&client).handle(chat).name(HOSTILE).drain().await.unwrap();
        });
    }

    fn chat(&self, lines: &[&str], attempts: u32) -> String {
        self.chat_on(lines, 1, attempts)
    }

    fn chat_on(&self, lines: &[&str], times: u32, attempts: u32) -> String {
        let payload = json!({ "lines": lines, "times": times, "attempts": attempts }).to_string();
        self.enqueue(&["chat", &payload, "--attempts", "5", "--backoff", "fixed:0s"])
    }
}

#[test]
fn lines_are_shown_by_attempt() {
    let shell = Shell::new();
    let id = shell.chat(&["begins", "goes on"], 2);
    shell.drain();
    let shown = shell.run(["jobs", "logs", &id]).ok();
    let texts: Vec<&str> = shown.stdout.lines().map(|line| line.rsplit("  ").next().unwrap()).collect();
    assert_eq!(texts, ["begins", "goes on", "begins", "goes on"]);
    assert!(shown.stdout.lines().all(|line| line.contains("  info   ")), "{}", shown.stdout);
    let second = shell.run(["jobs", "logs", &id, "--attempt", "2", "--json"]).ok().json_lines();
    let of = |line: &Value| (line["attempt"].clone(), line["number"].clone(), line["text"].clone());
    let expected = [(json!(2), json!(1), json!("begins")), (json!(2), json!(2), json!("goes on"))];
    assert_eq!(second.iter().map(of).collect::<Vec<_>>(), expected);
    assert_eq!((&second[0]["level"], &second[0]["dropped"]), (&json!("info"), &json!(0)));
    shell.run(["jobs", "logs", &id, "--attempt", "3"]).ok().complains("nothing was said");
    // Without its job, the queue has to be named.
    shell.run(["jobs", "delete", "--yes", &id]).ok();
    shell.run(["jobs", "logs", &id]).exits(4).complains("no such job").complains("--queue");
    shell.run(["jobs", "logs", &id, "--queue", "default"]).ok().prints("goes on");
    shell.run(["jobs", "logs", "12"]).exits(2);
}

#[test]
fn what_is_dropped_is_said() {
    let shell = Shell::new();
    let line = "x".repeat(3_000);
    let id = shell.chat_on(&[&line], 200, 1);
    shell.drain();
    let shown = shell.run(["jobs", "logs", &id]).ok().prints(" lines dropped\n");
    let json = shell.run(["jobs", "logs", &id, "--json"]).ok().json_lines();
    let dropped: u64 = json.iter().map(|line| line["dropped"].as_u64().unwrap()).sum();
    assert_eq!(dropped as usize + json.len(), 200);
    assert!(shown.stdout.contains(&format!("… {dropped} lines dropped")), "{dropped}");
}

#[test]
fn lines_errors_and_reports_cannot_command_the_terminal() {
    let shell = Shell::new();
    let huge = format!("{HOSTILE}\nsecond\u{0}{}", "\u{1b}[2J".repeat(5_000));
    let id = shell.chat(&[HOSTILE, &huge, "\u{feff}\u{2028}\r\n\t"], 2);
    shell.drain();
    for command in ["logs", "tail"] {
        for args in [vec!["jobs", command, &id], vec!["jobs", command, &id, "--json"]] {
            let ran = shell.run(args).ok();
            assert_harmless(&ran.stdout);
            assert_harmless(&ran.stderr);
        }
    }
    let shown = shell.run(["jobs", "logs", &id]).ok();
    assert!(shown.stdout.lines().all(|line| line.len() < 12_000), "a huge line is cut");
    shown.prints("\\u{1b}[31m").prints("\\u{202e}txt.exe");
    let lines = shell.run(["jobs", "logs", &id, "--json"]).ok().json_lines();
    assert_eq!(lines[0]["text"], HOSTILE, "programs get what was said");
    // Records that look like a log, and are not.
    shell.run(["records", "put", "default", &format!("log/{id}/x\u{1b}/y"), "17"]).ok();
    shell
        .run(["records", "put", "default", &format!("log/{id}/00000000000000000009/1"), "{\"lines\":[9]}"])
        .ok();
    assert_eq!(shell.run(["jobs", "logs", &id, "--json"]).ok().json_lines().len(), lines.len());
    assert_harmless(&shell.run(["records", "list", "default"]).ok().stdout);
}

#[test]
fn a_job_is_followed_to_its_end() {
    let shell = Shell::new();
    let id = shell.chat(&["hello"], 2);
    let mut command = shell.command(["jobs", "tail", &id]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut seen = String::new();
    stdout.read_line(&mut seen).unwrap();
    assert_eq!(seen, "  -  ready\n");
    shell.drain();
    stdout.read_to_string(&mut seen).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{seen}");
    assert_eq!(seen.matches("hello").count(), 3, "two lines and a report: {seen}");
    for wanted in ["  1  failed by ", ": not yet red", "progress 50 % {", &format!("{id} completed")] {
        assert!(seen.contains(wanted), "no {wanted:?} in {seen}");
    }
    let events = shell.run(["jobs", "tail", &id, "--json"]).ok().json_lines();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["line", "attempt", "line", "attempt", "progress", "ended"]);
    assert_eq!((&events[1]["ending"], &events[4]["percent"]), (&json!("failed"), &json!(50.0)));
    assert_eq!(events[5]["job"]["state"], "completed");
}

#[test]
fn the_exit_code_says_how_it_ended() {
    let shell = Shell::new();
    let dead = shell.enqueue(&["dead"]);
    shell.kill("dead", "refused \u{1b}[2J");
    shell.run(["jobs", "tail", &dead]).exits(1).prints("dead (permanent): refused \\u{1b}[2J");
    let cancelled = shell.enqueue(&["cancelled"]);
    shell.run(["jobs", "cancel", &cancelled]).ok();
    shell.run(["jobs", "tail", &cancelled]).exits(5).prints("cancelled");
    let late = shell.enqueue(&["late"]);
    shell.run(["jobs", "tail", &late, "--timeout", "10ms"]).exits(6).complains("has not ended in time");
    shell.run(["jobs", "tail", "01890a5d-ac96-774b-bcce-b302099a8057"]).exits(4).complains("no such job");
    shell.run(["jobs", "logs", &late]).ok().complains("nothing was said");
}
