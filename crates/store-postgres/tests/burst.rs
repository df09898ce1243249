//! A hundred jobs for ten idle workers, of one kind and of twenty: each starts once. How soon the last one does is printed:
//! `cargo test -p windlass-store-postgres --test burst -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::{Duration, Instant};

use windlass_core::store::{ClaimAnswer, ClaimRequest, Jobs, Leases, NewLease, QueueShare};
use windlass_core::{Fence, LeaseId, Name, NewJob, Options};
use windlass_store_postgres::{PostgresOptions, PostgresStore};
use windlass_store_testkit::servers::PostgresServer;

const WORKERS: usize = 10;
const SLOTS: u32 = 10;
const ROUNDS: usize = 7;
/// When a worker looks again that was told nothing.
const POLL: Duration = Duration::from_millis(250);

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A worker, as far as its claims go: it asks for as many as it has slots, and comes again when it is told to.
async fn work(store: PostgresStore, lease: LeaseId, kinds: usize, began: Instant) -> Vec<Duration> {
    let kinds: Vec<_> = (0..kinds).map(|kind| name(&format!("k{kind}"))).collect();
    let mut starts = Vec::new();
    while starts.len() < SLOTS as usize && began.elapsed() < Duration::from_secs(5) {
        let limit = SLOTS - starts.len() as u32;
        let queues = vec![QueueShare { queue: name("default"), limit }];
        let nonce = Fence::nonce();
        let request = ClaimRequest {
            lease,
            nonce,
            queues,
            kinds: kinds.clone(),
            limit,
            at_once: limit,
            bytes: 1 << 20,
        };
        let ClaimAnswer::Jobs { jobs, next_due, .. } = store.claim(request.clone()).await.unwrap() else {
            panic!("the lease is lost");
        };
        starts.extend(jobs.iter().map(|_| began.elapsed()));
        if starts.len() < SLOTS as usize {
            tokio::time::sleep(next_due.unwrap_or(POLL).min(POLL)).await;
        }
    }
    starts
}

/// The start of the last job.
async fn burst(stores: &[(PostgresStore, LeaseId)], kinds: usize) -> Duration {
    let job = |place: usize| NewJob::new(format!("k{}", place % kinds), "", Options::new()).unwrap();
    let jobs: Vec<_> = (0..WORKERS * SLOTS as usize).map(job).collect();
    stores[0].0.enqueue(jobs.as_slice().into()).await.unwrap();
    let began = Instant::now();
    let workers: Vec<_> =
        stores.iter().map(|(store, lease)| tokio::spawn(work(store.clone(), *lease, kinds, began))).collect();
    let mut starts = Vec::new();
    for worker in workers {
        starts.extend(worker.await.unwrap());
    }
    assert_eq!(starts.len(), jobs.len());
    starts.into_iter().max().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_job_of_a_burst_starts_once() {
    let schema = format!("burst_{}_{:x}", std::process::id(), fastrand::u32(..));
    let options = PostgresOptions::parse(PostgresServer::shared().url()).unwrap().schema(&schema).unwrap();
    let mut stores = Vec::new();
    for _ in 0..WORKERS {
        let store = PostgresStore::open_with(options.clone().pool(2).unwrap()).await.unwrap();
        let (id, ttl, queues) = (LeaseId::new(), Duration::from_secs(600), vec![name("default")]);
        store.open(&NewLease { id, worker: "w".to_owned(), ttl, queues, kinds: Vec::new() }).await.unwrap();
        stores.push((store, id));
    }
    let mut starts = [(20, Vec::new()), (1, Vec::new())];
    // Each connection plans its statements once.
    for (kinds, _) in &starts {
        burst(&stores, *kinds).await;
    }
    for _ in 0..ROUNDS {
        for (kinds, starts) in &mut starts {
            starts.push(burst(&stores, *kinds).await);
        }
    }
    for (kinds, starts) in &mut starts {
        starts.sort_unstable();
        println!(
            "{kinds} kinds: the last start {:?}, median of {ROUNDS} rounds; the slowest {:?}",
            starts[ROUNDS / 2],
            starts[ROUNDS - 1]
        );
    }
}
