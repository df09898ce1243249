//! What PostgreSQL can answer, sorted into what a caller can do about it.
//!
//! Inside the store everything is a [`Fault`]; [`Fault::into_error`] has the one table of SQLSTATEs. An error that
//! the server *said* means that its statement did not take effect. A connection that broke after a statement was
//! sent says nothing, so a write is then unknown. No text here holds a password or a value of a parameter.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use tokio_postgres::Error as DriverError;
use tokio_postgres::error::{DbError, Severity, SqlState};
use windlass_core::StoreError;
use windlass_core::job::Unreadable;
pub(crate) use windlass_store_server::error::Effect;
use windlass_store_server::error::{unavailable, unusable};

/// Why an operation has no result.
pub(crate) enum Fault {
    /// The caller's to fix, and nothing was changed.
    Refused(StoreError),
    /// What is stored does not make sense.
    Corrupt(String),
    /// A part of a job does not read, or only to a newer program.
    Unreadable(Unreadable),
    /// The server said no: the statement did not take effect.
    Postgres(DriverError),
    /// The connection broke after something was sent.
    Lost(DriverError),
    /// The deadline passed after something was sent.
    Timeout(Duration),
    /// Nothing was sent.
    Away(Away),
    /// What was to follow failed, after the part that counts took effect.
    Half(Box<Fault>),
    /// A defect of this crate.
    Defect(String),
}

/// Why there is no connection. Kept while further attempts are held back, so that everyone hears the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Away {
    pub(crate) what: String,
    pub(crate) cause: Option<String>,
    pub(crate) reason: Reason,
}

/// What is to be done about having no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Wait.
    Passing,
    /// Wait for one of the connections that there are: the server takes no more.
    Full,
    /// Connect without settings: a pooler takes none.
    Settings,
    /// Somebody has to change the URL or the server.
    Lasting,
}

impl Away {
    pub(crate) fn passing(what: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None, reason: Reason::Passing }
    }

    /// What a failed attempt to connect means.
    pub(crate) fn connecting(error: &DriverError, hosts: &str) -> Self {
        if let Some(said) = error.as_db_error() {
            let (what, reason) = match Verdict::of(said.code().code()) {
                _ if said.message().contains("unsupported startup parameter") => {
                    ("the pooler takes no settings with a connection", Reason::Settings)
                }
                _ if *said.code() == SqlState::TOO_MANY_CONNECTIONS => {
                    ("the server has no connection left", Reason::Full)
                }
                Verdict::Address(what) => (what, Reason::Lasting),
                Verdict::Away(what) => (what, Reason::Passing),
                _ => ("the server refuses the connection", Reason::Passing),
            };
            return Self { what: format!("{what} ({hosts})"), cause: Some(said_text(said)), reason };
        }
        let reason = if is_lasting(error) { Reason::Lasting } else { Reason::Passing };
        Self { what: format!("cannot connect to {hosts}"), cause: Some(chain(error)), reason }
    }
}

impl From<Away> for Fault {
    fn from(away: Away) -> Self {
        Self::Away(away)
    }
}

impl From<Away> for StoreError {
    fn from(away: Away) -> Self {
        if away.reason == Reason::Lasting {
            unusable(&away.what, away.cause)
        } else {
            unavailable(away.what, away.cause)
        }
    }
}

/// For reading rows: what is neither the server's answer nor a broken connection is a column of another type or
/// name than expected.
impl From<DriverError> for Fault {
    fn from(error: DriverError) -> Self {
        if error.as_db_error().is_some() {
            Self::Postgres(error)
        } else if error.is_closed() || has_io(&error) {
            Self::Lost(error)
        } else {
            Self::Corrupt(chain(&error))
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

/// Whether a server has refused a statement and goes on with the connection.
pub(crate) fn is_refusal(error: &DriverError) -> bool {
    error.as_db_error().is_some_and(|said| said.parsed_severity() == Some(Severity::Error))
}

impl Fault {
    /// The SQLSTATE, when the server said one.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Postgres(error) => error.code().map(SqlState::code),
            _ => None,
        }
    }

    /// Whether nothing has taken effect, for certain.
    pub(crate) fn is_rolled_back(&self) -> bool {
        match self {
            Self::Postgres(_) => self.code().is_some_and(|code| Verdict::of(code).is_rolled_back()),
            Self::Refused(_) | Self::Away(_) => true,
            Self::Corrupt(_)
            | Self::Unreadable(_)
            | Self::Lost(_)
            | Self::Timeout(_)
            | Self::Half(_)
            | Self::Defect(_) => false,
        }
    }

    /// Whether the connection must not be used again.
    pub(crate) fn spoils(&self) -> bool {
        match self {
            Self::Postgres(_) => {
                self.code().is_none_or(|code| ["08", "25", "57P"].iter().any(|class| code.starts_with(class)))
            }
            Self::Lost(_) | Self::Timeout(_) => true,
            Self::Half(rest) => rest.spoils(),
            Self::Refused(_) | Self::Corrupt(_) | Self::Unreadable(_) | Self::Away(_) | Self::Defect(_) => {
                false
            }
        }
    }

    /// Whether a name did not lead to the statement that it was given to, so that nothing was run: there is none, it
    /// has other parameters, or its answer looks different. Poolers use one of the codes for a server that they have
    /// lost; they end the connection with it.
    pub(crate) fn is_misnamed(&self) -> bool {
        let Self::Postgres(error) = self else { return false };
        is_refusal(error) && matches!(self.code(), Some("26000" | "08P01" | "0A000"))
    }

    /// What it means to the caller of a call with this effect.
    pub(crate) fn into_error(self, effect: Effect) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Corrupt(what) => StoreError::Corrupt(what),
            Self::Unreadable(why) => StoreError::Corrupt(why.to_string()),
            Self::Defect(what) => StoreError::Internal { what, source: None },
            Self::Away(away) => away.into(),
            Self::Half(rest) => effect.half(&rest.into_error(effect)),
            Self::Lost(error) => effect.lost("the connection broke", Some(chain(&error))),
            Self::Timeout(after) => effect.late(after),
            Self::Postgres(error) => match error.as_db_error() {
                Some(said) => Verdict::of(said.code().code()).into_error(said_text(said), effect),
                None => effect.lost("the connection broke", Some(chain(&error))),
            },
        }
    }
}

