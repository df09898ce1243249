//! What people who know p-queue look for: one test per row of the table in the guide, named after the row.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use windlass_local::{ConfigError, Error, Event, Order, Queue, Rate, Token, Why, each};

const SECOND: Duration = Duration::from_secs(1);

/// A list that work writes its name into.
type Log = Arc<Mutex<Vec<u32>>>;

fn note(log: &Log, number: u32) -> impl Future<Output = u32> + Send + use<> {
    let log = Arc::clone(log);
    async move {
        log.lock().expect("no holder of the lock panics").push(number);
        number
    }
}

fn read(log: &Log) -> Vec<u32> {
    log.lock().expect("no holder of the lock panics").clone()
}

fn builder() -> windlass_local::Builder {
    Queue::builder()
}

#[tokio::test]
async fn option_concurrency_and_its_setter() {
    let queue = builder().concurrency(2).build().unwrap();
    let gate = Arc::new(Notify::new());
    let handles: Vec<_> = (0..8)
        .map(|_| {
            let gate = Arc::clone(&gate);
            queue.add(async move { gate.notified().await })
        })
        .collect();
    queue.until_size_below(7).await;
    assert_eq!((queue.concurrency(), queue.running(), queue.waiting()), (2, 2, 6));
    queue.set_concurrency(4).unwrap();
    queue.until_size_below(5).await;
    assert_eq!((queue.running(), queue.waiting()), (4, 4));
    queue.set_concurrency(1).unwrap();
    gate.notify_waiters();
    queue.until_size_below(4).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        (queue.running(), queue.waiting()),
        (1, 3),
        "those that end are not replaced until one is left"
    );
    while !queue.is_idle() {
        gate.notify_waiters();
        tokio::task::yield_now().await;
    }
    for handle in handles {
        handle.await.unwrap();
    }
    assert_eq!(queue.set_concurrency(0), Err(ConfigError::NoConcurrency));
    assert_eq!(builder().concurrency(0).build().err(), Some(ConfigError::NoConcurrency));
    assert_eq!(builder().build().unwrap().concurrency(), usize::MAX, "no limit unless told");
}

#[tokio::test(start_paused = true)]
async fn option_timeout_starts_with_the_work_and_has_a_setter() {
    let queue = builder().concurrency(1).timeout(SECOND).build().unwrap();
    let sleepy = |seconds| async move { tokio::time::sleep(SECOND * seconds).await };
    let slow = queue.add(sleepy(5));
    let patient = queue.with().timeout(SECOND * 3).add(sleepy(2));
    let quick = queue.add(async { 1 });
    let endless = queue.with().no_timeout().add(sleepy(60));
    assert_eq!(slow.await, Err(Error::TimedOut(SECOND)));
    assert_eq!(patient.await, Ok(()), "its own timeout counts, from its start");
    assert_eq!(quick.await, Ok(1), "waiting longer than the timeout is not running");
    assert_eq!(endless.await, Ok(()));
    queue.set_timeout(Some(SECOND * 9));
    assert_eq!(queue.timeout(), Some(SECOND * 9));
    assert_eq!(queue.add(sleepy(8)).await, Ok(()));
    queue.set_timeout(None);
    assert_eq!(queue.add(sleepy(100)).await, Ok(()));
}

#[tokio::test]
async fn option_auto_start() {
    let queue = builder().concurrency(1).paused().build().unwrap();
    let handle = queue.add(async { 1 });
    tokio::task::yield_now().await;
    assert!(queue.is_paused() && !handle.is_settled());
    queue.start();
    assert_eq!(handle.await, Ok(1));
}

#[tokio::test]
async fn option_queue_class_is_an_order_within_priorities() {
    let queue = builder().concurrency(1).paused().order(Order::NewestFirst).build().unwrap();
    let log = Log::default();
    let handles =
        [queue.add(note(&log, 1)), queue.add(note(&log, 2)), queue.with().priority(1).add(note(&log, 3))];
    queue.start();
    for handle in handles {
        handle.await.unwrap();
    }
    assert_eq!(read(&log), [3, 2, 1]);
}

