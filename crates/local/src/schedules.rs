//! The queue under many interleavings of its threads, picked at random down to single locks. A future that
//! nothing would wake any more is a deadlock here, and fails the test.

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
use crate::shared::Shared;
use crate::source::RunnerSource;
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

/// A queue whose runners are threads of the scheduler, and what its work is watched by.
struct Rig {
    queue: Queue,
    gauge: Arc<Gauge>,
    /// To see them leave.
    runners: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Rig {
    fn new(concurrency: usize, capacity: usize) -> Self {
        let runners: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
        let kept = Arc::clone(&runners);
        let spawned = move |shared| {
            let runner = spawn(Runner::new(shared, AsItIs));
            kept.lock().expect("no holder of the lock panics").push(runner);
        };
        let queue = Queue::of(Shared::new(settings(concurrency, capacity), RunnerSource::spawned(spawned)));
        Self { queue, gauge: Arc::default(), runners }
    }

    /// Work that knows its number, and is counted while it runs.
    fn work(&self, number: usize) -> impl Future<Output = usize> + Send + use<> {
        Arc::clone(&self.gauge).run(number)
    }

    /// Nothing is left, never more ran than might, and all leave.
    fn ends(self, most: usize) {
        block_on(self.queue.until_idle());
        counters_are_zero(&self.queue);
        assert!(self.gauge.most.load(Ordering::SeqCst) <= most, "never more than the cap");
        drop(self.queue);
        Self::all_leave(&self.runners);
    }

    /// Every runner leaves when the queue is over.
    fn all_leave(runners: &Mutex<Vec<JoinHandle<()>>>) {
        while let Some(runner) = { runners.lock().expect("no holder of the lock panics").pop() } {
            block_on(runner).expect("runners do not panic");
        }
    }
}

/// Plays a scenario under many schedules.
fn check(scenario: impl Fn() + Send + Sync + 'static) {
    check_random(scenario, SCHEDULES);
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
        let _counted = Counted(&self.now);
        self.most.fetch_max(now, Ordering::SeqCst);
        if number.is_multiple_of(2) {
            StepAside::default().await;
        }
        number
    }
}

/// One that runs, until it ends or is dropped.
struct Counted<'gauge>(&'gauge AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn counters_are_zero(queue: &Queue) {
    let counts = queue.counts();
    assert_eq!((counts.waiting, counts.running), (0, 0));
    assert_eq!(counts.added, counts.completed + counts.failed);
}

#[test]
fn several_producers_and_runners() {
    check(|| {
        let rig = Rig::new(2, 2);
        let producers: Vec<_> = (0..2)
            .map(|producer| {
                let queue = rig.queue.clone();
                let work: Vec<_> = (0..3).map(|number| rig.work(producer * 10 + number)).collect();
                thread::spawn(move || {
                    block_on(async {
                        let mut handles = Vec::new();
                        for work in work {
                            handles.push(queue.push(work).await.expect("it is open"));
                            assert!(queue.waiting() <= 2);
                        }
                        for (number, handle) in handles.into_iter().enumerate() {
                            assert_eq!(handle.await, Ok(producer * 10 + number));
                        }
                    });
                })
            })
            .collect();
        block_on(rig.queue.until_idle());
        for producer in producers {
            producer.join().expect("producers do not panic");
        }
        rig.ends(2);
    });
}

#[test]
fn handles_that_go_away() {
    check(|| {
        let rig = Rig::new(1, 100);
        let mut handles: Vec<_> = (0..4).map(|number| rig.queue.add(rig.work(number))).collect();
        let endless = rig.queue.add(std::future::pending::<()>());
        let kept = handles.split_off(2);
        let dropper = thread::spawn(move || drop((handles, endless)));
        for handle in kept {
            assert!(block_on(handle).is_ok());
        }
        dropper.join().expect("dropping does not panic");
        rig.ends(1);
    });
}

