//! What the contract cannot say: files, threads, processes and the log.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod clock;
mod fixture;
mod full;
mod gates;
mod group;
mod handover;
mod held;
mod keys;
mod life;
mod log;
mod open;
mod place;
mod processes;
mod records;
mod unreadable;

use std::path::Path;
use std::time::Duration;

use windlass_core::outcome::Outcome;
use windlass_core::store::{ClaimAnswer, ClaimRequest, Jobs, Leases, NewLease, QueueShare, Settlement};
use windlass_core::{ClaimedJob, Fence, LeaseId, Name, NewJob, Options, judge};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn job(payload: impl Into<windlass_core::Bytes>) -> NewJob {
    NewJob::new("greet", payload, Options::new()).unwrap()
}

async fn open(path: &Path) -> SqliteStore {
    SqliteStore::open_with(SqliteOptions::file(path)).await.unwrap()
}

async fn lease(store: &SqliteStore) -> LeaseId {
    lease_for(store, Duration::from_secs(600)).await
}

async fn lease_for(store: &SqliteStore, ttl: Duration) -> LeaseId {
    let id = LeaseId::new();
    store
        .open(&NewLease { id, worker: "w".into(), ttl, queues: vec![name("default")], kinds: Vec::new() })
        .await
        .unwrap();
    id
}

fn request(lease: LeaseId, limit: u32) -> ClaimRequest {
    ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: vec![QueueShare { queue: name("default"), limit }],
        kinds: vec![name("greet")],
        limit,
        at_once: limit,
        bytes: usize::MAX,
    }
}

async fn claim(store: &SqliteStore, lease: LeaseId, limit: u32) -> Vec<ClaimedJob> {
    match store.claim(request(lease, limit)).await.unwrap() {
        ClaimAnswer::Jobs { jobs, .. } => jobs,
        ClaimAnswer::LeaseLost => panic!("the lease was lost"),
    }
}

fn completed(jobs: &[ClaimedJob]) -> Vec<Settlement> {
    let transition = |job: &ClaimedJob| judge(&job.facts, Outcome::Completed { output: None }, 0.5);
    jobs.iter()
        .map(|job| Settlement {
            queue: job.queue.clone(),
            id: job.id,
            fence: job.fence,
            transition: transition(job),
        })
        .collect()
}