/// Starts `count` pieces of work that take no time, and answers when each started, in milliseconds.
async fn starts(queue: &Queue, count: usize) -> Vec<u128> {
    let begin = Instant::now();
    let results = queue.add_all((0..count).map(|_| async move { begin.elapsed().as_millis() })).await;
    results.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(start_paused = true)]
async fn option_interval_cap() {
    let queue = builder().concurrency(10).rate(Rate::fixed(2, SECOND)).build().unwrap();
    assert_eq!(starts(&queue, 5).await, [0, 0, 1000, 1000, 2000]);
    assert_eq!(queue.rate(), Some(Rate::fixed(2, SECOND)));
    queue.set_rate(None).unwrap();
    assert_eq!(starts(&queue, 3).await, [0, 0, 0]);
    assert_eq!(builder().rate(Rate::fixed(0, SECOND)).build().err(), Some(ConfigError::NoRate));
    assert_eq!(builder().rate(Rate::fixed(1, Duration::ZERO)).build().err(), Some(ConfigError::NoInterval));
}

#[tokio::test(start_paused = true)]
async fn option_carryover_interval_count() {
    let long = |queue: &Queue| queue.add(tokio::time::sleep(Duration::from_millis(1_500)));
    for (rate, second) in [(Rate::fixed(1, SECOND), 1), (Rate::fixed(1, SECOND).carry_over(), 2)] {
        let queue = builder().rate(rate).build().unwrap();
        let begin = Instant::now();
        let first = long(&queue);
        let next = queue.add(async move { begin.elapsed().as_secs() });
        first.await.unwrap();
        assert_eq!(next.await, Ok(second), "what still runs counts only with carry-over");
    }
}

#[tokio::test(start_paused = true)]
async fn option_strict() {
    let queue = builder().rate(Rate::sliding(2, SECOND)).build().unwrap();
    assert_eq!(starts(&queue, 1).await, [0]);
    tokio::time::sleep(Duration::from_millis(900)).await;
    // A fixed window would end 100 ms from now and let two more in.
    assert_eq!(starts(&queue, 3).await, [0, 100, 1000]);
}

#[tokio::test(start_paused = true)]
async fn option_interval_may_be_longer_than_the_clock_counts() {
    for rate in [Rate::fixed(1, Duration::MAX), Rate::sliding(1, Duration::MAX)] {
        let queue = builder().rate(rate).build().unwrap();
        assert_eq!(starts(&queue, 1).await, [0]);
        let never = queue.add(async {});
        queue.until_rate_limited().await;
        assert!(!never.is_settled());
        queue.set_rate(None).unwrap();
        assert_eq!(never.await, Ok(()));
    }
}

#[tokio::test]
async fn add_with_priority_id_and_signal() {
    let queue = builder().concurrency(1).paused().build().unwrap();
    let (log, token) = (Log::default(), Token::new());
    let low = queue.with().priority(-1).add(note(&log, 1));
    let plain = queue.with().name("plain").add(note(&log, 2));
    let high = queue.with().priority(9).add(note(&log, 3));
    let gone = queue.with().priority(99).token(&token).add(note(&log, 4));
    assert_ne!(low.id(), high.id());
    assert_eq!(queue.list_waiting()[2].name.as_deref(), Some("plain"));
    token.cancel();
    assert_eq!(gone.await, Err(Error::Cancelled));
    assert_eq!(queue.with().token(&token).add(note(&log, 5)).await, Err(Error::Cancelled), "at once");
    queue.start();
    assert_eq!((low.await, plain.await, high.await), (Ok(1), Ok(2), Ok(3)));
    assert_eq!(read(&log), [3, 2, 1]);
}

#[tokio::test]
async fn signal_reaches_running_work_as_a_drop() {
    struct Tells(Option<oneshot::Sender<()>>);
    impl Drop for Tells {
        fn drop(&mut self) {
            let _ = self.0.take().unwrap().send(());
        }
    }
    let queue = Queue::new(1);
    let token = Token::new();
    let (sender, dropped) = oneshot::channel();
    let tells = Tells(Some(sender));
    let handle = queue.with().token(&token).add(async move {
        let _tells = tells;
        std::future::pending::<()>().await;
    });
    queue.until_empty().await;
    token.cancel();
    dropped.await.unwrap();
    assert_eq!(handle.await, Err(Error::Cancelled));
}

