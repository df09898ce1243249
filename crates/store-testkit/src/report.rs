//! Running clauses: one as a test, or all of them at run time with a report.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;

use crate::clauses;
use crate::harness::{Exception, Harness};

/// What became of every clause.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Each clause as `part::clause`, in the order of the list.
    pub verdicts: Vec<(&'static str, Verdict)>,
}

/// What became of one clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The store keeps it.
    Kept,
    /// The store breaks it; what was seen.
    Broken(String),
    /// The harness says that it cannot be kept, and why.
    Skipped(&'static str),
}

impl Report {
    /// The clauses that were broken, and what was seen.
    pub fn broken(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.verdicts.iter().filter_map(|(clause, verdict)| match verdict {
            Verdict::Broken(what) => Some((*clause, what.as_str())),
            _ => None,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (clause, verdict) in &self.verdicts {
            match verdict {
                Verdict::Kept => writeln!(f, "kept     {clause}")?,
                Verdict::Broken(what) => writeln!(f, "BROKEN   {clause}: {what}")?,
                Verdict::Skipped(reason) => writeln!(f, "SKIPPED  {clause}: {reason}")?,
            }
        }
        Ok(())
    }
}

/// The longest that one clause may take.
const CLAUSE_MAX: Duration = Duration::from_secs(60);

/// Runs every clause, one after the other, and goes on after one that is broken.
pub async fn run_all(harness: &impl Harness) -> Report {
    let mut run = Run { report: Report::default(), cannot: harness.cannot() };
    macro_rules! run_clauses {
        (() $($part:ident { $($clause:ident)* })*) => {
            $($(
                let name = concat!(stringify!($part), "::", stringify!($clause));
                run.clause(name, Box::pin(clauses::$part::$clause(harness))).await;
            )*)*
        };
    }
    crate::for_each_clause! { (run_clauses) () }
    run.report
}

struct Run {
    report: Report,
    cannot: Vec<Exception>,
}

impl Run {
    async fn clause(&mut self, name: &'static str, clause: Pin<Box<dyn Future<Output = ()> + '_>>) {
        let verdict = match exception(&self.cannot, name) {
            Some(reason) => Verdict::Skipped(reason),
            None => judged(clause).await,
        };
        self.report.verdicts.push((name, verdict));
    }
}

async fn judged(clause: impl Future<Output = ()>) -> Verdict {
    match tokio::time::timeout(CLAUSE_MAX, AssertUnwindSafe(clause).catch_unwind()).await {
        Ok(Ok(())) => Verdict::Kept,
        Ok(Err(panic)) => Verdict::Broken(text(panic.as_ref())),
        Err(_) => Verdict::Broken(format!("not done after {CLAUSE_MAX:?}")),
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

fn exception(cannot: &[Exception], clause: &str) -> Option<&'static str> {
    cannot.iter().find(|exception| exception.clause == clause).map(|exception| exception.reason)
}

/// Says that something was not tested. Written past the capture of test output, so that it is seen.
pub(crate) fn say_skipped(what: &str, reason: &str) {
    // Nothing sensible is left to do when standard error is gone.
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}: {reason}");
}

/// What the tests that [`conformance!`](crate::conformance) makes call.
#[doc(hidden)]
pub mod attached {
    use super::{CLAUSE_MAX, Future, Harness, exception, say_skipped};
    use crate::{clauses, model};

    const MODEL_SEEDS: std::ops::Range<u64> = 0..24;
    const MODEL_STEPS: usize = 120;

    /// Runs one clause on a runtime of its own.
    pub fn clause<H: Harness>(
        name: &'static str,
        harness: impl Future<Output = H>,
        clause: impl AsyncFnOnce(&H),
    ) {
        on_runtime(async {
            let harness = harness.await;
            match exception(&harness.cannot(), name) {
                Some(reason) => say_skipped(name, reason),
                None => tokio::time::timeout(CLAUSE_MAX, clause(&harness))
                    .await
                    .unwrap_or_else(|_| panic!("{name} is not done after {CLAUSE_MAX:?}")),
            }
        });
    }

    /// Runs the model test on a runtime of its own.
    pub fn model<H: Harness>(harness: impl Future<Output = H>) {
        on_runtime(async {
            let harness = harness.await;
            match exception(&harness.cannot(), "model") {
                Some(reason) => say_skipped("model", reason),
                None => model::check(&harness, MODEL_SEEDS, MODEL_STEPS).await,
            }
        });
    }

    /// Fails when an exception names no clause, so that none outlives what it was made for.
    pub fn exceptions<H: Harness>(harness: impl Future<Output = H>) {
        on_runtime(async {
            for exception in harness.await.cannot() {
                let is_known = exception.clause == "model" || clauses::NAMES.contains(&exception.clause);
                assert!(is_known, "{:?} is not a clause", exception.clause);
            }
        });
    }

    fn on_runtime(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build();
        runtime.expect("a test may start threads").block_on(test);
    }
}
