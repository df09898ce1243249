//! Lanes: what goes out together, what goes alone, and what becomes of those that wait.

use std::sync::{Arc, Mutex};

use super::*;

/// Records the size of each flush and answers every item doubled.
fn doubling(sizes: &Arc<Mutex<Vec<usize>>>) -> impl FnMut(Vec<u32>) -> std::future::Ready<Vec<u32>> + use<> {
    let sizes = Arc::clone(sizes);
    move |items| {
        sizes.lock().unwrap().push(items.len());
        std::future::ready(items.into_iter().map(|item| item * 2).collect())
    }
}

/// A lane for these limits, whose items weigh what they are.
fn weighed(waiting: usize, items: usize, weight: usize) -> (Lane<u32, u32>, Driver<u32, u32>) {
    lane(Limits { waiting, items, weight }, |item| usize::try_from(*item).unwrap())
}

/// A lane whose items weigh nothing.
fn light(waiting: usize, items: usize) -> (Lane<u32, u32>, Driver<u32, u32>) {
    lane(Limits { waiting, items, weight: 0 }, |_| 0)
}

#[tokio::test]
async fn what_waits_goes_out_together_and_each_caller_gets_its_own_answer() {
    let (lane, driver) = light(100, 100);
    let calls: Vec<_> = (0..50u32)
        .map(|item| {
            let lane = lane.clone();
            tokio::spawn(async move { (item, lane.submit(item).await.unwrap()) })
        })
        .collect();
    drop(lane);
    // On the single-threaded test runtime every call has put its item in before the driver starts.
    tokio::task::yield_now().await;
    let sizes = Arc::default();
    driver.run(doubling(&sizes)).await;
    assert_eq!(*sizes.lock().unwrap(), [50]);
    for call in calls {
        let (item, answer) = call.await.unwrap();
        assert_eq!(answer, item * 2);
    }
}

#[tokio::test]
async fn callers_that_come_back_together_are_flushed_together() {
    let (lane, driver) = light(100, 100);
    for caller in 0..10u32 {
        let lane = lane.clone();
        tokio::spawn(async move {
            for _ in 0..2 {
                lane.submit(caller).await.unwrap();
            }
        });
    }
    tokio::task::yield_now().await;
    let (sizes, mut early) = (Arc::default(), Some(lane));
    let mut double = doubling(&sizes);
    let flush = move |items| {
        let (early, doubled) = (early.take(), double(items));
        async move {
            if let Some(lane) = early {
                // One is quicker than the others: it waits already when the flush is over.
                lane.post(99).await.unwrap();
            }
            doubled.await
        }
    };
    driver.run(flush).await;
    assert_eq!(*sizes.lock().unwrap(), [10, 11], "the quick one waits for the others");
}

#[tokio::test]
async fn one_flush_is_bounded() {
    let (lane, driver) = light(100, 8);
    for item in 0..20 {
        lane.post(item).await.unwrap();
    }
    drop(lane);
    let sizes = Arc::default();
    driver.run(doubling(&sizes)).await;
    assert_eq!(*sizes.lock().unwrap(), [8, 8, 4]);
}

#[tokio::test]
async fn one_flush_is_bounded_by_weight_and_what_is_heavier_goes_alone() {
    let (lane, driver) = weighed(100, 4, 10);
    let calls: Vec<_> = [4, 6, 1, 30, 3, 3, 3, 1, 1, 5, 9]
        .map(|item| {
            let lane = lane.clone();
            tokio::spawn(async move { (item, lane.submit(item).await.unwrap()) })
        })
        .into();
    drop(lane);
    tokio::task::yield_now().await;
    let sizes = Arc::default();
    driver.run(doubling(&sizes)).await;
    // 4 + 6, 1, 30, 3 + 3 + 3 + 1, 1 + 5, 9: in order, at most four and at most ten.
    assert_eq!(*sizes.lock().unwrap(), [2, 1, 1, 4, 2, 1]);
    for call in calls {
        let (item, answer) = call.await.unwrap();
        assert_eq!(answer, item * 2);
    }
}

#[tokio::test]
async fn a_full_lane_gives_back_what_is_not_waited_for() {
    let (lane, driver) = light(2, 8);
    assert!(lane.is_empty());
    assert_eq!((lane.try_post(1), lane.try_post(2), lane.try_post(3)), (Ok(()), Ok(()), Err(3)));
    assert!(!lane.is_empty());
    drop(driver);
    assert_eq!(lane.try_post(4), Err(4));
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_nothing_back() {
    let (lane, driver) = light(1, 8);
    {
        let submit = lane.submit(1);
        tokio::pin!(submit);
        assert!(futures_poll_once(submit).await.is_none());
    }
    drop(lane);
    let sizes = Arc::default();
    driver.run(doubling(&sizes)).await;
    assert_eq!(*sizes.lock().unwrap(), [1]);
}

#[tokio::test]
async fn a_stopped_driver_closes_the_lane() {
    let (lane, driver) = light(1, 8);
    drop(driver);
    assert_eq!(lane.submit(1).await, Err(Closed));
}

async fn futures_poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut future).poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}
