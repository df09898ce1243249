//! How fast each library is. Prints one JSON object per measurement. `cargo xtask rivals-local` runs it, in turns with its
//! like on Node.
//!
//! Everything runs on one thread, as on Node; `--threads` says otherwise.

use std::time::Instant;

use clap::Parser;
use rival_local::{ENTRANTS, runtime};

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
    /// Once and without warming up, as for a profiler
    #[arg(long)]
    bare: bool,
}

/// Processor time of this thread so far, in nanoseconds, where the system tells.
fn processor_nanos() -> Option<f64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

fn main() {
    let arguments = Arguments::parse();
    let runtime = runtime(arguments.threads);
    for entrant in &ENTRANTS {
        if arguments.only.as_ref().is_some_and(|only| !entrant.name().contains(only.as_str())) {
            continue;
        }
        for concurrency in [1, 10, 100] {
            if arguments.concurrency.is_some_and(|only| only != concurrency) {
                continue;
            }
            if arguments.bare {
                entrant.run(&runtime, arguments.units, concurrency);
                continue;
            }
            entrant.run(&runtime, arguments.units, concurrency);
            let (cpu, clock) = (processor_nanos(), Instant::now());
            entrant.run(&runtime, arguments.units, concurrency);
            let units = f64::from(arguments.units);
            let rate = units / clock.elapsed().as_secs_f64();
            let nanos = cpu.zip(processor_nanos()).map(|(from, to)| (to - from) / units);
            let line = serde_json::json!({
                "who": entrant.who, "work": entrant.work, "concurrency": concurrency,
                "threads": arguments.threads, "rate": rate,
                "nanos": nanos.filter(|_| arguments.threads == 1),
            });
            println!("{line}");
        }
    }
}
