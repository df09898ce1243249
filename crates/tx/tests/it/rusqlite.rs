//! A blocking driver on an SQLite file.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::TransactionBehavior::Immediate;
use windlass_core::bell::Topic;
use windlass_core::job::OnDead;
use windlass_core::outcome::Failure;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::size::Caps;
use windlass_core::store::{Enqueued, Settled, Wakeup};
use windlass_core::{Outcome, State, StoreErrorKind};
use windlass_store_sqlite::SqliteStore;
use windlass_tx::{complete, enqueue};
use windlass_worker::{Client, Job};

use crate::support::{File, PATIENCE, done, job, kind, settlement};

#[tokio::test]
async fn a_commit_makes_jobs_and_counters_visible_and_rings() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    // Enough for the statement that inserts many, and a rest; every third is too long for its row.
    let jobs: Vec<_> = (0..40).map(|n| job(&"x".repeat(if n % 3 == 0 { 5_000 } else { n }))).collect();
    scene
        .rings(Topic::Work, async {
            let mut tx = connection.transaction_with_behavior(Immediate).unwrap();
            tx.execute("INSERT INTO ledger VALUES (7)", []).unwrap();
            let answers = enqueue(scene.store(), &mut tx, &jobs).await.unwrap();
            assert_eq!(answers, vec![Enqueued::New; 40]);
            assert_eq!(scene.record(&jobs[0]).await, None, "other connections do not see it yet");
            tx.commit().unwrap();
        })
        .await;
    for job in &jobs {
        assert_eq!(scene.record(job).await.unwrap().payload, job.payload);
    }
    assert_eq!(scene.counts().await.unwrap().of(State::Ready), 40);
    assert_eq!(scene.ledger(), 7);
}

#[tokio::test]
async fn other_processes_hear_of_a_commit_as_well() {
    let scene = File::new().await;
    // To a store, another one on the same file is as good as another process.
    let other = SqliteStore::open(&format!("sqlite://{}", scene.path().display())).await.unwrap();
    let mut listener = other.bell().listen(Topic::Work);
    let mut connection = scene.rusqlite();
    let mut tx = connection.transaction().unwrap();
    enqueue(scene.store(), &mut tx, &[job("j")]).await.unwrap();
    tx.commit().unwrap();
    tokio::time::timeout(PATIENCE, listener.rung()).await.expect("the other bell rings");
}

#[tokio::test]
async fn a_rollback_leaves_nothing() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let job = job("never");
    let mut tx = connection.transaction().unwrap();
    tx.execute("INSERT INTO ledger VALUES (7)", []).unwrap();
    enqueue(scene.store(), &mut tx, std::slice::from_ref(&job)).await.unwrap();
    tx.rollback().unwrap();
    assert_eq!((scene.record(&job).await, scene.counts().await, scene.ledger()), (None, None, 0));
}

#[tokio::test]
async fn a_savepoint_of_the_users_decides_as_well() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let [kept, dropped] = [job("kept"), job("dropped")];
    let mut tx = connection.transaction().unwrap();
    enqueue(scene.store(), &mut tx, std::slice::from_ref(&kept)).await.unwrap();
    let mut savepoint = tx.savepoint().unwrap();
    enqueue(scene.store(), &mut savepoint, std::slice::from_ref(&dropped)).await.unwrap();
    savepoint.rollback().unwrap();
    drop(savepoint);
    tx.commit().unwrap();
    assert!(scene.record(&kept).await.is_some());
    assert_eq!(scene.record(&dropped).await, None);
    assert_eq!(scene.counts().await.unwrap().of(State::Ready), 1);
}

#[tokio::test]
async fn a_connection_without_a_transaction_takes_effect_at_once() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let jobs = [job("one"), job("two")];
    enqueue(scene.store(), &mut connection, &jobs).await.unwrap();
    assert!(connection.is_autocommit());
    assert_eq!(scene.counts().await.unwrap().of(State::Ready), 2);
    let again = enqueue(scene.store(), &mut connection, &jobs).await.unwrap();
    assert_eq!(again, [Enqueued::Existing(State::Ready); 2]);
    assert_eq!(scene.counts().await.unwrap().of(State::Ready), 2);
}

