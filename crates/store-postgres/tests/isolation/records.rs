//! Records that several calls write at once, and what is left of them when their time is over.

use std::time::Duration;

use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Expect, Record, RecordKey, RecordWrite, Version};
use windlass_core::store::{Enqueued, Maintenance, Records, StoreResult};
use windlass_core::{CallId, StoreError};
use windlass_store_postgres::PostgresStore;

use super::bench::{Bench, name, new_job};

pub(crate) fn key(text: &str) -> RecordKey {
    RecordKey::new(text).unwrap()
}

pub(crate) fn put(text: &str, value: &str) -> RecordWrite {
    RecordWrite::put(key(text), value.to_owned())
}

pub(crate) async fn write(
    store: &PostgresStore,
    records: impl Into<Vec<RecordWrite>>,
) -> StoreResult<Vec<Enqueued>> {
    let what = FollowUps { jobs: Vec::new(), records: records.into() };
    store.write(CallId::new(), &name("default"), what).await
}

pub(crate) async fn find(store: &PostgresStore, text: &str) -> Option<Record> {
    store.read(&name("default"), [key(text)].into()).await.unwrap().remove(0)
}

pub(crate) async fn value(store: &PostgresStore, text: &str) -> Option<String> {
    find(store, text).await.map(|record| String::from_utf8(record.value.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_the_same_records_never_wait_in_a_circle() {
    let bench = Bench::new().await;
    let writers = (0..8).map(|_| {
        let store = bench.store.clone();
        tokio::spawn(async move {
            for _ in 0..40 {
                let mut keys = ["a", "b", "c", "d", "e"];
                fastrand::shuffle(&mut keys);
                let writes = keys[..fastrand::usize(2..=5)].iter().map(|key| {
                    let write = if fastrand::u8(..3) == 0 {
                        RecordWrite::remove(self::key(key))
                    } else {
                        put(key, "")
                    };
                    write.expect(match fastrand::u8(..4) {
                        0 => Expect::Absent,
                        1 => Expect::Version(Version::new()),
                        _ => Expect::Any,
                    })
                });
                match write(&store, writes.collect::<Vec<_>>()).await {
                    Ok(_) | Err(StoreError::Conflict { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

/// Whatever waits for what, two calls leave what they would leave one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_about_several_records_come_one_after_the_other() {
    let bench = Bench::new().await;
    for round in 0..40 {
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        if round % 2 == 0 {
            write(&bench.store, [put(&b, "0")]).await.unwrap();
        }
        let first = vec![RecordWrite::remove(key(&a)), put(&b, "1")];
        let second = vec![put(&a, "2"), put(&b, "2")];
        let calls = [first, second].map(|writes| {
            let store = bench.store.clone();
            tokio::spawn(async move { write(&store, writes).await })
        });
        for call in calls {
            call.await.unwrap().unwrap();
        }
        let left = (value(&bench.store, &a).await, value(&bench.store, &b).await);
        let left = (left.0.as_deref(), left.1.as_deref());
        assert!(matches!(left, (Some("2"), Some("2")) | (None, Some("1"))), "{left:?}");
    }
}

#[tokio::test]
async fn a_record_of_an_open_transaction_is_waited_for() {
    let bench = Bench::new().await;
    write(&bench.store, [put("k", "1")]).await.unwrap();
    for (is_kept, end) in [(true, "ROLLBACK"), (false, "COMMIT")] {
        let expected = Expect::Version(find(&bench.store, "k").await.unwrap().version);
        let client = bench.client().await;
        client.batch_execute("BEGIN; UPDATE queue_records SET version = version + 1").await.unwrap();
        let store = bench.store.clone();
        let call = tokio::spawn(async move { write(&store, [put("k", "2").expect(expected)]).await });
        bench.until_a_call_waits().await;
        client.batch_execute(end).await.unwrap();
        match call.await.unwrap() {
            Ok(_) => assert!(is_kept),
            Err(StoreError::Conflict { .. }) => assert!(!is_kept),
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_record_that_another_transaction_adds_is_waited_for() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let add = "BEGIN; INSERT INTO queue_records VALUES ('default', 'k', 7, clock_micros(), NULL, '')";
    client.batch_execute(add).await.unwrap();
    let (store, first) = (bench.store.clone(), put("k", "1").expect(Expect::Absent));
    let call = tokio::spawn(async move { write(&store, [first, put("l", "1")]).await });
    bench.until_a_call_waits().await;
    client.batch_execute("COMMIT").await.unwrap();
    let refused = call.await.unwrap().unwrap_err();
    assert!(matches!(refused, StoreError::Conflict { found: Some(Version(7)), .. }), "{refused:?}");
    assert_eq!(value(&bench.store, "l").await, None);
}

#[tokio::test]
async fn a_conflict_takes_jobs_back_with_all_that_they_left() {
    let bench = Bench::new().await;
    write(&bench.store, [put("k", "1")]).await.unwrap();
    let records = vec![put("l", "1"), put("k", "2").expect(Expect::Absent), RecordWrite::remove(key("m"))];
    let what = FollowUps { jobs: vec![new_job(), new_job()], records };
    let call = CallId::new();
    for _ in 0..2 {
        let answer = bench.store.write(call, &name("default"), what.clone()).await;
        assert!(matches!(answer, Err(StoreError::Conflict { .. })), "{answer:?}");
    }
    let left =
        "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM calls), (SELECT count(*) FROM moved),
        (SELECT string_agg(key, ',') FROM queue_records)";
    assert_eq!(bench.psql(left), "0|0|0|k");
}

#[tokio::test]
async fn records_whose_time_is_over_are_removed() {
    let bench = Bench::new().await;
    let over = |i: i32| put(&format!("over{i}"), "").ttl(Duration::ZERO);
    write(&bench.store, [put("stays", ""), put("later", "").ttl(Duration::from_secs(600))]).await.unwrap();
    write(&bench.store, (0..6).map(over).collect::<Vec<_>>()).await.unwrap();
    let count = || bench.psql("SELECT count(*) FROM queue_records");
    assert_eq!(count(), "8");
    // One that is locked is in the way of no other.
    let client = bench.client().await;
    client.batch_execute("BEGIN; SELECT FROM queue_records WHERE key = 'over3' FOR UPDATE").await.unwrap();
    bench.store.tidy(2).await.unwrap();
    assert_eq!(count(), "6", "not more than it was told to");
    while bench.store.tidy(2).await.unwrap() > 0 {}
    assert_eq!(
        bench.psql("SELECT string_agg(key, ',' ORDER BY key) FROM queue_records"),
        "later,over3,stays"
    );
}
