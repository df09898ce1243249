//! What people who know fastq look for: one test per row of the table in the guide, named after the row.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_local::{ConfigError, Error, Event, Item, Queue, Refused, Why};

const SECOND: Duration = Duration::from_secs(1);

type Numbers = Queue<Item<u32, u32>>;

/// A paused queue of one slot, whose handler writes down what it gets.
fn paused() -> (Numbers, Arc<Mutex<Vec<u32>>>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&log);
    let handler = move |number: u32| {
        kept.lock().unwrap().push(number);
        async move { number * 2 }
    };
    (Queue::builder().concurrency(1).paused().handle(handler).unwrap(), log)
}

#[tokio::test]
async fn worker_and_concurrency() {
    let gate = Arc::new(Notify::new());
    let kept = Arc::clone(&gate);
    let handler = move |number: u32| {
        let gate = Arc::clone(&kept);
        async move {
            gate.notified().await;
            number
        }
    };
    let queue = Queue::builder().concurrency(2).handle(handler).unwrap();
    let handles: Vec<_> = (0..4).map(|number| queue.add(number)).collect();
    queue.until_size_below(3).await;
    assert_eq!((queue.running(), queue.waiting(), queue.concurrency()), (2, 2, 2));
    queue.set_concurrency(4).unwrap();
    queue.until_empty().await;
    gate.notify_waiters();
    for (number, handle) in (0..).zip(handles) {
        assert_eq!(handle.await, Ok(number));
    }
    let nothing = Queue::builder().concurrency(0).handle(|(): ()| async {});
    assert_eq!(nothing.err(), Some(ConfigError::NoConcurrency));
}

#[tokio::test]
async fn promise_and_rejections_that_are_not_handled() {
    let handler = |number: u32| async move { if number == 0 { Err("zero") } else { Ok(number) } };
    let queue = Queue::builder().concurrency(1).handle_fallible(handler).unwrap();
    assert_eq!(queue.add(1).await, Ok(Ok(1)));
    assert_eq!(queue.add(0).await, Ok(Err("zero")));
    queue.add(0).detach();
    queue.try_post(0).unwrap();
    queue.until_idle().await;
    assert_eq!((queue.counts().completed, queue.counts().failed), (1, 3));
}

#[tokio::test]
async fn push_and_unshift() {
    let (queue, log) = paused();
    for number in [1, 2] {
        queue.try_post(number).unwrap();
    }
    queue.with().front().try_post(3).unwrap();
    queue.with().front().try_post(4).unwrap();
    queue.start();
    queue.until_idle().await;
    assert_eq!(*log.lock().unwrap(), [4, 3, 1, 2]);
}

#[tokio::test]
async fn pause_resume_paused() {
    let (queue, log) = paused();
    let handle = queue.add(1);
    tokio::task::yield_now().await;
    assert!(queue.is_paused() && log.lock().unwrap().is_empty());
    queue.start();
    assert_eq!(handle.await, Ok(2));
    assert!(!queue.is_paused());
}

#[tokio::test]
async fn running_length_get_queue_idle() {
    let (queue, _log) = paused();
    assert!(queue.is_idle());
    let handles = [queue.add(1), queue.add(2)];
    assert_eq!((queue.running(), queue.waiting()), (0, 2));
    let ids: Vec<_> = queue.list_waiting().iter().map(|waiting| waiting.id).collect();
    assert_eq!(ids, [handles[0].id(), handles[1].id()]);
    assert!(!queue.is_idle());
    queue.start();
    for handle in handles {
        handle.await.unwrap();
    }
}

#[tokio::test]
async fn kill_and_kill_and_drain() {
    let (queue, log) = paused();
    let handle = queue.add(1);
    let mut events = queue.events();
    assert_eq!(queue.clear(), 1);
    assert_eq!(handle.await, Err(Error::Cleared));
    assert!(matches!(events.next().await, Some(Event::Failed(_, Why::Cleared))));
    assert_eq!(events.next().await, Some(Event::Empty));
    assert_eq!(events.next().await, Some(Event::Idle), "the drain is told once");
    queue.start();
    assert_eq!(queue.add(5).await, Ok(10), "the queue goes on");
    assert_eq!(*log.lock().unwrap(), [5]);
}

#[tokio::test]
async fn abort_ends_what_waits_and_what_runs() {
    let queue = Queue::builder().concurrency(1).handle(|(): ()| std::future::pending::<()>()).unwrap();
    let (running, waiting) = (queue.add(()), queue.add(()));
    queue.until_size_below(2).await;
    assert_eq!(queue.abort(), 2);
    assert_eq!(waiting.await, Err(Error::Aborted));
    assert_eq!(running.await, Err(Error::Aborted));
    queue.until_idle().await;
    assert!(!queue.is_closed());
}

#[tokio::test]
async fn error_is_told_after_every_piece_of_work() {
    let handler = |number: u32| async move { if number == 1 { Err(()) } else { Ok(()) } };
    let queue = Queue::builder().concurrency(1).handle_fallible(handler).unwrap();
    let mut events = queue.events();
    for number in 0..3 {
        queue.try_post(number).unwrap();
    }
    queue.close();
    let mut ends = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Completed(_) => ends.push(None),
            Event::Failed(_, why) => ends.push(Some(why)),
            _ => {}
        }
    }
    assert_eq!(ends, [None, Some(Why::Own), None]);
}

