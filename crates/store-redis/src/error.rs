//! What can go wrong between us and the server, and what it means to a caller.
//!
//! Inside the store everything is a [`Fault`]; [`Verdict::of`] is the one table of what servers say. An error that
//! the server *said* means that its command did not take effect. A connection that broke after a command was sent
//! says nothing, so a write is then unknown. No text here holds a password.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use redis::{RedisError, ServerError};
use windlass_core::store::SickQueue;
use windlass_core::{StoreError, StoreErrorKind};
pub(crate) use windlass_store_server::error::Effect;
use windlass_store_server::error::{unavailable, unusable};

/// Why an operation has no result.
pub(crate) enum Fault {
    /// The caller's to fix, and nothing was changed.
    Refused(StoreError),
    /// What is stored does not make sense.
    Corrupt(String),
    /// The server said no: the command did not take effect.
    Said(Said),
    /// The connection broke after something was sent.
    Lost(String),
    /// The deadline passed after something was sent.
    Timeout(Duration),
    /// It took effect, on fewer replicas than were asked for.
    Behind(String),
    /// Nothing was sent.
    Away(Away),
    /// What was to follow failed, after the part that counts took effect.
    Half(Box<Fault>),
    /// A queue that fails, or failed lately and is left out.
    Sick(SickQueue),
    /// A defect of this crate.
    Defect(String),
}

/// An error as a server says it: a word in capitals, and a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) code: String,
    pub(crate) text: String,
}

impl Said {
    /// A server that does not know a command repeats its arguments, and a password may be among them.
    pub(crate) fn new(code: &str, text: &str) -> Self {
        let text = text.split(", with args beginning with").next().unwrap_or_default();
        let said = Self { code: code.to_owned(), text: text.to_owned() };
        said.inner().unwrap_or(said)
    }

    /// Up to version 6.2 an error of a command inside a script stands in the middle of the script's own.
    fn inner(&self) -> Option<Self> {
        if self.code != "ERR" || !self.text.contains("running script") {
            return None;
        }
        self.text.rsplit(": ").find_map(|part| {
            let (code, text) = part.trim_start_matches('-').split_once(' ')?;
            let is_code = code.len() > 2 && code.bytes().all(|byte| byte.is_ascii_uppercase());
            is_code.then(|| Self { code: code.to_owned(), text: text.to_owned() })
        })
    }

    pub(crate) fn verdict(&self) -> Verdict {
        Verdict::of(&self.code, &self.text)
    }
}

impl From<&ServerError> for Said {
    fn from(error: &ServerError) -> Self {
        Self::new(error.code(), error.details().unwrap_or_default())
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.text)
    }
}

/// Why there is no connection. Kept while further attempts are held back, so that everyone hears the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Away {
    pub(crate) what: String,
    pub(crate) cause: Option<String>,
    /// Somebody has to change the URL or the server; waiting does not help.
    pub(crate) is_lasting: bool,
}

impl Away {
    pub(crate) fn passing(what: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None, is_lasting: false }
    }

    pub(crate) fn because(what: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self { what: what.into(), cause: Some(cause.to_string()), is_lasting: false }
    }

    /// What it means that the server said this to a new connection.
    pub(crate) fn said(said: &Said) -> Self {
        let (what, is_lasting) = match said.verdict() {
            Verdict::Address(what) => (what, true),
            Verdict::Again(what) | Verdict::Away(what) => (what, false),
            _ => ("the server refuses the connection", false),
        };
        Self { what: what.to_owned(), cause: Some(said.to_string()), is_lasting }
    }
}

impl From<Away> for Fault {
    fn from(away: Away) -> Self {
        Self::Away(away)
    }
}

