//! The life of a job in a file, and of the file itself.

use std::time::Duration;

use windlass_core::outcome::Outcome;
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Enqueued, Jobs, Leases, NewLease, QueueShare, Queues, Settled, Settlement,
};
use windlass_core::{LeaseId, Name, NewJob, Options, State, judge};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

async fn claim(store: &SqliteStore, lease: LeaseId, limit: u32) -> Vec<windlass_core::ClaimedJob> {
    let request = ClaimRequest {
        lease,
        queues: vec![QueueShare { queue: name("default"), limit }],
        kinds: vec![name("greet")],
        limit,
        bytes: usize::MAX,
    };
    match store.claim(&request).await.unwrap() {
        ClaimAnswer::Jobs { jobs, .. } => jobs,
        ClaimAnswer::LeaseLost => panic!("the lease was lost"),
    }
}

async fn lease(store: &SqliteStore) -> LeaseId {
    let id = LeaseId::new();
    let ttl = Duration::from_secs(30);
    store.open(&NewLease { id, worker: "w".into(), ttl, queues: vec![name("default")] }).await.unwrap();
    id
}

#[tokio::test]
async fn a_job_is_kept_through_a_reopened_file_and_completed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let short = NewJob::new("greet", "short", Options::new()).unwrap();
    let long = NewJob::new("greet", "x".repeat(100_000), Options::new()).unwrap();
    {
        let store = SqliteStore::open_with(SqliteOptions::file(&path)).await.unwrap();
        let answers = store.enqueue(&[short.clone(), long.clone()]).await.unwrap();
        assert_eq!(answers, [Enqueued::New, Enqueued::New]);
    }
    assert!(!directory.path().join("jobs.db-wal").exists(), "the last to close leaves no log behind");

    let store = SqliteStore::open_with(SqliteOptions::file(&path)).await.unwrap();
    let repeated = store.enqueue(&[short.clone(), long.clone()]).await.unwrap();
    assert_eq!(repeated, [Enqueued::Existing(State::Ready), Enqueued::Existing(State::Ready)]);
    let lease = lease(&store).await;
    let jobs = claim(&store, lease, 10).await;
    assert_eq!(jobs.iter().map(|job| job.payload.len()).collect::<Vec<_>>(), [5, 100_000]);
    let settlements: Vec<_> = jobs
        .iter()
        .map(|job| Settlement {
            id: job.id,
            fence: job.fence,
            transition: judge(&job.facts, Outcome::Completed { output: None }, 0.5),
        })
        .collect();
    assert_eq!(store.settle(&settlements).await.unwrap(), [Settled::Applied(State::Completed); 2]);
    assert_eq!(store.settle(&settlements).await.unwrap(), [Settled::Fenced; 2]);
    let records = store.get(&[short.id, long.id]).await.unwrap();
    assert_eq!(records[1].as_ref().unwrap().payload, long.payload);
    assert_eq!(records[0].as_ref().unwrap().attempts[0].worker, "w");
    let queues = store.queues(None, 10).await.unwrap();
    assert_eq!(queues[0].counts.of(State::Completed), 2);
    assert_eq!(queues[0].counts.total(), 2);
}
