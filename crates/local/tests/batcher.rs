//! The batch collector: when it flushes, what each caller learns, and how it ends.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_local::{BatchBuilder, BatchError, Batcher, ConfigError, Refused};

const SECOND: Duration = Duration::from_secs(1);

type Sizes = Arc<Mutex<Vec<usize>>>;

/// Writes the size of each flush down and answers every item doubled.
fn doubling(builder: BatchBuilder<u32>) -> (Batcher<u32, u32>, Sizes) {
    let sizes = Sizes::default();
    let kept = Arc::clone(&sizes);
    let flush = move |items: Vec<u32>| {
        kept.lock().expect("no holder of the lock panics").push(items.len());
        async move { items.into_iter().map(|item| item * 2).collect() }
    };
    (builder.build(flush).expect("it makes sense"), sizes)
}

fn read(sizes: &Sizes) -> Vec<usize> {
    sizes.lock().expect("no holder of the lock panics").clone()
}

/// A batcher whose flushes wait for a gate.
fn gated(builder: BatchBuilder<u32>) -> (Batcher<u32, u32>, Sizes, Arc<Notify>) {
    let (sizes, gate) = (Sizes::default(), Arc::new(Notify::new()));
    let (kept, wait) = (Arc::clone(&sizes), Arc::clone(&gate));
    let flush = move |items: Vec<u32>| {
        kept.lock().expect("no holder of the lock panics").push(items.len());
        let wait = Arc::clone(&wait);
        async move {
            wait.notified().await;
            items
        }
    };
    (builder.build(flush).expect("it makes sense"), sizes, gate)
}

