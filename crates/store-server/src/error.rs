//! What it means to a caller that an answer was lost, or that there is no connection.
//!
//! Called where a store turns its own faults into a [`StoreError`]. The faults themselves stay with each store: what
//! drivers and servers say differs, and a type that fits all of them would be harder to read than two.
//!
//! A cause is part of the text. It is only a text anyway, for the drivers' own errors show details, which may hold
//! values; and most of those who read an error read its text alone, where "cannot connect" without "refused" is no help.

use std::time::Duration;

use windlass_core::StoreError;

/// Whether a call changes something: what a lost answer means to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It only looks. A lost answer is as good as none.
    Read,
    /// It changes something. A lost answer leaves open whether it did.
    Write,
}

impl Effect {
    /// Whether it took effect, or will last, nobody can say.
    pub fn lost(self, what: impl Into<String>, cause: Option<String>) -> StoreError {
        let what = because(what.into(), cause);
        match self {
            Self::Read => StoreError::Unavailable { what, source: None },
            Self::Write => StoreError::Unknown { what, source: None },
        }
    }

    /// The deadline passed after something was sent.
    pub fn late(self, after: Duration) -> StoreError {
        self.lost(format!("no answer from the server within {after:?}"), None)
    }

    /// What was to follow failed, after the part that counts took effect.
    pub fn half(self, rest: &StoreError) -> StoreError {
        self.lost("the call took effect, its answer is not whole", Some(rest.to_string()))
    }
}

/// It passes, and nothing was changed.
pub fn unavailable(what: impl Into<String>, cause: Option<String>) -> StoreError {
    StoreError::Unavailable { what: because(what.into(), cause), source: None }
}

/// It lasts: somebody has to change the URL or the server.
pub fn unusable(what: &str, cause: Option<String>) -> StoreError {
    StoreError::Address(because(what.to_owned(), cause))
}

/// What happened, and why.
fn because(mut what: String, cause: Option<String>) -> String {
    if let Some(cause) = cause {
        what.push_str(": ");
        what.push_str(&cause);
    }
    what
}

#[cfg(test)]
mod tests {
    use windlass_core::StoreErrorKind;

    use super::*;

    #[test]
    fn a_lost_answer_leaves_open_only_whether_a_write_took_effect() {
        let read = Effect::Read.lost("gone", Some("why".to_owned()));
        assert_eq!(read.kind(), StoreErrorKind::Unavailable);
        assert_eq!(read.to_string(), "store unavailable: gone: why");
        assert_eq!(Effect::Write.lost("gone", None).kind(), StoreErrorKind::Unknown);
        assert_eq!(Effect::Write.late(Duration::from_secs(1)).kind(), StoreErrorKind::Unknown);
        assert_eq!(Effect::Write.half(&unavailable("gone", None)).kind(), StoreErrorKind::Unknown);
    }

    #[test]
    fn what_passes_says_its_cause_in_its_text() {
        let refused = unavailable("cannot connect to db:5432", Some("Connection refused".to_owned()));
        assert_eq!(refused.to_string(), "store unavailable: cannot connect to db:5432: Connection refused");
        let late = Effect::Write.lost("the connection broke", Some("reset by peer".to_owned()));
        assert_eq!(late.to_string(), "outcome unknown: the connection broke: reset by peer");
    }

    #[test]
    fn what_lasts_says_its_cause_in_its_text() {
        assert_eq!(
            unusable("no such database", Some("jobs".to_owned())).to_string(),
            "no such database: jobs"
        );
        assert_eq!(unusable("no such database", None).kind(), StoreErrorKind::Fatal);
    }
}
