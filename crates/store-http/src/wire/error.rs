//! Errors on the wire: a problem as the API of the server has it, with the store's own error beside it, so that it means to a
//! program here what it means there.

use serde::{Deserialize, Serialize};
use windlass_core::record::{RecordKey, Version};
use windlass_core::size::TooLarge;
use windlass_core::{JobId, Name, StoreError, StoreErrorKind};

/// An error of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireError {
    /// What can be done about it.
    pub kind: StoreErrorKind,
    /// What is wrong, and what would be right.
    pub text: String,
    /// What programs decide by, where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<ErrorParts>,
}

/// Errors that programs tell apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "as `StoreError` has them")]
pub enum ErrorParts {
    TooLarge { id: JobId, error: TooLarge },
    IdTaken { id: JobId },
    UnknownRules { queue: Name, rules: u32, known: u32 },
    NoKeys { queue: Name },
    QueueFull { queue: Name, capacity: u64, waiting: u64 },
    Conflict { key: RecordKey, found: Option<Version> },
    Cursor { cursor: String },
    Corrupt(String),
}

impl WireError {
    /// What is sent of an error. What a driver says of a store that is away may hold an address or a statement, and is for the
    /// log of the server.
    pub fn of(error: &StoreError) -> Self {
        let kind = error.kind();
        let text = match kind {
            StoreErrorKind::Refused => error.to_string(),
            StoreErrorKind::Unavailable => "the store of the server is away".to_owned(),
            StoreErrorKind::Unknown => "the server lost the answer of its store".to_owned(),
            _ => "a defect: see the log of the server".to_owned(),
        };
        let fault = match error {
            StoreError::TooLarge { id, error } => Some(ErrorParts::TooLarge { id: *id, error: *error }),
            StoreError::IdTaken { id } => Some(ErrorParts::IdTaken { id: *id }),
            StoreError::UnknownRules { queue, rules, known } => {
                Some(ErrorParts::UnknownRules { queue: queue.clone(), rules: *rules, known: *known })
            }
            StoreError::NoKeys { queue } => Some(ErrorParts::NoKeys { queue: queue.clone() }),
            StoreError::QueueFull { queue, capacity, waiting } => {
                Some(ErrorParts::QueueFull { queue: queue.clone(), capacity: *capacity, waiting: *waiting })
            }
            StoreError::Conflict { key, found } => {
                Some(ErrorParts::Conflict { key: key.clone(), found: *found })
            }
            StoreError::Cursor { cursor } => Some(ErrorParts::Cursor { cursor: cursor.clone() }),
            StoreError::Corrupt(what) => Some(ErrorParts::Corrupt(what.clone())),
            _ => None,
        };
        Self { kind, text, fault }
    }

    /// What it means here.
    pub fn into_error(self) -> StoreError {
        let what = self.text;
        match self.fault {
            Some(ErrorParts::TooLarge { id, error }) => StoreError::TooLarge { id, error },
            Some(ErrorParts::IdTaken { id }) => StoreError::IdTaken { id },
            Some(ErrorParts::UnknownRules { queue, rules, known }) => {
                StoreError::UnknownRules { queue, rules, known }
            }
            Some(ErrorParts::NoKeys { queue }) => StoreError::NoKeys { queue },
            Some(ErrorParts::QueueFull { queue, capacity, waiting }) => {
                StoreError::QueueFull { queue, capacity, waiting }
            }
            Some(ErrorParts::Conflict { key, found }) => StoreError::Conflict { key, found },
            Some(ErrorParts::Cursor { cursor }) => StoreError::Cursor { cursor },
            Some(ErrorParts::Corrupt(what)) => StoreError::Corrupt(what),
            None => match self.kind {
                StoreErrorKind::Refused => StoreError::Refused(what),
                StoreErrorKind::Unavailable => StoreError::Unavailable { what, source: None },
                StoreErrorKind::Unknown => StoreError::Unknown { what, source: None },
                _ => StoreError::Internal { what, source: None },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(error: &StoreError) -> StoreError {
        let text = serde_json::to_string(&WireError::of(error)).unwrap();
        serde_json::from_str::<WireError>(&text).unwrap().into_error()
    }

    #[test]
    fn an_error_means_the_same_on_both_sides() {
        let (id, queue) = (JobId::new(), Name::new("q").unwrap());
        let error = TooLarge { what: "payload", size: 3, cap: 2 };
        for error in [
            StoreError::TooLarge { id, error },
            StoreError::IdTaken { id },
            StoreError::UnknownRules { queue: queue.clone(), rules: 9, known: 2 },
            StoreError::NoKeys { queue: queue.clone() },
            StoreError::QueueFull { queue, capacity: 1, waiting: 2 },
            StoreError::Conflict { key: RecordKey::new("k").unwrap(), found: Some(Version(7)) },
            StoreError::Cursor { cursor: "x".into() },
            StoreError::Corrupt("half a row".into()),
            StoreError::Refused("not by this token".into()),
        ] {
            let came = back(&error);
            assert_eq!((came.to_string(), came.kind()), (error.to_string(), error.kind()));
            assert_eq!(std::mem::discriminant(&came), std::mem::discriminant(&error));
        }
    }

    #[test]
    fn what_is_not_known_stays_unknown_and_tells_no_address() {
        let what = || "postgres://app:secret@db broke".to_owned();
        for error in [
            StoreError::Unavailable { what: what(), source: None },
            StoreError::Unknown { what: what(), source: None },
            StoreError::Internal { what: what(), source: None },
        ] {
            let came = back(&error);
            assert_eq!(came.kind(), error.kind());
            assert!(!came.to_string().contains("db"), "{came}");
        }
        let address = back(&StoreError::Address(what()));
        assert!(address.kind() == StoreErrorKind::Fatal && !address.to_string().contains("db"), "{address}");
    }
}
