//! One error for several callers.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use windlass_core::StoreError;

use super::lane::Answer;

/// The same error for each of `count` callers.
pub(super) fn copies<R>(error: StoreError, count: usize) -> Vec<Answer<R>> {
    if count == 1 {
        return vec![Err(error)];
    }
    let error = Arc::new(error);
    (0..count).map(|_| Err(copy(&error))).collect()
}

/// An error of the same kind and text whose source is the original's.
pub(crate) fn copy(error: &Arc<StoreError>) -> StoreError {
    let source = || -> Option<Box<dyn StdError + Send + Sync>> {
        error.source().is_some().then(|| Box::new(Shared(Arc::clone(error))) as _)
    };
    match &**error {
        StoreError::Unavailable { what, .. } => {
            StoreError::Unavailable { what: what.clone(), source: source() }
        }
        StoreError::Unknown { what, .. } => StoreError::Unknown { what: what.clone(), source: source() },
        StoreError::Internal { what, .. } => StoreError::Internal { what: what.clone(), source: source() },
        StoreError::Corrupt(what) => StoreError::Corrupt(what.clone()),
        StoreError::Address(what) => StoreError::Address(what.clone()),
        StoreError::Refused(what) => StoreError::Refused(what.clone()),
        StoreError::SchemaTooNew { found, known } => {
            StoreError::SchemaTooNew { found: *found, known: *known }
        }
        StoreError::QueueFull { queue, capacity, waiting } => {
            StoreError::QueueFull { queue: queue.clone(), capacity: *capacity, waiting: *waiting }
        }
        StoreError::NoKeys { queue } => StoreError::NoKeys { queue: queue.clone() },
        StoreError::UnknownRules { queue, rules, known } => {
            StoreError::UnknownRules { queue: queue.clone(), rules: *rules, known: *known }
        }
        other => StoreError::Internal { what: other.to_string(), source: source() },
    }
}

/// The source of an error that several callers hold.
struct Shared(Arc<StoreError>);

impl Shared {
    fn source_text(&self) -> String {
        self.0.source().map_or_else(|| self.0.to_string(), ToString::to_string)
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source_text())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl StdError for Shared {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source().and_then(StdError::source)
    }
}
