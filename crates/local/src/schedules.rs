//! The queue under many interleavings of its threads, picked at random down to single locks. A future that nobody
//! would wake any more is a deadlock here, and fails the test.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use shuttle::future::{JoinHandle, block_on, spawn};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::{check_random, thread};

use crate::error::Error;
use crate::machine::{Order, Settings};
use crate::queue::Queue;
use crate::runner::Runner;
use crate::shared::{Crew, Shared};
use crate::token::Token;
use crate::work::AsItIs;

const SCHEDULES: usize = 300;

fn settings(concurrency: usize, capacity: usize) -> Settings {
    Settings {
        concurrency,
        capacity,
        timeout: None,
        per_key: Some(1),
        rate: None,
        watermarks: None,
        order: Order::OldestFirst,
        is_paused: false,
    }
}

/// The runners of a queue, to see them go home.
#[derive(Default, Clone)]
struct Runners(Arc<Mutex<Vec<JoinHandle<()>>>>);

impl Runners {
    /// Every runner leaves when the queue is over.
    fn leave(self) {
        while let Some(runner) = { self.0.lock().expect("nobody panics with it").pop() } {
            block_on(runner).expect("runners do not panic");
        }
    }
}

/// A queue whose runners are threads of the scheduler.
fn queue(concurrency: usize, capacity: usize) -> (Queue, Runners) {
    let runners = Runners::default();
    let kept = runners.clone();
    let hire = move |shared| {
        let runner = spawn(Runner::new(shared, AsItIs));
        kept.0.lock().expect("nobody panics with it").push(runner);
    };
    (Queue::of(Shared::new(settings(concurrency, capacity), Crew::Spawned(Box::new(hire)))), runners)
}

/// Lets others go first, once.
#[derive(Default)]
struct StepAside(bool);

impl Future for StepAside {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Counts how many run, and how many did at most.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    async fn run(self: Arc<Self>, number: usize) -> usize {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        if number.is_multiple_of(2) {
            StepAside::default().await;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        number
    }
}

fn counters_are_zero(queue: &Queue) {
    let counts = queue.counts();
    assert_eq!((counts.waiting, counts.running), (0, 0));
    assert_eq!(counts.added, counts.completed + counts.failed);
}

#[test]
fn several_producers_and_runners() {
    let scenario = || {
        let ((queue, runners), gauge) = (queue(2, 2), Arc::new(Gauge::default()));
        let producers: Vec<_> = (0..2)
            .map(|producer| {
                let (queue, gauge) = (queue.clone(), Arc::clone(&gauge));
                thread::spawn(move || {
                    block_on(async {
                        let mut handles = Vec::new();
                        for number in 0..3 {
                            let number = producer * 10 + number;
                            let work = Arc::clone(&gauge).run(number);
                            handles.push((number, queue.push(work).await.expect("it is open")));
                            assert!(queue.waiting() <= 2);
                        }
                        for (number, handle) in handles {
                            assert_eq!(handle.await, Ok(number));
                        }
                    });
                })
            })
            .collect();
        block_on(queue.until_idle());
        for producer in producers {
            producer.join().expect("producers do not panic");
        }
        block_on(queue.until_idle());
        assert!(gauge.most.load(Ordering::SeqCst) <= 2, "never more than the cap");
        counters_are_zero(&queue);
        drop(queue);
        runners.leave();
    };
    check_random(scenario, SCHEDULES);
}

#[test]
fn handles_that_go_away() {
    let scenario = || {
        let ((queue, runners), gauge) = (queue(1, 100), Arc::new(Gauge::default()));
        let mut handles: Vec<_> = (0..4).map(|number| queue.add(Arc::clone(&gauge).run(number))).collect();
        let endless = queue.add(std::future::pending::<()>());
        let kept = handles.split_off(2);
        let dropper = thread::spawn(move || drop((handles, endless)));
        for handle in kept {
            assert!(block_on(handle).is_ok());
        }
        dropper.join().expect("dropping does not panic");
        block_on(queue.until_idle());
        counters_are_zero(&queue);
        drop(queue);
        runners.leave();
    };
    check_random(scenario, SCHEDULES);
}

#[test]
fn a_token_that_is_cancelled_meanwhile() {
    let scenario = || {
        let ((queue, runners), token) = (queue(1, 100), Token::new());
        let canceller = {
            let token = token.clone();
            thread::spawn(move || token.cancel())
        };
        let handles: Vec<_> =
            (0..2).map(|_| queue.with().token(&token).add(std::future::pending::<()>())).collect();
        for handle in handles {
            assert_eq!(block_on(handle), Err(Error::Cancelled));
        }
        canceller.join().expect("cancelling does not panic");
        block_on(queue.until_idle());
        counters_are_zero(&queue);
        drop(queue);
        runners.leave();
    };
    check_random(scenario, SCHEDULES);
}

#[test]
fn a_queue_that_is_closed_while_others_wait_for_room() {
    let scenario = || {
        let ((queue, runners), gauge) = (queue(1, 1), Arc::new(Gauge::default()));
        let producers: Vec<_> = (0..3)
            .map(|number| {
                let (queue, work) = (queue.clone(), Arc::clone(&gauge).run(number));
                thread::spawn(move || {
                    block_on(async {
                        let Ok(handle) = queue.push(work).await else { return };
                        let result = handle.await;
                        assert!(result == Ok(number) || result == Err(Error::Closed));
                    });
                })
            })
            .collect();
        queue.close();
        block_on(queue.until_idle());
        for producer in producers {
            producer.join().expect("producers do not panic");
        }
        counters_are_zero(&queue);
        drop(queue);
        runners.leave();
    };
    check_random(scenario, SCHEDULES);
}

#[test]
fn pausing_changing_clearing_and_aborting_meanwhile() {
    let scenario = || {
        let ((queue, runners), gauge) = (queue(1, 100), Arc::new(Gauge::default()));
        let handles: Vec<_> =
            (0..4).map(|number| queue.with().key("one").add(Arc::clone(&gauge).run(number))).collect();
        let meddler = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.pause();
                queue.set_concurrency(3).expect("three is fine");
                queue.start();
                queue.clear();
                queue.abort();
            })
        };
        for handle in handles {
            let result = block_on(handle);
            assert!(matches!(result, Ok(_) | Err(Error::Cleared | Error::Aborted)), "{result:?}");
        }
        meddler.join().expect("meddling does not panic");
        block_on(queue.until_idle());
        assert!(gauge.most.load(Ordering::SeqCst) <= 1, "never more than the cap of the key");
        counters_are_zero(&queue);
        drop(queue);
        runners.leave();
    };
    check_random(scenario, SCHEDULES);
}

