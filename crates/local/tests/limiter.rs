//! Limiters: how many, when, in which order, and without drift.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use windlass_local::{ConfigError, LimitError, SlidingWindow, TokenBucket};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_bucket_bursts_then_flows() {
    let bucket = TokenBucket::new(10, SECOND, 5).unwrap();
    let begin = Instant::now();
    let mut times = Vec::new();
    for _ in 0..8 {
        bucket.acquire(1).await.unwrap();
        times.push(begin.elapsed().as_millis());
    }
    assert_eq!(times, [0, 0, 0, 0, 0, 100, 200, 300]);
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(bucket.try_acquire(5), Ok(()), "it holds no more than the burst");
    assert_eq!(bucket.try_acquire(2), Err(LimitError::Later(SECOND / 5)));
    assert_eq!(bucket.try_acquire(6), Err(LimitError::Never { asked: 6, most: 5 }));
    assert_eq!(bucket.acquire(6).await, Err(LimitError::Never { asked: 6, most: 5 }));
}

#[tokio::test(start_paused = true)]
async fn a_bucket_does_not_drift() {
    // A third of a millisecond each: neither the timer nor whole nanoseconds can tell them apart.
    let bucket = TokenBucket::new(3_000, SECOND, 1).unwrap();
    let begin = Instant::now();
    for _ in 0..30_000 {
        bucket.acquire(1).await.unwrap();
    }
    let late = begin.elapsed().saturating_sub(SECOND * 10);
    assert!(late < Duration::from_millis(3), "{late:?} late after 10 s");
    let early = (SECOND * 10).saturating_sub(begin.elapsed());
    assert!(early < Duration::from_millis(3), "{early:?} early after 10 s");
}

#[tokio::test(start_paused = true)]
async fn a_window_never_has_more() {
    let window = SlidingWindow::new(3, SECOND).unwrap();
    let begin = Instant::now();
    let mut times = Vec::new();
    window.acquire(1).await.unwrap();
    tokio::time::sleep(SECOND * 9 / 10).await;
    for _ in 0..5 {
        window.acquire(1).await.unwrap();
        times.push(begin.elapsed().as_millis());
    }
    assert_eq!(times, [900, 900, 1000, 1900, 1900]);
    assert_eq!(window.try_acquire(1), Err(LimitError::Later(SECOND / 10)));
    window.acquire(3).await.unwrap();
    assert_eq!(begin.elapsed().as_millis(), 2900, "three at once need an empty window");
    assert_eq!(window.try_acquire(4), Err(LimitError::Never { asked: 4, most: 3 }));
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_served_in_turn_and_not_overtaken() {
    let bucket = Arc::new(TokenBucket::new(1, SECOND, 4).unwrap());
    bucket.acquire(4).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for (name, count) in [("big", 4), ("small", 1), ("gone", 1), ("last", 1)] {
        let (bucket, order) = (Arc::clone(&bucket), Arc::clone(&order));
        waiters.push(tokio::spawn(async move {
            bucket.acquire(count).await.unwrap();
            order.lock().unwrap().push(name);
        }));
        tokio::task::yield_now().await;
    }
    waiters.remove(2).abort();
    tokio::time::sleep(SECOND * 2).await;
    assert!(matches!(bucket.try_acquire(1), Err(LimitError::Later(_))), "two are there, and promised");
    let begin = Instant::now();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), ["big", "small", "last"]);
    assert_eq!(begin.elapsed(), SECOND * 4, "who went away took nothing");
}

#[tokio::test(start_paused = true)]
async fn numbers_and_intervals_may_be_as_big_as_their_types() {
    let window = SlidingWindow::new(u32::MAX, SECOND).unwrap();
    assert_eq!(window.try_acquire(u32::MAX), Ok(()));
    assert_eq!(window.try_acquire(u32::MAX), Err(LimitError::Later(SECOND)));
    assert_eq!(window.acquire(u32::MAX).await, Ok(()));
    assert_eq!(window.try_acquire(1), Err(LimitError::Later(SECOND)));
    let window = SlidingWindow::new(1, Duration::MAX).unwrap();
    assert_eq!(window.try_acquire(1), Ok(()));
    assert!(matches!(window.try_acquire(1), Err(LimitError::Later(_))));
    let bucket = TokenBucket::new(1, Duration::MAX, u32::MAX).unwrap();
    assert_eq!(bucket.try_acquire(u32::MAX), Ok(()));
    assert!(matches!(bucket.try_acquire(u32::MAX), Err(LimitError::Later(_))));
}

#[tokio::test]
async fn limits_that_make_no_sense() {
    assert_eq!(TokenBucket::new(0, SECOND, 1).err(), Some(ConfigError::NoRate));
    assert_eq!(TokenBucket::new(1, SECOND, 0).err(), Some(ConfigError::NoRate));
    assert_eq!(TokenBucket::new(1, Duration::ZERO, 1).err(), Some(ConfigError::NoInterval));
    assert_eq!(SlidingWindow::new(0, SECOND).err(), Some(ConfigError::NoRate));
    assert_eq!(SlidingWindow::new(1, Duration::ZERO).err(), Some(ConfigError::NoInterval));
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_was_not_asked_for_a_moment_holds_no_more_than_the_burst() {
    let bucket = TokenBucket::new(1_000, SECOND, 1).unwrap();
    bucket.acquire(1).await.unwrap();
    bucket.acquire(1).await.unwrap();
    // The caller that waited was there in time, so nothing is owed.
    tokio::time::advance(Duration::from_millis(40)).await;
    let taken = (0..100).filter(|_| bucket.try_acquire(1).is_ok()).count();
    assert!(taken <= 2, "{taken} at once, where the burst is 1 and timers are late by 1 ms");
}

#[test]
fn those_who_try_at_the_same_time_are_not_refused_what_is_there() {
    const EACH: u32 = 20_000;
    let window = SlidingWindow::new(EACH * 4, SECOND * 3_600).unwrap();
    let begin = std::sync::Barrier::new(4);
    let refused: u32 = std::thread::scope(|scope| {
        let attempts = || {
            begin.wait();
            (0..EACH).map(|_| u32::from(window.try_acquire(1).is_err())).sum::<u32>()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(attempts)).collect();
        threads.into_iter().map(|thread| thread.join().expect("nothing panics")).sum()
    });
    assert_eq!(refused, 0, "there was one for each, and no caller waited");
}
