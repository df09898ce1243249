//! What becomes of each item.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use tower_layer::layer_fn;
use tower_service::Service;
use windlass_core::outcome::{Ending, Reason};
use windlass_core::store::Amended;
use windlass_core::{JobRecord, Outcome, State};
use windlass_worker::{Attempt, Ctx, Handle};

use super::*;
use crate::support::eventually;

/// Runs these in one batch, and again as their policies say, until all have ended.
async fn run<const N: usize>(acts: [Act; N]) -> (Vec<JobRecord>, Table) {
    let (client, table) = table();
    let handles = client.enqueue_all(acts.map(row)).await.unwrap();
    let batching = Batching::up_to(N).linger(Duration::from_millis(100));
    let running = worker(&client, &table, batching).start().unwrap();
    let mut records = Vec::new();
    for handle in &handles {
        records.push(end_of(handle).await);
    }
    running.stop().await;
    assert_eq!(table.sizes()[0], N, "all of them were one call first");
    (records, table)
}

#[tokio::test]
async fn each_item_has_the_outcome_that_it_was_given() {
    let (records, _) = run([Act::Insert, Act::Retry, Act::Fail, Act::Discard, Act::Insert]).await;
    let ended: Vec<_> = records.iter().map(|record| (record.state, record.counters.attempt)).collect();
    assert_eq!(
        ended,
        [
            (State::Completed, 1),
            (State::Dead, 2),
            (State::Dead, 1),
            (State::Cancelled, 1),
            (State::Completed, 1)
        ]
    );
    assert_eq!(records[0].output.as_deref(), Some(&b"0"[..]));
    assert_eq!(records[4].output.as_deref(), Some(&b"4"[..]));
    assert_eq!(records[1].last_error(), Some("locked"));
    assert_eq!((records[2].reason, records[2].last_error()), (Some(Reason::Permanent), Some("too long")));
    assert_eq!(records[3].reason, Some(Reason::Discarded));
}

#[tokio::test]
async fn an_item_without_an_answer_has_failed() {
    let (records, table) = run([Act::Insert, Act::Omit]).await;
    assert_eq!((records[0].state, records[0].counters.attempt), (State::Completed, 1));
    assert_eq!((records[1].state, records[1].reason), (State::Dead, Some(Reason::AttemptsExhausted)));
    assert_eq!(
        records[1].last_error(),
        Some("the batch handler said nothing about this job: it has to answer for every item")
    );
    assert_eq!(table.sizes(), [2, 1], "it was tried again by its own policy");
}

#[tokio::test]
async fn an_error_is_the_error_of_all() {
    let (records, table) = run([Act::Insert, Act::AllFail, Act::Insert]).await;
    for record in &records {
        assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::Permanent)));
        assert_eq!((record.last_error(), record.counters.attempt), (Some("no such table"), 1));
    }
    assert_eq!(table.sizes(), [3]);
    let (records, _) = run([Act::Insert, Act::AllRetry]).await;
    assert_eq!((records[1].state, records[1].counters.attempt), (State::Dead, 2));
    for record in &records {
        assert_eq!(record.attempts[0].error.as_deref(), Some("the line is dead"));
    }
}

#[tokio::test]
async fn a_panic_is_the_panic_of_all() {
    let (records, _) = run([Act::Insert, Act::Panic]).await;
    for record in &records {
        assert_eq!(record.attempts[0].ending, Some(Ending::Panicked));
        let text = record.attempts[0].error.as_deref().unwrap();
        assert!(text.starts_with("panicked at crates/worker/tests/it/batches.rs:"), "{text}");
        assert!(text.ends_with(": a row that panics"), "{text}");
    }
}

/// Rows as another program writes them.
#[derive(Serialize, Deserialize)]
struct OldRow {
    number: u32,
}

impl Job for OldRow {
    const KIND: &'static str = Row::KIND;
    type Output = ();
}

#[tokio::test]
async fn an_item_that_does_not_decode_fails_alone() {
    let (client, table) = table();
    let old = client.enqueue(OldRow { number: 1 }).await.unwrap();
    let handles = client.enqueue_all((0..2).map(|_| row(Act::Insert))).await.unwrap();
    let running = worker(&client, &table, Batching::up_to(2).linger(LONG)).start().unwrap();
    let record = end_of(&old).await;
    assert_eq!(record.state, State::Dead);
    assert!(record.last_error().unwrap().starts_with("payload does not decode as kind `row`"));
    for handle in &handles {
        assert_eq!(end_of(handle).await.state, State::Completed);
    }
    assert_eq!(table.sizes(), [2]);
    running.stop().await;
}

