//! Rows to types and back. Whatever does not fit is [`Fault::Corrupt`]; for a job that is a matter of its own, see
//! [`job`].

pub(crate) mod job;

use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;
use windlass_core::clock::Timestamp;
use windlass_core::job::{Counters, Facts, Spec};
use windlass_core::queue::QueueConfig;
use windlass_core::{Bytes, Fence, JobId, LeaseId, Name, State};

use crate::error::Fault;

/// A value at a column.
pub(crate) fn at<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, Fault> {
    Ok(row.try_get(column)?)
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

/// Fences and nonces never use the sign; see [`Fence::nonce`].
pub(crate) fn number(stored: i64) -> u64 {
    stored.unsigned_abs()
}

pub(crate) fn to_stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// Whole microseconds, rounded up; see [`windlass_core::clock::whole_micros`].
pub(crate) fn micros(span: Duration) -> i64 {
    time(0).plus(span).as_micros()
}

pub(crate) fn span(micros: i64) -> Duration {
    Duration::from_micros(micros.unsigned_abs())
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

/// The definition of a queue, and why it does not read, if so.
pub(crate) fn definition(stored: &str) -> (QueueConfig, Option<String>) {
    match config(stored) {
        Ok(config) => (config, None),
        Err(Fault::Corrupt(why)) => (QueueConfig::unreadable(), Some(why)),
        Err(fault) => (QueueConfig::unreadable(), Some(format!("{fault:?}"))),
    }
}

fn config(stored: &str) -> Result<QueueConfig, Fault> {
    parsed("queue definition", stored)
}

/// The newest rule that a queue uses.
pub(crate) fn rules(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(u32::MAX)
}

pub(crate) fn json(value: &(impl serde::Serialize + ?Sized)) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| Fault::Defect(error.to_string()))
}

fn parsed<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T, Fault> {
    serde_json::from_str(text)
        .map_err(|error| Fault::Corrupt(format!("a {what} does not read back: {error}")))
}

fn word<T: FromStr>(what: &str, text: &str) -> Result<T, Fault> {
    text.parse().map_err(|_| Fault::Corrupt(format!("{text:?} is no {what}")))
}