#[test]
fn a_token_that_is_cancelled_meanwhile() {
    check(|| {
        let (rig, token) = (Rig::new(1, 100), Token::new());
        let other = token.clone();
        let canceller = thread::spawn(move || other.cancel());
        let handles: Vec<_> =
            (0..2).map(|_| rig.queue.with().token(&token).add(std::future::pending::<()>())).collect();
        for handle in handles {
            assert_eq!(block_on(handle), Err(Error::Cancelled));
        }
        canceller.join().expect("cancelling does not panic");
        rig.ends(1);
    });
}

#[test]
fn a_token_that_is_cancelled_while_a_scope_runs() {
    check(|| {
        let (mut builder, token) = (Queue::builder(), Token::new());
        builder.settings = settings(1, 100);
        let other = token.clone();
        let canceller = thread::spawn(move || other.cancel());
        let scope = builder.scope(async |queue| {
            let handles: Vec<_> =
                (0..2).map(|_| queue.with().token(&token).add(std::future::pending::<()>())).collect();
            for handle in handles {
                assert_eq!(handle.await, Err(Error::Cancelled));
            }
        });
        block_on(scope).expect("the settings make sense");
        canceller.join().expect("cancelling does not panic");
    });
}

#[test]
fn a_queue_that_is_closed_while_others_wait_for_room() {
    check(|| {
        let rig = Rig::new(1, 1);
        let producers: Vec<_> = (0..3)
            .map(|number| {
                let (queue, work) = (rig.queue.clone(), rig.work(number));
                thread::spawn(move || {
                    block_on(async {
                        let Ok(handle) = queue.push(work).await else { return };
                        let result = handle.await;
                        assert!(result == Ok(number) || result == Err(Error::Closed));
                    });
                })
            })
            .collect();
        rig.queue.close();
        block_on(rig.queue.until_idle());
        for producer in producers {
            producer.join().expect("producers do not panic");
        }
        rig.ends(1);
    });
}

#[test]
fn pausing_changing_clearing_and_aborting_meanwhile() {
    check(|| {
        let rig = Rig::new(1, 100);
        let handles: Vec<_> =
            (0..4).map(|number| rig.queue.with().key("one").add(rig.work(number))).collect();
        let queue = rig.queue.clone();
        let meddler = thread::spawn(move || {
            queue.pause();
            queue.set_concurrency(3).expect("three is fine");
            queue.start();
            queue.clear();
            queue.abort();
        });
        for handle in handles {
            let result = block_on(handle);
            assert!(matches!(result, Ok(_) | Err(Error::Cleared | Error::Aborted)), "{result:?}");
        }
        meddler.join().expect("meddling does not panic");
        // Three might run at once, but they are all of one key.
        rig.ends(1);
    });
}

#[test]
fn the_last_owner_goes_away() {
    check(|| {
        let rig = Rig::new(2, 100);
        let handles: Vec<_> = (0..4).map(|number| rig.queue.add(rig.work(number))).collect();
        let other = rig.queue.clone();
        let dropper = thread::spawn(move || drop(other));
        drop(rig.queue);
        for (number, handle) in handles.into_iter().enumerate() {
            assert_eq!(block_on(handle), Ok(number));
        }
        dropper.join().expect("dropping does not panic");
        Rig::all_leave(&rig.runners);
    });
}

#[test]
fn runners_that_are_dropped() {
    check(|| {
        let shared = Shared::new(settings(2, 100), RunnerSource::driven());
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
            let poll = driven.source.poll_request(context);
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
    });
}

#[test]
fn what_is_posted_while_the_queue_closes_is_taken_in_or_given_back() {
    check(|| {
        for capacity in [usize::MAX, 2] {
            let rig = Rig::new(1, capacity);
            let (queue, work) = (rig.queue.clone(), [0, 1, 2].map(|number| rig.work(number)));
            let poster = thread::spawn(move || {
                let [first, second, third] = work;
                let tried = [queue.try_post(first), queue.try_post(second)].into_iter().flatten().count();
                tried + usize::from(block_on(queue.post(third)).is_ok())
            });
            rig.queue.close();
            let accepted = poster.join().expect("posting does not panic");
            assert_eq!(rig.queue.counts().added, accepted as u64, "what was accepted is in the queue");
            rig.ends(1);
        }
    });
}
