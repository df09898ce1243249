//! When a batch starts. The clock is tokio's, paused: it moves only when nothing else can.

use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, advance, timeout};

use super::*;

const LINGER: Duration = Duration::from_secs(10);

type Numbers = Arc<Collector<&'static str, u32>>;

fn collector(up_to: usize) -> (Numbers, UnboundedReceiver<Vec<u32>>) {
    let (sender, started) = mpsc::unbounded_channel();
    let start = move |items| sender.send(items).unwrap();
    (Collector::new(Config { up_to, linger: LINGER }, start), started)
}

fn add(collector: &Numbers, key: &'static str, items: impl IntoIterator<Item = u32>) {
    items.into_iter().for_each(|item| assert!(collector.add(key, || item)));
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_starts_at_once() {
    let (collector, mut started) = collector(3);
    add(&collector, "a", 1..=7);
    assert_eq!(started.try_recv(), Ok(vec![1, 2, 3]));
    assert_eq!(started.try_recv(), Ok(vec![4, 5, 6]));
    assert!(started.try_recv().is_err(), "the rest waits for company");
}

#[tokio::test(start_paused = true)]
async fn the_first_item_waits_for_its_linger_and_no_longer() {
    let (collector, mut started) = collector(3);
    let began = Instant::now();
    add(&collector, "a", [1]);
    tokio::task::yield_now().await;
    advance(LINGER / 2).await;
    add(&collector, "a", [2]);
    assert_eq!(started.recv().await, Some(vec![1, 2]));
    let waited = began.elapsed();
    assert!(waited >= LINGER && waited < LINGER + Duration::from_millis(10), "{waited:?}");

    let began = Instant::now();
    add(&collector, "a", [3]);
    assert_eq!(started.recv().await, Some(vec![3]));
    assert!(began.elapsed() >= LINGER, "the next batch has a linger of its own");
}

#[tokio::test(start_paused = true)]
async fn the_linger_of_a_batch_that_was_full_is_not_the_next_ones() {
    let (collector, mut started) = collector(2);
    add(&collector, "a", [1]);
    tokio::task::yield_now().await;
    advance(LINGER / 2).await;
    add(&collector, "a", [2, 3]);
    assert_eq!(started.try_recv(), Ok(vec![1, 2]));
    assert!(timeout(LINGER * 3 / 4, started.recv()).await.is_err(), "its own is not over");
    assert_eq!(started.recv().await, Some(vec![3]));
}

#[tokio::test(start_paused = true)]
async fn keys_are_kept_apart() {
    let (collector, mut started) = collector(2);
    add(&collector, "a", [1]);
    add(&collector, "b", [2]);
    add(&collector, "a", [3]);
    assert_eq!(started.try_recv(), Ok(vec![1, 3]));
    assert_eq!(started.recv().await, Some(vec![2]));
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_when_no_more_can_come() {
    let (collector, mut started) = collector(5);
    add(&collector, "a", [1]);
    add(&collector, "b", [2]);
    collector.flush();
    let mut batches = vec![started.try_recv().unwrap(), started.try_recv().unwrap()];
    batches.sort();
    assert_eq!(batches, [[1], [2]]);
    assert!(timeout(2 * LINGER, started.recv()).await.is_err(), "each starts once");
}

#[tokio::test(start_paused = true)]
async fn an_item_that_leaves_is_not_counted() {
    let (collector, mut started) = collector(2);
    add(&collector, "a", [1]);
    assert_eq!(collector.remove(|item| *item == 1), Some(1));
    assert_eq!(collector.remove(|item| *item == 1), None);
    add(&collector, "a", [2]);
    assert!(started.try_recv().is_err());
    add(&collector, "a", [3]);
    assert_eq!(started.try_recv(), Ok(vec![2, 3]));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_closed_gives_everything_back() {
    let (collector, mut started) = collector(2);
    add(&collector, "a", [1]);
    add(&collector, "b", [2]);
    let mut back = collector.close();
    back.sort_unstable();
    assert_eq!(back, [1, 2]);
    assert!(!collector.add("a", || 3));
    assert!(timeout(2 * LINGER, started.recv()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn batches_of_one_do_not_wait_and_set_no_timer() {
    let (collector, mut started) = collector(1);
    add(&collector, "a", [1, 2]);
    assert_eq!(started.try_recv(), Ok(vec![1]));
    assert_eq!(started.try_recv(), Ok(vec![2]));
    let metrics = tokio::runtime::Handle::current().metrics();
    assert_eq!(metrics.num_alive_tasks(), 0);
}
