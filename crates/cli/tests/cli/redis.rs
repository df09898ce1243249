//! The command on a real Redis server and Cluster, each test in a namespace of its own.

use serde_json::{Value, json};
use windlass_store_testkit::servers::{Aof, RedisCluster, RedisServer, RedisSettings};

use crate::shell::{Ran, Shell, finish};

/// A namespace of a server.
fn url(server: &str, name: &str) -> String {
    let separator = if server.contains('?') { '&' } else { '?' };
    format!("{server}{separator}namespace=cli-{name}-{}", std::process::id())
}

#[track_caller]
fn every_command_works(url: &str) {
    let shell = Shell::new();
    let run = |args: &[&str]| -> Ran { finish(shell.command(args).env("WINDLASS_STORE", url)) };
    for args in [&["jobs", "list"][..], &["queues"], &["workers"], &["prune"]] {
        run(args).ok();
    }
    let enqueue =
        ["enqueue", "mail.send", r#"{"to":"ada"}"#, "--queue", "mail", "--tag", "b", "--tag", "a", "--json"];
    let ran = run(&enqueue).ok().complains("store: redis ").complains("survives");
    let id = ran.json()["id"].as_str().unwrap().to_owned();
    run(&["enqueue", "ping", "--count", "2500", "--delay", "1h"]).ok();

    let shown = run(&["jobs", "show", "--json", &id]).ok().json();
    assert_eq!((&shown["payload"], &shown["tags"]), (&json!({"to": "ada"}), &json!(["a", "b"])));
    run(&["jobs", "show", &id]).ok().prints("mail.send");
    let page = run(&["jobs", "list", "--json", "--tag", "a"]).ok().json();
    assert_eq!(page["jobs"][0]["id"], json!(id));
    run(&["jobs", "cancel", &id]).ok();
    run(&["jobs", "wait", &id]).exits(5);
    let again = run(&["dead", "again", "--json", &id]).ok().json();
    run(&["jobs", "cancel", again["new_id"].as_str().unwrap()]).ok();
    run(&["dead", "groups", "--json"]).ok().prints(r#""looked":0"#);
    run(&["dead", "replay", "--queue", "mail", "--expect", "0"]).ok().prints("sent back: 0 jobs");
    run(&["jobs", "retry", &id]).ok();
    let count = |queue: &str, state: &str| {
        let queues = run(&["queues", "--json"]).ok().json();
        let of = |found: &&Value| found["name"] == queue;
        queues["queues"].as_array().unwrap().iter().find(of).map(|found| found["counts"][state].clone())
    };
    assert_eq!((count("mail", "ready"), count("default", "scheduled")), (Some(json!(1)), Some(json!(2500))));
    run(&["explain", &id]).ok().prints("no worker serves queue mail");
    let report = run(&["doctor", "--json"]).exits(2).json();
    let findings = report["findings"].as_array().unwrap();
    let is_kept = |finding: &Value| finding["what"] == "none (noeviction)" && finding["level"] == "ok";
    assert!(findings.iter().any(is_kept), "{report}");
    run(&["jobs", "delete", "--yes", &id]).ok();
    run(&["jobs", "show", &id]).exits(4);
    run(&["queues", "define", "mail", "--keep-completed", "1d", "--payload-cap", "10B"]).ok();
    run(&["enqueue", "mail.send", r#""much too large""#, "--queue", "mail"]).exits(1);
    run(&["workers"]).ok();
    run(&["prune", "--json"]).ok().prints(r#""removed":0"#);
    run(&["migrate"]).ok().prints("nothing to migrate");
    run(&["migrate", "--dry-run"]).ok().prints("-- nothing to migrate");
}

#[test]
fn every_command_works_on_a_server() {
    every_command_works(&url(RedisServer::shared().url(), "commands"));
}

#[test]
fn every_command_works_on_a_cluster() {
    every_command_works(&url(RedisCluster::shared().url(), "commands"));
}

#[test]
fn what_a_job_survives_is_what_the_server_is_set_to() {
    let shell = Shell::new();
    for (settings, words, word) in [
        (RedisSettings::default(), "survives its clients, lost when the server ends", "server"),
        (RedisSettings::default().aof(Aof::Everysec), "a crash of the server may take the newest", "delayed"),
        (RedisSettings::default().aof(Aof::Always), "survives a power cut", "power_cut"),
    ] {
        let server = RedisServer::start(&settings);
        shell.run(["enqueue", "k", "--store", &server.url()]).ok().prints(words).complains(words);
        let answer = shell.run(["enqueue", "k", "--json", "--store", &server.url()]).ok().json();
        assert_eq!(answer["durability"], word);
        // The same store through its socket.
        let socket = format!("redis+unix://{}", server.socket_path().display());
        let page = shell.run(["jobs", "list", "--json", "--store", &socket]).ok().json();
        assert_eq!(page["jobs"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_server_that_cannot_be_used_says_why() {
    let shell = Shell::new();
    let evicting = RedisServer::start(&RedisSettings::default().set("maxmemory-policy", "allkeys-lru"));
    let server = RedisServer::shared().url();
    for (url, complaint) in [
        (evicting.url(), "noeviction"),
        ("redis://127.0.0.1:1".into(), "127.0.0.1:1"),
        (server.replace("redis://", "redis-cluster://"), "luster"),
        (format!("{server}?colour=red"), "namespace"),
        (format!("{server}?namespace=a:b"), "namespace"),
    ] {
        let ran =
            shell.run(["enqueue", "k", "--store", &url]).exits(3).complains("error: ").complains(complaint);
        assert_eq!(ran.stderr.lines().count(), 1, "one line, no backtrace, no structure: {}", ran.stderr);
    }
}

#[test]
fn the_demo_and_the_bench_run() {
    let (shell, url) = (Shell::new(), url(RedisServer::shared().url(), "trial"));
    let demo = ["demo", "--jobs", "20", "--lease", "1s", "--json", "--store", &url];
    let summary = shell.run(demo).ok().complains("the jobs stay").json();
    assert_eq!((&summary["lost"], &summary["unexpected"]), (&json!(0), &json!(0)), "{summary}");
    assert!(summary["crashes"].as_u64() >= Some(2), "{summary}");

    let bench = ["bench", "--jobs", "200", "--producers", "8", "--json", "--yes", "--store", &url];
    let answer = shell.run(bench).ok().json();
    assert_eq!(answer["scheme"], "redis");
    assert!(answer["measurements"][3]["p50_seconds"].as_f64() < Some(1.0), "{answer}");
}