#[test]
fn the_last_owner_goes_away() {
    let scenario = || {
        let ((queue, runners), gauge) = (queue(2, 100), Arc::new(Gauge::default()));
        let handles: Vec<_> = (0..4).map(|number| queue.add(Arc::clone(&gauge).run(number))).collect();
        let other = queue.clone();
        let dropper = thread::spawn(move || drop(other));
        drop(queue);
        for (number, handle) in handles.into_iter().enumerate() {
            assert_eq!(block_on(handle), Ok(number));
        }
        dropper.join().expect("dropping does not panic");
        runners.leave();
    };
    check_random(scenario, SCHEDULES);
}

#[test]
fn runners_that_are_dropped() {
    let scenario = || {
        let shared = Shared::new(settings(2, 100), Crew::Driven(Default::default()));
        let (queue, driven) = (Queue::of(Arc::clone(&shared)), shared);
        let adder = {
            let queue = queue.clone();
            thread::spawn(move || {
                let handles: Vec<_> = (0..4_usize).map(|number| queue.add(async move { number })).collect();
                for (number, handle) in handles.into_iter().enumerate() {
                    let result = block_on(handle);
                    assert!(result == Ok(number) || result == Err(Error::Closed), "{result:?}");
                }
            })
        };
        // Runs some of it, and is dropped as if its runtime had ended.
        let mut runner = Runner::new(Arc::clone(&driven), AsItIs);
        block_on(std::future::poll_fn(|context| {
            let poll = driven.poll_wanted(context);
            if poll.is_ready() {
                let _ = Pin::new(&mut runner).poll(context);
            }
            poll.map(drop)
        }));
        drop(runner);
        driven.end();
        adder.join().expect("adding does not panic");
        block_on(queue.until_idle());
        counters_are_zero(&queue);
    };
    check_random(scenario, SCHEDULES);
}