#[tokio::test(start_paused = true)]
async fn drain_empty_saturated_drained() {
    let queue = Queue::builder().concurrency(1).handle(|(): ()| tokio::time::sleep(SECOND)).unwrap();
    let mut events = queue.events();
    queue.try_post(()).unwrap();
    queue.until_empty().await;
    queue.try_post(()).unwrap();
    queue.try_post(()).unwrap();
    queue.until_idle().await;
    queue.until_idle().await;
    queue.close();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        if matches!(event, Event::Saturated | Event::Empty | Event::Idle) {
            seen.push(event);
        }
    }
    assert_eq!(seen, [Event::Empty, Event::Saturated, Event::Empty, Event::Idle]);
}

/// Neither has these; the guide lists them after the rows above.
#[tokio::test]
async fn beyond_both_capacity_sheds_and_waits_in_turn() {
    let queue =
        Queue::builder().concurrency(1).capacity(2).paused().handle(|n: u32| async move { n }).unwrap();
    let first = queue.try_push(1).unwrap();
    let second = queue.push(2).await.unwrap();
    assert!(matches!(queue.try_push(3), Err(Refused::Full(3))));
    assert_eq!(queue.add(3).await, Err(Error::Full));
    assert_eq!(queue.capacity(), Some(2));
    let (third, fourth, ()) = tokio::join!(queue.push(3), queue.push(4), async {
        tokio::task::yield_now().await;
        assert!(matches!(queue.try_push(5), Err(Refused::Full(5))), "no caller overtakes those that wait");
        queue.start();
    });
    assert_eq!((first.await, second.await), (Ok(1), Ok(2)));
    assert_eq!((third.unwrap().await, fourth.unwrap().await), (Ok(3), Ok(4)));
    queue.close();
    assert!(matches!(queue.push(6).await, Err(Refused::Closed(6))));
    assert!(matches!(queue.try_post(6), Err(Refused::Closed(6))));
}

#[tokio::test]
async fn beyond_both_watermarks() {
    let queue =
        Queue::builder().concurrency(1).watermarks(1, 3).paused().handle(|n: u32| async move { n }).unwrap();
    let mut events = queue.events();
    for number in 0..3 {
        assert!(queue.is_open());
        queue.try_post(number).unwrap();
    }
    assert!(!queue.is_open());
    queue.start();
    queue.until_open().await;
    assert!(queue.waiting() <= 1);
    queue.close();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        if matches!(event, Event::HighWater | Event::LowWater) {
            seen.push(event);
        }
    }
    assert_eq!(seen, [Event::HighWater, Event::LowWater]);
    let upside_down = Queue::builder().watermarks(3, 3).build();
    assert_eq!(upside_down.err(), Some(ConfigError::Watermarks { low: 3, high: 3 }));
    let out_of_reach = Queue::builder().capacity(4).watermarks(1, 5).build();
    assert_eq!(out_of_reach.err(), Some(ConfigError::HighWatermark { high: 5, capacity: 4 }));
}

#[tokio::test]
async fn beyond_both_limits_per_key() {
    let running = Arc::new(Mutex::new(Vec::new()));
    let queue = Queue::builder().concurrency(10).per_key(1).build().unwrap();
    let work = |key: &'static str, number: u32| {
        let running = Arc::clone(&running);
        queue.with().key(key).add(async move {
            running.lock().unwrap().push((key, number));
            tokio::task::yield_now().await;
            number
        })
    };
    let handles = [work("a", 1), work("a", 2), work("b", 3), work("a", 4), work("b", 5)];
    queue.until_idle().await;
    for handle in handles {
        handle.await.unwrap();
    }
    let of =
        |key| running.lock().unwrap().iter().filter(|(k, _)| *k == key).map(|(_, n)| *n).collect::<Vec<_>>();
    assert_eq!((of("a"), of("b")), (vec![1, 2, 4], vec![3, 5]));
    assert_eq!(running.lock().unwrap()[1], ("b", 3), "another key does not wait");
}

#[tokio::test]
async fn beyond_both_what_a_key_held_back_goes_before_what_came_later() {
    let queue = Queue::builder().concurrency(2).per_key(1).build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let add = |key: &'static str, name: &'static str| {
        let (order, gate) = (Arc::clone(&order), Arc::new(Notify::new()));
        let open = Arc::clone(&gate);
        let handle = queue.with().key(key).add(async move {
            order.lock().unwrap().push(name);
            gate.notified().await;
        });
        (handle, open)
    };
    let mut work =
        [add("a", "a1"), add("b", "b1"), add("a", "a2"), add("c", "c1"), add("d", "d1")].into_iter();
    queue.until_size_below(4).await;
    let (a1, open_a1) = work.next().unwrap();
    let (b1, open_b1) = work.next().unwrap();
    open_b1.notify_one();
    b1.await.unwrap();
    queue.until_size_below(3).await;
    assert_eq!(*order.lock().unwrap(), ["a1", "b1", "c1"], "a2 is held back, and c1 does not wait for it");
    open_a1.notify_one();
    a1.await.unwrap();
    queue.until_size_below(2).await;
    for (_, open) in work.as_slice() {
        open.notify_one();
    }
    queue.until_idle().await;
    assert_eq!(*order.lock().unwrap(), ["a1", "b1", "c1", "a2", "d1"]);
}

#[tokio::test]
async fn beyond_both_an_error_in_a_scope_counts_as_a_failure() {
    let text = "no".to_owned();
    let scope = Queue::builder().concurrency(1).scope(async |queue| {
        let work = queue.add_fallible(async { Err::<(), _>(&text) });
        (work.await, queue.counts().failed)
    });
    assert_eq!(scope.await.unwrap(), (Ok(Err(&text)), 1));
}
