//! Keys of jobs and the capacity of a queue in transactions on an SQLite file.

use windlass_core::bell::Topic;
use windlass_core::queue::{Keep, KeyRules, QueueConfig, Retention};
use windlass_core::store::{Enqueued, Settled};
use windlass_core::{NewJob, Options, State, StoreError};
use windlass_tx::{complete, enqueue};

use crate::support::{File, done, job, name};

fn of(key: &str) -> NewJob {
    NewJob::new("k", key.to_owned(), Options::new().key(key)).unwrap()
}

fn one_of_each() -> QueueConfig {
    let keys = KeyRules { concurrency: Some(1), ..KeyRules::default() };
    QueueConfig { keys: Some(keys), ..QueueConfig::default() }
}

#[tokio::test]
async fn jobs_with_a_key_come_in_with_the_commit() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let mut tx = connection.transaction().unwrap();
    let refused = enqueue(scene.store(), &mut tx, &[job("plain"), of("a")]).await;
    assert!(matches!(refused, Err(StoreError::NoKeys { .. })), "{refused:?}");
    tx.commit().unwrap();
    assert_eq!(scene.counts().await, None, "nothing was stored");
    scene.define(one_of_each()).await;
    for is_kept in [false, true] {
        let mut tx = connection.transaction().unwrap();
        let jobs = [of("b"), job("plain"), of("a"), of("a")];
        assert_eq!(enqueue(scene.store(), &mut tx, &jobs).await.unwrap(), [Enqueued::New; 4]);
        if is_kept { tx.commit().unwrap() } else { tx.rollback().unwrap() }
    }
    let mut keys = [scene.claim().await.key, scene.claim().await.key, scene.claim().await.key];
    keys.sort_unstable();
    assert_eq!(keys, [None, Some(name("a")), Some(name("b"))]);
    assert_eq!(scene.counts().await.unwrap().of(State::Ready), 1, "one of a runs");
}

#[tokio::test]
async fn completing_opens_the_gate_when_it_is_committed() {
    for keep in [Keep::FOREVER, Keep::NONE] {
        let scene = File::new().await;
        let retention = Retention { completed: keep, ..Retention::default() };
        scene.define(QueueConfig { retention, ..one_of_each() }).await;
        scene.store.enqueue([of("a"), of("a")].into()).await.unwrap();
        let running = scene.claim().await;
        let mut connection = scene.rusqlite();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        for is_kept in [false, true] {
            let mut listener = scene.store.bell().listen(Topic::Work);
            let mut tx = connection.transaction().unwrap();
            let settled = complete(scene.store(), &mut tx, &done(&running, None)).await.unwrap();
            assert_eq!(settled, Settled::Applied(State::Completed));
            if !is_kept {
                tx.rollback().unwrap();
                continue;
            }
            tx.commit().unwrap();
            tokio::time::timeout(crate::support::PATIENCE, listener.rung())
                .await
                .expect("workers hear of it");
        }
        assert_eq!(scene.claim().await.key, Some(name("a")));
    }
}

#[tokio::test]
async fn what_the_transaction_has_brought_needs_room() {
    let scene = File::new().await;
    scene.define(QueueConfig { capacity: Some(3), ..QueueConfig::default() }).await;
    let mut connection = scene.rusqlite();
    let mut tx = connection.transaction().unwrap();
    enqueue(scene.store(), &mut tx, &[job("1"), job("2")]).await.unwrap();
    let full = enqueue(scene.store(), &mut tx, &[job("3"), job("4")]).await;
    assert!(matches!(full, Err(StoreError::QueueFull { capacity: 3, waiting: 2, .. })), "{full:?}");
    enqueue(scene.store(), &mut tx, &[job("5")]).await.unwrap();
    let full = enqueue(scene.store(), &mut tx, &[job("6")]).await;
    assert!(matches!(full, Err(StoreError::QueueFull { waiting: 3, .. })), "{full:?}");
    tx.commit().unwrap();
    assert_eq!(scene.counts().await.unwrap().total(), 3);
}
