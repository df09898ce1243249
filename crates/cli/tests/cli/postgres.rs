//! The command on a real PostgreSQL server, each test in a schema of its own.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass_store_testkit::servers::PostgresServer;

use crate::shell::{Ran, Shell, finish};

/// A schema that is gone when this is dropped.
pub(crate) struct Schema {
    name: String,
    pub(crate) url: String,
}

impl Schema {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("cli_{name}_{}", std::process::id());
        let url = PostgresServer::shared().url();
        let separator = if url.contains('?') { '&' } else { '?' };
        Self { url: format!("{url}{separator}schema={name}"), name }
    }

    fn run(&self, shell: &Shell, args: &[&str]) -> Ran {
        finish(shell.command(args).env("WINDLASS_STORE", &self.url))
    }

    fn psql(&self, sql: &str) -> String {
        PostgresServer::shared().psql(&sql.replace("{schema}", &self.name))
    }

    fn exists(&self) -> bool {
        self.psql("SELECT to_regnamespace('{schema}') IS NOT NULL") == "t"
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.psql("DROP SCHEMA IF EXISTS {schema} CASCADE");
        }
    }
}

#[test]
fn looking_makes_no_schema() {
    let (shell, schema) = (Shell::new(), Schema::new("looking"));
    for args in [
        &["jobs", "list"][..],
        &["jobs", "show", "01890a5d-ac96-774b-bcce-b302099a8057"],
        &["queues"],
        &["workers"],
        &["doctor"],
        &["explain", "01890a5d-ac96-774b-bcce-b302099a8057"],
        &["prune"],
        &["migrate", "--dry-run"],
    ] {
        let ran = schema.run(&shell, args);
        match args[0] {
            "migrate" => drop(ran.ok()),
            _ => drop(ran.exits(3).complains("run `windlass migrate`")),
        }
        assert!(!schema.exists(), "{args:?}");
    }
}

