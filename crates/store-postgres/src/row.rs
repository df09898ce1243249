//! Rows to types and back. Whatever does not fit is [`Fault::Corrupt`]: the columns are written here only.

use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;
use windlass_core::clock::Timestamp;
use windlass_core::job::{AttemptRecord, Counters, Facts, JobRecord, LastClaim};
use windlass_core::options::STALLS_MAX_DEFAULT;
use windlass_core::queue::QueueConfig;
use windlass_core::retry::Policy;
use windlass_core::{Bytes, Fence, JobId, LeaseId, Name, State};

use crate::error::Fault;

/// A value at a column.
pub(crate) fn at<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, Fault> {
    Ok(row.try_get(column)?)
}

/// A job and who took it last, as `jobs/get.sql` and `inspect/list.sql` select them.
pub(crate) fn record(row: &Row) -> Result<(JobRecord, Option<LastClaim>), Fault> {
    let record = JobRecord {
        id: job_id(row, 1)?,
        queue: name(row, 2)?,
        kind: name(row, 3)?,
        state: state(at(row, 4)?)?,
        priority: at(row, 5)?,
        due_at: time(at(row, 6)?),
        enqueued_at: time(at(row, 7)?),
        fence: number(at(row, 8)?),
        counters: counters(row, 9)?,
        cancel_requested: at(row, 13)?,
        finished_at: at::<Option<i64>>(row, 16)?.map(time),
        reason: at::<Option<&str>>(row, 17)?.map(|text| word("reason", text)).transpose()?,
        expires_at: at::<Option<i64>>(row, 18)?.map(time),
        retry: policy(row, 19)?,
        timeout: at::<Option<i64>>(row, 20)?.map(span),
        stalls_max: stalls_max(row, 21)?,
        tags: names(row, 22)?,
        progress: at::<Option<&[u8]>>(row, 23)?.map(Bytes::copy_from_slice),
        output: at::<Option<&[u8]>>(row, 24)?.map(Bytes::copy_from_slice),
        payload: bytes(row, 25)?,
        attempts: Vec::new(),
    };
    let last = match (at::<Option<i64>>(row, 14)?, at::<Option<String>>(row, 15)?) {
        (Some(claimed_at), Some(worker)) => Some(LastClaim { worker, at: time(claimed_at) }),
        _ => None,
    };
    Ok((record, last))
}

/// The stored attempts of a job as `jobs/get.sql` writes them.
pub(crate) fn attempts(stored: Option<&str>) -> Result<Vec<AttemptRecord>, Fault> {
    type Fields = (u64, u32, String, i64, i64, String, Option<String>);
    let fields: Vec<Fields> = stored.map_or(Ok(Vec::new()), |text| parsed("list of attempts", text))?;
    fields
        .into_iter()
        .map(|(fence, number, worker, started_at, ended_at, ending, error)| {
            Ok(AttemptRecord {
                fence,
                number,
                worker,
                started_at: time(started_at),
                ended_at: Some(time(ended_at)),
                ending: Some(word("ending", &ending)?),
                error,
            })
        })
        .collect()
}

/// What the judge must know, from the counters, the policy and the stalls at the given columns.
pub(crate) fn facts(row: &Row, first_counter: usize, retry: usize, stalls: usize) -> Result<Facts, Fault> {
    Ok(Facts {
        counters: counters(row, first_counter)?,
        retry: policy(row, retry)?,
        stalls_max: stalls_max(row, stalls)?,
    })
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

fn stalls_max(row: &Row, column: usize) -> Result<u32, Fault> {
    at::<Option<i64>>(row, column)?.map_or(Ok(STALLS_MAX_DEFAULT), count)
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

/// A policy is stored only if it is not the default one, which most jobs have.
pub(crate) fn stored_policy(policy: &Policy) -> Result<Option<String>, Fault> {
    if *policy == Policy::default() { Ok(None) } else { json(policy).map(Some) }
}

pub(crate) fn policy(row: &Row, column: usize) -> Result<Policy, Fault> {
    at::<Option<&str>>(row, column)?.map_or(Ok(Policy::default()), |text| parsed("retry policy", text))
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

pub(crate) fn config(stored: &str) -> Result<QueueConfig, Fault> {
    parsed("queue definition", stored)
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
