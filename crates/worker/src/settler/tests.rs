//! Outcomes that come late.

use std::time::Instant;

use windlass_core::store::{ClaimAnswer, ClaimRequest, NewLease, QueueShare};
use windlass_core::{Bytes, Fence, LeaseId, Name, NewJob, Options, State};
use windlass_store_memory::MemoryStore;

use super::*;
use crate::client::Client;
use crate::ctx::{Claimed, Defaults};
use crate::observe::{Observe, Observed};

/// Attempts at jobs of the queue `default`.
struct Scene {
    client: Client,
    settler: Settler,
}

impl Scene {
    fn new() -> Self {
        let client = Client::new(Arc::new(MemoryStore::new()));
        let (board, lease) = (Arc::default(), Arc::default());
        let settler = Settler::new(
            Arc::clone(client.store()),
            board,
            lease,
            Handle::current(),
            (Backoff::default(), Observe::default()),
        );
        Self { client, settler }
    }

    async fn claim(&self, limit: u32) -> Vec<Ctx> {
        let (lease, queue, kind) = (LeaseId::new(), Name::new("default").unwrap(), Name::new("k").unwrap());
        let ttl = Duration::from_secs(60);
        let store = self.client.store();
        store
            .open(&NewLease {
                id: lease,
                worker: "w".into(),
                ttl,
                queues: vec![queue.clone()],
                kinds: Vec::new(),
            })
            .await
            .unwrap();
        let queues = vec![QueueShare { queue, limit }];
        let request = ClaimRequest {
            lease,
            nonce: Fence::nonce(),
            queues,
            kinds: vec![kind],
            limit,
            at_once: limit,
            bytes: 1 << 20,
        };
        let ClaimAnswer::Jobs { jobs, .. } = store.claim(request.clone()).await.unwrap() else {
            panic!("no lease")
        };
        let claimed = Claimed { lease, sent: Instant::now(), at: Instant::now() };
        jobs.into_iter()
            .map(|job| Ctx::new(job, self.client.clone(), Defaults::default(), claimed, Observed::default()))
            .collect()
    }

    /// Attempts whose jobs are taken back because their worker counts as dead.
    async fn reaped(&self, count: u32) -> Vec<Ctx> {
        let store = self.client.store();
        let jobs: Vec<_> = (0..count).map(|_| NewJob::new("k", "", Options::new()).unwrap()).collect();
        store.enqueue(jobs.as_slice().into()).await.unwrap();
        let attempts = self.claim(count).await;
        store.close(attempts[0].inner().claimed.lease).await.unwrap();
        let taken_back = store.lost(count).await.unwrap().into_iter().map(|lost| Settlement {
            queue: lost.queue.clone(),
            id: lost.id,
            fence: lost.fence,
            transition: judge(&lost.facts, Outcome::Returned, 0.0),
        });
        store.reap(taken_back.collect::<Vec<_>>().into()).await.unwrap();
        attempts
    }

    async fn state(&self, ctx: &Ctx) -> State {
        self.client.job(ctx.id()).await.unwrap().unwrap().state
    }
}

#[tokio::test]
async fn what_was_done_counts_when_the_job_was_not_claimed_since() {
    let scene = Scene::new();
    let attempts = scene.reaped(3).await;
    let output = Some(Bytes::from_static(b"7"));
    scene.settler.settle(&attempts[0], Outcome::Completed { output: output.clone() }).await;
    scene.settler.settle(&attempts[1], Outcome::Returned).await;
    scene.settler.run_once().await;
    let record = scene.client.job(attempts[0].id()).await.unwrap().unwrap();
    assert_eq!((record.state, record.output, record.fence), (State::Completed, output, 1));
    assert_eq!(scene.state(&attempts[1]).await, State::Ready, "only an end is taken late");
    assert_eq!((scene.settler.fenced(), scene.settler.unsettled()), (1, 0));
    // The others are taken by the next worker, and what the first one says of them is refused.
    assert_eq!(scene.claim(9).await.len(), 2);
    scene.settler.settle(&attempts[2], Outcome::Completed { output: None }).await;
    scene.settler.run_once().await;
    assert_eq!(scene.state(&attempts[2]).await, State::Running);
    assert_eq!(scene.settler.fenced(), 2);
}
