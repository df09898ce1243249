//! Every statement finds its rows through an index, whatever is stored and whether or not it was analysed.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use windlass_store_sqlite::migrate::MIGRATIONS;

/// Statements that look at a whole table or sort, and why they may.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("calls/forget.sql", "walks rows from the oldest, up to its limit"),
    ("inspect/scan_running.sql", "sorts running jobs, of which there are as many as workers have slots"),
    ("accept/newest.sql", "looks at one row, the last"),
    ("leases/outlive.sql", "moves every lease; runs when the clock was set"),
    (
        "leases/shorten.sql",
        "looks at every lease, of which there are as many as workers; runs once per sweep",
    ),
    ("leases/list.sql", "walks leases from the newest, up to its limit"),
    ("maintenance/due_queues.sql", "looks at every queue; runs once per promotion"),
    ("maintenance/finished_queues.sql", "looks at every queue; runs once per prune"),
    ("within/poison.sql", "looks at a table of a row or two, which only this connection has"),
];

fn statements() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
    let mut found = Vec::new();
    for part in fs::read_dir(&root).unwrap() {
        for file in fs::read_dir(part.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    assert!(found.len() > 30, "the statements were found");
    found
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    for parameter in 1..=statement.parameter_count() {
        statement.raw_bind_parameter(parameter, 1).unwrap();
    }
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get::<_, String>(3).unwrap());
    }
    steps
}

/// Whether a step walks a whole table of ours, or sorts.
fn is_slow(step: &str) -> bool {
    let is_ours =
        !["json_each", "pragma_", "VALUES CLAUSE", "CONSTANT ROW"].iter().any(|other| step.contains(other));
    (step.starts_with("SCAN") && is_ours) || step.contains("TEMP B-TREE")
}

fn check(connection: &Connection, circumstances: &str) {
    for (name, sql) in statements() {
        let steps = plan(connection, &sql);
        let slow: Vec<_> = steps.iter().filter(|step| is_slow(step)).collect();
        if EXCEPTIONS.iter().any(|(exception, _)| *exception == name) {
            assert!(!slow.is_empty(), "{name} needs no exception ({circumstances})");
        } else {
            assert!(slow.is_empty(), "{name}, {circumstances}: {steps:#?}");
        }
    }
}

/// Jobs of every state in a few queues, some leases, unique keys of a third of the jobs, and gates for another; a record for each.
fn fill(connection: &Connection, jobs: i64) {
    let insert = "
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
        INSERT INTO windlass_jobs (
            id, queue, kind, state, priority, due_at, enqueued_at, fence, attempt, stalls, ambiguous, cancel,
            backoff, lease, claimed_at, nonce, worker, finished_at, expires_at, payload
        )
        SELECT
            randomblob(16), 'q' || max(0, i % 10 - 7), 'k' || i % 3, i % 7, 0, i, i, 1, i % 2, 0, 0, i % 5 = 0,
            0, i % 20, i, 1, 'w', iif(i % 7 >= 4, i, NULL), iif(i % 11 = 0, i, NULL), x'00'
        FROM n";
    connection.execute(insert, [jobs]).unwrap();
    let leases = "
        INSERT INTO windlass_leases (id, worker, serves, opened_at, expires_at)
        SELECT randomblob(16), 'w', '[]', seq, seq FROM windlass_jobs LIMIT 100";
    connection.execute(leases, []).unwrap();
    let queues =
        "INSERT INTO windlass_queues (name, ready) SELECT queue, count(*) FROM windlass_jobs GROUP BY queue";
    connection.execute(queues, []).unwrap();
    let keys = "
        INSERT INTO windlass_held (queue, digest, id, free_at)
        SELECT queue, randomblob(16), id, iif(seq % 2 = 0, seq, NULL) FROM windlass_jobs WHERE seq % 3 = 0;
        UPDATE windlass_jobs SET unique_digest = randomblob(16), unique_place = random() >> 16 WHERE seq % 3 = 1;";
    connection.execute_batch(keys).unwrap();
    let gates = "
        UPDATE windlass_jobs SET form = 2, key = 'key' || seq % 100 WHERE seq % 4 = 0;
        INSERT INTO windlass_gates (queue, key, turn, open_at, version)
        SELECT queue, key, seq, iif(seq % 3 = 0, 0, seq), seq % 2 FROM windlass_jobs
        WHERE form = 2 ON CONFLICT DO NOTHING;
        INSERT INTO windlass_key_spent (queue, key, back_at, jobs, version)
        SELECT queue, key, seq, 1, 1 FROM windlass_jobs WHERE form = 2;";
    connection.execute_batch(gates).unwrap();
    let records = "
        INSERT INTO windlass_records (queue, key, version, written_at, expires_at, value)
        SELECT queue, id, seq, seq, iif(seq % 2 = 0, seq, NULL), x'00' FROM windlass_jobs";
    connection.execute(records, []).unwrap();
}

fn schema() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    // As the store does.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
    for step in MIGRATIONS {
        connection.execute_batch(step.sql).unwrap();
    }
    connection
        .execute_batch("CREATE TABLE windlass_meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT")
        .unwrap();
    // A table that only a stale attempt's connection has.
    connection.execute_batch(include_str!("../queries/within/make_poison.sql")).unwrap();
    connection
}

