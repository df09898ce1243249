//! Work that blocks its thread runs on as many threads as there are, wherever it is added.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use windlass_local::Queue;

const THREADS: usize = 8;

/// All have to be there at once, each on a thread of its own, or none goes on.
async fn meet(queue: Queue) {
    meet_after(queue, || {}).await;
}

/// The same, with something that is done after all were added.
async fn meet_after(queue: Queue, after: impl FnOnce()) {
    let barrier = Arc::new(Barrier::new(THREADS));
    let handles: Vec<_> = (0..THREADS)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            queue.add(async move { barrier.wait().is_leader() })
        })
        .collect();
    after();
    let mut leaders = 0;
    for handle in handles {
        leaders += usize::from(handle.await.unwrap());
    }
    assert_eq!(leaders, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn added_from_outside() {
    for _ in 0..50 {
        meet(Queue::new(THREADS)).await;
    }
    let queue = Queue::new(usize::MAX);
    for _ in 0..50 {
        meet(queue.clone()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 9)]
async fn added_from_a_worker() {
    let queue = Queue::new(THREADS);
    for _ in 0..50 {
        tokio::spawn(meet(queue.clone())).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn started_by_a_runner_that_calls_others() {
    for _ in 0..20 {
        let queue = Queue::builder().concurrency(THREADS).paused().build().unwrap();
        meet_after(queue.clone(), || queue.start()).await;
        let queue = Queue::builder().concurrency(1).paused().build().unwrap();
        let widen = || {
            queue.start();
            queue.set_concurrency(THREADS).unwrap();
        };
        meet_after(queue.clone(), widen).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn producers_on_several_threads() {
    let queue = Queue::builder().concurrency(3).capacity(50).build().unwrap();
    let running = Arc::new(AtomicUsize::new(0));
    let produce = |producer: i16| {
        let (queue, running) = (queue.clone(), Arc::clone(&running));
        tokio::spawn(async move {
            let mut kept = Vec::new();
            for number in 0..2_000 {
                let running = Arc::clone(&running);
                let work = async move {
                    assert!(running.fetch_add(1, Ordering::SeqCst) < 3, "never more than the cap");
                    if number % 3 == 0 {
                        tokio::task::yield_now().await;
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                    number
                };
                let handle = queue.with().priority(producer % 2).push(work).await.unwrap();
                kept.push((number, handle));
            }
            for (number, handle) in kept {
                assert_eq!(handle.await, Ok(number));
            }
        })
    };
    for producer in (0..4).map(produce).collect::<Vec<_>>() {
        producer.await.unwrap();
    }
    queue.until_idle().await;
    let counts = queue.counts();
    assert_eq!((counts.added, counts.completed, counts.waiting, counts.running), (8_000, 8_000, 0, 0));
}

#[tokio::test]
async fn a_long_burst_has_no_more_runners_than_may_run_at_once() {
    let queue = Queue::new(10);
    for _ in 0..10_000 {
        queue.try_post(async {}).unwrap();
    }
    queue.until_idle().await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 10);
}

/// Posts more, when it is dropped by the runner that has made it.
struct More(Queue);

impl Drop for More {
    fn drop(&mut self) {
        self.0.try_post(async {}).unwrap();
    }
}

#[tokio::test]
async fn work_that_comes_while_a_runner_lets_others_go_first_needs_no_other_runner() {
    let queue = Queue::new(1);
    for _ in 0..1_000 {
        let more = More(queue.clone());
        queue.try_post(async move { more }).unwrap();
    }
    queue.until_idle().await;
    assert_eq!(queue.counts().completed, 2_000);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 1);
}
