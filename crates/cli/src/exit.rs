//! How the command ends: its exit codes, and which error leads to which. The table is part of `--help` and of
//! `docs/operations/cli.md`.

use std::io;
use std::process::ExitCode;

use thiserror::Error;
use windlass_core::{StoreError, StoreErrorKind};

/// What the shell gets to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// It failed, or some job was refused, or there are warnings where none should be.
    Failed,
    /// The command line or the payload makes no sense.
    Usage,
    /// The store was examined, and has problems.
    Problems,
    /// The store is missing, unreachable or incompatible.
    Store,
    /// No such job, record, schedule, calendar or flow.
    NotFound,
    /// The job that was waited for was cancelled.
    Cancelled,
    /// The job that was waited for has not ended in time.
    TimedOut,
    /// Ended by Ctrl-C.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage | Exit::Problems => 2,
            Exit::Store => 3,
            Exit::NotFound => 4,
            Exit::Cancelled => 5,
            Exit::TimedOut => 6,
            Exit::Interrupted => 130,
        })
    }
}

/// An error of the command itself, with the exit code that it leads to.
#[derive(Debug, Error)]
#[error("{text}")]
pub(crate) struct Fault {
    exit: Exit,
    text: String,
}

impl Fault {
    /// Something that was typed makes no sense.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, text: text.into() }
    }

    /// The store cannot be used.
    pub(crate) fn store(text: impl Into<String>) -> Self {
        Self { exit: Exit::Store, text: text.into() }
    }

    /// What was asked for is not there.
    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self { exit: Exit::NotFound, text: text.into() }
    }

    /// It could not be done.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, text: text.into() }
    }
}

/// The exit code of an error; nothing for a closed pipe, whose reader has seen enough.
pub(crate) fn of(error: &anyhow::Error) -> Option<Exit> {
    for cause in error.chain() {
        if let Some(fault) = cause.downcast_ref::<Fault>() {
            return Some(fault.exit);
        }
        if let Some(store) = cause.downcast_ref::<StoreError>() {
            return Some(of_store(store));
        }
        // A transparent error hides the one inside it from the chain.
        if let Some(windlass::Error::Store(store)) = cause.downcast_ref::<windlass::Error>() {
            return Some(of_store(store));
        }
        if let Some(io) = cause.downcast_ref::<io::Error>()
            && io.kind() == io::ErrorKind::BrokenPipe
        {
            return None;
        }
    }
    Some(Exit::Failed)
}

fn of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::Cursor { .. } => Exit::Usage,
        _ => match error.kind() {
            StoreErrorKind::Unavailable | StoreErrorKind::Fatal => Exit::Store,
            _ => Exit::Failed,
        },
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn the_innermost_known_cause_decides() {
        let newer = StoreError::SchemaTooNew { found: 9, known: 1 };
        assert_eq!(of(&anyhow::Error::new(newer).context("opening")), Some(Exit::Store));
        assert_eq!(of(&Fault::usage("bad").into()), Some(Exit::Usage));
        assert_eq!(of(&anyhow::anyhow!("odd")), Some(Exit::Failed));
        let gone: Result<(), _> = Err(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(of(&gone.context("writing").unwrap_err()), None);
    }
}
