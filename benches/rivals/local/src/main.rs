//! Work that does nothing, through the in-process queue and through what else Rust has for bounded concurrency.
//! Prints one JSON object per measurement. `cargo xtask rivals-local` runs it, in turns with its like on Node.
//!
//! Everything runs on one thread, as on Node; `--threads` says otherwise.

mod others;
mod ours;

use std::pin::Pin;
use std::time::Instant;

use clap::Parser;
use tokio::runtime::{Builder, Runtime};

/// Work that does nothing, measured
#[derive(Parser)]
struct Arguments {
    /// How many pieces of work
    #[arg(long, default_value_t = 300_000)]
    units: u32,
    /// Only who and what contains this, as `windlass items, awaited`
    #[arg(long)]
    only: Option<String>,
    /// Only this concurrency
    #[arg(long)]
    concurrency: Option<usize>,
    /// Threads of the runtime; 1 is a runtime that has no others
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Once and without warming up or counting allocations, as for a profiler
    #[arg(long)]
    bare: bool,
}

/// Runs so many pieces of work at this concurrency.
type Run = fn(u32, usize) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Somebody who can do some work.
struct Entrant {
    who: &'static str,
    work: &'static str,
    run: Run,
}

macro_rules! entrant {
    ($who:literal, $work:literal, $run:path) => {
        Entrant { who: $who, work: $work, run: |units, concurrency| Box::pin($run(units, concurrency)) }
    };
}

/// Pieces of work that are handed in before anybody waits for them.
const WAVE: u32 = 1_000;

const ENTRANTS: [Entrant; 14] = [
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

fn runtime(threads: usize) -> Runtime {
    let mut builder =
        if threads > 1 { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    builder.worker_threads(threads).enable_all().build().expect("a runtime can be made")
}

/// Processor time of this thread so far, in nanoseconds, where the system tells.
fn processor_nanos() -> Option<f64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

fn main() {
    let arguments = Arguments::parse();
    let runtime = runtime(arguments.threads);
    let run = |entrant: &Entrant, units, concurrency| {
        let work = (entrant.run)(units, concurrency);
        if arguments.threads > 1 {
            runtime.block_on(async { tokio::spawn(work).await.expect("nothing panics") });
        } else {
            runtime.block_on(work);
        }
    };
    for entrant in &ENTRANTS {
        let name = format!("{}, {}", entrant.who, entrant.work);
        if arguments.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        for concurrency in [1, 10, 100] {
            if arguments.concurrency.is_some_and(|only| only != concurrency) {
                continue;
            }
            if arguments.bare {
                run(entrant, arguments.units, concurrency);
                continue;
            }
            run(entrant, WAVE * 10, concurrency);
            let (cpu, clock) = (processor_nanos(), Instant::now());
            run(entrant, arguments.units, concurrency);
            let units = f64::from(arguments.units);
            let rate = units / clock.elapsed().as_secs_f64();
            let nanos = cpu.zip(processor_nanos()).map(|(from, to)| (to - from) / units);
            let allocations = allocations(&|units| run(entrant, units, concurrency));
            let line = serde_json::json!({
                "who": entrant.who, "work": entrant.work, "concurrency": concurrency, "rate": rate,
                "nanos": nanos.filter(|_| arguments.threads == 1), "allocations": allocations,
            });
            println!("{line}");
        }
    }
}

/// Allocations per piece of work: what twice as many need more.
fn allocations(run: &dyn Fn(u32)) -> f64 {
    let count = |units| allocation_counter::measure(|| run(units)).count_total;
    let (once, twice) = (count(WAVE * 10), count(WAVE * 20));
    (twice.saturating_sub(once)) as f64 / f64::from(WAVE * 10)
}
