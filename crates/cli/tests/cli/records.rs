//! `records list`, `get`, `put` and `remove`.

use serde_json::{Value, json};

use crate::shell::Shell;

#[test]
fn records_are_put_found_and_removed() {
    let shell = Shell::new();
    shell.enqueue(&["k"]);
    let put = |args: &[&str]| shell.run(["records", "put", "default"].iter().chain(args));
    let first = put(&["cursor", "12345678901234567890123", "--json"]).ok().json();
    let version = first["version"].as_str().unwrap();
    put(&["lock/a", r#"{"by":"ada"}"#, "--if-absent", "--ttl", "1h"]).ok().prints("lock/a has version ");
    put(&["lock/a", "1", "--if-absent"]).exits(1).complains("is not as expected: it has version");

    let found = shell.run(["records", "get", "default", "cursor", "--json"]).ok();
    assert!(found.stdout.contains(r#""value":12345678901234567890123"#), "{}", found.stdout);
    assert_eq!((&found.json()["version"], &found.json()["expires_at"]), (&json!(version), &Value::Null));
    shell
        .run(["records", "get", "default", "lock/a"])
        .ok()
        .prints("{\n  \"by\": \"ada\"\n}")
        .complains("expires 2");

    let page = shell.run(["records", "list", "default", "--json"]).ok().json();
    let keys: Vec<_> = page["records"].as_array().unwrap().iter().map(|record| &record["key"]).collect();
    assert_eq!(keys, [&json!("cursor"), &json!("lock/a")]);
    assert_eq!(page["totals"], json!({"count": 2, "bytes": 35, "has_more": false}));
    let text = shell.run(["records", "list", "default", "--prefix", "lock/"]).ok();
    assert!(text.stdout.contains("lock/a") && !text.stdout.contains("cursor"), "{}", text.stdout);
    text.complains("queue default has 2 records, 35 B in all");
    let first = shell.run(["records", "list", "default", "--limit", "1", "--json"]).ok().json();
    assert_eq!(first["next"], "cursor");
    let rest = shell.run(["records", "list", "default", "--after", "cursor", "--json"]).ok().json();
    assert_eq!((&rest["records"][0]["key"], &rest["next"]), (&json!("lock/a"), &Value::Null));

    put(&["cursor", "2", "--if-version", version]).ok();
    put(&["cursor", "3", "--if-version", version]).exits(1).complains("nothing was changed");
    let remove = |args: &[&str]| shell.run(["records", "remove", "default"].iter().chain(args));
    remove(&["cursor", "--if-version", version]).exits(1).complains("is not as expected");
    remove(&["cursor"]).ok().prints("removed cursor");
    remove(&["cursor"]).exits(4).complains("queue default has no record cursor");
    shell.run(["records", "get", "default", "cursor"]).exits(4);
}

#[test]
fn what_is_not_a_record_is_refused() {
    let shell = Shell::new();
    shell.enqueue(&["k"]);
    let put = |key: &str, value: &str| shell.run(["records", "put", "default", key, value]);
    put("k", "text").exits(2).complains("a text is in double quotes");
    put("", "1").exits(2).complains("the key of a record is empty");
    put(&"x".repeat(300), "1").exits(2).complains("use at most 256");
    put("k", "@no-such-file").exits(2).complains("no-such-file");
    put("k", &format!("\"{}\"", "x".repeat(100_000))).ok();
    std::fs::write(shell.path("large.json"), format!("\"{}\"", "x".repeat(300_000))).unwrap();
    put("k", "@large.json").exits(1);
    let args = ["records", "put", "default", "k", "1", "--if-version", "12"];
    shell.run(args).exits(2).complains("16 hexadecimal digits");
    shell.run(["records", "list", "nowhere"]).exits(2).complains("no queue nowhere");
    shell.run(["records", "get", "nowhere", "k"]).exits(2).complains("no queue nowhere");
}
