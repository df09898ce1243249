//! The model test: plays random operations on the reference and on the store under test, and compares every
//! answer and everything that can be seen after each step.
//!
//! A run is made from its seed alone, so a failure repeats: `WINDLASS_MODEL_SEED=7` plays only that seed.
//! Before it is reported, a failing run is shrunk to the operations that matter. The clock of the store
//! under test must stand still between two calls of [`Harness::advance`].

mod operation;
mod stage;
mod view;

use std::fmt;
use std::ops::Range;

use crate::Harness;
use operation::{Ids, Operation, script};
use stage::Stage;

/// The variable that names the only seed to play.
pub const SEED_VARIABLE: &str = "WINDLASS_MODEL_SEED";

/// A store that declares that it cannot keep this clause is played with ids that keep to one queue.
const IDS_CLAUSE: &str = "enqueue::an_id_is_taken_in_every_queue";

/// How often a failing run is played again to shrink it.
const SHRINK_RUNS: usize = 300;

/// Plays one run per seed, of so many operations each, and panics with a report at the first difference.
pub async fn check(harness: &impl Harness, seeds: Range<u64>, steps: usize) {
    let chosen = std::env::var(SEED_VARIABLE).ok().map(|text| {
        text.parse::<u64>()
            .unwrap_or_else(|_| panic!("{SEED_VARIABLE}={text:?} is not a seed: use a whole number"))
    });
    for seed in chosen.map_or(seeds, |seed| seed..seed.saturating_add(1)) {
        if let Some(difference) = find_difference(harness, seed, steps).await {
            panic!("{difference}");
        }
    }
}

/// Plays one run and answers the shrunken difference, if there is one.
pub async fn find_difference(harness: &impl Harness, seed: u64, steps: usize) -> Option<Difference> {
    let is_per_queue = harness.cannot().iter().any(|exception| exception.clause == IDS_CLAUSE);
    let operations = script(seed, steps, if is_per_queue { Ids::OfQueue } else { Ids::OfStore });
    let (step, what) = play(harness, &operations).await?;
    let found = Found { operations: operations[..=step].to_vec(), what };
    let Found { operations, what } = shrink(harness, found).await;
    Some(Difference { seed, operations: operations.iter().map(|each| format!("{each:?}")).collect(), what })
}

/// Two stores that were told the same and do not look the same.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The seed of the run.
    pub seed: u64,
    /// The operations that lead to it, the last one included.
    pub operations: Vec<String>,
    /// What differs.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the store differs from the reference (seed {}) after these operations:", self.seed)?;
        for (step, operation) in (1..).zip(&self.operations) {
            writeln!(f, "{step:4}. {operation}")?;
        }
        writeln!(f, "{}", self.what)?;
        write!(f, "play it again with {SEED_VARIABLE}={}", self.seed)
    }
}

struct Found {
    operations: Vec<Operation>,
    what: String,
}

/// Plays on two fresh stores until they differ; answers the step, and what differs.
async fn play(harness: &impl Harness, operations: &[Operation]) -> Option<(usize, String)> {
    let mut stage = Stage::set(harness).await;
    for (step, operation) in operations.iter().enumerate() {
        if let Err(what) = stage.play(operation).await {
            return Some((step, what));
        }
    }
    None
}

/// Leaves out operations, in large pieces first, as long as the stores still differ.
async fn shrink(harness: &impl Harness, mut found: Found) -> Found {
    let (mut piece, mut runs) = (found.operations.len() / 2, 0);
    while piece > 0 {
        let mut start = 0;
        while start < found.operations.len() && runs < SHRINK_RUNS {
            let end = (start + piece).min(found.operations.len());
            let mut fewer = found.operations.clone();
            fewer.drain(start..end);
            runs += 1;
            match play(harness, &fewer).await {
                Some((step, what)) => {
                    fewer.truncate(step + 1);
                    found = Found { operations: fewer, what };
                }
                None => start = end,
            }
        }
        piece /= 2;
    }
    found
}
