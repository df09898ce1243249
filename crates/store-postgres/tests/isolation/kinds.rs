//! Claims over several kinds, beside others that claim at the same time.

use std::time::Duration;

use windlass_core::store::{ClaimAnswer, ClaimRequest, Enqueued, Jobs, QueueShare};
use windlass_core::{Fence, NewJob, Options};

use crate::bench::{Bench, name};

const KINDS: usize = 20;

/// A hundred jobs, kind by kind in turn.
async fn hundred(bench: &Bench) -> Vec<NewJob> {
    let job = |place: usize| NewJob::new(format!("k{}", place % KINDS), "", Options::new()).unwrap();
    let jobs: Vec<_> = (0..100).map(job).collect();
    assert_eq!(bench.store.enqueue(jobs.as_slice().into()).await.unwrap(), vec![Enqueued::New; 100]);
    jobs
}

fn request(bench: &Bench, kinds: usize, limit: u32) -> ClaimRequest {
    ClaimRequest {
        lease: bench.lease,
        nonce: Fence::nonce(),
        queues: vec![QueueShare { queue: name("default"), limit }],
        kinds: (0..kinds).map(|kind| name(&format!("k{kind}"))).collect(),
        limit,
        at_once: limit,
        bytes: 1 << 20,
    }
}

/// How many jobs a claim got, and when to come again.
async fn claim(bench: &Bench, kinds: usize, limit: u32) -> (usize, Option<Duration>) {
    match bench.store.claim(request(bench, kinds, limit)).await.unwrap() {
        ClaimAnswer::Jobs { jobs, next_due, .. } => (jobs.len(), next_due),
        ClaimAnswer::LeaseLost => panic!("the lease is lost"),
    }
}

/// Locks the first jobs in turn, as a claim does before its end.
const LOCK: &str =
    "BEGIN; SELECT 1 FROM waiting WHERE seq IN (SELECT seq FROM waiting ORDER BY seq LIMIT 11) FOR UPDATE";

#[tokio::test]
async fn what_others_have_locked_is_passed_over_and_no_more() {
    let bench = Bench::new().await;
    hundred(&bench).await;
    let other = bench.client().await;
    other.batch_execute(LOCK).await.unwrap();
    assert_eq!(claim(&bench, KINDS, 10).await.0, 10, "89 are free");
    // A second one while the first holds its own: nothing else is locked.
    let probe = "SELECT count(*) FROM (SELECT 1 FROM waiting FOR UPDATE SKIP LOCKED) AS free";
    assert_eq!(bench.client().await.query_one(probe, &[]).await.unwrap().get::<_, i64>(0), 79);
    assert_eq!(claim(&bench, KINDS, 79).await.0, 79);
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(claim(&bench, KINDS, 100).await, (11, None));
}

#[tokio::test]
async fn a_queue_whose_jobs_are_locked_is_not_called_empty() {
    for kinds in [1, KINDS] {
        let bench = Bench::new().await;
        let job = NewJob::new("k0", "", Options::new()).unwrap();
        bench.store.enqueue([job].into()).await.unwrap();
        let other = bench.client().await;
        other.batch_execute(LOCK).await.unwrap();
        let (count, again) = claim(&bench, kinds, 10).await;
        assert_eq!(count, 0);
        let first = again.expect("it is worth coming again");
        let (_, again) = claim(&bench, kinds, 10).await;
        assert!(first < Duration::from_millis(50) && again.unwrap() > first, "{first:?} and then {again:?}");
        other.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(claim(&bench, kinds, 10).await, (1, None));
        assert_eq!(claim(&bench, kinds, 10).await, (0, None), "what is gone is not taken for locked");
    }
}

/// More kinds than jobs are asked for, few of which have jobs; and jobs of one kind in a row.
#[tokio::test]
async fn any_number_of_kinds_has_one_order() {
    let bench = Bench::new().await;
    let job = |place: usize| {
        let kind = if place < 60 { 7 } else { 3 * place };
        NewJob::new(format!("k{kind}"), "", Options::new().priority((place % 3) as i16)).unwrap()
    };
    let mut jobs: Vec<_> = (0..120).map(job).collect();
    assert_eq!(bench.store.enqueue(jobs.as_slice().into()).await.unwrap(), vec![Enqueued::New; 120]);
    jobs.sort_by_key(|job| std::cmp::Reverse(job.priority));
    let mut given = Vec::new();
    for limit in [1, 3, 40, 7, 69] {
        let ClaimAnswer::Jobs { jobs, .. } = bench.store.claim(request(&bench, 1_000, limit)).await.unwrap()
        else {
            panic!("the lease is lost");
        };
        assert_eq!(jobs.len(), limit as usize);
        given.extend(jobs.into_iter().map(|job| job.id));
    }
    assert_eq!(given, jobs.iter().map(|job| job.id).collect::<Vec<_>>());
}
