//! Records in a transaction of the user's own: a connection beside the store, on which its statements run.

use std::pin::pin;

use futures_util::FutureExt;
use rusqlite::types::{Value as Stored, ValueRef};
use rusqlite::{Connection, params_from_iter};
use windlass_core::bell::Topic;
use windlass_core::sql::{Ask, Heard, Line, Row, SqlError, Value, line};
use windlass_core::store::{Enqueued, Jobs, Records, StoreResult, Wakeup, Within};
use windlass_core::{State, StoreError};
use windlass_store_sqlite::SqliteStore;

use super::{Expect, FollowUps, Record, find, key, only, put, write};
use crate::{job, name, open};

fn run(connection: &Connection, ask: &Ask) -> rusqlite::Result<Vec<Row>> {
    let stored = |value: &Value| match value {
        Value::Int(number) => number.map_or(Stored::Null, Stored::Integer),
        Value::Text(text) => text.clone().map_or(Stored::Null, Stored::Text),
        Value::Bytes(bytes) => bytes.as_ref().map_or(Stored::Null, |bytes| Stored::Blob(bytes.to_vec())),
        Value::Uuid(id) => Stored::Blob(id.to_vec()),
        other => panic!("SQLite has no {}", other.kind()),
    };
    let column = |value: ValueRef<'_>| match value {
        ValueRef::Integer(number) => Value::Int(Some(number)),
        ValueRef::Text(text) => Value::Text(Some(String::from_utf8_lossy(text).into_owned())),
        ValueRef::Blob(bytes) => Value::Bytes(Some(bytes.to_vec().into())),
        _ => Value::Int(None),
    };
    let mut statement = connection.prepare(&ask.sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query(params_from_iter(ask.values.iter().map(stored)))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let read = (0..columns).map(|at| row.get_ref(at).map(column));
        found.push(Row::new(read.collect::<Result<_, _>>()?));
    }
    Ok(found)
}

/// A conversation in a savepoint, as the contract says.
fn converse<T>(
    connection: &Connection,
    conversation: impl AsyncFnOnce(&mut Line) -> StoreResult<T>,
) -> StoreResult<T> {
    connection.execute_batch("SAVEPOINT conversation").unwrap();
    let (mut line, mut operator) = line();
    let mut conversation = pin!(conversation(&mut line));
    let answer = loop {
        match operator.listen(conversation.as_mut()).now_or_never().expect("nothing else is waited for") {
            Heard::End(answer) => break answer,
            Heard::Ask(ask) => operator.answer(run(connection, &ask).map_err(|error| SqlError::Answered {
                code: error.sqlite_error().map_or(1, |failure| failure.extended_code).to_string(),
                text: error.to_string(),
                source: None,
            })),
        }
    };
    if answer.is_err() {
        connection.execute_batch("ROLLBACK TO conversation").unwrap();
    }
    connection.execute_batch("RELEASE conversation").unwrap();
    answer
}

fn read(store: &SqliteStore, connection: &Connection, text: &str) -> Option<Record> {
    let keys = [key(text)];
    let found =
        converse(connection, async |line: &mut Line| store.read_records(line, &name("default"), &keys).await);
    found.unwrap().remove(0)
}

fn write_within(
    store: &SqliteStore,
    connection: &Connection,
    what: &FollowUps,
) -> StoreResult<Vec<Enqueued>> {
    converse(connection, async |line: &mut Line| store.write_records(line, &name("default"), what).await)
}

#[tokio::test]
async fn records_and_jobs_take_effect_with_the_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = open(&path).await;
    let user = Connection::open(&path).unwrap();
    let mut work = store.bell().listen(Topic::Work);
    for end in ["ROLLBACK", "COMMIT"] {
        let (next, is_committed) = (job("next"), end == "COMMIT");
        user.execute_batch("BEGIN").unwrap();
        assert_eq!(read(&store, &user, "k"), None);
        let what =
            FollowUps { jobs: vec![next.clone()], records: vec![put("k", "1").expect(Expect::Absent)] };
        assert_eq!(write_within(&store, &user, &what).unwrap(), [Enqueued::New]);
        assert_eq!(read(&store, &user, "k").unwrap().version, what.records[0].version().unwrap());
        assert_eq!(find(&store, "k").await, None, "others do not see it yet");
        user.execute_batch(end).unwrap();
        assert_eq!(find(&store, "k").await.is_some(), is_committed);
        let state = store.get([next.id].into()).await.unwrap().remove(0).map(|job| job.state);
        assert_eq!(state, is_committed.then_some(State::Ready));
    }
    work.rung().await;
}

#[tokio::test]
async fn a_conflict_leaves_the_transaction_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = open(&path).await;
    write(&store, only([put("there", "1")])).await.unwrap();
    let user = Connection::open(&path).unwrap();
    user.execute_batch("CREATE TABLE mine (n INT); BEGIN IMMEDIATE; INSERT INTO mine VALUES (1)").unwrap();
    write_within(&store, &user, &only([put("a", "1")])).unwrap();
    let next = job("next");
    let records = vec![put("a", "2"), put("there", "2").expect(Expect::Absent)];
    let refused = write_within(&store, &user, &FollowUps { jobs: vec![next.clone()], records });
    assert!(matches!(refused, Err(StoreError::Conflict { found: Some(_), .. })), "{refused:?}");
    let elsewhere = FollowUps { jobs: vec![next.clone()], records: vec![put("a", "3"), put("a", "4")] };
    assert!(matches!(write_within(&store, &user, &elsewhere), Err(StoreError::FollowUps(_))));
    user.execute_batch("COMMIT").unwrap();
    assert_eq!(find(&store, "a").await.unwrap().value, "1");
    assert_eq!(store.get([next.id].into()).await.unwrap(), [None]);
    assert_eq!(user.query_row("SELECT count(*) FROM mine", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

#[tokio::test]
async fn what_an_open_transaction_has_written_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = open(&path).await;
    let user = Connection::open(&path).unwrap();
    user.execute_batch("BEGIN IMMEDIATE").unwrap();
    let first = only([put("k", "mine").expect(Expect::Absent)]);
    write_within(&store, &user, &first).unwrap();
    let mut second = pin!(write(&store, only([put("k", "yours").expect(Expect::Absent)])));
    assert!(second.as_mut().now_or_never().is_none(), "the lock is held");
    user.execute_batch("COMMIT").unwrap();
    let refused = second.await;
    let Err(StoreError::Conflict { found, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(found, first.records[0].version());
}

#[tokio::test]
async fn a_transaction_on_another_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db")).await;
    let other = Connection::open(directory.path().join("other.db")).unwrap();
    let keys = [key("k")];
    let found =
        converse(&other, async |line: &mut Line| store.read_records(line, &name("default"), &keys).await);
    assert!(matches!(found, Err(StoreError::Transaction(_))), "{found:?}");
    let refused = write_within(&store, &other, &only([put("k", "1")]));
    assert!(matches!(refused, Err(StoreError::Transaction(_))), "{refused:?}");
    assert_eq!(Records::totals(&store, &name("default")).await.unwrap().count, 0);
}
