//! How do I do many things at once, a few at a time, and get the results in order?

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass::local::{Queue, each};

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Takes longer for smaller numbers, so that they end in another order than they start in.
async fn fetch(page: u64) -> String {
    MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(60 - page * 10)).await;
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    assert_ne!(page, 4, "page 4 is torn");
    format!("page {page}")
}

#[tokio::main]
async fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let queue = Queue::new(3);
    let mut pages = queue.map(each(1..=6), fetch);
    let mut number = 0;
    while let Some(page) = pages.next().await {
        number += 1;
        match page {
            Ok(page) => println!("{number} of 6: {page}"),
            Err(error) => println!("{number} of 6: failed, {error}"),
        }
    }
    println!("{} at once at most", MOST.load(Ordering::SeqCst));

    // With what is only borrowed, and without spawning anything: everything runs right here.
    let words = ["one", "three", "five"].map(str::to_owned);
    let lengths = Queue::builder()
        .concurrency(2)
        .scope(async |queue| queue.add_all(words.iter().map(async |word| word.len())).await)
        .await;
    println!("{lengths:?}");
}
