//! For how long the in-process queue holds its lock. A burst of work stands in the queue; a thread of its own asks the
//! queue again and again while the burst is run, and the longest answer is what a caller waits at most. A burst
//! without keys shows what the machine itself adds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use windlass::local::Queue;

const BURSTS: [usize; 3] = [10_000, 100_000, 1_000_000];
/// The machine's own pauses are in some rounds and not in others; the lock would be in all of them.
const ROUNDS: usize = 5;

/// Prints the longest wait of each kind of burst: the smallest of the rounds' longest ones.
pub(crate) async fn measure() -> Result<()> {
    for burst in BURSTS {
        let (mut keyed, mut plain) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            keyed = keyed.min(longest_wait(burst, true).await?);
            plain = plain.min(longest_wait(burst, false).await?);
        }
        println!("{burst:>9} of one key, one at a time: longest wait {keyed:?}; without keys {plain:?}");
    }
    Ok(())
}

async fn longest_wait(burst: usize, is_keyed: bool) -> Result<Duration> {
    let queue = Queue::builder().concurrency(8).per_key(1).paused().build()?;
    for _ in 0..burst {
        let with = queue.with();
        let with = if is_keyed { with.key("one") } else { with };
        with.try_post(async {}).map_err(|_| anyhow::anyhow!("the queue is full"))?;
    }
    let is_done = Arc::new(AtomicBool::new(false));
    let asking = std::thread::spawn({
        let (queue, is_done) = (queue.clone(), Arc::clone(&is_done));
        move || {
            let mut longest = Duration::ZERO;
            while !is_done.load(Ordering::Relaxed) {
                let since = Instant::now();
                queue.running();
                longest = longest.max(since.elapsed());
            }
            longest
        }
    });
    queue.start();
    queue.until_idle().await;
    is_done.store(true, Ordering::Relaxed);
    asking.join().map_err(|_| anyhow::anyhow!("the thread that asks has panicked"))
}