#[test]
fn no_statement_scans_or_sorts() {
    let connection = schema();
    check(&connection, "empty");
    connection.execute_batch("ANALYZE").unwrap();
    check(&connection, "empty and analysed");
    fill(&connection, 20_000);
    check(&connection, "20,000 jobs, analysed when empty");
    connection.execute_batch("ANALYZE").unwrap();
    check(&connection, "20,000 jobs, analysed");

    let connection = schema();
    fill(&connection, 20_000);
    check(&connection, "20,000 jobs, never analysed");
}

#[test]
fn claims_and_settlements_use_the_index_that_is_made_for_them() {
    let connection = schema();
    fill(&connection, 2_000);
    for (name, index) in [
        ("jobs/ready.sql", "windlass_jobs_ready (queue=? AND kind=?)"),
        ("jobs/running.sql", "windlass_jobs_id (id=?)"),
        ("maintenance/due.sql", "windlass_jobs_scheduled (queue=? AND due_at<?)"),
        ("maintenance/expired.sql", "windlass_jobs_expiry (queue=? AND expires_at>? AND expires_at<?)"),
        ("maintenance/oldest.sql", "windlass_jobs_finished (queue=? AND state=?)"),
        ("leases/cancelled.sql", "windlass_jobs_stopping (lease=?)"),
        ("leases/lost.sql", "windlass_jobs_running (lease=?)"),
        ("keys/holder.sql", "windlass_jobs_unique (unique_place=?)"),
        ("keys/any_placed_16.sql", "windlass_jobs_unique (unique_place=?)"),
        ("keys/holder.sql", "k USING PRIMARY KEY (queue=? AND digest=?)"),
        ("keys/holder.sql", "windlass_jobs_id (id=?)"),
        ("keys/forget_over.sql", "windlass_keys_time (free_at<?)"),
        ("gates/behind.sql", "windlass_jobs_line (queue=? AND key=?)"),
        ("gates/running.sql", "windlass_jobs_passed (queue=? AND key=?)"),
        ("gates/first_open.sql", "windlass_gates_open (queue=?)"),
        ("gates/next.sql", "windlass_gates_closed (queue=?)"),
        ("gates/any_closed.sql", "windlass_gates_closed (queue=?)"),
        ("gates/ended.sql", "windlass_gates USING PRIMARY KEY (queue=? AND key=?)"),
        ("gates/came.sql", "windlass_gates_open (queue=?)"),
        ("gates/open_stale.sql", "windlass_gates_closed (queue=? AND version<?)"),
        ("gates/open_due.sql", "windlass_gates_closed (queue=? AND version=? AND open_at>? AND open_at<?)"),
        ("gates/closed_by.sql", "windlass_gates_closed (queue=?)"),
        ("sweep/next_key.sql", "windlass_jobs_line ((queue,key)>(?,?))"),
        ("sweep/key.sql", "windlass_jobs_line (queue=? AND key=?)"),
        ("key_rates/forget_back.sql", "windlass_key_spent_time (back_at<?)"),
        ("records/version.sql", "windlass_records_key (queue=? AND key=?)"),
        ("records/list.sql", "windlass_records_key (queue=? AND key>?)"),
        ("records/over.sql", "windlass_records_time (expires_at<?)"),
    ] {
        let (_, sql) = statements().into_iter().find(|(statement, _)| statement == name).unwrap();
        let steps = plan(&connection, &sql);
        assert!(steps.iter().any(|step| step.contains(index)), "{name}: {steps:#?}");
    }
}

/// Files under `src` that name something.
fn sources_that_name(text: &str) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&root, &mut files);
    files.retain(|file| fs::read_to_string(file).unwrap().contains(text));
    files.iter().map(|file| file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn jobs_come_in_one_way_and_change_their_state_one_way() {
    let writes = |sql: &str| {
        let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
        ["INSERT INTO windlass_jobs ", "DELETE FROM windlass_jobs ", "UPDATE windlass_jobs SET state "]
            .iter()
            .any(|write| sql.contains(write))
    };
    for (name, _) in statements().into_iter().filter(|(_, sql)| writes(sql)) {
        assert!(name.starts_with("accept/") || name.starts_with("moves/"), "{name} changes states by itself");
    }
    assert_eq!(sources_that_name("queries/accept/"), ["accept.rs"]);
    assert_eq!(sources_that_name("queries/moves/"), ["moves.rs"]);
    assert_eq!(sources_that_name("queries/keys/"), ["keys.rs"]);
    assert_eq!(sources_that_name("queries/gates/"), ["gates.rs"]);
    assert_eq!(sources_that_name("queries/sweep/"), ["gates/sweep.rs"]);
    assert_eq!(sources_that_name("queries/key_rates/"), ["key_rates.rs"]);
    let mut of_records = sources_that_name("queries/records/");
    of_records.sort();
    assert_eq!(of_records, ["records/change.rs", "records/look.rs"]);
}
