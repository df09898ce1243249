//! What can go wrong between a store and its server, and what that means to a caller.
//!
//! Inside a store everything is a [`Fault`]; [`Fault::into_error`] is asked once, where a call ends. What servers say differs:
//! each store has a table of its own that gives a [`ServerError`] its [`Meaning`]. An error that the server *said* means
//! that its request did not take effect. A connection that broke after a request was sent says nothing, so a write is
//! then unknown. No text here holds a password or a value.
//!
//! A cause is part of the text. It is only a text anyway, for the drivers' own errors show details, which may hold
//! values; and most of those who read an error read its text alone, where "cannot connect" without "refused" does not help.

use std::fmt;
use std::time::Duration;

use windlass_core::job::Unreadable;
use windlass_core::store::SickQueue;
use windlass_core::{StoreError, StoreErrorKind};

/// Whether a call changes something: what a lost answer means to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It only looks. A lost answer is as good as none.
    Read,
    /// It changes something. A lost answer leaves open whether it did.
    Write,
}

impl Effect {
    /// Whether it took effect, or will last, is not known.
    pub fn lost(self, what: impl Into<String>, cause: Option<String>) -> StoreError {
        let what = because(what.into(), cause);
        match self {
            Self::Read => StoreError::Unavailable { what, source: None },
            Self::Write => StoreError::Unknown { what, source: None },
        }
    }
}

/// Why an operation has no result.
#[derive(Debug)]
pub enum Fault {
    /// The caller's to fix, and nothing was changed.
    Refused(StoreError),
    /// What is stored does not make sense.
    Corrupt(String),
    /// A part of a job does not read, or only to a newer program.
    Unreadable(Unreadable),
    /// The server said no.
    Server(ServerError),
    /// Something was sent, and whether it took effect or will last is not known.
    Lost(String),
    /// The deadline passed after something was sent.
    Timeout(Duration),
    /// Nothing was sent.
    Unreachable(Unreachable),
    /// What was to follow failed, after the part that counts took effect.
    Partial(Box<Fault>),
    /// A queue that fails, or failed lately and is left out; in stores whose queues can fail one by one.
    Sick(SickQueue),
    /// A defect of the store.
    Defect(String),
}

impl Fault {
    /// The connection broke after something was sent.
    pub fn broken(cause: &str) -> Self {
        Self::Lost(format!("the connection broke: {cause}"))
    }

    /// The part that counts took effect before this.
    #[must_use]
    pub fn partial(self) -> Self {
        Self::Partial(Box::new(self))
    }

    /// Of two faults of one call, the one to tell: that something may have taken effect counts for more than that
    /// something did not.
    #[must_use]
    pub fn or_worse(self, other: Self) -> Self {
        if other.is_open() && !self.is_open() { other } else { self }
    }

    /// Whether something may have taken effect, as far as the fault itself says.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Lost(_) | Self::Timeout(_) | Self::Partial(_) => true,
            Self::Server(error) => matches!(error.meaning, Meaning::Lost(_)),
            _ => false,
        }
    }

    /// Whether nothing has taken effect, for certain.
    pub fn is_rolled_back(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Unreachable(_) => true,
            Self::Server(_) => !self.is_open(),
            _ => false,
        }
    }

    /// What it means to the caller of a call with this effect.
    pub fn into_error(self, effect: Effect) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Corrupt(what) => StoreError::Corrupt(what),
            Self::Unreadable(why) => StoreError::Corrupt(why.to_string()),
            Self::Server(error) => error.into_error(effect),
            Self::Lost(what) => effect.lost(what, None),
            Self::Timeout(after) => effect.lost(format!("no answer from the server within {after:?}"), None),
            Self::Unreachable(why) => why.into(),
            Self::Partial(rest) => {
                let rest = rest.into_error(effect).to_string();
                effect.lost("the call took effect, its answer is not whole", Some(rest))
            }
            Self::Sick(sick) => {
                let what = format!("queue {}: {}", sick.queue, sick.what);
                match sick.kind {
                    StoreErrorKind::Unavailable => unavailable(what, None),
                    StoreErrorKind::Unknown => effect.lost(what, None),
                    _ => StoreError::Internal { what, source: None },
                }
            }
            Self::Defect(what) => StoreError::Internal { what, source: None },
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<Unreachable> for Fault {
    fn from(why: Unreachable) -> Self {
        Self::Unreachable(why)
    }
}

impl From<ServerError> for Fault {
    fn from(error: ServerError) -> Self {
        Self::Server(error)
    }
}

/// An error as a server says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The server's word for it, as `42P01` or `LOADING`.
    pub code: String,
    /// What it says about it, without values.
    pub text: String,
    /// What that means, by the table of the store.
    pub meaning: Meaning,
    /// Whether the server has ended the connection with it.
    pub is_last: bool,
}

/// What an error of a server means to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It passes; nothing was changed.
    Passing(&'static str),
    /// Something between the store and the server lost track.
    Lost(&'static str),
    /// It lasts: the URL or the server has to be changed.
    Lasting(&'static str),
    /// What is stored was damaged or written by something else.
    Corrupt(&'static str),
    /// No store asks for this on purpose.
    Defect,
}

impl ServerError {
    /// What it means to the caller of a call with this effect.
    pub fn into_error(self, effect: Effect) -> StoreError {
        let said = self.to_string();
        match self.meaning {
            Meaning::Passing(what) => unavailable(what, Some(said)),
            Meaning::Lost(what) => effect.lost(what, Some(said)),
            Meaning::Lasting(what) => unusable(what, Some(said)),
            Meaning::Corrupt(what) => StoreError::Corrupt(because(what.to_owned(), Some(said))),
            Meaning::Defect => {
                StoreError::Internal { what: because("the server said".to_owned(), Some(said)), source: None }
            }
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.code)
    }
}

/// Why there is no connection. Kept while further attempts are held back, so that every caller hears the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable {
    /// What happened.
    pub what: String,
    /// And why.
    pub cause: Option<String>,
    /// What can be done about it.
    pub remedy: Remedy,
}

/// What can be done about having no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Wait.
    Wait,
    /// Wait for one of the connections that there are: the server takes no more.
    WaitForOthers,
    /// Change the URL or the server.
    Change,
}

impl Unreachable {
    /// It passes.
    pub fn passing(what: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None, remedy: Remedy::Wait }
    }

    /// It passes, and this is why it is so.
    pub fn because(what: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self { cause: Some(cause.to_string()), ..Self::passing(what) }
    }

    /// It lasts.
    #[must_use]
    pub fn lasting(self) -> Self {
        Self { remedy: Remedy::Change, ..self }
    }

    /// What it means that the server said this to a new connection.
    pub fn refused(error: &ServerError) -> Self {
        let (what, remedy) = match error.meaning {
            Meaning::Lasting(what) => (what, Remedy::Change),
            Meaning::Passing(what) => (what, Remedy::Wait),
            _ => ("the server refuses the connection", Remedy::Wait),
        };
        Self { remedy, ..Self::because(what, error) }
    }
}

impl From<Unreachable> for StoreError {
    fn from(why: Unreachable) -> Self {
        match why.remedy {
            Remedy::Change => unusable(&why.what, why.cause),
            Remedy::Wait | Remedy::WaitForOthers => unavailable(why.what, why.cause),
        }
    }
}

/// It passes, and nothing was changed.
pub fn unavailable(what: impl Into<String>, cause: Option<String>) -> StoreError {
    StoreError::Unavailable { what: because(what.into(), cause), source: None }
}

/// It lasts: the URL or the server has to be changed.
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
mod tests;
