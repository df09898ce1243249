//! Timeouts, shutdowns, lost workers and calls that hold their thread.

use std::sync::mpsc;
use std::time::Instant;

use windlass_core::State;
use windlass_core::outcome::Ending;

use super::*;
use crate::support::{eventually, until_begun};

const SHORT: Duration = Duration::from_millis(30);

#[tokio::test]
async fn each_item_has_its_own_timeout() {
    let (client, table) = table();
    let running = worker(&client, &table, Batching::up_to(2).linger(LONG)).start().unwrap();
    let patient = client.enqueue(row(Act::Wait)).await.unwrap();
    let hasty = client.enqueue(row(Act::Insert)).timeout(SHORT).retry(Policy::never()).await.unwrap();
    let record = end_of(&hasty).await;
    assert_eq!((record.state, record.attempts[0].ending), (State::Dead, Some(Ending::TimedOut)));
    assert_eq!(record.last_error(), Some("timed out after 30ms"));
    assert_eq!(table.stage.present(), 2, "the call goes on for the other");
    table.stage.release(1);
    assert_eq!(end_of(&patient).await.state, State::Completed);
    assert_eq!(table.calls()[0].stopped, [hasty.id()]);
    running.stop().await;
}

#[tokio::test]
async fn a_call_that_no_item_waits_for_is_dropped() {
    let (client, table) = table();
    let batching = Batching::up_to(2).linger(LONG);
    let running = worker(&client, &table, batching).concurrency(2).start().unwrap();
    let rows = [row(Act::Wait), row(Act::Insert)];
    let handles = client.enqueue_all(rows).timeout(SHORT).retry(Policy::never()).await.unwrap();
    for handle in &handles {
        assert_eq!(end_of(handle).await.attempts[0].ending, Some(Ending::TimedOut));
    }
    table.stage.until_ended(2).await;
    eventually("the slots are free", async || running.health().zombies == 0).await;
    let next = client.enqueue_all((0..2).map(|_| row(Act::Insert))).await.unwrap();
    for handle in &next {
        assert_eq!(end_of(handle).await.state, State::Completed);
    }
    running.stop().await;
}

#[tokio::test]
async fn waiting_for_a_batch_is_not_an_attempts_time() {
    let (client, table) = table();
    let batching = Batching::up_to(2).linger(10 * SHORT);
    let running = worker(&client, &table, batching).start().unwrap();
    let began = Instant::now();
    let handle = client.enqueue(row(Act::Insert)).timeout(SHORT).await.unwrap();
    let record = end_of(&handle).await;
    assert!(began.elapsed() >= 10 * SHORT);
    assert_eq!((record.state, record.attempts.len()), (State::Completed, 1));
    let late = client.enqueue(row(Act::Wait)).timeout(SHORT).retry(Policy::never()).await.unwrap();
    assert_eq!(end_of(&late).await.attempts[0].ending, Some(Ending::TimedOut), "it counts from the call");
    running.stop().await;
}

#[tokio::test]
async fn a_worker_that_stops_gives_back_what_waits_and_lets_calls_end() {
    let (client, table) = table();
    let batching = Batching::up_to(2).linger(LONG);
    let running = worker(&client, &table, batching).drain_deadline(PATIENCE).start().unwrap();
    let called = client.enqueue_all([row(Act::Wait), row(Act::Insert)]).await.unwrap();
    table.stage.until_started(2).await;
    let waits = client.enqueue(row(Act::Insert)).await.unwrap();
    eventually("it waits", async || running.health().running == 3).await;
    let stopping = tokio::spawn(running.stop());
    eventually("it is given back", async || waits.state().await.unwrap() == Some(State::Ready)).await;
    assert_eq!(table.stage.present(), 2, "the call goes on");
    table.stage.release(1);
    stopping.await.unwrap();
    for handle in &called {
        assert_eq!(handle.state().await.unwrap(), Some(State::Completed));
    }
    let record = client.job(waits.id()).await.unwrap().unwrap();
    assert_eq!((record.state, record.counters.attempt, record.has_begun), (State::Ready, 0, false));
    assert_eq!(table.sizes(), [2]);
}

