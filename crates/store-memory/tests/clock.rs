//! A clock that is set, forward or back, ends no living lease, lets no dead one live on and forgets no call.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::store::{ClaimRequest, Enqueued, Jobs, Leases, NewLease, QueueShare, Renewal};
use windlass_core::{CallId, Fence, LeaseId, Name, NewJob, Options};
use windlass_store_memory::MemoryStore;

const TTL: Duration = Duration::from_secs(30);
const HOURS: [i64; 2] = [2, -2];

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn job() -> NewJob {
    NewJob::new("greet", "x", Options::new()).unwrap()
}

fn set(clock: &ManualClock, hours: i64) {
    clock.set(Timestamp::from_micros(clock.now().as_micros() + hours * 3_600_000_000));
}

/// A store with a job that runs under a lease.
async fn running(clock: &ManualClock) -> (MemoryStore, LeaseId) {
    let store = MemoryStore::with_clock(Arc::new(clock.clone()));
    store.enqueue([job()].into()).await.unwrap();
    let (lease, queue) = (LeaseId::new(), name("default"));
    store
        .open(&NewLease {
            id: lease,
            worker: "w".into(),
            ttl: TTL,
            queues: vec![queue.clone()],
            kinds: Vec::new(),
        })
        .await
        .unwrap();
    let request = ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: vec![QueueShare { queue, limit: 1 }],
        kinds: vec![name("greet")],
        limit: 1,
        at_once: 1,
        bytes: usize::MAX,
    };
    store.claim(request.clone()).await.unwrap();
    (store, lease)
}

async fn lives(store: &MemoryStore, lease: LeaseId) -> bool {
    matches!(store.renew(lease, TTL, 1).await.unwrap(), Renewal::Renewed { .. })
}

#[tokio::test]
async fn what_lives_outlives_a_step_and_what_dies_is_lost_one_term_later() {
    for hours in HOURS {
        let clock = ManualClock::default();
        let (store, lease) = running(&clock).await;
        clock.advance(TTL - Duration::from_secs(1));
        set(&clock, hours);
        assert_eq!(store.lost(9).await.unwrap(), [], "{hours} h");
        assert!(lives(&store, lease).await, "{hours} h");
        clock.advance(TTL / 2);
        set(&clock, hours);
        assert_eq!(store.lost(9).await.unwrap(), [], "{hours} h");
        clock.advance(TTL);
        assert_eq!(store.lost(9).await.unwrap().len(), 1, "{hours} h");
        set(&clock, hours);
        assert!(!lives(&store, lease).await, "{hours} h: what was lost stays lost");
    }
}

#[tokio::test]
async fn a_step_forgets_no_call() {
    for hours in HOURS {
        let clock = ManualClock::default();
        let (store, call, job) = (running(&clock).await.0, CallId::new(), [job()]);
        assert_eq!(store.enqueue_once(call, job.clone().into()).await.unwrap(), [Enqueued::New]);
        set(&clock, hours);
        store.enqueue([self::job()].into()).await.unwrap();
        assert_eq!(
            store.enqueue_once(call, job.clone().into()).await.unwrap(),
            [Enqueued::Repeated],
            "{hours} h"
        );
    }
}
