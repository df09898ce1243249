//! Many records, large ones, those whose time is over and those that do not read; and several processes.

use std::time::Duration;

use rusqlite::Connection;
use windlass_core::StoreError;
use windlass_core::record::{Expect, VALUE_MAX};
use windlass_core::store::{Jobs, Maintenance, Records, SCAN_MAX, TOTALS_MAX};

use super::{Version, end, find, jobs, key, only, put, words, write, write_fenced};
use crate::{claim, job, lease, name, open};

/// Writes so many records, from a number on, that are over at an instant, beside the store.
fn fill(connection: &Connection, from: u32, count: u32, expires_at: Option<i64>) {
    let sql = "
        WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1 + ?2)
        INSERT INTO windlass_records (queue, key, version, written_at, expires_at, value)
        SELECT 'default', CAST(format('%06d', i) AS BLOB), i, 0, ?3, x'00' FROM n";
    connection.execute(sql, rusqlite::params![from, count, expires_at]).unwrap();
}

#[tokio::test]
async fn looks_are_bounded_however_much_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = open(&path).await;
    let connection = Connection::open(&path).unwrap();
    let over = SCAN_MAX + SCAN_MAX / 2;
    fill(&connection, 0, over, Some(1));
    fill(&connection, over, 3, None);
    let totals = async || {
        let totals = Records::totals(&store, &name("default")).await.unwrap();
        (totals.count, totals.bytes, totals.has_more)
    };
    assert_eq!(totals().await, (0, 0, true), "what is over was looked at as well");
    let (mut after, mut pages, mut found) = (None, 0, Vec::new());
    loop {
        let page = Records::list(&store, &name("default"), "", after.as_ref(), 2).await.unwrap();
        pages += 1;
        found.extend(page.records.into_iter().map(|record| record.version.0));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((pages, found), (3, (u64::from(over)..u64::from(over) + 3).collect()));

    let before = store.gauges();
    assert_eq!(store.tidy(1_200).await.unwrap(), 1_200);
    assert_eq!(store.gauges().commits - before.commits, 3, "others get a turn in between");
    while store.tidy(5_000).await.unwrap() > 0 {}
    assert_eq!(totals().await, (3, 3, false));
    let before = store.gauges();
    assert_eq!(store.tidy(1_200).await.unwrap(), 0);
    assert_eq!(store.gauges().commits, before.commits, "where nothing is over, nothing is written");

    fill(&connection, over + 3, TOTALS_MAX, None);
    assert_eq!(totals().await, (TOTALS_MAX.into(), TOTALS_MAX.into(), true));
}

#[tokio::test]
async fn large_records_that_are_over_are_removed_a_few_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db")).await;
    for start in (0..40).step_by(4) {
        let some = (start..start + 4).map(|at| {
            let value = vec![7; VALUE_MAX - 10];
            put(&at.to_string(), value).ttl(Duration::from_micros(1))
        });
        write(&store, only(some.collect::<Vec<_>>())).await.unwrap();
    }
    let first = store.tidy(500).await.unwrap();
    assert!((1..=20).contains(&first), "{first}");
    let mut all = first;
    loop {
        match store.tidy(500).await.unwrap() {
            0 => break,
            more => all += more,
        }
    }
    assert_eq!(all, 40);
}

#[tokio::test]
async fn a_record_that_does_not_read_harms_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = open(&path).await;
    write(&store, only([put("a", "1"), put("b", "2"), put("c", "3")])).await.unwrap();
    let connection = Connection::open(&path).unwrap();
    connection
        .execute("UPDATE windlass_records SET key = x'62ff' WHERE key = CAST('b' AS BLOB)", [])
        .unwrap();
    for (prefix, expected) in [("", vec!["a", "c"]), ("b", vec![])] {
        for limit in [1, 9] {
            let (mut after, mut found) = (None, Vec::new());
            loop {
                let page =
                    Records::list(&store, &name("default"), prefix, after.as_ref(), limit).await.unwrap();
                found.extend(page.records.iter().map(|record| record.key.to_string()));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected);
        }
    }
    assert_eq!(find(&store, "b").await, None);
    write(&store, only([put("b", "4").expect(Expect::Absent)])).await.unwrap();
    assert_eq!(find(&store, "b").await.unwrap().value, "4");
}

#[tokio::test]
async fn a_follow_up_that_meets_a_row_that_does_not_read_is_refused_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = open(&path).await;
    let (sick, well) = (job("sick"), job("next"));
    store.enqueue([job("1"), job("2"), sick.clone()].into()).await.unwrap();
    let running = claim(&store, lease(&store).await, 2).await;
    let connection = Connection::open(&path).unwrap();
    connection.execute("UPDATE windlass_jobs SET state = 99 WHERE id = ?1", [sick.id.as_bytes()]).unwrap();
    let items = [end(&running[0], jobs([sick])), end(&running[1], jobs([well.clone()]))];
    assert_eq!(words(&write_fenced(&store, items).await), ["corrupt", "completed"]);
    assert!(store.get([well.id].into()).await.unwrap()[0].is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_of_another_process_is_lost() {
    const ROUNDS: u64 = 50;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    write(&open(&path).await, only([put("sum", "0")])).await.unwrap();
    let mut writers = Vec::new();
    for _ in 0..4 {
        let store = open(&path).await;
        writers.push(tokio::spawn(async move {
            let mut done = 0;
            while done < ROUNDS {
                let record =
                    Records::read(&store, &name("default"), [key("sum")].into()).await.unwrap().remove(0);
                let record = record.unwrap();
                let sum: u64 = std::str::from_utf8(&record.value).unwrap().parse().unwrap();
                let next = put("sum", (sum + 1).to_string()).expect(Expect::Version(record.version));
                match write(&store, only([next])).await {
                    Ok(_) => done += 1,
                    Err(StoreError::Conflict { found: Some(Version(_)), .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(find(&open(&path).await, "sum").await.unwrap().value, (4 * ROUNDS).to_string());
}
