//! Transactions that a store cannot write in are refused before anything is written, and the refusal says
//! what would be right.

use rusqlite::Connection;
use windlass_core::StoreErrorKind;
use windlass_store_memory::MemoryStore;
use windlass_store_sqlite::SqliteStore;
use windlass_tx::{complete, enqueue};

use crate::support::{File, done, job, kind};

#[tokio::test]
async fn a_store_that_is_not_an_sql_database() {
    let mut connection = Connection::open_in_memory().unwrap();
    let (refusal, text) = kind(enqueue(&MemoryStore::new(), &mut connection, &[job("j")]).await);
    assert_eq!(refusal, StoreErrorKind::Refused);
    assert!(text.starts_with("a memory store cannot take part in a transaction"), "{text}");
}

#[tokio::test]
async fn a_store_in_memory() {
    let store = SqliteStore::open("sqlite::memory:").await.unwrap();
    let mut connection = Connection::open_in_memory().unwrap();
    let (refusal, text) = kind(enqueue(&store, &mut connection, &[job("j")]).await);
    assert_eq!(refusal, StoreErrorKind::Refused);
    assert!(text.contains("use a file"), "{text}");
}

#[tokio::test]
async fn another_file_although_it_is_a_store_as_well() {
    let (own, other) = (File::new().await, File::new().await);
    let mut connection = other.rusqlite();
    let mut tx = connection.transaction().unwrap();
    let (refusal, text) = kind(enqueue(own.store(), &mut tx, &[job("j")]).await);
    assert_eq!(refusal, StoreErrorKind::Refused);
    assert!(text.contains("begin it on a connection to the store's file"), "{text}");
    tx.commit().unwrap();
    assert_eq!((own.counts().await, other.counts().await), (None, None));

    let mut memory = Connection::open_in_memory().unwrap();
    memory.execute("ATTACH ?1 AS jobs", [own.path().to_str().unwrap()]).unwrap();
    let (_, text) = kind(enqueue(own.store(), &mut memory, &[job("j")]).await);
    assert!(text.starts_with("the transaction is on memory"), "{text}");
}

#[tokio::test]
async fn completing_where_foreign_keys_are_not_tested() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    let claimed = scene.claimed().await;
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    let (refusal, text) = kind(complete(scene.store(), &mut connection, &done(&claimed, None)).await);
    assert_eq!(refusal, StoreErrorKind::Refused);
    assert!(text.contains("PRAGMA foreign_keys = ON"), "{text}");
}
