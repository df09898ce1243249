//! Group commit: what waits is committed together, and each caller gets its own answer.

use futures_util::future::join_all;
use windlass_core::bell::Topic;
use windlass_core::store::{Enqueued, Jobs, Queues, Wakeup};
use windlass_core::{State, StoreError};

use super::{job, open};

#[tokio::test]
async fn callers_at_once_share_commits() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db")).await;
    let before = store.gauges();
    let calls = (0..200).map(|number| {
        let store = store.clone();
        async move { store.enqueue([job(number.to_string())].into()).await.unwrap() }
    });
    for answer in join_all(calls).await {
        assert_eq!(answer, [Enqueued::New]);
    }
    let after = store.gauges();
    assert_eq!(after.operations - before.operations, 200);
    let commits = after.commits - before.commits;
    assert!(commits <= 20, "200 calls at once took {commits} commits");
}

#[tokio::test]
async fn calls_one_after_the_other_are_committed_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db")).await;
    let before = store.gauges();
    for number in 0..5 {
        store.enqueue([job(number.to_string())].into()).await.unwrap();
    }
    assert_eq!(store.gauges().commits - before.commits, 5);
}

#[tokio::test]
async fn a_refused_call_leaves_nothing_behind_and_its_neighbours_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db")).await;
    let taken = job("first");
    store.enqueue([taken.clone()].into()).await.unwrap();
    let before = store.gauges();
    let (fresh, long) = (job("fresh"), job("x".repeat(5_000)));
    let refused = [fresh.clone(), long.clone(), job("second").with_id(taken.id)];
    let neighbours: Vec<_> = (0..20).map(|number| [job(number.to_string())]).collect();
    let (refusal, answers) = tokio::join!(
        store.enqueue(refused.clone().into()),
        join_all(neighbours.iter().map(|job| store.enqueue(job.clone().into())))
    );
    assert!(matches!(refusal, Err(StoreError::IdTaken { id }) if id == taken.id), "{refusal:?}");
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|new| new == &[Enqueued::New])));
    assert!(store.gauges().commits - before.commits <= 3, "no operation was made to run alone");
    assert_eq!(store.get([fresh.id, long.id].into()).await.unwrap(), [None, None]);
    // The ids are free again, and so is the place of the long payload.
    assert_eq!(store.enqueue([fresh, long].into()).await.unwrap(), [Enqueued::New; 2]);
}

#[tokio::test]
async fn repeats_are_found_among_many() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db")).await;
    let mut jobs: Vec<_> = (0..40).map(|number| job(number.to_string().repeat(1 + number * 50))).collect();
    store.enqueue([jobs[3].clone(), jobs[20].clone()].into()).await.unwrap();
    // One that was there, one twice in the same statement, one twice in two, and long payloads among them.
    jobs.insert(9, jobs[8].clone());
    jobs.insert(35, jobs[30].clone());
    jobs.push(jobs[15].clone());
    let answers = store.enqueue(jobs.as_slice().into()).await.unwrap();
    let repeats: Vec<_> = (0..jobs.len()).filter(|&at| answers[at] != Enqueued::New).collect();
    assert_eq!(repeats, [3, 9, 21, 35, 42]);
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    let records = store.get(ids.as_slice().into()).await.unwrap();
    for (job, record) in jobs.iter().zip(records) {
        assert_eq!(record.unwrap().payload, job.payload);
    }
    let counts = store.queues(None, 1).await.unwrap()[0].counts;
    assert_eq!(counts.of(State::Ready), 40);

    // A different job under a taken id, late in a long call: none of the call stays.
    let mut others: Vec<_> = (0..40).map(|number| job("x".repeat(number * 100))).collect();
    others.push(job("different").with_id(jobs[0].id));
    assert!(matches!(store.enqueue(others.as_slice().into()).await, Err(StoreError::IdTaken { .. })));
    others[17] = others[17].clone().with_id(jobs[1].id);
    others.pop();
    assert!(matches!(store.enqueue(others.as_slice().into()).await, Err(StoreError::IdTaken { .. })));
    assert_eq!(store.queues(None, 1).await.unwrap()[0].counts.total(), 40);
    others.remove(17);
    let answers = store.enqueue(others.as_slice().into()).await.unwrap();
    assert!(answers.iter().all(|answer| *answer == Enqueued::New), "nothing of the refused calls was left");
}

#[tokio::test]
async fn a_commit_rings_the_bell() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db")).await;
    let mut work = store.bell().listen(Topic::Work);
    let jobs: Vec<_> = (0..50).map(|number| [job(number.to_string())]).collect();
    join_all(jobs.iter().map(|job| store.enqueue(job.clone().into()))).await;
    work.rung().await;
}
