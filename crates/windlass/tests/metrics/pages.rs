//! What operators are given names only what there is: the page of metrics, the dashboards and the alert rules.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Semaphore;

use super::exposition::Exposition;

const PAGE: &str = include_str!("../../../../docs/operations/metrics.md");
const ALERTS: &str = include_str!("../../../../docs/operations/prometheus/alerts.yml");
const DASHBOARDS: [&str; 2] = [
    include_str!("../../../../docs/operations/grafana/workers.json"),
    include_str!("../../../../docs/operations/grafana/queues.json"),
];

/// The names of metrics that stand in a text, without what histograms add to theirs.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics = words.filter(|word| word.starts_with("windlass_") || word.starts_with("messaging_"));
    metrics.map(|word| word.strip_suffix("_bucket").unwrap_or(word).to_owned()).collect()
}

/// What the tables of the page describe, and as what.
fn described() -> BTreeSet<(String, String)> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    cells.map(|cells| (cells[0].trim_matches('`').to_owned(), cells[1].to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_describes_what_there_is_and_nothing_else() {
    let scrapes = super::agree("memory:").await;
    let there: BTreeSet<_> = scrapes.iter().flat_map(|scrape| scrape.kinds.clone()).collect();
    assert_eq!(described(), there);
}

#[test]
fn dashboards_and_alerts_name_what_the_page_describes() {
    let known: BTreeSet<_> = described().into_iter().map(|(name, _)| name).collect();
    let expressions: String = ALERTS.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let mut named = names(&expressions);
    assert!(!named.is_empty());
    for text in DASHBOARDS {
        named.extend(names(&check_dashboard(text)));
    }
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "no such metric: {unknown:?}");
}

/// Looks at a dashboard, and answers its expressions.
fn check_dashboard(text: &str) -> String {
    let board: Value = serde_json::from_str(text).expect("JSON");
    for key in ["uid", "title", "description"] {
        assert!(board[key].as_str().is_some_and(|text| text.len() > 5), "{key}");
    }
    let variables = board["templating"]["list"].as_array().expect("variables");
    assert!(variables.iter().any(|variable| variable["type"] == "datasource"), "it asks for its source");
    let (mut expressions, mut ids) = (String::new(), BTreeSet::new());
    for panel in board["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64()), "{title}: its id is taken");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let place = &panel["gridPos"];
        let number = |key: &str| place[key].as_u64().expect("a number");
        assert!(number("x") + number("w") <= 24 && number("h") > 0, "{title}");
        for target in panel["targets"].as_array().expect("targets") {
            let expression = target["expr"].as_str().expect("an expression");
            let count = |c: char| expression.matches(c).count();
            assert!(count('(') == count(')') && count('{') == count('}'), "{title}: {expression}");
            expressions.push_str(expression);
            expressions.push(' ');
        }
    }
    expressions
}

/// Runs the checker of Prometheus, where the machine has it. The strict reader has read the text in any case.
fn promtool(arguments: &[&str], text: &str) {
    let started = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut checker) = started else { return };
    checker.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it reads");
    let said = checker.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    assert!(said.status.success(), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checker_of_prometheus_finds_nothing_to_say() {
    let (client, _clock) = windlass::testing::client();
    let metrics = windlass::Metrics::with_messaging_names();
    let client = client.with_metrics(&metrics);
    client.enqueue(super::Act { number: 6 }).await.expect("accepted");
    let held = super::Held { first: false, present: Arc::new(Semaphore::new(0)), snoozed: Arc::default() };
    let worker = windlass::Worker::with_state(&client, held).handle(super::act);
    assert_eq!(worker.drain().await.expect("set up well").completed, 1);
    let text = metrics.scrape(&client).await;
    Exposition::read(&text);
    promtool(&["check", "metrics"], &text);
    promtool(
        &[
            "check",
            "rules",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/prometheus/alerts.yml"),
        ],
        "",
    );
}