impl From<Away> for StoreError {
    fn from(away: Away) -> Self {
        if away.is_lasting { unusable(&away.what, away.cause) } else { unavailable(away.what, away.cause) }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<Said> for Fault {
    fn from(said: Said) -> Self {
        Self::Said(said)
    }
}

impl Fault {
    /// Of two faults of one call, the one to tell: that something may have taken effect counts for more than that
    /// something did not.
    pub(crate) fn or_worse(self, other: Self) -> Self {
        if other.is_open() && !self.is_open() { other } else { self }
    }

    /// Whether something may have taken effect.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Timeout(_) | Self::Behind(_) | Self::Half(_))
    }

    /// What it means to the caller of a call with this effect.
    pub(crate) fn into_error(self, effect: Effect) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Corrupt(what) => StoreError::Corrupt(what),
            Self::Defect(what) => StoreError::Internal { what, source: None },
            Self::Away(away) => away.into(),
            Self::Half(rest) => effect.half(&rest.into_error(effect)),
            Self::Lost(cause) => effect.lost("the connection broke", Some(cause)),
            Self::Behind(cause) => effect.lost("a failover may lose the write", Some(cause)),
            Self::Timeout(after) => effect.late(after),
            Self::Said(said) => said.verdict().into_error(&said),
            Self::Sick(sick) => {
                let what = format!("queue {}: {}", sick.queue, sick.what);
                match sick.kind {
                    StoreErrorKind::Unavailable => unavailable(what, None),
                    StoreErrorKind::Unknown => effect.lost(what, None),
                    _ => StoreError::Internal { what, source: None },
                }
            }
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => f.debug_tuple("Refused").field(error).finish(),
            Self::Corrupt(what) => f.debug_tuple("Corrupt").field(what).finish(),
            Self::Said(said) => f.debug_tuple("Said").field(said).finish(),
            Self::Lost(what) => f.debug_tuple("Lost").field(what).finish(),
            Self::Timeout(after) => f.debug_tuple("Timeout").field(after).finish(),
            Self::Behind(what) => f.debug_tuple("Behind").field(what).finish(),
            Self::Away(away) => f.debug_tuple("Away").field(away).finish(),
            Self::Half(rest) => f.debug_tuple("Half").field(rest).finish(),
            Self::Sick(sick) => f.debug_tuple("Sick").field(sick).finish(),
            Self::Defect(what) => f.debug_tuple("Defect").field(what).finish(),
        }
    }
}

/// What is wrong with a password that nobody asks for: somebody thinks that the server is closed, and it is open.
const NO_PASSWORD: &str = "the server has no password for this user and lets anybody in, and the URL has one: \
    leave the password out of the URL, or give the server one (requirepass, or ACL SETUSER)";

/// The meaning of what a server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passes, often within moments: the call itself tries again for a while.
    Again(&'static str),
    /// It passes, and takes its time.
    Away(&'static str),
    /// The slot lives elsewhere: the node to ask is named, and remembered.
    Moved,
    /// The slot is on its way: the node to ask this once is named.
    Ask,
    /// The server does not know the script.
    NoScript,
    /// The place cannot be used as it is.
    Address(&'static str),
    /// Another kind of content stands under one of our keys.
    Corrupt,
    /// Nothing that this crate does on purpose.
    Defect,
}

impl Verdict {
    /// The table.
    pub(crate) fn of(code: &str, text: &str) -> Self {
        match code {
            "LOADING" => Self::Again("the server is still loading its content"),
            "TRYAGAIN" => Self::Again("a slot of the cluster is being moved"),
            "CLUSTERDOWN" => Self::Again("the cluster does not serve all slots"),
            "MASTERDOWN" => Self::Again("the replica has lost its primary"),
            "READONLY" => Self::Again("the server is a read-only replica"),
            "BUSY" => Self::Again("the server is busy with a long script"),
            "OOM" => Self::Away("refused: the server's memory is full (maxmemory)"),
            "MISCONF" => Self::Away("the server cannot write its files and takes no writes"),
            "NOREPLICAS" => Self::Away("the server has fewer replicas than it wants for a write"),
            "UNBLOCKED" => Self::Away("the server changed its role meanwhile"),
            "MOVED" => Self::Moved,
            "ASK" => Self::Ask,
            "NOSCRIPT" => Self::NoScript,
            "NOAUTH" => Self::Address("the server wants a password: use redis://user:password@host"),
            "WRONGPASS" => Self::Address("the server refuses the user or the password"),
            "NOPERM" => Self::Address("the user lacks a permission"),
            "WRONGTYPE" => Self::Corrupt,
            "ERR" if text.contains("max number of clients") => {
                Self::Away("the server has no connection left")
            }
            "ERR" if text.contains("without any password configured") => Self::Address(NO_PASSWORD),
            "ERR" if text.contains("DB index is out of range") => {
                Self::Address("the server has no database of this number")
            }
            "ERR" if text.contains("SELECT is not allowed in cluster mode") => Self::Address(
                "this is a node of a Cluster, which has only database 0: leave the database out",
            ),
            "DENIED" => {
                Self::Address("the server is in protected mode: give it a password, or let it listen locally")
            }
            // CROSSSLOT, NOTBUSY, EXECABORT, errors of scripts.
            _ => Self::Defect,
        }
    }

    /// What it means to a caller, with what the server said.
    pub(crate) fn into_error(self, said: &Said) -> StoreError {
        match self {
            Self::Again(what) | Self::Away(what) => unavailable(what, Some(said.to_string())),
            Self::Moved | Self::Ask => {
                unavailable("the cluster is moving slots around", Some(said.to_string()))
            }
            Self::Address(what) => unusable(what, Some(said.to_string())),
            Self::Corrupt => StoreError::Corrupt(format!("a key holds another kind of content: {said}")),
            Self::NoScript | Self::Defect => {
                StoreError::Internal { what: format!("Redis: {said}"), source: None }
            }
        }
    }
}

/// An error of the driver with its causes.
pub(crate) fn chain(error: &RedisError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
