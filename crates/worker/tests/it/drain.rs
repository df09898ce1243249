//! Draining: what is ready runs, time stands still.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::State;
use windlass_core::clock::ManualClock;
use windlass_store_memory::MemoryStore;

use crate::support::{Act, probe, scene_on, worker};

#[tokio::test]
async fn a_drain_runs_what_is_ready_and_counts_it() {
    let clock = ManualClock::default();
    let (client, stage) = scene_on(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));
    for act in [Act::Succeed, Act::Fail, Act::Discard, Act::SnoozeOnce(60_000), Act::RetryAfter(60_000)] {
        client.enqueue(probe(act)).await.unwrap();
    }
    let later = client.enqueue(probe(Act::Succeed)).delay(Duration::from_secs(3_600)).await.unwrap();
    let drained = worker(&client, &stage).drain().await.unwrap();
    let counts = (drained.completed, drained.dead, drained.cancelled, drained.snoozed, drained.retried);
    assert_eq!((counts, drained.total()), ((1, 1, 1, 1, 1), 5));
    assert_eq!(worker(&client, &stage).drain().await.unwrap().total(), 0, "time stands still");
    assert_eq!(later.state().await.unwrap(), Some(State::Scheduled));

    clock.advance(Duration::from_secs(60));
    let drained = worker(&client, &stage).drain().await.unwrap();
    assert_eq!((drained.completed, drained.retried), (1, 1));
    clock.advance(Duration::from_secs(3_600));
    let drained = worker(&client, &stage).drain().await.unwrap();
    assert_eq!((drained.completed, drained.dead), (1, 1));
    assert_eq!(later.output().await.unwrap(), "attempt 1");
    assert!(client.store().leases(10).await.unwrap().is_empty());
}
