//! Every command through a real server: looking, changing, a demo whose workers crash, a worker that is killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::shell::{Ran, Shell, finish};

/// `windlass serve` on the file `windlass.db` of a folder; killed when this is dropped.
struct Served<'s> {
    shell: &'s Shell,
    server: Child,
    url: String,
}

impl<'s> Served<'s> {
    fn start(shell: &'s Shell, args: &[&str]) -> Self {
        let mut command =
            shell.command(["serve", "--json", "--listen", "127.0.0.1:0", "--quiet"].iter().chain(args));
        let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        Self { shell, server, url: said["url"].as_str().unwrap().to_owned() }
    }

    /// A command that works through the server.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.shell.command(args.iter().copied().chain(["--server", &self.url]));
        for name in ["WINDLASS_TOKEN", "WINDLASS_TOKEN_FILE"] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        finish(&mut self.command(args))
    }

    /// A worker with the kinds of the demo.
    fn worker(&self) -> Worker {
        let mut command = self.command(&["demo", "--as-worker", "--lease", "1s"]);
        Worker(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

/// A worker process, killed when this is dropped at the latest.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

#[test]
fn commands_do_through_a_server_what_they_do_on_the_store() {
    let shell = Shell::new();
    let served = Served::start(&shell, &[]);
    let accepted =
        served.run(&["enqueue", "k", r#"{"n":1}"#, "--queue", "mail", "--tag", "t", "--json"]).ok();
    let id = accepted.json()["id"].as_str().unwrap().to_owned();
    let own = shell.show(&id);
    assert_eq!(served.run(&["jobs", "show", "--json", &id]).ok().json(), own, "as the store itself says it");
    assert_eq!(
        served.run(&["jobs", "list", "--json", "--queue", "mail"]).ok().json()["jobs"][0]["id"],
        json!(id)
    );
    served.run(&["queues", "set", "mail", "--rate", "500/1m", "--concurrency", "3"]).ok();
    served.run(&["queues", "pause", "mail", "--why", "test"]).ok();
    served.run(&["explain", &id]).ok().prints("paused");
    served.run(&["queues", "resume", "mail"]).ok();
    served.run(&["queues", "show", "mail"]).ok().prints("500 in 1m");
    served.run(&["records", "put", "mail", "key", r#"{"a":1}"#]).ok();
    served.run(&["records", "get", "mail", "key"]).ok().prints("\"a\": 1");
    served.run(&["schedules", "set", "s", "k", "--every", "1h"]).ok();
    served.run(&["schedules", "list"]).ok().prints("1h");
    served.run(&["workers"]).ok();
    served.run(&["prune"]).ok();
    served.run(&["doctor"]).exits(2).prints("mail");
    served.run(&["jobs", "cancel", &id]).ok();
    served.run(&["jobs", "retry", &id]).ok();
    served.run(&["jobs", "delete", "--yes", &id]).ok();
    served.run(&["jobs", "show", &id]).exits(4);
    shell.run(["jobs", "show", &id]).exits(4);
    let top = served.run(&["top", "--once", "--json", "--interval", "200ms"]).ok().json();
    assert!(top["queues"].as_array().unwrap().iter().any(|queue| queue["name"] == "mail"), "{top}");
    served.run(&["migrate"]).exits(2).complains("by its own URL");
}

#[test]
fn a_server_is_named_in_one_way_and_its_absence_said() {
    let shell = Shell::new();
    let dead = "http://127.0.0.1:9";
    shell.run(["queues", "--server", dead]).exits(3).complains("cannot connect to the server");
    shell.run(["queues", "--server", dead, "--store", "memory:"]).exits(2).complains("give one of them");
    shell.run(["queues", "--server", "sqlite://jobs.db"]).exits(2).complains("begins with http://");
    shell.run(["queues", "--store", "memory:", "--token-file", "f"]).exits(2).complains("is for servers");
    shell
        .run(["queues", "--server", dead, "--token-file", "nowhere"])
        .exits(3)
        .complains("the token file nowhere");
    shell.run(["queues", "--server", "http://u:S3cret@h"]).exits(3).complains("holds no password");
}

#[test]
fn tokens_decide_who_may_do_what() {
    let shell = Shell::new();
    let token = |name: &str, args: &[&str]| {
        let made = shell.run(["tokens", "create", name, "--json"].iter().chain(args)).ok().json();
        let file = shell.path(&format!("{name}.token"));
        std::fs::write(&file, made["token"].as_str().unwrap()).unwrap();
        file.display().to_string()
    };
    let (viewer, operator) =
        (token("viewer", &["--role", "viewer"]), token("operator", &["--role", "operator"]));
    let limited = token("limited", &["--role", "operator", "--queue", "mail"]);
    let served = Served::start(&shell, &["--auth", "tokens"]);
    let as_role = |file: &str, args: &[&str]| served.run(&[args, &["--token-file", file]].concat());

    served.run(&["queues"]).exits(3).complains("wants a token");
    std::fs::write(shell.path("wrong.token"), "wl_wrong").unwrap();
    as_role("wrong.token", &["queues"]).exits(3).complains("does not know this token");

    let mail = as_role(&operator, &["enqueue", "k", "--queue", "mail", "--json"]).ok().json()["id"].clone();
    let other = as_role(&operator, &["enqueue", "k", "--queue", "other", "--json"]).ok().json()["id"].clone();
    let (mail, other) = (mail.as_str().unwrap(), other.as_str().unwrap());

    as_role(&viewer, &["queues"]).ok().prints("other");
    as_role(&viewer, &["enqueue", "k"]).exits(1).complains("use one of role operator");
    as_role(&viewer, &["jobs", "cancel", mail]).exits(1).complains("use one of role operator");
    as_role(&operator, &["queues", "remove", "mail"]).exits(1).complains("use one of role admin");

    let page = as_role(&limited, &["jobs", "list", "--json"]).ok().json();
    assert_eq!(page["jobs"].as_array().unwrap().len(), 1, "{page}");
    as_role(&limited, &["jobs", "show", other]).exits(4);
    as_role(&limited, &["jobs", "cancel", other]).exits(1).complains("does not reach queue other");
    as_role(&limited, &["enqueue", "k", "--queue", "other"]).exits(1).complains("does not reach queue other");
    as_role(&limited, &["jobs", "cancel", mail]).ok();
    as_role(&operator, &["records", "list", "windlass.server"]).exits(1).complains("does not reach");
}

#[test]
fn a_demo_through_a_server_loses_nothing() {
    let shell = Shell::new();
    let served = Served::start(&shell, &[]);
    let summary = served.run(&["demo", "--json", "--jobs", "20", "--lease", "1s"]).ok().json();
    assert_eq!((&summary["lost"], &summary["unexpected"]), (&json!(0), &json!(0)), "{summary}");
    assert_eq!((&summary["dead"], &summary["cancelled"]), (&json!(5), &json!(2)));
    assert!(summary["crashes"].as_u64() >= Some(2) && summary["stalls"].as_u64() >= Some(2), "{summary}");
}

#[test]
fn the_job_of_a_worker_that_is_killed_is_finished_by_another() {
    let shell = Shell::new();
    let served = Served::start(&shell, &[]);
    let job = ["enqueue", "demo.slow", r#"{"number":1}"#, "--queue", "demo", "--timeout", "60s", "--json"];
    let id = served.run(&job).ok().json()["id"].as_str().unwrap().to_owned();
    let show = || served.run(&["jobs", "show", "--json", &id]).ok().json();
    let until = |what: &str, is_there: &dyn Fn(&Value) -> bool| {
        let began = Instant::now();
        while !is_there(&show()) {
            assert!(began.elapsed() < Duration::from_secs(60), "{what} after a minute: {}", show());
        }
    };
    let mut first = served.worker();
    until("its handler has not begun", &|job| job["state"] == "running" && job["has_begun"] == true);
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    let _second = served.worker();
    until("no other worker finished it", &|job| job["state"] == "completed");
    assert_eq!(show()["stalls"], 1, "{}", show());
}
