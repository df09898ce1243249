//! What PostgreSQL and its driver say, as faults of the store.
//!
//! [`meaning`] is the one table of SQLSTATEs. No text here holds a password or a value of a parameter.

use std::error::Error as StdError;

use tokio_postgres::Error as DriverError;
use tokio_postgres::error::{DbError, Severity, SqlState};
pub(crate) use windlass_store_server::error::{Effect, Fault, Meaning, Remedy, ServerError, Unreachable};

/// What it means that a request failed after it was sent.
pub(crate) fn sent_fault(error: &DriverError) -> Fault {
    match error.as_db_error() {
        Some(said) => server_error(said).into(),
        None => Fault::broken(&chain(error)),
    }
}

/// A row has a column of another type or name than expected.
pub(crate) fn misread(error: &DriverError) -> Fault {
    Fault::Corrupt(chain(error))
}

/// Whether a server has refused a statement and goes on with the connection.
pub(crate) fn is_refusal(error: &DriverError) -> bool {
    error.as_db_error().is_some_and(|said| !is_last(said))
}

/// Whether the connection must not be used again.
pub(crate) fn spoils(fault: &Fault) -> bool {
    match fault {
        Fault::Server(error) => ["08", "25", "57P"].iter().any(|class| error.code.starts_with(class)),
        Fault::Lost(_) | Fault::Timeout(_) => true,
        Fault::Partial(rest) => spoils(rest),
        _ => false,
    }
}

/// Whether a name did not lead to the statement that it was given to, so that nothing was run: there is none, it has
/// other parameters, or its answer looks different. Poolers use one of the codes for a server that they have lost; they
/// end the connection with it.
pub(crate) fn is_misnamed(fault: &Fault) -> bool {
    let Fault::Server(error) = fault else { return false };
    !error.is_last && matches!(error.code.as_str(), "26000" | "08P01" | "0A000")
}

/// Whether something that another transaction holds was not free in time.
pub(crate) fn is_locked(fault: &Fault) -> bool {
    matches!(fault, Fault::Server(error) if error.code == "55P03")
}

/// What a failed attempt to connect means.
pub(crate) fn connecting(error: &DriverError, hosts: &str) -> Unreachable {
    let Some(said) = error.as_db_error() else {
        let why = Unreachable::because(format!("cannot connect to {hosts}"), chain(error));
        return if is_lasting(error) { why.lasting() } else { why };
    };
    let mut why = Unreachable::refused(&server_error(said));
    if *said.code() == SqlState::TOO_MANY_CONNECTIONS {
        why.remedy = Remedy::WaitForOthers;
    }
    why.what = format!("{} ({hosts})", why.what);
    why
}

/// Whether a pooler refuses the connection because it takes no settings with one.
pub(crate) fn takes_no_settings(error: &DriverError) -> bool {
    error.as_db_error().is_some_and(|said| said.message().contains("unsupported startup parameter"))
}

/// What an SQLSTATE means. What a function of ours raises on purpose is read before.
pub(crate) fn meaning(code: &str) -> Meaning {
    const MIGRATE: &str = "the store's schema is missing or older than this program: run `windlass migrate`";
    match code {
        "40003" => Meaning::Lost("the server does not know whether the statement took effect"),
        "25006" => Meaning::Passing("the server is read-only"),
        "40001" | "40P01" => Meaning::Passing("the statement collided with another"),
        "53300" => Meaning::Passing("the server has no connection left"),
        "55006" | "55P03" => Meaning::Passing("a lock was not free in time"),
        "57014" => Meaning::Passing("the statement took too long or was cancelled"),
        "57P03" => Meaning::Passing("the server is starting or stopping"),
        "28000" | "28P01" => Meaning::Lasting("the server refuses the user or the password"),
        "3D000" => Meaning::Lasting("the server has no such database"),
        "3F000" | "42P01" | "42703" | "42704" | "42883" => Meaning::Lasting(MIGRATE),
        "42501" => Meaning::Lasting("the user lacks a privilege"),
        "XX001" | "XX002" => Meaning::Corrupt("the server's files are damaged"),
        _ => match (code.get(..2).unwrap_or_default(), code.get(..3)) {
            ("08", _) => Meaning::Lost("the connection broke behind the server or pooler"),
            (_, Some("57P")) => Meaning::Passing("the server ended the connection"),
            ("40", _) => Meaning::Passing("the server rolled the statement back"),
            ("25", _) => Meaning::Passing("the connection was in a state of its own"),
            ("53", _) => Meaning::Passing("the server is out of memory, disk or another resource"),
            ("58", _) => Meaning::Passing("the server cannot read or write its files"),
            _ => Meaning::Defect,
        },
    }
}

/// What the server said, without detail and context. In class 22 the first line itself quotes values.
fn server_error(said: &DbError) -> ServerError {
    let code = said.code().code().to_owned();
    let text = if code.starts_with("22") { "a value was refused" } else { said.message() };
    ServerError { text: text.to_owned(), meaning: meaning(&code), is_last: is_last(said), code }
}

fn is_last(said: &DbError) -> bool {
    said.parsed_severity() != Some(Severity::Error)
}

/// An error of the driver with its causes.
pub(crate) fn chain(error: &DriverError) -> String {
    if let Some(said) = error.as_db_error() {
        return server_error(said).to_string();
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
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
