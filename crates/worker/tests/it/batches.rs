//! Many jobs in one call: how batches form, what becomes of their items, and how they end.

mod ends;
mod outcomes;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::queue::{KeyRules, QueueConfig};
use windlass_core::retry::{Jitter, Policy};
use windlass_core::{JobId, Options};
use windlass_worker::{
    Answers, Batch, BatchItem, Batching, Client, ConfigError, Error, Job, JobError, State as Shared, Worker,
};

use crate::support::{PATIENCE, Stage, end_of, scene};

/// A linger that no test waits for.
const LONG: Duration = Duration::from_secs(60);

/// What a row does to its batch, or gets as its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Act {
    Insert,
    /// An answer of its own.
    Retry,
    Fail,
    Discard,
    Omit,
    /// What the whole call ends with.
    AllFail,
    AllRetry,
    Panic,
    /// The call waits until it is released.
    Wait,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    table: String,
    act: Act,
}

impl Job for Row {
    const KIND: &'static str = "row";
    type Output = usize;

    fn options() -> Options {
        Options::new().retry(Policy::fixed(2, Duration::ZERO).jitter(Jitter::None))
    }
}

fn row(act: Act) -> Row {
    Row { table: "people".into(), act }
}

/// The calls of the handler, and where it waits.
#[derive(Clone, Default)]
struct Table {
    stage: Stage,
    calls: Arc<Mutex<Vec<Call>>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Call {
    ids: Vec<JobId>,
    tables: Vec<String>,
    /// Those that were told to stop when it ended.
    stopped: Vec<JobId>,
}

impl Table {
    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// How many items the calls had.
    fn sizes(&self) -> Vec<usize> {
        self.calls().iter().map(|call| call.ids.len()).collect()
    }
}

async fn insert(rows: Batch<Row>, Shared(table): Shared<Table>) -> Result<Answers<Row>, JobError> {
    let _present: Vec<_> = rows.iter().map(|row| table.stage.enter(&row.ctx)).collect();
    let has = |wanted: fn(&Act) -> bool| rows.jobs().any(|row| wanted(&row.act));
    let call = Call {
        ids: rows.iter().map(BatchItem::id).collect(),
        tables: rows.jobs().map(|row| row.table.clone()).collect(),
        stopped: Vec::new(),
    };
    let number = {
        let mut calls = table.calls.lock().unwrap();
        calls.push(call);
        calls.len() - 1
    };
    if has(|act| matches!(act, Act::Wait)) {
        table.stage.wait().await;
    }
    let stopped = rows.iter().filter(|row| row.ctx.is_cancelled()).map(BatchItem::id);
    table.calls.lock().unwrap()[number].stopped = stopped.collect();
    if has(|act| matches!(act, Act::AllFail)) {
        return Err(JobError::fail("no such table"));
    }
    if has(|act| matches!(act, Act::AllRetry)) {
        return Err(JobError::new("the line is dead"));
    }
    assert!(!has(|act| matches!(act, Act::Panic)), "a row that panics");
    let mut answers = Answers::new();
    for (number, row) in rows.into_iter().enumerate() {
        match row.job.act {
            Act::Omit => {}
            Act::Retry => answers.set(row.id(), Err(JobError::new("locked"))),
            Act::Fail => answers.set(row.id(), Err(JobError::fail("too long"))),
            Act::Discard => answers.set(row.id(), Err(JobError::discard("known"))),
            _ => answers.set(row.id(), Ok(number)),
        }
    }
    Ok(answers)
}

/// A worker of rows that does not linger at its end.
fn worker(client: &Client, table: &Table, batching: Batching<Row>) -> Worker<Table> {
    new(client, table).batch(batching, insert)
}

fn new(client: &Client, table: &Table) -> Worker<Table> {
    Worker::with_state(client, table.clone())
        .cancel_grace(Duration::from_millis(50))
        .lease_unchecked(Duration::from_secs(2))
        .reap_interval(Duration::from_millis(20))
}

fn table() -> (Client, Table) {
    (scene().0, Table::default())
}

#[tokio::test]
async fn a_full_batch_does_not_linger() {
    let (client, table) = table();
    let running = worker(&client, &table, Batching::up_to(3).linger(LONG)).start().unwrap();
    let handles = client.enqueue_all((0..6).map(|_| row(Act::Insert))).await.unwrap();
    for handle in &handles {
        assert!(tokio::time::timeout(PATIENCE, handle.output()).await.unwrap().unwrap() < 3);
    }
    assert_eq!(table.sizes(), [3, 3]);
    running.stop().await;
}

#[tokio::test]
async fn what_has_come_when_the_linger_is_over_is_a_batch() {
    let (client, table) = table();
    let batching = Batching::up_to(50).linger(Duration::from_millis(100));
    let running = worker(&client, &table, batching).start().unwrap();
    let handles = client.enqueue_all((0..4).map(|_| row(Act::Insert))).await.unwrap();
    for handle in &handles {
        end_of(handle).await;
    }
    assert_eq!(table.sizes().iter().sum::<usize>(), 4);
    assert!(table.sizes().len() < 4, "{:?}", table.sizes());
    running.stop().await;
}

#[tokio::test]
async fn keys_are_apart_and_nothing_waits_when_no_slot_is_left() {
    let (client, table) = table();
    let batching = Batching::up_to(4).linger(LONG).by_key(|row: &Row| row.table.clone());
    let running = new(&client, &table).batch(batching, insert).concurrency(4).start().unwrap();
    let rows = ["a", "b", "a", "b"].map(|table| Row { table: table.into(), act: Act::Insert });
    for handle in client.enqueue_all(rows).await.unwrap() {
        end_of(&handle).await;
    }
    let mut calls: Vec<_> = table.calls().into_iter().map(|call| call.tables).collect();
    calls.sort();
    assert_eq!(calls, [["a", "a"], ["b", "b"]]);
    running.stop().await;
}

#[tokio::test]
async fn jobs_of_one_key_can_be_kept_together() {
    let (client, table) = table();
    let keys = QueueConfig { keys: Some(KeyRules::default()), ..QueueConfig::default() };
    client.define_queue("default", keys).await.unwrap();
    let batching = Batching::up_to(2).linger(LONG).by_job_key();
    let running = new(&client, &table).batch(batching, insert).start().unwrap();
    let mut ids = Vec::new();
    for key in ["a", "b", "a", "b"] {
        let keyed = client.enqueue(row(Act::Insert)).options(Options::new().key(key));
        ids.push(keyed.await.unwrap().id());
    }
    for _ in 0..2 {
        ids.push(client.enqueue(row(Act::Insert)).await.unwrap().id());
    }
    for id in &ids {
        end_of(&client.handle::<Row>(*id)).await;
    }
    let mut calls: Vec<_> = table.calls().into_iter().map(|call| call.ids).collect();
    calls.iter_mut().for_each(|ids| ids.sort());
    for pair in [[ids[0], ids[2]], [ids[1], ids[3]], [ids[4], ids[5]]] {
        assert!(calls.contains(&pair.to_vec()), "{calls:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_drain_makes_batches_of_what_is_ready() {
    let (client, table) = table();
    client.enqueue_all((0..25).map(|_| row(Act::Insert))).await.unwrap();
    let began = std::time::Instant::now();
    let drained = worker(&client, &table, Batching::up_to(10).linger(LONG)).drain().await.unwrap();
    assert_eq!(drained.completed, 25);
    assert_eq!(table.sizes(), [10, 10, 5]);
    assert!(began.elapsed() < LONG, "nothing waits for what cannot come");
}

#[tokio::test]
async fn what_makes_no_sense_is_said() {
    let (client, table) = table();
    let refused = |worker: Worker<Table>| match worker.start() {
        Err(Error::Config(error)) => error,
        other => panic!("expected a configuration error, got {other:?}"),
    };
    let batches = |up_to| worker(&client, &table, Batching::up_to(up_to));
    assert!(matches!(refused(batches(0)), ConfigError::TooSmall { what: "size of a batch", .. }));
    let lingers = worker(&client, &table, Batching::up_to(2).linger(2 * LONG));
    assert!(matches!(refused(lingers), ConfigError::TooLong { what: "linger of a batch", .. }));
    assert!(matches!(refused(batches(65)), ConfigError::BatchAboveSlots { up_to: 65, slots: 64, .. }));
    let limited = refused(batches(9).queue("default", 8));
    assert_eq!(
        limited.to_string(),
        "batches of kind `row` have up to 9 jobs, and its queue `default` can have 8 slots: each job of a batch has a \
         slot, so raise `concurrency` or the slots of the queue, or make batches smaller"
    );
    let reserved = refused(batches(9).concurrency(10).reserve("login", 2));
    assert!(matches!(reserved, ConfigError::BatchAboveSlots { slots: 8, .. }), "{reserved}");
    let twice = refused(batches(2).batch(Batching::up_to(3), insert));
    assert!(matches!(twice, ConfigError::DuplicateKind { .. }));
}