#[tokio::test]
async fn a_refused_call_leaves_the_transaction_as_it_was() {
    let scene = File::new().await;
    let caps = Caps { payload: 100, ..Caps::default() };
    scene.define(QueueConfig { caps, ..QueueConfig::default() }).await;
    let mut connection = scene.rusqlite();
    let mut tx = connection.transaction().unwrap();
    let first = job("first");
    enqueue(scene.store(), &mut tx, std::slice::from_ref(&first)).await.unwrap();

    let mut many: Vec<_> = (0..40).map(|n| job(&n.to_string())).collect();
    many[20] = job(&"x".repeat(101));
    let (refusal, text) = kind(enqueue(scene.store(), &mut tx, &many).await);
    assert_eq!(refusal, StoreErrorKind::Refused);
    assert!(text.contains("payload has 101 bytes, the cap is 100"), "{text}");

    let other = job("another payload").with_id(first.id);
    let (refusal, text) = kind(enqueue(scene.store(), &mut tx, &[job("fine"), other]).await);
    assert!(refusal == StoreErrorKind::Refused && text.contains("is taken by a different job"), "{text}");

    tx.commit().unwrap();
    assert_eq!(scene.counts().await.unwrap().of(State::Ready), 1);
    assert!(scene.record(&first).await.is_some());
}

#[tokio::test]
async fn of_two_with_one_id_in_a_call_the_first_is_stored() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let long = job(&"x".repeat(5_000));
    let jobs: Vec<_> = (0..16).map(|n| if n % 2 == 0 { long.clone() } else { job(&n.to_string()) }).collect();
    let answers = enqueue(scene.store(), &mut connection, &jobs).await.unwrap();
    assert_eq!(answers.iter().filter(|answer| **answer == Enqueued::New).count(), 9);
    assert_eq!((answers[0], answers[2]), (Enqueued::New, Enqueued::Existing(State::Ready)));
    assert_eq!(scene.counts().await.unwrap().of(State::Ready), 9);
}

#[tokio::test]
async fn completion_and_effect_are_committed_as_one() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let claimed = scene.claimed().await;
    scene
        .rings(Topic::Finish, async {
            let mut tx = connection.transaction().unwrap();
            tx.execute("INSERT INTO ledger VALUES (7)", []).unwrap();
            let settled = complete(scene.store(), &mut tx, &done(&claimed, Some("\"paid\""))).await.unwrap();
            assert_eq!(settled, Settled::Applied(State::Completed));
            tx.commit().unwrap();
        })
        .await;
    let record = scene.store.get([claimed.id].into()).await.unwrap().pop().unwrap().unwrap();
    assert_eq!((record.state, record.output.as_deref()), (State::Completed, Some(&b"\"paid\""[..])));
    assert!(record.finished_at.is_some());
    let counts = scene.counts().await.unwrap();
    assert_eq!((counts.of(State::Running), counts.of(State::Completed)), (0, 1));
    assert_eq!(scene.ledger(), 7);
    assert_eq!(scene.settle(&done(&claimed, None)).await, Settled::Fenced);
}

#[tokio::test]
async fn without_the_commit_neither_is_there_and_the_job_can_be_settled() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let claimed = scene.claimed().await;
    let mut tx = connection.transaction().unwrap();
    tx.execute("INSERT INTO ledger VALUES (7)", []).unwrap();
    complete(scene.store(), &mut tx, &done(&claimed, None)).await.unwrap();
    drop(tx);
    assert_eq!(scene.ledger(), 0);
    let again = settlement(&claimed, Outcome::Retry { failure: Failure::error("not committed") });
    assert!(matches!(scene.settle(&again).await, Settled::Applied(_)));
}

#[tokio::test]
async fn a_stale_attempt_cannot_commit() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let stale = scene.claimed().await;
    scene.settle(&settlement(&stale, Outcome::Returned)).await;
    let fresh = scene.claim().await;
    assert_eq!(fresh.id, stale.id);

    let mut tx = connection.transaction().unwrap();
    tx.execute("INSERT INTO ledger VALUES (7)", []).unwrap();
    assert_eq!(complete(scene.store(), &mut tx, &done(&stale, None)).await.unwrap(), Settled::Fenced);
    // Not even by someone who goes on as if nothing had happened.
    tx.execute("INSERT INTO ledger VALUES (8)", []).unwrap();
    tx.commit().expect_err("the transaction is doomed");
    assert_eq!(scene.ledger(), 0);

    let settled = complete(scene.store(), &mut connection, &done(&stale, None)).await.unwrap();
    assert_eq!(settled, Settled::Fenced, "also without a transaction");
    assert!(connection.is_autocommit(), "nothing stays open");

    let mut tx = connection.transaction().unwrap();
    tx.execute("INSERT INTO ledger VALUES (9)", []).unwrap();
    complete(scene.store(), &mut tx, &done(&fresh, None)).await.unwrap();
    tx.commit().unwrap();
    assert_eq!(scene.ledger(), 9, "the connection is as good as before");
}

