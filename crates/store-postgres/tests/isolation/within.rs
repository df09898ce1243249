//! Records in a transaction of the user's own, over a line as a driver speaks it.

use std::pin::pin;

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;
use windlass_core::bell::Topic;
use windlass_core::follow_ups::FollowUps;
use windlass_core::options::Due;
use windlass_core::record::{Expect, Record, RecordWrite};
use windlass_core::sql::{Ask, Heard, Line, Row, SqlError, Value, line};
use windlass_core::store::{Enqueued, Jobs, StoreResult, Wakeup, Within};
use windlass_core::{Bytes, NewJob, State, StoreError};

use super::bench::{Bench, name, new_job};
use super::records::{find, key, put, value, write};

/// A parameter as the driver takes it.
fn parameter(value: Value) -> (Box<dyn ToSql + Sync + Send>, Type) {
    let blobs = |blobs: Vec<Option<Bytes>>| {
        blobs.into_iter().map(|blob| blob.map(|blob| blob.to_vec())).collect::<Vec<_>>()
    };
    match value {
        Value::Int(number) => (Box::new(number), Type::INT8),
        Value::Text(text) => (Box::new(text), Type::TEXT),
        Value::Bytes(bytes) => (Box::new(bytes.map(|bytes| bytes.to_vec())), Type::BYTEA),
        Value::Uuid(id) => (Box::new(Uuid::from_bytes(id)), Type::UUID),
        Value::Ints(numbers) => (Box::new(numbers), Type::INT8_ARRAY),
        Value::Texts(texts) => (Box::new(texts), Type::TEXT_ARRAY),
        Value::Blobs(bytes) => (Box::new(blobs(bytes)), Type::BYTEA_ARRAY),
        Value::Uuids(ids) => {
            let ids: Vec<_> = ids.into_iter().map(Uuid::from_bytes).collect();
            (Box::new(ids), Type::UUID_ARRAY)
        }
    }
}

async fn run(client: &Client, Ask { sql, values }: Ask) -> Result<Vec<Row>, SqlError> {
    let values: Vec<_> = values.into_iter().map(parameter).collect();
    let typed: Vec<(&(dyn ToSql + Sync), Type)> =
        values.iter().map(|(value, ty)| (&**value as &(dyn ToSql + Sync), ty.clone())).collect();
    let answered = |error: tokio_postgres::Error| SqlError::Answered {
        code: error.code().unwrap().code().to_owned(),
        text: error.to_string(),
        source: None,
    };
    let rows = client.query_typed(&sql, &typed).await.map_err(answered)?;
    let column = |row: &tokio_postgres::Row, index: usize| match *row.columns()[index].type_() {
        Type::INT8 => Value::Int(row.get(index)),
        Type::TEXT => Value::Text(row.get(index)),
        Type::BYTEA => Value::Bytes(row.get::<_, Option<Vec<u8>>>(index).map(Bytes::from)),
        ref other => panic!("a column of type {other}"),
    };
    let row = |row: &tokio_postgres::Row| Row::new((0..row.len()).map(|index| column(row, index)).collect());
    Ok(rows.iter().map(row).collect())
}

/// Lets the store speak over a connection.
async fn over<T>(client: &Client, call: impl AsyncFnOnce(&mut Line) -> StoreResult<T>) -> StoreResult<T> {
    let (mut line, mut operator) = line();
    let mut conversation = pin!(call(&mut line));
    loop {
        match operator.listen(conversation.as_mut()).await {
            Heard::End(answer) => return answer,
            Heard::Ask(ask) => operator.answer(run(client, ask).await),
        }
    }
}

async fn write_in(
    bench: &Bench,
    client: &Client,
    jobs: impl Into<Vec<NewJob>>,
    records: impl Into<Vec<RecordWrite>>,
) -> StoreResult<Vec<Enqueued>> {
    let what = FollowUps { jobs: jobs.into(), records: records.into() };
    over(client, async |line| bench.store.write_records(line, &name("default"), &what).await).await
}

async fn find_in(bench: &Bench, client: &Client, text: &str) -> Option<Record> {
    let keys = [key("none"), key(text)];
    let found = over(client, async |line| bench.store.read_records(line, &name("default"), &keys).await);
    let mut found = found.await.unwrap();
    assert_eq!((found.len(), found[0].is_none()), (2, true));
    found.remove(1)
}

#[tokio::test]
async fn a_transaction_sees_what_it_has_written_and_no_other_does() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    for (end, expected) in [("ROLLBACK", None), ("COMMIT", Some("1"))] {
        client.batch_execute("BEGIN").await.unwrap();
        let write = put("k", "1").expect(Expect::Absent);
        assert_eq!(write_in(&bench, &client, [], [write.clone()]).await.unwrap(), []);
        let found = find_in(&bench, &client, "k").await.unwrap();
        assert_eq!((Some(found.version), &found.value[..]), (write.version(), &b"1"[..]));
        assert_eq!(find(&bench.store, "k").await, None);
        client.batch_execute(end).await.unwrap();
        assert_eq!(value(&bench.store, "k").await.as_deref(), expected);
    }
    // A connection without a transaction writes at once.
    write_in(&bench, &client, [], [RecordWrite::remove(key("k"))]).await.unwrap();
    assert_eq!(find_in(&bench, &client, "k").await, None);
    assert_eq!(find(&bench.store, "k").await, None);
}

