//! Unique keys in transactions on an SQLite file, by both of its drivers.

use std::time::Duration;

use sqlx::Connection;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::size::Caps;
use windlass_core::store::{Enqueued, Settled};
use windlass_core::unique::Unique;
use windlass_core::{JobId, NewJob, Options, State};
use windlass_tx::{complete, enqueue};

use crate::support::{File, done, job, kind};

fn saying(payload: &str, unique: Unique) -> NewJob {
    NewJob::new("k", payload.to_owned(), Options::new().unique(unique)).unwrap()
}

fn unique() -> NewJob {
    saying("u", Unique::key("key"))
}

/// What a job is answered that comes by a call of the store.
async fn outside(scene: &File, job: &NewJob) -> Enqueued {
    scene.store.enqueue([job.clone()].into()).await.unwrap()[0]
}

fn held_by(id: JobId, state: State) -> Enqueued {
    Enqueued::Duplicate { id, state: Some(state) }
}

#[tokio::test]
async fn a_key_is_held_from_the_commit_on_and_a_rollback_leaves_it_free() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let (first, second) = (unique(), unique());
    let mut tx = connection.transaction().unwrap();
    let answers = enqueue(scene.store(), &mut tx, &[first.clone(), unique()]).await.unwrap();
    assert_eq!(answers, [Enqueued::New, held_by(first.id, State::Ready)]);
    tx.rollback().unwrap();
    assert_eq!(outside(&scene, &second).await, Enqueued::New, "the first was never there");
    let mut tx = connection.transaction().unwrap();
    let answers = enqueue(scene.store(), &mut tx, std::slice::from_ref(&first)).await.unwrap();
    assert_eq!(answers, [held_by(second.id, State::Ready)]);
    tx.commit().unwrap();
    assert_eq!(scene.record(&first).await, None);
    scene.store.delete([second.id].into()).await.unwrap();
    let mut tx = connection.transaction().unwrap();
    assert_eq!(enqueue(scene.store(), &mut tx, std::slice::from_ref(&first)).await.unwrap(), [Enqueued::New]);
    tx.commit().unwrap();
    assert_eq!(outside(&scene, &second).await, held_by(first.id, State::Ready));
    assert_eq!(scene.record(&first).await.unwrap().unique, first.unique);
    assert_eq!(scene.counts().await.unwrap().of(State::Ready), 1);
}

#[tokio::test]
async fn sqlx_takes_keys_as_well() {
    let scene = File::new().await;
    let mut connection = scene.sqlx().await;
    let windowed = || saying("w", Unique::key("w").for_window(Duration::from_secs(900)));
    let (first, window) = (unique(), windowed());
    for is_kept in [false, true] {
        let mut tx = connection.begin().await.unwrap();
        let jobs = [first.clone(), job("plain"), window.clone(), windowed()];
        let answers = enqueue(scene.store(), &mut tx, &jobs).await.unwrap();
        assert_eq!(answers[..3], [Enqueued::New; 3], "{is_kept}");
        assert_eq!(answers[3], held_by(window.id, State::Ready));
        if is_kept { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
    }
    assert_eq!(outside(&scene, &unique()).await, held_by(first.id, State::Ready));
    scene.store.delete([first.id, window.id].into()).await.unwrap();
    assert_eq!(outside(&scene, &unique()).await, Enqueued::New);
    assert_eq!(outside(&scene, &windowed()).await, Enqueued::Duplicate { id: window.id, state: None });
}

#[tokio::test]
async fn what_a_holder_takes_over_is_the_transactions_to_decide() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let replacing = |payload: &str| saying(payload, Unique::key("key").replace());
    let long = "x".repeat(5_000);
    let holder = replacing("old");
    assert_eq!(outside(&scene, &holder).await, Enqueued::New);
    for is_kept in [false, true] {
        let mut tx = connection.transaction().unwrap();
        let answers = enqueue(scene.store(), &mut tx, &[replacing("new"), replacing(&long)]).await.unwrap();
        assert_eq!(answers, [Enqueued::Replaced(holder.id); 2]);
        if is_kept {
            tx.commit().unwrap();
        } else {
            tx.rollback().unwrap();
        }
        let expected = if is_kept { &long } else { "old" };
        assert_eq!(scene.record(&holder).await.unwrap().payload, expected.as_bytes());
    }
    assert_eq!(&scene.claim().await.payload[..], long.as_bytes());
}

#[tokio::test]
async fn a_refused_call_takes_no_key_and_leaves_those_of_the_transaction() {
    let scene = File::new().await;
    let caps = Caps { payload: 100, ..Caps::default() };
    scene.define(QueueConfig { caps, ..QueueConfig::default() }).await;
    let mut connection = scene.rusqlite();
    let mut tx = connection.transaction().unwrap();
    let (kept, refused) = (unique(), saying("r", Unique::key("refused")));
    enqueue(scene.store(), &mut tx, std::slice::from_ref(&kept)).await.unwrap();
    let call = [kept.clone(), refused.clone(), job(&"x".repeat(101))];
    let (_, text) = kind(enqueue(scene.store(), &mut tx, &call).await);
    assert!(text.contains("payload has 101 bytes, the cap is 100"), "{text}");
    tx.commit().unwrap();
    assert_eq!(outside(&scene, &unique()).await, held_by(kept.id, State::Ready));
    assert_eq!(outside(&scene, &refused).await, Enqueued::New);
}

#[tokio::test]
async fn completing_frees_the_key_when_it_is_committed() {
    for keep in [Keep::FOREVER, Keep::NONE] {
        let scene = File::new().await;
        let retention = Retention { completed: keep, ..Retention::default() };
        scene.define(QueueConfig { retention, ..QueueConfig::default() }).await;
        let (first, second) = (unique(), unique());
        assert_eq!(outside(&scene, &first).await, Enqueued::New);
        let running = scene.claim().await;
        let mut connection = scene.rusqlite();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        for is_kept in [false, true] {
            let mut tx = connection.transaction().unwrap();
            let settled = complete(scene.store(), &mut tx, &done(&running, None)).await.unwrap();
            assert_eq!(settled, Settled::Applied(State::Completed));
            let next = enqueue(scene.store(), &mut tx, std::slice::from_ref(&second)).await.unwrap();
            assert_eq!(next, [Enqueued::New], "the same transaction sees it");
            if is_kept {
                tx.commit().unwrap();
            } else {
                tx.rollback().unwrap();
            }
            let holder = if is_kept { (second.id, State::Ready) } else { (first.id, State::Running) };
            assert_eq!(outside(&scene, &unique()).await, held_by(holder.0, holder.1));
        }
    }
}