#[tokio::test(start_paused = true)]
async fn flushes_by_size() {
    let (batcher, sizes) = doubling(Batcher::builder().size(3).linger(SECOND * 60));
    let begin = Instant::now();
    let outcomes: Vec<_> = (0..6).map(|item| batcher.try_push(item).unwrap()).collect();
    for (item, outcome) in (0..).zip(outcomes) {
        assert_eq!(outcome.await, Ok(item * 2));
    }
    assert_eq!((read(&sizes), begin.elapsed()), (vec![3, 3], Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn flushes_by_bytes() {
    let builder = Batcher::builder().bytes(10, |item: &u32| *item as usize).linger(SECOND * 60);
    let (batcher, sizes) = doubling(builder);
    let outcomes: Vec<_> = [4, 4, 4, 99, 1, 9].map(|item| batcher.try_push(item).unwrap()).into();
    for outcome in outcomes {
        outcome.await.unwrap();
    }
    assert_eq!(
        read(&sizes),
        [2, 1, 1, 2],
        "a batch is not overloaded, but for an item that is too heavy alone"
    );
}

#[tokio::test(start_paused = true)]
async fn items_may_weigh_anything() {
    let (batcher, sizes) = doubling(Batcher::builder().bytes(10, |_: &u32| usize::MAX).linger(SECOND * 60));
    let outcomes: Vec<_> = [1, 2, 3].map(|item| batcher.try_push(item).unwrap()).into();
    for outcome in outcomes {
        outcome.await.unwrap();
    }
    assert_eq!(read(&sizes), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn flushes_after_lingering() {
    let (batcher, sizes) = doubling(Batcher::builder().size(100).linger(SECOND));
    let begin = Instant::now();
    let first = batcher.try_push(1).unwrap();
    tokio::time::sleep(SECOND / 2).await;
    let second = batcher.try_push(2).unwrap();
    assert_eq!((first.await, second.await), (Ok(2), Ok(4)));
    assert_eq!((read(&sizes), begin.elapsed()), (vec![2], SECOND), "counted from the first");
    assert_eq!(batcher.add(3).await, Ok(6));
    assert_eq!(begin.elapsed(), SECOND * 2 + Duration::ZERO);
}

#[tokio::test]
async fn natural_batching_does_not_wait_and_gathers_meanwhile() {
    let (batcher, sizes, gate) = gated(Batcher::builder());
    let first = batcher.try_push(1).unwrap();
    while read(&sizes).is_empty() {
        tokio::task::yield_now().await;
    }
    let rest: Vec<_> = (2..7).map(|item| batcher.try_push(item).unwrap()).collect();
    tokio::task::yield_now().await;
    assert_eq!((read(&sizes), batcher.waiting()), (vec![1], 5));
    gate.notify_one();
    assert_eq!(first.await, Ok(1));
    gate.notify_one();
    for (item, outcome) in (2..).zip(rest) {
        assert_eq!(outcome.await, Ok(item));
    }
    assert_eq!(read(&sizes), [1, 5]);
}

#[tokio::test]
async fn flushes_in_flight_are_bounded() {
    let (batcher, sizes, gate) = gated(Batcher::builder().size(1).in_flight(2));
    let outcomes: Vec<_> = (0..5).map(|item| batcher.try_push(item).unwrap()).collect();
    while read(&sizes).len() < 2 {
        tokio::task::yield_now().await;
    }
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!((read(&sizes).len(), batcher.waiting()), (2, 3));
    for outcome in outcomes {
        gate.notify_one();
        outcome.await.unwrap();
    }
}

#[tokio::test]
async fn each_caller_learns_its_own_outcome() {
    let flush = |items: Vec<u32>| async move {
        items.into_iter().map(|item| if item == 2 { Err("two") } else { Ok(item) }).collect()
    };
    let batcher = Batcher::builder().build(flush).unwrap();
    let results = tokio::join!(batcher.add(1), batcher.add(2), batcher.add(3));
    assert_eq!(results, (Ok(Ok(1)), Ok(Err("two")), Ok(Ok(3))));
    let short = Batcher::builder().build(|items: Vec<u32>| async move { items[1..].to_vec() }).unwrap();
    let (first, second) = tokio::join!(short.add(1), short.add(2));
    assert_eq!(first, Ok(2));
    assert_eq!(second, Err(BatchError::Unanswered { items: 2, answered: 1 }));
    let bad = Batcher::builder().build(|items: Vec<u32>| async move { panic!("{} items", items.len()) });
    let bad: Batcher<u32, ()> = bad.unwrap();
    for _ in 0..2 {
        assert_eq!(bad.add(1).await, Err(BatchError::Panicked("1 items".into())), "and it goes on");
    }
}

#[tokio::test(start_paused = true)]
async fn flush_and_close_and_drop_leave_nothing() {
    let (batcher, sizes) = doubling(Batcher::builder().linger(SECOND * 60));
    batcher.flush().await.unwrap();
    batcher.post(1).await.unwrap();
    batcher.post(2).await.unwrap();
    batcher.flush().await.unwrap();
    assert_eq!(read(&sizes), [2]);
    batcher.post(3).await.unwrap();
    batcher.close().await.unwrap();
    assert_eq!(read(&sizes), [2, 1]);
    assert!(matches!(batcher.push(4).await, Err(Refused::Closed(4))));
    assert_eq!(batcher.add(4).await, Err(BatchError::Closed));
    let (batcher, sizes) = doubling(Batcher::builder().linger(SECOND * 60));
    let outcome = batcher.try_push(5).unwrap();
    drop(batcher);
    assert_eq!((outcome.await, read(&sizes)), (Ok(10), vec![1]), "the last owner's drop flushes");
}

#[tokio::test]
async fn capacity_sheds_and_waits() {
    let (batcher, sizes, gate) = gated(Batcher::builder().size(1).capacity(2));
    let first = batcher.try_push(0).unwrap();
    while read(&sizes).is_empty() {
        tokio::task::yield_now().await;
    }
    let rest = [batcher.try_push(1).unwrap(), batcher.try_push(2).unwrap()];
    assert!(matches!(batcher.try_push(3), Err(Refused::Full(3))));
    let (last, ()) = tokio::join!(batcher.add(3), async {
        for outcome in std::iter::once(first).chain(rest) {
            gate.notify_one();
            outcome.await.unwrap();
        }
        gate.notify_one();
    });
    assert_eq!(last, Ok(3));
}

#[test]
fn the_end_of_the_runtime_tells_all_callers() {
    let worker = runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let elsewhere = runtime::Builder::new_current_thread().build().unwrap();
    let builder = Batcher::builder().runtime(worker.handle().clone());
    let (batcher, sizes, _gate) = gated(builder);
    let flying = batcher.try_push(1).unwrap();
    while read(&sizes).is_empty() {
        std::thread::yield_now();
    }
    let waiting = batcher.try_push(2).unwrap();
    let flush = elsewhere.spawn({
        let batcher = batcher.clone();
        async move { batcher.flush().await }
    });
    worker.shutdown_background();
    assert_eq!(elsewhere.block_on(flying), Err(BatchError::Closed));
    assert_eq!(elsewhere.block_on(waiting), Err(BatchError::Closed));
    assert_eq!(elsewhere.block_on(flush).unwrap(), Err(BatchError::Closed));
    assert_eq!(elsewhere.block_on(batcher.add(3)), Err(BatchError::Closed));
    assert_eq!(elsewhere.block_on(batcher.flush()), Err(BatchError::Closed), "also when it is all over");
    assert_eq!(elsewhere.block_on(batcher.close()), Err(BatchError::Closed));
}

/// Says so when it is dropped.
#[derive(Debug, PartialEq)]
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("in the drop");
    }
}

#[tokio::test]
async fn results_that_panic_when_dropped_harm_no_other() {
    let flush = |items: Vec<u32>| async move {
        let result = |item| if item == 0 { Err(PanicsWhenDropped) } else { Ok(item) };
        items.into_iter().map(result).chain([Err(PanicsWhenDropped)]).collect()
    };
    let batcher = Batcher::builder().build(flush).unwrap();
    batcher.post(0).await.unwrap();
    drop(batcher.try_push(0).unwrap());
    assert_eq!(batcher.add(1).await, Ok(Ok(1)));
    assert_eq!(batcher.add(2).await, Ok(Ok(2)), "and it goes on");
}

#[tokio::test]
async fn panics_that_panic_when_dropped_harm_no_other() {
    let flush = |items: Vec<u32>| async move {
        if items == [0] {
            std::panic::panic_any(PanicsWhenDropped);
        }
        items
    };
    let batcher = Batcher::builder().size(1).build(flush).unwrap();
    assert_eq!(batcher.add(0).await, Err(BatchError::Panicked("no text".into())));
    assert_eq!(batcher.add(1).await, Ok(1), "and it goes on");
}

#[test]
fn flushes_that_panic_when_dropped_keep_no_caller_waiting() {
    let worker = runtime::Builder::new_current_thread().build().unwrap();
    let elsewhere = runtime::Builder::new_current_thread().build().unwrap();
    let builder = Batcher::builder().size(1).in_flight(2).runtime(worker.handle().clone());
    let flush = |items: Vec<PanicsWhenDropped>| async move {
        let _items = items;
        std::future::pending::<Vec<()>>().await
    };
    let batcher = builder.build(flush).unwrap();
    let outcomes: Vec<_> = (0..4).map(|_| batcher.try_push(PanicsWhenDropped).unwrap()).collect();
    worker.block_on(async {
        while batcher.waiting() > 2 {
            tokio::task::yield_now().await;
        }
    });
    drop(worker);
    for outcome in outcomes {
        assert_eq!(elsewhere.block_on(outcome), Err(BatchError::Closed));
    }
}

#[tokio::test]
async fn settings_that_make_no_sense() {
    let build = |builder: BatchBuilder<u32>| builder.build(|items| async { items }).err();
    assert_eq!(build(Batcher::builder().size(0)), Some(ConfigError::NoBatch));
    assert_eq!(build(Batcher::builder().bytes(0, |_| 1)), Some(ConfigError::NoBatch));
    assert_eq!(build(Batcher::builder().in_flight(0)), Some(ConfigError::NoConcurrency));
    assert_eq!(build(Batcher::builder().capacity(0)), Some(ConfigError::NoCapacity));
}

#[tokio::test(start_paused = true)]
async fn items_do_not_wait_for_company_that_has_no_room() {
    let (batcher, sizes) = doubling(Batcher::builder().size(20).capacity(3).linger(SECOND * 60));
    let begin = Instant::now();
    let (first, second, third, fourth) =
        tokio::join!(batcher.add(1), batcher.add(2), batcher.add(3), async {
            let last = batcher.push(4).await.unwrap();
            batcher.flush().await.unwrap();
            last.await
        });
    assert_eq!((first, second, third, fourth), (Ok(2), Ok(4), Ok(6), Ok(8)));
    assert_eq!((read(&sizes), begin.elapsed()), (vec![3, 1], Duration::ZERO));
}

#[test]
fn a_flush_after_the_end_of_the_runtime_does_not_say_that_what_was_lost_is_done() {
    let worker = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let elsewhere = runtime::Builder::new_current_thread().build().unwrap();
    let builder = Batcher::builder().linger(SECOND * 3_600).runtime(worker.handle().clone());
    let (batcher, sizes) = doubling(builder);
    let outcome = batcher.try_push(1).unwrap();
    worker.shutdown_background();
    assert_eq!(elsewhere.block_on(outcome), Err(BatchError::Closed));
    assert_eq!(elsewhere.block_on(batcher.flush()), Err(BatchError::Closed));
    assert_eq!(elsewhere.block_on(batcher.close()), Err(BatchError::Closed));
    assert_eq!(read(&sizes), []);
}