/// Shows what the server said without the details, which may hold values.
impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => f.debug_tuple("Refused").field(error).finish(),
            Self::Corrupt(what) => f.debug_tuple("Corrupt").field(what).finish(),
            Self::Unreadable(why) => f.debug_tuple("Unreadable").field(why).finish(),
            Self::Postgres(error) => f.debug_tuple("Postgres").field(&chain(error)).finish(),
            Self::Lost(error) => f.debug_tuple("Lost").field(&chain(error)).finish(),
            Self::Timeout(after) => f.debug_tuple("Timeout").field(after).finish(),
            Self::Away(away) => f.debug_tuple("Away").field(away).finish(),
            Self::Half(rest) => f.debug_tuple("Half").field(rest).finish(),
            Self::Defect(what) => f.debug_tuple("Defect").field(what).finish(),
        }
    }
}

/// The meaning of an SQLSTATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passes; nothing was changed.
    Away(&'static str),
    /// Somebody between us and the server lost track.
    Lost(&'static str),
    /// The place cannot be used as it is.
    Address(&'static str),
    /// The server's files are damaged.
    Corrupt,
    /// Nothing that this crate does on purpose.
    Defect,
}

impl Verdict {
    /// The table. What a function of ours raises on purpose is read before anybody asks here.
    pub(crate) fn of(code: &str) -> Self {
        const MIGRATE: &str =
            "the store's schema is missing or older than this program: run `windlass migrate`";
        match code {
            "40003" => Self::Lost("the server does not know whether the statement took effect"),
            "25006" => Self::Away("the server is read-only"),
            "40001" | "40P01" => Self::Away("the statement collided with another"),
            "53300" => Self::Away("the server has no connection left"),
            "55006" | "55P03" => Self::Away("a lock was not free in time"),
            "57014" => Self::Away("the statement took too long or was cancelled"),
            "57P03" => Self::Away("the server is starting or stopping"),
            "28000" | "28P01" => Self::Address("the server refuses the user or the password"),
            "3D000" => Self::Address("the server has no such database"),
            "3F000" | "42P01" | "42703" | "42704" | "42883" => Self::Address(MIGRATE),
            "42501" => Self::Address("the user lacks a privilege"),
            "XX001" | "XX002" => Self::Corrupt,
            _ => match (code.get(..2).unwrap_or_default(), code.get(..3)) {
                ("08", _) => Self::Lost("the connection broke behind the server or pooler"),
                (_, Some("57P")) => Self::Away("the server ended the connection"),
                ("40", _) => Self::Away("the server rolled the statement back"),
                ("25", _) => Self::Away("the connection was in a state of its own"),
                ("53", _) => Self::Away("the server is out of memory, disk or another resource"),
                ("58", _) => Self::Away("the server cannot read or write its files"),
                _ => Self::Defect,
            },
        }
    }

    /// Whether the statement has had no effect, for certain.
    pub(crate) fn is_rolled_back(self) -> bool {
        !matches!(self, Self::Lost(_))
    }

    /// What it means to a caller, with what the server said.
    pub(crate) fn into_error(self, said: String, effect: Effect) -> StoreError {
        match self {
            Self::Away(what) => unavailable(what, Some(said)),
            Self::Lost(what) => effect.lost(what, Some(said)),
            Self::Address(what) => unusable(what, Some(said)),
            Self::Corrupt => StoreError::Corrupt(said),
            Self::Defect => StoreError::Internal { what: format!("PostgreSQL: {said}"), source: None },
        }
    }
}

/// What the server said, without detail and context. In class 22 the first line itself quotes values.
fn said_text(said: &DbError) -> String {
    let code = said.code().code();
    if code.starts_with("22") {
        format!("a value was refused (SQLSTATE {code})")
    } else {
        format!("{} (SQLSTATE {code})", said.message())
    }
}

/// An error of the driver with its causes.
pub(crate) fn chain(error: &DriverError) -> String {
    if let Some(said) = error.as_db_error() {
        return said_text(said);
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn has_io(error: &DriverError) -> bool {
    error.source().is_some_and(<dyn StdError>::is::<std::io::Error>)
}

/// Whether connecting again cannot help: a certificate that is not trusted, TLS or a password that one side wants
/// and the other does not have. What only broke on the way has an error of the system.
fn is_lasting(error: &DriverError) -> bool {
    let Some(cause) = error.source() else { return false };
    let Some(io) = cause.downcast_ref::<std::io::Error>() else { return true };
    let tls = io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(
        tls,
        Some(
            rustls::Error::InvalidCertificate(_)
                | rustls::Error::NoCertificatesPresented
                | rustls::Error::PeerIncompatible(_)
                | rustls::Error::AlertReceived(_)
        )
    )
}

#[cfg(test)]
mod tests;