#[tokio::test]
async fn add_all_keeps_the_order() {
    let queue = builder().concurrency(3).capacity(2).build().unwrap();
    let work = |number: u32| async move {
        for _ in 0..(10 - number) {
            tokio::task::yield_now().await;
        }
        number
    };
    let results = queue.add_all((0..10).map(work)).await;
    assert_eq!(results, (0..10).map(Ok).collect::<Vec<_>>());
    let mut mapped = queue.map(each(0..10), work).ahead(4);
    for number in 0..10 {
        assert_eq!(mapped.next().await, Some(Ok(number)));
    }
    assert_eq!(mapped.next().await, None);
    let mut unordered = queue.map_unordered(each(0..10), work);
    let mut numbers = Vec::new();
    while let Some(number) = unordered.next().await {
        numbers.push(number.unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn set_priority_by_id() {
    let queue = builder().concurrency(1).paused().build().unwrap();
    let log = Log::default();
    let handles: Vec<_> = (0..4).map(|number| queue.add(note(&log, number))).collect();
    assert!(queue.set_priority(handles[3].id(), 5));
    assert!(handles[0].set_priority(-5));
    queue.start();
    queue.until_idle().await;
    assert_eq!(read(&log), [3, 1, 2, 0]);
    assert!(!queue.set_priority(handles[1].id(), 5), "it has run");
}

#[tokio::test]
async fn pause_start_is_paused() {
    let queue = Queue::new(1);
    let (go, gone) = oneshot::channel::<()>();
    let running = queue.add(gone);
    queue.until_empty().await;
    queue.pause();
    let waiting = queue.add(async { 1 });
    go.send(()).unwrap();
    assert!(running.await.unwrap().is_ok(), "what runs goes on");
    queue.until_none_running().await;
    assert!(queue.is_paused() && !waiting.is_settled());
    queue.start();
    assert_eq!(waiting.await, Ok(1));
}

#[tokio::test]
async fn clear_settles_what_it_drops() {
    let queue = builder().paused().build().unwrap();
    let handles: Vec<_> = (0..3).map(|number| queue.add(async move { number })).collect();
    assert_eq!(queue.clear(), 3);
    for handle in handles {
        assert_eq!(handle.await, Err(Error::Cleared));
    }
    assert!(queue.is_idle());
}

#[tokio::test]
async fn size_size_by_pending() {
    let queue = builder().concurrency(1).build().unwrap();
    let stop = queue.add(std::future::pending::<()>());
    queue.until_empty().await;
    let handles: Vec<_> = [0, 0, 7].map(|priority| queue.with().priority(priority).add(async {})).into();
    assert_eq!((queue.waiting(), queue.running()), (3, 1));
    assert_eq!(queue.waiting_by(|waiting| waiting.priority == 7), 1);
    stop.cancel();
    for handle in handles {
        handle.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn running_tasks() {
    let queue = Queue::new(2);
    let timed =
        queue.with().name("timed").priority(3).key("k").timeout(SECOND * 9).add(std::future::pending::<()>());
    let plain = queue.add(std::future::pending::<()>());
    queue.until_empty().await;
    tokio::time::sleep(SECOND * 2).await;
    let running = queue.list_running();
    assert_eq!((running[0].id, running[1].id), (timed.id(), plain.id()));
    assert_eq!((running[0].name.as_deref(), running[0].key.as_deref()), (Some("timed"), Some("k")));
    assert_eq!((running[0].age, running[0].timeout, running[0].priority), (SECOND * 2, Some(SECOND * 9), 3));
    assert_eq!((running[0].remaining(), running[1].remaining()), (Some(SECOND * 7), None));
    assert_eq!(running[1].age, SECOND * 2);
}

#[tokio::test(start_paused = true)]
async fn is_rate_limited_and_is_saturated() {
    let queue = builder().concurrency(1).rate(Rate::fixed(1, SECOND)).build().unwrap();
    assert!(!queue.is_rate_limited() && !queue.is_saturated());
    queue.add(async {}).await.unwrap();
    let next = queue.add(async {});
    queue.until_rate_limited().await;
    assert!(queue.is_rate_limited() && queue.is_saturated());
    next.await.unwrap();
    assert!(!queue.is_rate_limited() && !queue.is_saturated());
    let long = queue.add(tokio::time::sleep(SECOND * 5));
    queue.until_empty().await;
    let waits = queue.add(async {});
    assert!(queue.is_saturated(), "every slot is taken and something waits");
    long.await.unwrap();
    waits.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn on_empty_on_idle_on_pending_zero_on_size_less_than() {
    let queue = Queue::new(1);
    queue.until_empty().await;
    queue.until_idle().await;
    let begin = Instant::now();
    for _ in 0..4 {
        queue.try_post(async { tokio::time::sleep(SECOND).await }).unwrap();
    }
    let seconds = || begin.elapsed().as_secs();
    queue.until_size_below(2).await;
    assert_eq!(seconds(), 2);
    queue.until_empty().await;
    assert_eq!(seconds(), 3);
    queue.until_idle().await;
    assert_eq!(seconds(), 4);
    queue.try_post(async { tokio::time::sleep(SECOND).await }).unwrap();
    queue.until_empty().await;
    queue.pause();
    queue.try_post(async {}).unwrap();
    queue.until_none_running().await;
    assert_eq!((queue.running(), queue.waiting()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn on_rate_limit_on_rate_limit_cleared() {
    let queue = builder().rate(Rate::fixed(1, SECOND)).build().unwrap();
    queue.until_rate_cleared().await;
    let begin = Instant::now();
    queue.try_post(async {}).unwrap();
    queue.try_post(async {}).unwrap();
    queue.until_rate_limited().await;
    assert_eq!(begin.elapsed().as_secs(), 0);
    queue.until_rate_cleared().await;
    assert_eq!(begin.elapsed().as_secs(), 1);
}

#[tokio::test]
async fn on_error() {
    let queue = Queue::new(1);
    let (failure, id) = tokio::join!(queue.until_failure(), async {
        tokio::task::yield_now().await;
        queue.add(async {}).await.unwrap();
        let bad = queue.add_fallible(async { Err::<(), _>("no") });
        let id = bad.id();
        assert_eq!(bad.await, Ok(Err("no")));
        id
    });
    let failure = failure.expect("one has failed");
    assert_eq!((failure.id, failure.why), (id, Why::Own));
    let counts = queue.counts();
    assert_eq!((counts.added, counts.completed, counts.failed), (2, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn events_active_completed_error_empty_idle_pending_zero_add_next() {
    let queue = builder().concurrency(1).build().unwrap();
    let mut events = queue.events();
    let good = queue.add(async {});
    let bad = queue.add(async { panic!("on purpose") });
    let ids = (good.id(), bad.id());
    good.await.unwrap();
    assert_eq!(bad.await, Err(Error::Panicked("on purpose".into())));
    queue.close();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event);
    }
    assert_eq!(
        seen,
        [
            Event::Added(ids.0),
            Event::Added(ids.1),
            Event::Saturated,
            Event::Started(ids.0),
            Event::Completed(ids.0),
            Event::NoneRunning,
            Event::Started(ids.1),
            Event::Empty,
            Event::Failed(ids.1, Why::Panicked),
            Event::NoneRunning,
            Event::Idle,
            Event::Closed,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn events_rate_limit_rate_limit_cleared() {
    let queue = builder().rate(Rate::fixed(1, SECOND)).build().unwrap();
    let mut events = queue.events();
    queue.add_all((0..2).map(|_| async {})).await;
    queue.close();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        if matches!(event, Event::RateLimited | Event::RateCleared) {
            seen.push(event);
        }
    }
    assert_eq!(seen, [Event::RateLimited, Event::RateCleared]);
}

#[tokio::test]
async fn signals_of_their_own_do_not_look_at_one_another() {
    let queue = builder().paused().build().unwrap();
    let tokens: Vec<_> = (0..40_000).map(|_| Token::new()).collect();
    let handles: Vec<_> = tokens.iter().map(|token| queue.with().token(token).add(async {})).collect();
    let begin = std::time::Instant::now();
    tokens.iter().for_each(Token::cancel);
    assert!(begin.elapsed().as_secs() < 10, "{:?} for what takes a fraction of one", begin.elapsed());
    for handle in handles {
        assert_eq!(handle.await, Err(Error::Cancelled));
    }
}
