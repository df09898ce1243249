//! The client's promises: one precedence, repeats, batches that do not harm each other, clear refusals.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::store::Amended;
use windlass_core::{JobId, State, StoreError};
use windlass_worker::{Error, OutputError};

use crate::faulty::{Call, Fault, Faulty};
use crate::support::{Act, Probe, probe, scene, scene_on};

#[tokio::test]
async fn the_call_wins_over_the_job_type() {
    let (client, _) = scene();
    let handle = client
        .enqueue(probe(Act::Succeed))
        .queue("urgent")
        .priority(i16::MAX)
        .tag("red")
        .delay(Duration::from_secs(60))
        .await
        .unwrap();
    let record = client.job(handle.id()).await.unwrap().unwrap();
    assert_eq!((record.queue.as_str(), record.priority), ("urgent", i16::MAX));
    assert_eq!(record.spec.retry.attempts_max(), 3, "the job type's, for the call says nothing");
    assert_eq!((record.state, record.tags[0].as_str()), (State::Scheduled, "red"));
}

#[tokio::test]
async fn the_same_id_again_is_an_answer() {
    let (client, _) = scene();
    let id = JobId::new();
    assert!(client.enqueue(probe(Act::Succeed)).id(id).await.unwrap().is_new());
    assert!(!client.enqueue(probe(Act::Succeed)).id(id).await.unwrap().is_new());
    let error = client.enqueue(probe(Act::Fail)).id(id).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::IdTaken { .. })), "{error}");
}

#[tokio::test]
async fn one_bad_job_does_not_refuse_its_neighbours() {
    let (client, _) = scene();
    let taken = JobId::new();
    client.enqueue(probe(Act::Succeed)).id(taken).await.unwrap();
    // On one thread these go out together, in one store call.
    let calls: Vec<_> = (0..50)
        .map(|index| {
            let enqueue = match index {
                7 | 31 => client.enqueue(probe(Act::Fail)).id(taken),
                20 => client.enqueue(probe(Act::Error("x".repeat(2 << 20)))),
                _ => client.enqueue(probe(Act::Fail)),
            };
            tokio::spawn(enqueue.into_future())
        })
        .collect();
    for (index, call) in calls.into_iter().enumerate() {
        let answer = call.await.unwrap();
        match index {
            7 | 31 => assert!(matches!(answer, Err(Error::Store(StoreError::IdTaken { .. })))),
            20 => assert!(matches!(answer, Err(Error::Store(StoreError::TooLarge { .. })))),
            _ => {
                let record = client.job(answer.unwrap().id()).await.unwrap();
                assert_eq!(record.unwrap().state, State::Ready);
            }
        }
    }
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_stored() {
    let (client, _) = scene();
    let error = client.enqueue(probe(Act::Succeed)).queue("two\nlines").await.unwrap_err();
    assert!(error.to_string().starts_with("bad queue: name \"two\\nlines\""), "{error}");
    let large = probe(Act::Error("x".repeat(5 << 20)));
    let error = client.enqueue(large).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::TooLarge { .. })), "{error}");
    let error = client.enqueue_all((0..10_001).map(|_| probe(Act::Succeed))).await.unwrap_err();
    assert!(error.to_string().contains("split it into calls of at most 10000 jobs"), "{error}");
    assert!(client.store().queues(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn enqueue_all_is_all_or_nothing_and_may_be_empty() {
    let (client, _) = scene();
    assert!(client.enqueue_all(Vec::<Probe>::new()).await.unwrap().is_empty());
    let handles = client.enqueue_all((0..10_000).map(|_| probe(Act::Succeed))).await.unwrap();
    assert_eq!(handles.len(), 10_000);
    let jobs = vec![probe(Act::Succeed), probe(Act::Error("x".repeat(2 << 20)))];
    assert!(client.enqueue_all(jobs).await.is_err());
    let queues = client.store().queues(None, 10).await.unwrap();
    assert_eq!(queues[0].counts.total(), 10_000);
}

#[tokio::test]
async fn a_store_that_is_away_for_a_moment_is_asked_again() {
    let store = Faulty::new();
    let (client, _) = scene_on(Arc::clone(&store) as _);
    for fault in [Fault::Unavailable, Fault::Unknown] {
        store.fail(Call::Enqueue, fault, 2);
        let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
        assert_eq!(handle.state().await.unwrap(), Some(State::Ready));
    }
    store.fail(Call::Enqueue, Fault::Unavailable, u32::MAX);
    let calls: Vec<_> =
        (0..3).map(|_| tokio::spawn(client.enqueue(probe(Act::Succeed)).into_future())).collect();
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "store unavailable: switched off");
    }
    store.fail(Call::Enqueue, Fault::Panic, 1);
    assert!(client.enqueue(probe(Act::Succeed)).await.unwrap().is_new(), "a panic is only a lost answer");
    store.fail(Call::Enqueue, Fault::Panic, 5);
    let error = client.enqueue(probe(Act::Succeed)).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Unknown { .. })), "{error}");
    assert!(client.enqueue(probe(Act::Succeed)).await.is_ok(), "the lane goes on after a panic");
}

#[tokio::test]
async fn jobs_can_be_cancelled_retried_and_deleted() {
    let (client, _) = scene();
    let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
    assert_eq!(handle.cancel().await.unwrap(), Amended::Done(State::Cancelled));
    assert!(matches!(handle.output().await, Err(OutputError::Cancelled { .. })));
    assert_eq!(client.retry(handle.id()).await.unwrap(), Amended::Done(State::Ready));
    assert_eq!(client.delete(handle.id()).await.unwrap(), Amended::Done(State::Ready));
    assert!(matches!(handle.output().await, Err(OutputError::Missing { .. })));
    assert_eq!(client.delete(handle.id()).await.unwrap(), Amended::Missing);
}

/// On a store that finishes its calls a lone enqueue passes no lane. It is repeated all the same.
#[tokio::test]
async fn a_lone_enqueue_without_a_lane_is_one_job_however_often_it_is_repeated() {
    let store = Faulty::finishing();
    let (client, _) = scene_on(Arc::clone(&store) as _);
    for fault in [Fault::Unavailable, Fault::Unknown, Fault::Vanished, Fault::Panic] {
        store.fail(Call::Enqueue, fault, 2);
        let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
        assert!(handle.is_new(), "{fault:?}");
        assert_eq!(client.job(handle.id()).await.unwrap().unwrap().state, State::Ready, "{fault:?}");
    }
    assert_eq!(client.queue("default").unwrap().counts().await.unwrap().of(State::Ready), 4);
}