#[test]
fn every_command_works() {
    let (shell, schema) = (Shell::new(), Schema::new("commands"));
    let enqueue =
        ["enqueue", "mail.send", r#"{"to":"ada"}"#, "--queue", "mail", "--tag", "b", "--tag", "a", "--json"];
    let ran = schema.run(&shell, &enqueue).ok().complains("store: postgres ").complains("survives a");
    let id = ran.json()["id"].as_str().unwrap().to_owned();
    schema.run(&shell, &["enqueue", "ping", "--count", "2500", "--delay", "1h"]).ok();

    let shown = schema.run(&shell, &["jobs", "show", "--json", &id]).ok().json();
    assert_eq!((&shown["payload"], &shown["tags"]), (&json!({"to": "ada"}), &json!(["a", "b"])));
    schema.run(&shell, &["jobs", "show", &id]).ok().prints("mail.send");
    let page = schema.run(&shell, &["jobs", "list", "--json", "--tag", "a"]).ok().json();
    assert_eq!(page["jobs"][0]["id"], json!(id));
    schema.run(&shell, &["jobs", "cancel", &id]).ok();
    schema.run(&shell, &["jobs", "wait", &id]).exits(5);
    let again = schema.run(&shell, &["dead", "again", "--json", &id]).ok().json();
    schema.run(&shell, &["jobs", "cancel", again["new_id"].as_str().unwrap()]).ok();
    schema.run(&shell, &["dead", "groups", "--json"]).ok().prints(r#""looked":0"#);
    schema
        .run(&shell, &["dead", "replay", "--queue", "mail", "--expect", "0"])
        .ok()
        .prints("sent back: 0 jobs");
    schema.run(&shell, &["jobs", "retry", &id]).ok();
    let count = |queue: &str, state: &str| {
        let queues = schema.run(&shell, &["queues", "--json"]).ok().json();
        let of = |found: &&Value| found["name"] == queue;
        queues["queues"].as_array().unwrap().iter().find(of).map(|found| found["counts"][state].clone())
    };
    assert_eq!((count("mail", "ready"), count("default", "scheduled")), (Some(json!(1)), Some(json!(2500))));
    schema.run(&shell, &["jobs", "delete", "--yes", &id]).ok();
    schema.run(&shell, &["jobs", "show", &id]).exits(4);
    schema.run(&shell, &["queues", "define", "mail", "--keep-completed", "1d", "--payload-cap", "10B"]).ok();
    schema.run(&shell, &["enqueue", "mail.send", r#""much too large""#, "--queue", "mail"]).exits(1);
    schema.run(&shell, &["workers"]).ok();
    schema.run(&shell, &["prune", "--json"]).ok().prints(r#""removed":0"#);

    // The argument counts, not what the environment says.
    let other = Schema::new("argument");
    let ran =
        finish(shell.command(["enqueue", "k", "--store", &other.url]).env("WINDLASS_STORE", &schema.url));
    ran.ok().complains("cli_argument_");
    assert!(other.exists());
}

#[test]
fn migrate_shows_applies_and_then_has_nothing_to_do() {
    let (shell, schema) = (Shell::new(), Schema::new("migrate"));
    let script =
        schema.run(&shell, &["migrate", "--dry-run"]).ok().prints("CREATE SCHEMA").prints("-- 0001 jobs");
    assert!(script.stdout.starts_with("BEGIN") && script.stdout.ends_with("COMMIT;\n"), "{}", script.stdout);
    let plan = schema.run(&shell, &["migrate", "--dry-run", "--json"]).ok().json();
    assert_eq!((&plan["found"], &plan["applied"]), (&json!(0), &json!(false)));
    assert_eq!((&plan["pending"][0]["version"], &plan["pending"][0]["name"]), (&json!(1), &json!("jobs")));
    assert!(plan["pending"].as_array().unwrap().iter().any(|step| step["version"].is_null()));
    let newest = plan["pending"].as_array().unwrap().iter().filter_map(|step| step["version"].as_i64()).max();
    let (newest, up_to_date) = (json!(newest), format!("schema {} is up to date", newest.unwrap()));
    assert!(!schema.exists());

    // As the page says: piped into psql.
    schema.psql(&script.stdout);
    schema.run(&shell, &["migrate", "--dry-run"]).ok().prints(&format!("-- {up_to_date}"));
    schema.run(&shell, &["migrate"]).ok().prints(&up_to_date);
    schema.run(&shell, &["enqueue", "k"]).ok();

    schema.psql("DROP SCHEMA {schema} CASCADE");
    schema.run(&shell, &["migrate"]).ok().prints("applied 0001 jobs").prints("applied function jobs_claim");
    let again = schema.run(&shell, &["migrate", "--json"]).ok().json();
    assert_eq!((&again["found"], &again["pending"]), (&newest, &json!([])));

    // What a newer program adds beside what is there is done by itself, and only that.
    schema.psql(
        "DO $$ BEGIN EXECUTE (
            SELECT 'DROP FUNCTION ' || oid::regprocedure FROM pg_proc
            WHERE proname LIKE 'jobs_get%' AND pronamespace = '{schema}'::regnamespace
        ); END $$",
    );
    schema.run(&shell, &["jobs", "list"]).exits(3).complains("jobs_get").complains("run `windlass migrate`");
    let ran = schema.run(&shell, &["migrate"]).ok();
    assert_eq!(ran.stdout, "applied function jobs_get\n");
    let page = schema.run(&shell, &["jobs", "list", "--json"]).ok().json();
    assert_eq!(page["jobs"], json!([]));
}

#[test]
fn a_schema_made_beforehand_needs_no_right_to_make_one() {
    let (shell, schema) = (Shell::new(), Schema::new("beforehand"));
    schema.psql("CREATE SCHEMA {schema}");
    let plan = schema.run(&shell, &["migrate", "--dry-run"]).ok();
    assert!(!plan.stdout.contains("CREATE SCHEMA"), "{}", plan.stdout);
    schema.run(&shell, &["enqueue", "k"]).ok();
}

#[test]
fn several_migrate_at_once() {
    let (shell, schema) = (Shell::new(), Schema::new("at_once"));
    let start = |_| {
        let mut command = shell.command(["migrate", "--json"]);
        command.env("WINDLASS_STORE", &schema.url).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let started: Vec<_> = (0..4).map(start).collect();
    let mut applied = 0;
    for child in started {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        applied += usize::from(!answer["pending"].as_array().unwrap().is_empty());
    }
    assert_eq!(applied, 1, "one did the work, the others found it done");
    schema.run(&shell, &["enqueue", "k"]).ok();
}

#[test]
fn a_newer_schema_is_worked_with_as_long_as_it_only_added() {
    let (shell, schema) = (Shell::new(), Schema::new("newer"));
    schema.run(&shell, &["enqueue", "k"]).ok();
    schema.psql(
        "ALTER TABLE {schema}.jobs ADD COLUMN colour text; CREATE TABLE {schema}.colours (name text);
         UPDATE {schema}.settings SET value = 99 WHERE name = 'layout'",
    );
    schema.run(&shell, &["enqueue", "k"]).ok();
    schema.run(&shell, &["migrate"]).ok().prints("schema 99 is up to date");
    let page = schema.run(&shell, &["jobs", "list", "--json"]).ok().json();
    assert_eq!(page["jobs"].as_array().unwrap().len(), 2);
    schema.psql("UPDATE {schema}.settings SET value = 99 WHERE name = 'layout_needs'");
    for args in [&["enqueue", "k"][..], &["jobs", "list"], &["migrate"], &["migrate", "--dry-run"]] {
        schema
            .run(&shell, args)
            .exits(3)
            .complains("the store has schema 99")
            .complains("upgrade the program");
    }
}

#[test]
fn the_demo_and_the_bench_run() {
    let (shell, schema) = (Shell::new(), Schema::new("trial"));
    let demo = ["demo", "--jobs", "20", "--lease", "1s", "--json", "--store", &schema.url];
    let summary = shell.run(demo).ok().complains("the jobs stay").json();
    assert_eq!((&summary["lost"], &summary["unexpected"]), (&json!(0), &json!(0)), "{summary}");
    assert!(summary["crashes"].as_u64() >= Some(2), "{summary}");

    let bench = ["bench", "--jobs", "200", "--producers", "8", "--json", "--yes", "--store", &schema.url];
    let answer = shell.run(bench).ok().json();
    assert_eq!(answer["scheme"], "postgres");
    assert!(answer["measurements"][3]["p50_seconds"].as_f64() < Some(1.0), "{answer}");
    assert_eq!(schema.psql("SELECT count(*) FROM {schema}.jobs WHERE queue = 'windlass.bench'"), "0");
}

#[test]
fn the_doctor_finds_an_index_that_is_missing() {
    let (shell, schema) = (Shell::new(), Schema::new("doctor"));
    let id = schema.run(&shell, &["enqueue", "k", "--json"]).ok().json()["id"].clone();
    schema.run(&shell, &["explain", id.as_str().unwrap()]).ok().prints("no worker serves queue default");
    let finding = |subject: &str| {
        let report = schema.run(&shell, &["doctor", "--json"]).exits(2).json();
        let findings = report["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["subject"] == subject).unwrap()
    };
    assert_eq!(finding("indexes")["level"], "ok", "{}", finding("indexes"));
    assert_eq!(
        (&finding("permissions")["level"], &finding("queue default")["level"]),
        (&json!("ok"), &json!("problem"))
    );
    schema.psql("DROP INDEX {schema}.waiting_due");
    let found = finding("indexes");
    assert_eq!((&found["level"], &found["what"]), (&json!("problem"), &json!("waiting_due is missing")));
}
