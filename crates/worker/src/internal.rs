//! Kinds that the engine runs itself, beside those that a worker has handlers for. They begin with `windlass.`, live in the
//! queue that they are about, and are run by every worker that serves it, unless it is told otherwise. Layers of the worker are
//! not put around them, and lists show them only if they are asked for by name.

use windlass_core::Name;

use crate::registry::Run;
use crate::schedules;

/// Whether a worker runs the kinds of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Internal {
    /// It does.
    On,
    /// It leaves them to other workers of its queues.
    Off,
}

/// The kinds of the engine, and what runs each.
pub(crate) fn runs() -> impl Iterator<Item = (Name, Run)> {
    [(schedules::TICK, schedules::tick_run())]
        .into_iter()
        .map(|(kind, run)| (Name::new(kind).expect("a kind of the engine is a name"), run))
}
