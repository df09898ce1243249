//! Rows to types and back. Whatever does not fit is [`Fault::Corrupt`]: the columns are written here only.

pub(crate) mod definition;
mod record;

use std::str::FromStr;

use rusqlite::Row;
use windlass_core::job::{Counters, Facts, Spec};
use windlass_core::stored::{self, parsed};
pub(crate) use windlass_core::stored::{micros, number, span, time, to_stored};
use windlass_core::unique::{Digest, UniqueKey};
use windlass_core::{Bytes, Fence, JobId, Name, State};

use crate::error::Fault;
pub(crate) use record::{JobRow, attempt, lost, some_facts};

/// The newest form of a job's row that this program knows: 1, or 2 for a job with a key. Rows of a larger one are a newer
/// program's.
pub(crate) const FORM: i64 = 2;

/// What was read, or nothing where it does not read. Other faults stay.
pub(crate) fn readable<T>(read: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match read {
        Err(fault) if fault.is_unreadable() => Ok(None),
        other => other.map(Some),
    }
}

/// What the judge must know, from the counters and the options at the given columns.
pub(crate) fn facts(row: &Row<'_>, counters: usize, spec: usize) -> Result<Facts, Fault> {
    Ok(Facts { counters: self::counters(row, counters)?, spec: self::spec(row, spec)? })
}

/// The four counters from a column on.
pub(crate) fn counters(row: &Row<'_>, first: usize) -> Result<Counters, Fault> {
    Ok(Counters {
        attempt: row.get(first)?,
        stalls: row.get(first + 1)?,
        ambiguous: row.get(first + 2)?,
        backoff: span(row.get(first + 3)?),
    })
}

/// Numbers of rows as the statements about many rows take them.
pub(crate) fn list(seqs: impl ExactSizeIterator<Item = i64>) -> String {
    let mut text = String::with_capacity(2 + seqs.len() * 8);
    text.push('[');
    for (index, seq) in seqs.enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&seq.to_string());
    }
    text.push(']');
    text
}

/// The fence at two columns.
pub(crate) fn fence(row: &Row<'_>, first: usize) -> Result<Fence, Fault> {
    Ok(Fence { number: number(row.get(first)?), nonce: number(row.get(first + 1)?) })
}

pub(crate) fn state(row: &Row<'_>, column: usize) -> Result<State, Fault> {
    let code = row.get(column)?;
    State::from_code(code).ok_or_else(|| Fault::Corrupt(format!("a job has state {code}")))
}

pub(crate) fn job_id(row: &Row<'_>, column: usize) -> Result<JobId, Fault> {
    id_bytes(row, column).map(JobId::from_bytes)
}

pub(crate) fn id_bytes(row: &Row<'_>, column: usize) -> Result<[u8; 16], Fault> {
    let stored = row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?;
    stored.try_into().map_err(|_| Fault::Corrupt(format!("an id has {} bytes", stored.len())))
}

pub(crate) fn name(row: &Row<'_>, column: usize) -> Result<Name, Fault> {
    let stored = row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?;
    Name::new(stored).map_err(|error| Fault::Corrupt(error.to_string()))
}

/// A name that a row may have.
fn optional_name(row: &Row<'_>, column: usize) -> Result<Option<Name>, Fault> {
    text(row, column)?
        .map(|text| Name::new(text).map_err(|error| Fault::Corrupt(error.to_string())))
        .transpose()
}

pub(crate) fn bytes(row: &Row<'_>, column: usize) -> Result<Bytes, Fault> {
    optional_bytes(row, column)?.ok_or_else(|| Fault::Corrupt("a payload is missing".to_owned()))
}

fn optional_bytes(row: &Row<'_>, column: usize) -> Result<Option<Bytes>, Fault> {
    let stored = row.get_ref(column)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
    Ok(stored.map(Bytes::copy_from_slice))
}

fn spec(row: &Row<'_>, column: usize) -> Result<Spec, Fault> {
    Spec::read(text(row, column)?).map_err(Fault::Unreadable)
}

/// The unique key that a job came with, from its digest and its lifetime at two columns.
fn unique(row: &Row<'_>, first: usize) -> Result<Option<UniqueKey>, Fault> {
    let Some(digest) = row.get(first)? else { return Ok(None) };
    let lifetime = text(row, first + 1)?.unwrap_or_default().parse().map_err(Fault::Corrupt)?;
    Ok(Some(UniqueKey { digest: Digest(digest), lifetime }))
}

pub(crate) fn stored_tags(tags: &[Name]) -> Result<Option<String>, Fault> {
    let text = || serde_json::to_string(tags).map_err(|error| Fault::Defect(error.to_string()));
    (!tags.is_empty()).then(text).transpose()
}

pub(crate) fn tags(row: &Row<'_>, column: usize) -> Result<Vec<Name>, Fault> {
    text(row, column)?
        .map_or(Ok(Vec::new()), |text| parsed("list of names", text.as_bytes()).map_err(Fault::Corrupt))
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>, Fault> {
    Ok(row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from)?)
}

fn word<T: FromStr>(what: &str, text: &str) -> Result<T, Fault> {
    stored::word(what, text).map_err(Fault::Corrupt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_json() {
        for seqs in [vec![], vec![1], vec![1, 2, i64::MAX]] {
            assert_eq!(serde_json::from_str::<Vec<i64>>(&list(seqs.iter().copied())).unwrap(), seqs);
        }
    }

    #[test]
    fn what_most_jobs_have_is_not_stored() {
        assert_eq!(stored_tags(&[]).unwrap(), None);
    }
}