#[tokio::test]
async fn a_call_that_outlasts_the_deadline_is_dropped_and_its_items_go_back() {
    let (client, table) = table();
    let batches = worker(&client, &table, Batching::up_to(2).linger(LONG));
    let running = batches.drain_deadline(Duration::from_millis(20)).start().unwrap();
    let handles = client.enqueue_all([row(Act::Wait), row(Act::Insert)]).await.unwrap();
    table.stage.until_started(2).await;
    running.stop().await;
    assert_eq!(table.stage.present(), 0, "a stopped worker runs nothing");
    for handle in &handles {
        let record = client.job(handle.id()).await.unwrap().unwrap();
        assert_eq!((record.state, record.counters.attempt), (State::Ready, 0));
        assert_eq!(record.attempts[0].ending, Some(Ending::Returned));
    }
}

#[tokio::test]
async fn items_of_a_lost_worker_are_called_one_by_one() {
    let (client, table) = table();
    let lease = Duration::from_millis(300);
    let batches = worker(&client, &table, Batching::up_to(2).linger(LONG)).lease_unchecked(lease);
    let running = batches.start().unwrap();
    let handles = client.enqueue_all([row(Act::Wait), row(Act::Insert)]).await.unwrap();
    for handle in &handles {
        until_begun(&client, handle).await;
    }
    let waits = client.enqueue(row(Act::Insert)).await.unwrap();
    eventually("it waits", async || running.health().running == 3).await;
    running.abort();
    table.stage.until_ended(2).await;
    table.stage.release(1);
    let batching = Batching::up_to(2).linger(Duration::from_millis(20));
    let second = worker(&client, &table, batching).start().unwrap();
    for handle in &handles {
        let record = end_of(handle).await;
        assert_eq!((record.state, record.counters.stalls), (State::Completed, 1));
    }
    let record = end_of(&waits).await;
    assert_eq!((record.state, record.counters.stalls), (State::Completed, 0), "it had not begun");
    assert_eq!(table.sizes(), [2, 1, 1, 1], "the culprit is not called with others");
    second.stop().await;
}

/// How a call is seen to hold its thread, and is made to let it go.
#[derive(Clone)]
struct Held {
    holds: mpsc::Sender<()>,
    release: Arc<Mutex<mpsc::Receiver<()>>>,
}

async fn hold(rows: Batch<Row>, Shared(held): Shared<Held>) -> Result<Answers<Row>, JobError> {
    held.holds.send(()).unwrap();
    let _ = held.release.lock().unwrap().recv_timeout(4 * PATIENCE);
    Ok(rows.each(|_| Ok(0)))
}

#[test]
fn a_call_that_holds_the_only_thread_has_its_items_ended_without_it() {
    let (client, _) =
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async { table() });
    let ((holds, held), (release, released)) = (mpsc::channel(), mpsc::channel());
    let state = Held { holds, release: Arc::new(Mutex::new(released)) };
    let store = Arc::clone(client.store());
    let worker = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::new(store);
            let batches = Worker::with_state(&client, state).batch(Batching::up_to(2).linger(LONG), hold);
            let running = batches.cancel_grace(Duration::from_millis(10)).start().unwrap();
            let rows = [row(Act::Insert), row(Act::Insert)];
            let handles = client.enqueue_all(rows).timeout(SHORT).retry(Policy::never()).await.unwrap();
            for handle in &handles {
                end_of(handle).await;
            }
            eventually("the slots are free", async || running.health().zombies == 0).await;
            assert_eq!(running.health().fenced, 0);
            running.stop().await;
            handles.iter().map(windlass_worker::Handle::id).collect::<Vec<_>>()
        })
    });
    held.recv_timeout(PATIENCE).expect("it is called");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(eventually("both have ended", async || {
        let queues = client.store().queues(None, 10).await.unwrap();
        queues.iter().any(|queue| queue.counts.of(State::Dead) == 2)
    }));
    release.send(()).unwrap();
    let ids = worker.join().unwrap();
    for id in ids {
        let record = runtime.block_on(client.job(id)).unwrap().unwrap();
        assert_eq!((record.state, record.attempts[0].ending), (State::Dead, Some(Ending::TimedOut)));
        let text = record.last_error().unwrap();
        assert!(text.contains("while it held a runtime thread"), "{text}");
    }
}
