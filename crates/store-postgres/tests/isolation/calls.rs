//! Calls that are repeated because an answer was lost.

use windlass_core::CallId;
use windlass_core::bell::Topic;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{ClaimAnswer, Enqueued, Jobs, Maintenance, Queues, Wakeup};

use super::bench::{Bench, name, new_job};

#[tokio::test]
async fn a_repeat_waits_for_the_first_and_stores_nothing() {
    let bench = Bench::new().await;
    let (call, jobs) = (CallId::new(), vec![new_job(), new_job()]);
    // The first one has stored its jobs and not ended yet.
    let client = bench.client().await;
    client.batch_execute("BEGIN; LOCK TABLE moved IN EXCLUSIVE MODE").await.unwrap();
    let both = [(); 2].map(|()| {
        let (store, jobs) = (bench.store.clone(), jobs.clone());
        tokio::spawn(async move { store.enqueue_once(call, jobs.as_slice().into()).await })
    });
    bench.until_a_call_waits().await;
    client.batch_execute("COMMIT").await.unwrap();
    let mut answers = Vec::new();
    for one in both {
        answers.push(one.await.unwrap().unwrap());
    }
    answers.sort_unstable_by_key(|answer| answer[0] != Enqueued::New);
    assert_eq!(answers, [[Enqueued::New; 2], [Enqueued::Repeated; 2]]);
    assert_eq!(bench.psql("SELECT count(*) FROM jobs"), "2");
    assert_eq!(bench.psql("SELECT sum(ready) FROM counts"), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_was_handed_over_and_is_gone_does_not_come_again() {
    let bench = Bench::new().await;
    let retention = Retention { completed: Keep::NONE, ..Retention::default() };
    bench.store.define(&name("default"), &QueueConfig { retention, ..QueueConfig::default() }).await.unwrap();
    for _ in 0..10 {
        let (call, jobs) = (CallId::new(), vec![new_job()]);
        // A worker waits, so that most of them go along.
        assert_eq!(bench.claim_all().await.0, []);
        let mut work = bench.store.bell().listen(Topic::Work);
        let (store, request) = (bench.store.clone(), bench.request(5));
        let worker = tokio::spawn(async move {
            work.rung().await;
            store.claim(request.clone()).await
        });
        assert_eq!(bench.store.enqueue_once(call, jobs.as_slice().into()).await.unwrap(), [Enqueued::New]);
        let ClaimAnswer::Jobs { jobs: mut claimed, .. } = worker.await.unwrap().unwrap() else {
            panic!("the lease is lost");
        };
        if claimed.is_empty() {
            // It has looked before the job was stored.
            claimed = bench.claim_all().await.0;
        }
        bench.complete(&claimed).await;
        assert_eq!(bench.store.get([jobs[0].id].into()).await.unwrap(), [None], "it has run and is gone");
        assert_eq!(
            bench.store.enqueue_once(call, jobs.as_slice().into()).await.unwrap(),
            [Enqueued::Repeated]
        );
        assert_eq!(bench.claim_all().await.0, []);
    }
}

#[tokio::test]
async fn old_calls_are_forgotten() {
    let bench = Bench::new().await;
    bench.enqueue(1).await;
    bench.psql("UPDATE calls SET accepted_at = accepted_at - 121000000");
    bench.enqueue(1).await;
    assert_eq!(bench.psql("SELECT count(*) FROM calls"), "2");
    assert!(bench.store.tidy(10).await.unwrap() > 0);
    assert_eq!(bench.psql("SELECT count(*) FROM calls"), "1", "the younger one is remembered");
}
