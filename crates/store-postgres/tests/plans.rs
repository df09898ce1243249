//! The hot statements find their rows through an index, whatever is stored and whatever the statistics say, and
//! touch no more rows when there are more. The plans are those that the server really used.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "plans/calls.rs"]
mod calls;
#[path = "plans/stage.rs"]
mod stage;

use std::collections::HashMap;

use serde_json::Value;

use calls::CALLS;
use stage::{Session, Stage};

/// Tables that a call reads as a whole, and why it may.
const WHOLE: &[(&str, &str, &str)] = &[
    ("lost", "leases", "there are as many leases as workers"),
    ("prune", "moved", "maintenance folds it"),
    ("claim, rules, anew", "moved", "maintenance folds it"),
    ("claim, rules, marks", "moved", "maintenance folds it"),
    ("enqueue, keys", "moved", "maintenance folds it"),
    ("claim, rules, marks", "running", "once after a queue was given a concurrency"),
];

/// Calls that sort, and what.
const SORTS: &[(&str, &str)] = &[
    ("claim, one queue", "the first jobs of each kind, at most as many as are asked for"),
    ("claim, several kinds", "the first jobs of each kind, at most as many as are asked for"),
    ("claim, many kinds", "the first jobs of each kind, at most as many as are asked for"),
    ("claim from a floor", "the first jobs of each kind, at most as many as are asked for"),
    ("claim, rules", "the first jobs of each kind, at most as many as are asked for"),
    ("claim, rules, anew", "the first jobs of each kind, at most as many as are asked for"),
    ("claim, rules, marks", "the first jobs of each kind, at most as many as are asked for"),
    ("claim, keys", "the first jobs of each kind and the sizes of those that are taken"),
    ("claim, turns", "the keys that are asked"),
    ("claim, aged", "the first jobs of each level, and the levels"),
    ("claim, aged, of a key", "the first jobs of each level, and the levels"),
    ("list", "the jobs of a page"),
    ("enqueue, unique", "keys are taken in one order"),
    ("enqueue, duplicate", "keys are taken in one order"),
    ("enqueue, alike, unique", "keys are taken in one order"),
    ("enqueue, alike, duplicate", "keys are taken in one order"),
    ("follow, complete", "keys are taken in one order"),
];

/// No call looks at more rows of a table than this: each is about ten jobs, and there are twenty late ones.
const ROWS_MAX: f64 = 40.0;

/// What one call did.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    buffers: f64,
}

struct Look<'a> {
    call: &'a str,
    circumstances: &'a str,
    cost: Cost,
}

impl Look<'_> {
    fn plan(&mut self, plan: &Value) {
        let root = &plan["Plan"];
        self.cost.buffers += number(root, "Shared Hit Blocks") + number(root, "Shared Read Blocks");
        self.node(root, plan);
    }

    fn node(&self, node: &Value, plan: &Value) {
        let kind = node["Node Type"].as_str().unwrap();
        let relation = node["Relation Name"].as_str().unwrap_or_default();
        let is_whole = WHOLE.iter().any(|(call, table, _)| *call == self.call && *table == relation);
        let fail = |what: &str| -> ! {
            panic!(
                "{}, {}: {what}\n{}",
                self.call,
                self.circumstances,
                serde_json::to_string_pretty(plan).unwrap()
            )
        };
        match kind {
            "Seq Scan" | "Bitmap Heap Scan" | "Hash Join" | "Merge Join" if !is_whole => fail(kind),
            "Sort" | "Incremental Sort" if !SORTS.iter().any(|(call, _)| *call == self.call) => fail(kind),
            _ => {}
        }
        if !relation.is_empty() && !is_whole {
            let rows = number(node, "Actual Rows") + number(node, "Rows Removed by Filter");
            if rows * number(node, "Actual Loops") > ROWS_MAX {
                fail("looks at too many rows");
            }
        }
        node["Plans"].as_array().into_iter().flatten().for_each(|child| self.node(child, plan));
    }
}

fn number(node: &Value, name: &str) -> f64 {
    node[name].as_f64().unwrap_or(0.0)
}

/// Makes every call in a session and looks at its plans.
async fn check(session: &Session, circumstances: &str) -> HashMap<&'static str, Cost> {
    let mut costs = HashMap::new();
    for call in CALLS {
        let plans = session.explain(call).await;
        assert!(plans.len() > 1, "{}: the statements inside the function are seen", call.name);
        let mut look = Look { call: call.name, circumstances, cost: Cost::default() };
        plans.iter().for_each(|plan| look.plan(plan));
        costs.insert(call.name, look.cost);
    }
    costs
}

#[tokio::test]
async fn hot_statements_use_their_indexes_at_any_size() {
    let stage = Stage::new().await;
    let old = stage.session().await;
    check(&old, "empty").await;
    stage.analyse_gates().await;
    for (jobs, what) in [(1_000, "1,000 jobs"), (1_000_000, "1,000,000 jobs")] {
        stage.grow_to(jobs).await;
        for analysed in ["not analysed", "analysed"] {
            if analysed == "analysed" {
                stage.analyse().await;
            }
            check(&old, &format!("{what}, {analysed}, planned when empty")).await;
            let costs = check(&stage.session().await, &format!("{what}, {analysed}, planned now")).await;
            stage.remember(jobs, costs);
        }
    }
    stage.compare(1_000, 1_000_000);
}
