//! What counts of an attempt that was told to stop.

use std::sync::Arc;

use windlass_core::store::{ClaimAnswer, ClaimRequest, Jobs, Leases, NewLease, QueueShare};
use windlass_core::{Fence, LeaseId, Name, NewJob, Options};
use windlass_store_memory::MemoryStore;

use super::*;
use crate::client::Client;
use crate::ctx::{Claimed, Defaults};
use crate::observe::Observed;

async fn attempt() -> Ctx {
    let store = Arc::new(MemoryStore::new());
    let (lease, queue) = (LeaseId::new(), Name::new("default").unwrap());
    store.enqueue([NewJob::new("k", "", Options::new()).unwrap()].into()).await.unwrap();
    let ttl = Duration::from_secs(60);
    let new = NewLease { id: lease, worker: "w".into(), ttl, queues: vec![queue.clone()], kinds: Vec::new() };
    store.open(&new).await.unwrap();
    let request = ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: vec![QueueShare { queue, limit: 1 }],
        kinds: vec![Name::new("k").unwrap()],
        limit: 1,
        at_once: 1,
        bytes: 1,
    };
    let ClaimAnswer::Jobs { mut jobs, .. } = store.claim(request.clone()).await.unwrap() else {
        panic!("no lease")
    };
    let claimed = Claimed { lease, sent: Instant::now(), at: Instant::now() };
    Ctx::new(jobs.remove(0), Client::new(store), Defaults::default(), claimed, Observed::default())
}

#[tokio::test]
async fn work_that_was_done_is_told_of_after_the_lease_is_lost() {
    let ctx = attempt().await;
    let completed = || End::Returned(Outcome::Completed { output: None });
    ctx.inner().control.stop(Stop::Lost);
    assert_eq!(
        classify(&ctx, completed()),
        Some(Outcome::Completed { output: None }),
        "the store may take it"
    );
    assert_eq!(classify(&ctx, End::Returned(Outcome::Retry { failure: Failure::error("no") })), None);
    assert_eq!(classify(&ctx, End::Dropped), None);
    ctx.inner().control.stop(Stop::Gone);
    assert_eq!(classify(&ctx, completed()), None, "the attempt has ended already");
}