#[tokio::test]
async fn a_conflict_leaves_the_transaction_as_it_was() {
    let bench = Bench::new().await;
    write(&bench.store, [put("there", "1")]).await.unwrap();
    let version = find(&bench.store, "there").await.unwrap().version;
    let client = bench.client().await;
    client
        .batch_execute("BEGIN; CREATE TABLE ledger (amount int8); INSERT INTO ledger VALUES (1)")
        .await
        .unwrap();
    let job = new_job();
    for writes in [
        vec![put("new", "1"), put("there", "2").expect(Expect::Absent)],
        vec![put("new", "1"), put("none", "2").expect(Expect::Version(version))],
        vec![put("new", "1"), RecordWrite::remove(key("there")).expect(Expect::Absent)],
    ] {
        let refused = write_in(&bench, &client, [job.clone()], writes).await.unwrap_err();
        assert!(matches!(refused, StoreError::Conflict { .. }), "{refused}");
        assert_eq!(find_in(&bench, &client, "new").await, None);
    }
    // What was met is locked no longer: it was all undone.
    write(&bench.store, [put("there", "3")]).await.unwrap();
    assert_eq!(write_in(&bench, &client, [job.clone()], [put("new", "1")]).await.unwrap(), [Enqueued::New]);
    client.batch_execute("INSERT INTO ledger VALUES (2); COMMIT").await.unwrap();
    assert_eq!(bench.psql("SELECT sum(amount) FROM ledger"), "3");
    assert_eq!(bench.store.states([job.id].into()).await.unwrap(), [Some(State::Ready)]);
    assert_eq!(value(&bench.store, "new").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_refused_job_takes_the_records_back_and_leaves_the_transaction() {
    let bench = Bench::new().await;
    let taken = bench.enqueue(1).await.remove(0);
    let client = bench.client().await;
    client.batch_execute("BEGIN").await.unwrap();
    let another = NewJob::new("another", "", Default::default()).unwrap().with_id(taken.id);
    let refused = write_in(&bench, &client, [new_job(), another], [put("k", "1")]).await.unwrap_err();
    assert!(matches!(refused, StoreError::IdTaken { .. }), "{refused}");
    assert_eq!(find_in(&bench, &client, "k").await, None);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(bench.psql("SELECT count(*) FROM jobs"), "1");
}

#[tokio::test]
async fn jobs_come_with_the_commit_and_ring() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let mut work = bench.store.bell().listen(Topic::Work);
    client.batch_execute("BEGIN").await.unwrap();
    let job = new_job();
    assert_eq!(write_in(&bench, &client, [job.clone()], [put("k", "1")]).await.unwrap(), [Enqueued::New]);
    assert_eq!(bench.store.states([job.id].into()).await.unwrap(), [None]);
    client.batch_execute("COMMIT").await.unwrap();
    work.rung().await;
    assert_eq!(bench.store.states([job.id].into()).await.unwrap(), [Some(State::Ready)]);
    assert_eq!(bench.psql("SELECT count(*) FROM calls"), "0", "its fate is that of the transaction");
}

#[tokio::test]
async fn jobs_are_held_from_the_commit_on() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let mut jobs = [new_job(), new_job(), new_job()];
    (jobs[0].due, jobs[2].due) = (Due::Held, Due::Held);
    client.batch_execute("BEGIN").await.unwrap();
    over(&client, async |line| Within::enqueue(&bench.store, line, &jobs[..2]).await).await.unwrap();
    write_in(&bench, &client, [jobs[2].clone()], [put("k", "1")]).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    let states = bench.store.states(jobs.map(|job| job.id).into()).await.unwrap();
    assert_eq!(states, [State::Blocked, State::Ready, State::Blocked].map(Some));
}

#[tokio::test]
async fn a_record_of_an_open_transaction_is_waited_for() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute("BEGIN").await.unwrap();
    write_in(&bench, &client, [], [put("k", "1").expect(Expect::Absent)]).await.unwrap();
    let store = bench.store.clone();
    let call = tokio::spawn(async move { write(&store, [put("k", "2").expect(Expect::Absent)]).await });
    bench.until_a_call_waits().await;
    assert_eq!(find(&bench.store, "k").await, None, "reading does not wait");
    client.batch_execute("COMMIT").await.unwrap();
    assert!(matches!(call.await.unwrap(), Err(StoreError::Conflict { found: Some(_), .. })));
    assert_eq!(value(&bench.store, "k").await.as_deref(), Some("1"));
}
