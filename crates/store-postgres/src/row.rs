//! Rows to types and back. Whatever does not fit is [`Fault::Corrupt`]; for a job that is a matter of its own, see
//! [`job`].

pub(crate) mod job;

use std::str::FromStr;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;
use windlass_core::job::{Counters, Facts, Spec};
use windlass_core::stored;
pub(crate) use windlass_core::stored::{micros, number, span, time, to_stored};
use windlass_core::{Bytes, Fence, JobId, LeaseId, Name, State};

use crate::error::{Fault, misread};

/// A value at a column.
pub(crate) fn at<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, Fault> {
    row.try_get(column).map_err(|error| misread(&error))
}

/// What the judge must know, from the counters and the options at the given columns.
pub(crate) fn facts(row: &Row, first_counter: usize, spec: usize) -> Result<Facts, Fault> {
    Ok(Facts { counters: counters(row, first_counter)?, spec: self::spec(row, spec)? })
}

/// The four counters from a column on.
pub(crate) fn counters(row: &Row, first: usize) -> Result<Counters, Fault> {
    Ok(Counters {
        attempt: count(at(row, first)?)?,
        stalls: count(at(row, first + 1)?)?,
        ambiguous: count(at(row, first + 2)?)?,
        backoff: span(at(row, first + 3)?),
    })
}

fn count(stored: i64) -> Result<u32, Fault> {
    u32::try_from(stored).map_err(|_| Fault::Corrupt(format!("a job counts {stored}")))
}

/// The fence at two columns.
pub(crate) fn fence(row: &Row, first: usize) -> Result<Fence, Fault> {
    Ok(Fence { number: number(at(row, first)?), nonce: number(at(row, first + 1)?) })
}

pub(crate) fn state(code: i64) -> Result<State, Fault> {
    State::from_code(code).ok_or_else(|| Fault::Corrupt(format!("a job has state {code}")))
}

pub(crate) fn uuid(id: JobId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

pub(crate) fn lease_uuid(id: LeaseId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

pub(crate) fn job_id(row: &Row, column: usize) -> Result<JobId, Fault> {
    at::<Uuid>(row, column).map(JobId::from)
}

pub(crate) fn name(row: &Row, column: usize) -> Result<Name, Fault> {
    Name::new(at::<&str>(row, column)?).map_err(|error| Fault::Corrupt(error.to_string()))
}

pub(crate) fn bytes(row: &Row, column: usize) -> Result<Bytes, Fault> {
    at::<&[u8]>(row, column).map(Bytes::copy_from_slice)
}

pub(crate) fn spec(row: &Row, column: usize) -> Result<Spec, Fault> {
    Spec::read(at(row, column)?).map_err(Fault::Unreadable)
}

/// No name has a comma.
pub(crate) fn stored_names(names: &[Name]) -> Option<String> {
    let names: Vec<_> = names.iter().map(Name::as_str).collect();
    (!names.is_empty()).then(|| names.join(","))
}

pub(crate) fn names(row: &Row, column: usize) -> Result<Vec<Name>, Fault> {
    let stored = at::<Option<&str>>(row, column)?.unwrap_or_default();
    let names = stored.split(',').filter(|name| !name.is_empty()).map(Name::new);
    names.collect::<Result<_, _>>().map_err(|error| Fault::Corrupt(error.to_string()))
}

/// The newest rule that a queue uses.
pub(crate) fn rules(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(u32::MAX)
}

fn parsed<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T, Fault> {
    stored::parsed(what, text.as_bytes()).map_err(Fault::Corrupt)
}

fn word<T: FromStr>(what: &str, text: &str) -> Result<T, Fault> {
    stored::word(what, text).map_err(Fault::Corrupt)
}
