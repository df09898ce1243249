//! `demo` and `bench`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::shell::{Shell, finish};

#[test]
fn the_demo_survives_crashes_and_loses_nothing() {
    let shell = Shell::new();
    let ran =
        shell.run(["demo", "--json", "--jobs", "20", "--lease", "1s", "--store", "sqlite://demo.db"]).ok();
    let summary = ran.json();
    assert_eq!((&summary["lost"], &summary["unexpected"]), (&json!(0), &json!(0)), "{summary}");
    assert_eq!(summary["jobs"], 50);
    assert_eq!((&summary["dead"], &summary["cancelled"]), (&json!(5), &json!(2)));
    assert!(summary["crashes"].as_u64() >= Some(2), "{summary}");
    assert!(summary["retries"].as_u64() >= Some(1) && summary["stalls"].as_u64() >= Some(2), "{summary}");

    let dead = shell.run(["jobs", "list", "--json", "--kind", "demo.poison", "--store", "sqlite://demo.db"]);
    assert_eq!(dead.ok().json()["jobs"][0]["reason"], "stalled");
}

#[cfg(unix)]
#[test]
fn an_interrupted_demo_says_what_is_left() {
    let shell = Shell::new();
    let mut command = shell.command(["demo", "--jobs", "2000"]);
    // A store of the environment is none of the demo's business.
    let file = shell.path("environment.db");
    command.env("WINDLASS_STORE", format!("sqlite://{}", file.display()));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("started"));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:#?}");
    assert!(rest.iter().any(|line| line.starts_with("interrupted: ")), "{rest:#?}");
    assert!(!file.exists());
}

#[test]
fn bench_measures_a_temporary_file_by_default() {
    let shell = Shell::new();
    let file = shell.path("environment.db");
    let url = format!("sqlite://{}", file.display());
    let ran = finish(
        shell.command(["bench", "--jobs", "200", "--producers", "8", "--json"]).env("WINDLASS_STORE", url),
    );
    let answer = ran.ok().json();
    let measurements = answer["measurements"].as_array().unwrap();
    assert_eq!(measurements.len(), 4);
    for measurement in &measurements[..3] {
        assert!(measurement["jobs_per_second"].as_f64() > Some(0.0), "{measurement}");
    }
    assert!(measurements[3]["p50_seconds"].as_f64() < Some(1.0), "{answer}");
    assert!(!file.exists());
}

#[test]
fn bench_touches_a_named_store_only_when_told_so_and_cleans_up() {
    let shell = Shell::new();
    let id = shell.enqueue(&["k"]);
    let named = ["bench", "--jobs", "100", "--producers", "4", "--store", "sqlite://windlass.db"];
    shell.run(named).exits(2).complains("confirm with --yes");
    shell.run(named.iter().chain(&["--yes"])).ok().prints("MEASUREMENT");
    let page = shell.run(["jobs", "list", "--json"]).ok().json();
    assert_eq!(page["jobs"].as_array().unwrap().len(), 1, "only what was there before");
    assert_eq!(page["jobs"][0]["id"], json!(id));
}
