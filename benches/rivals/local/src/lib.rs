//! Work that does nothing, through the in-process queue and through what else Rust has for bounded concurrency: who
//! takes part. `rival-local` measures how fast they are, `allocations` what they allocate, which is a program of its
//! own because to count is to be slower.

mod others;
mod ours;

use std::pin::Pin;

use tokio::runtime::{Builder, Runtime};

/// Runs so many pieces of work at this concurrency.
type Run = fn(u32, usize) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// A library that can run work.
pub struct Entrant {
    pub who: &'static str,
    pub work: &'static str,
    run: Run,
}

macro_rules! entrant {
    ($who:literal, $work:literal, $run:path) => {
        Entrant { who: $who, work: $work, run: |units, concurrency| Box::pin($run(units, concurrency)) }
    };
}

/// Pieces of work that are handed in before any of them is waited for.
pub const WAVE: u32 = 1_000;

/// All who take part, each in what it can do.
pub const ENTRANTS: [Entrant; 14] = [
    entrant!("windlass items", "awaited", ours::items_awaited),
    entrant!("windlass futures", "awaited", ours::futures_awaited),
    entrant!("semaphore and spawn", "awaited", others::semaphore_awaited),
    entrant!("tower buffer and limit", "awaited", others::tower_awaited),
    entrant!("buffer_unordered", "awaited", others::buffered_awaited),
    entrant!("windlass items", "burst", ours::items_burst),
    entrant!("windlass futures", "burst", ours::futures_burst),
    entrant!("semaphore and spawn", "burst", others::semaphore_burst),
    entrant!("buffer_unordered", "burst", others::buffered_burst),
    entrant!("windlass items", "forgotten", ours::items_forgotten),
    entrant!("windlass futures", "forgotten", ours::futures_forgotten),
    entrant!("async-channel", "forgotten", others::async_channel_forgotten),
    entrant!("flume", "forgotten", others::flume_forgotten),
    entrant!("tokio mpsc, 1 consumer", "forgotten", others::mpsc_forgotten),
];

/// The work itself.
async fn nothing(number: u32) -> u32 {
    number
}

/// A runtime of so many threads; 1 is one that has no others.
pub fn runtime(threads: usize) -> Runtime {
    let mut builder = if threads > 1 { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    builder.worker_threads(threads).enable_all().build().expect("a runtime can be made")
}

impl Entrant {
    /// As `windlass items, awaited`.
    pub fn name(&self) -> String {
        format!("{}, {}", self.who, self.work)
    }

    /// Runs so many pieces of work at this concurrency: on the thread that calls, if there are no others.
    pub fn run(&self, runtime: &Runtime, units: u32, concurrency: usize) {
        let work = (self.run)(units, concurrency);
        if runtime.metrics().num_workers() > 1 {
            runtime.block_on(async { tokio::spawn(work).await.expect("nothing panics") });
        } else {
            runtime.block_on(work);
        }
    }
}
