//! How often each library allocates per piece of work: what twice as many need more. Prints one JSON object each.

use rival_local::{ENTRANTS, WAVE, runtime};

fn main() {
    let runtime = runtime(1);
    for entrant in &ENTRANTS {
        for concurrency in [1, 10, 100] {
            let count =
                |units| allocation_counter::measure(|| entrant.run(&runtime, units, concurrency)).count_total;
            // Warms up.
            count(WAVE * 10);
            let (once, twice) = (count(WAVE * 10), count(WAVE * 20));
            let allocations = twice.saturating_sub(once) as f64 / f64::from(WAVE * 10);
            let line = serde_json::json!({
                "who": entrant.who, "work": entrant.work, "concurrency": concurrency,
                "allocations": allocations,
            });
            println!("{line}");
        }
    }
}