#[tokio::test]
async fn an_output_above_its_cap_is_refused_and_the_transaction_goes_on() {
    let scene = File::new().await;
    let caps = Caps { output: 3, ..Caps::default() };
    scene.define(QueueConfig { caps, ..QueueConfig::default() }).await;
    let mut connection = scene.rusqlite();
    let claimed = scene.claimed().await;
    let mut tx = connection.transaction().unwrap();
    let refused = complete(scene.store(), &mut tx, &done(&claimed, Some("1234"))).await.unwrap();
    assert!(matches!(refused, Settled::Refused(_)), "{refused:?}");
    let settled = complete(scene.store(), &mut tx, &done(&claimed, Some("123"))).await.unwrap();
    assert_eq!(settled, Settled::Applied(State::Completed));
    tx.commit().unwrap();
}

#[tokio::test]
async fn a_queue_that_keeps_none_loses_the_job_with_the_commit() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let retention = Retention { completed: Keep::NONE, ..Retention::default() };
    scene.define(QueueConfig { retention, ..QueueConfig::default() }).await;
    let claimed = scene.claimed().await;
    let mut tx = connection.transaction().unwrap();
    complete(scene.store(), &mut tx, &done(&claimed, None)).await.unwrap();
    tx.commit().unwrap();
    assert_eq!(scene.store.get([claimed.id].into()).await.unwrap(), [None]);
    assert_eq!(scene.counts().await.unwrap().total(), 0);
}

#[tokio::test]
async fn the_stores_own_writes_wait_for_the_transaction() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let [theirs, ours] = [job("theirs"), job("ours")];
    let mut tx = connection.transaction().unwrap();
    enqueue(scene.store(), &mut tx, std::slice::from_ref(&theirs)).await.unwrap();
    let store = std::sync::Arc::clone(&scene.store);
    let waiting = tokio::spawn(async move { store.enqueue([ours].into()).await });
    // The writer has to be at the lock before it is freed; whether it is, is not to be seen from outside.
    tokio::task::yield_now().await;
    tx.commit().unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), [Enqueued::New]);
    assert_eq!(scene.counts().await.unwrap().of(State::Ready), 2);
}

#[tokio::test]
async fn a_transaction_that_read_an_old_state_is_told_how_to_begin() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let mut tx = connection.transaction().unwrap();
    tx.query_row("SELECT count(*) FROM ledger", [], |row| row.get::<_, i64>(0)).unwrap();
    scene.store.enqueue([job("meanwhile")].into()).await.unwrap();
    let (refusal, text) = kind(enqueue(scene.store(), &mut tx, &[job("late")]).await);
    assert_eq!(refusal, StoreErrorKind::Unavailable);
    assert!(text.contains("BEGIN IMMEDIATE"), "{text}");
}

#[test]
fn no_runtime_is_needed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scene = runtime.block_on(File::new());
    let mut connection = scene.rusqlite();
    let answers = windlass_tx::wait(enqueue(scene.store(), &mut connection, &[job("plain")])).unwrap();
    assert_eq!(answers, [Enqueued::New]);
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Receipt;

impl Job for Receipt {
    const KIND: &'static str = "receipt";
    type Output = ();
}

/// The mark of the queue is written beside the transaction, which holds the file until it ends.
#[tokio::test]
async fn a_job_that_is_followed_when_it_expires_does_not_wait_for_its_own_transaction() {
    let scene = File::new().await;
    let client = Client::new(Arc::clone(&scene.store) as _);
    let mut connection = scene.rusqlite();
    let mut tx = connection.transaction_with_behavior(Immediate).unwrap();
    for _ in 0..3 {
        let receipt = client.enqueue(Receipt).expires_in(Duration::from_secs(60));
        let followed = receipt.on_dead(OnDead::kind("alert").unwrap());
        tokio::time::timeout(PATIENCE / 2, followed.within(&mut tx))
            .await
            .expect("it does not wait")
            .unwrap();
    }
    tx.commit().unwrap();
    let marks = client.records("windlass.dead").unwrap();
    let marked = async {
        while marks.get_raw("expiring/default").await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, marked).await.expect("the mark is written after the commit");
}
