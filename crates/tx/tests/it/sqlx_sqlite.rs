//! sqlx on an SQLite file.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use sqlx::pool::PoolOptions;
use sqlx::{Connection, Sqlite, SqliteConnection, query, query_scalar};
use windlass_core::bell::Topic;
use windlass_core::store::{Enqueued, Settled};
use windlass_core::{Outcome, State, StoreErrorKind};
use windlass_tx::{complete, enqueue};

use crate::support::{File, done, job, kind, settlement};

async fn pay(connection: &mut SqliteConnection, amount: i64) {
    query("INSERT INTO ledger VALUES (?)").bind(amount).execute(connection).await.unwrap();
}

#[tokio::test]
async fn a_commit_makes_jobs_visible_and_rings_and_a_rollback_leaves_nothing() {
    let scene = File::new().await;
    let mut connection = scene.sqlx().await;
    let jobs: Vec<_> = (0..20).map(|n| job(&"x".repeat(n * 100))).collect();
    let mut tx = connection.begin().await.unwrap();
    pay(&mut tx, 5).await;
    enqueue(scene.store(), &mut tx, &jobs).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!((scene.counts().await, scene.ledger()), (None, 0));
    scene
        .rings(Topic::Work, async {
            let mut tx = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
            pay(&mut tx, 7).await;
            let answers = enqueue(scene.store(), &mut tx, &jobs).await.unwrap();
            assert_eq!(answers, vec![Enqueued::New; 20]);
            tx.commit().await.unwrap();
        })
        .await;
    for job in &jobs {
        assert_eq!(scene.record(job).await.unwrap().payload, job.payload);
    }
    assert_eq!((scene.counts().await.unwrap().of(State::Ready), scene.ledger()), (20, 7));
}

#[tokio::test]
async fn bare_and_pooled_connections_take_effect_at_once() {
    let scene = File::new().await;
    let mut connection = scene.sqlx().await;
    let job = job("at once");
    enqueue(scene.store(), &mut connection, std::slice::from_ref(&job)).await.unwrap();
    assert!(scene.record(&job).await.is_some());
    let url = format!("sqlite://{}", scene.path().display());
    let pool = PoolOptions::<Sqlite>::new().connect(&url).await.unwrap();
    let mut pooled = pool.acquire().await.unwrap();
    let again = enqueue(scene.store(), &mut pooled, std::slice::from_ref(&job)).await.unwrap();
    assert_eq!(again, [Enqueued::Existing(State::Ready)]);
}

#[tokio::test]
async fn completion_and_effect_are_committed_as_one() {
    let scene = File::new().await;
    let mut connection = scene.sqlx().await;
    let claimed = scene.claimed().await;
    let mut tx = connection.begin().await.unwrap();
    pay(&mut tx, 7).await;
    let settled = complete(scene.store(), &mut tx, &done(&claimed, Some("\"paid\""))).await.unwrap();
    assert_eq!(settled, Settled::Applied(State::Completed));
    tx.commit().await.unwrap();
    let record = scene.store.get([claimed.id].into()).await.unwrap().pop().unwrap().unwrap();
    assert_eq!((record.state, record.output.as_deref()), (State::Completed, Some(&b"\"paid\""[..])));
    assert_eq!(scene.ledger(), 7);
}

#[tokio::test]
async fn a_stale_attempt_cannot_commit_and_the_connection_stays_good() {
    let scene = File::new().await;
    let mut connection = scene.sqlx().await;
    let stale = scene.claimed().await;
    scene.settle(&settlement(&stale, Outcome::Returned)).await;
    let fresh = scene.claim().await;

    let mut tx = connection.begin().await.unwrap();
    pay(&mut tx, 7).await;
    assert_eq!(complete(scene.store(), &mut tx, &done(&stale, None)).await.unwrap(), Settled::Fenced);
    pay(&mut tx, 8).await;
    tx.commit().await.expect_err("the transaction is doomed");
    let settled = complete(scene.store(), &mut connection, &done(&stale, None)).await.unwrap();
    assert_eq!(settled, Settled::Fenced, "also without a transaction");

    // sqlx counts transactions: one that it takes for open would turn these into savepoints.
    let mut tx = connection.begin().await.unwrap();
    pay(&mut tx, 9).await;
    tx.rollback().await.unwrap();
    scene.store.enqueue([job("the lock is free")].into()).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    pay(&mut tx, 10).await;
    complete(scene.store(), &mut tx, &done(&fresh, None)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(scene.ledger(), 10);
}

#[tokio::test]
async fn a_call_that_is_dropped_half_way_leaves_nothing_and_nothing_open() {
    let scene = File::new().await;
    let mut connection = scene.sqlx().await;
    let jobs: Vec<_> = (0..8).map(|n| job(&n.to_string())).collect();
    for polls in 1..40 {
        let is_done = {
            let mut call = pin!(enqueue(scene.store(), &mut connection, &jobs));
            let mut is_done = false;
            for _ in 0..polls {
                let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                is_done |= matches!(polled, Poll::Ready(_));
                if is_done {
                    break;
                }
                // Lets the driver's thread get ahead.
                std::thread::yield_now();
            }
            is_done
        };
        let seen: i64 =
            query_scalar("SELECT count(*) FROM windlass_jobs").fetch_one(&mut connection).await.unwrap();
        // All of them or none, whenever it was dropped; a commit may have been on its way.
        assert!(seen == 0 || seen == 8, "{seen} jobs after {polls} polls");
        scene.store.enqueue([].into()).await.unwrap();
        if is_done || seen == 8 {
            break;
        }
    }
    scene.store.enqueue([job("the lock is free")].into()).await.unwrap();
}

#[tokio::test]
async fn a_transaction_begun_by_hand_is_refused_and_named() {
    let scene = File::new().await;
    let mut connection = scene.sqlx().await;
    query("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
    let (refusal, text) = kind(enqueue(scene.store(), &mut connection, &[job("j")]).await);
    assert_eq!(refusal, StoreErrorKind::Refused);
    assert!(text.contains("begin_with(\"BEGIN IMMEDIATE\")"), "{text}");
    query("ROLLBACK").execute(&mut connection).await.unwrap();
}

#[tokio::test]
async fn the_calls_can_be_sent_to_other_threads() {
    let scene = File::new().await;
    let store = std::sync::Arc::clone(&scene.store);
    let mut connection = scene.sqlx().await;
    let claimed = scene.claimed().await;
    let sent = tokio::spawn(async move {
        let mut tx = connection.begin().await.unwrap();
        enqueue(&*store, &mut tx, &[job("sent")]).await.unwrap();
        complete(&*store, &mut tx, &done(&claimed, None)).await.unwrap();
        tx.commit().await.unwrap();
    });
    sent.await.unwrap();
    assert_eq!(scene.counts().await.unwrap().of(State::Completed), 1);
}