#[tokio::test]
async fn a_key_that_panics_is_the_panic_of_one() {
    let (client, table) = table();
    let key = |row: &Row| assert!(!matches!(row.act, Act::Panic), "this has no key");
    let batching = Batching::up_to(1).by_key(key);
    let running = new(&client, &table).batch(batching, insert).start().unwrap();
    let handles = client.enqueue_all([row(Act::Panic), row(Act::Insert)]).await.unwrap();
    let record = end_of(&handles[0]).await;
    assert_eq!((record.state, record.attempts[0].ending), (State::Dead, Some(Ending::Panicked)));
    assert_eq!(end_of(&handles[1]).await.state, State::Completed);
    running.stop().await;
}

#[tokio::test]
async fn layers_surround_each_item() {
    let (client, table) = table();
    let count = Arc::<AtomicU32>::default();
    let counting = Arc::clone(&count);
    let layer = layer_fn(move |inner: Attempt| Counted { inner, count: Arc::clone(&counting) });
    client.enqueue_all((0..3).map(|_| row(Act::Insert))).await.unwrap();
    let drained = worker(&client, &table, Batching::up_to(3)).layer(layer).drain().await.unwrap();
    assert_eq!((drained.completed, table.sizes()), (3, vec![3]));
    assert_eq!(count.load(Ordering::SeqCst), 3, "called for each");
}

/// A service that counts calls.
#[derive(Clone)]
struct Counted {
    inner: Attempt,
    count: Arc<AtomicU32>,
}

impl Service<Ctx> for Counted {
    type Response = Outcome;
    type Error = Infallible;
    type Future = <Attempt as Service<Ctx>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, ctx: Ctx) -> Self::Future {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.inner.call(ctx)
    }
}

#[tokio::test]
async fn an_item_that_waits_and_is_cancelled_leaves_at_once() {
    let (client, table) = table();
    // Neither the linger nor the grace is waited for.
    let batches = worker(&client, &table, Batching::up_to(2).linger(LONG)).cancel_grace(LONG);
    let running = batches.start().unwrap();
    let first = client.enqueue(row(Act::Insert)).await.unwrap();
    eventually("it waits", async || running.health().running == 1).await;
    assert_eq!(first.cancel().await.unwrap(), Amended::Done(State::Running));
    assert_eq!(end_of(&first).await.state, State::Cancelled);
    eventually("its slot is free", async || running.health().running == 0).await;
    let others = client.enqueue_all((0..2).map(|_| row(Act::Insert))).await.unwrap();
    for other in &others {
        assert_eq!(end_of(other).await.state, State::Completed);
    }
    assert_eq!(table.calls()[0].ids.len(), 2);
    assert!(!table.calls()[0].ids.contains(&first.id()), "it is not in any call");
    running.stop().await;
}

#[tokio::test]
async fn an_item_that_runs_can_be_cancelled_alone() {
    let (client, table) = table();
    let running = worker(&client, &table, Batching::up_to(2).linger(LONG)).start().unwrap();
    let handles: Vec<Handle<Row>> = client.enqueue_all([row(Act::Wait), row(Act::Insert)]).await.unwrap();
    table.stage.until_started(2).await;
    handles[1].cancel().await.unwrap();
    assert_eq!(end_of(&handles[1]).await.state, State::Cancelled);
    eventually("its slot is the call's", async || running.health().zombies == 1).await;
    assert!(running.health().is_ok(), "{:?}", running.health());
    table.stage.release(1);
    assert_eq!(end_of(&handles[0]).await.state, State::Completed);
    eventually("the slots are free", async || running.health().zombies == 0).await;
    assert_eq!(table.calls()[0].stopped, [handles[1].id()], "the handler could see it");
    let late = client.job(handles[1].id()).await.unwrap().unwrap();
    assert_eq!((late.state, late.output), (State::Cancelled, None), "its late answer does not count");
    assert_eq!(running.health().fenced, 0);
    running.stop().await;
}
