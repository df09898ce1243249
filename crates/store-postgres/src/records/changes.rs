//! Changes of records as columns, and what is answered about those that are not as expected.

use tokio_postgres::types::ToSql;
use windlass_core::record::{Change, Expect, RecordWrite, Version};
use windlass_core::{Name, StoreError};

use crate::error::Fault;
use crate::jobs::enqueue::{one_for_all, unless_all};
use crate::row;

/// One column each, by ascending queue and key: in that order records are locked everywhere, so that calls about the same ones
/// never wait for each other in a circle. See `queries/records/change.sql`.
pub(crate) struct Changes<'w> {
    /// Where each of them stands in the call.
    pub(crate) places: Vec<usize>,
    pub(crate) queues: Vec<&'w str>,
    pub(crate) keys: Vec<&'w str>,
    pub(crate) expects: Vec<i64>,
    pub(crate) expected: Vec<Option<i64>>,
    /// None: the record is removed.
    pub(crate) versions: Vec<Option<i64>>,
    pub(crate) values: Vec<Option<&'w [u8]>>,
    pub(crate) ttls: Vec<Option<i64>>,
}

impl<'w> Changes<'w> {
    pub(crate) fn of(writes: impl Iterator<Item = (&'w Name, &'w RecordWrite)>) -> Self {
        let mut order: Vec<_> = writes.enumerate().collect();
        order.sort_unstable_by_key(|(_, (queue, write))| (queue.as_str(), write.key.as_str()));
        let each = || order.iter().map(|(_, (_, write))| *write);
        let stored = |version: Version| version.0.cast_signed();
        let value = |write: &'w RecordWrite| match &write.change {
            Change::Put { value, .. } => Some(&value[..]),
            Change::Remove => None,
        };
        let ttl = |write: &RecordWrite| match write.change {
            Change::Put { ttl, .. } => ttl.map(row::micros),
            Change::Remove => None,
        };
        let (expects, expected) = each().map(|write| expectation(write.expect)).unzip();
        let is_any = each().all(|write| write.expect == Expect::Any);
        Self {
            places: order.iter().map(|(place, _)| *place).collect(),
            queues: one_for_all(order.iter().map(|(_, (queue, _))| queue.as_str())),
            keys: each().map(|write| write.key.as_str()).collect(),
            expects: if is_any { Vec::new() } else { expects },
            expected: if is_any { Vec::new() } else { expected },
            versions: each().map(|write| write.version().map(stored)).collect(),
            values: each().map(value).collect(),
            ttls: unless_all(None, each().map(ttl)),
        }
    }

    /// The parameters of `records/change.sql`.
    pub(crate) fn columns(&self) -> [&(dyn ToSql + Sync); 7] {
        let Self { places: _, queues, keys, expects, expected, versions, values, ttls } = self;
        [queues, keys, expects, expected, versions, values, ttls]
    }

    /// The refusal of records that were found to be otherwise, by the columns: that of the first in the order of the call.
    pub(crate) fn conflict(
        &self,
        writes: &[RecordWrite],
        found: Vec<(usize, Option<i64>)>,
    ) -> Result<StoreError, Fault> {
        let first = found.into_iter().map(|(index, found)| (self.places[index], found)).min();
        let (place, found) = first.ok_or_else(|| Fault::Corrupt("a conflict about no record".to_owned()))?;
        Ok(conflict(&writes[place], found))
    }
}

/// The refusal of a record that was found in this version.
pub(crate) fn conflict(write: &RecordWrite, found: Option<i64>) -> StoreError {
    let found = found.map(|version| Version(version.cast_unsigned()));
    StoreError::Conflict { key: write.key.clone(), found }
}

fn expectation(expect: Expect) -> (i64, Option<i64>) {
    match expect {
        Expect::Any => (0, None),
        Expect::Absent => (1, None),
        Expect::Version(version) => (2, Some(version.0.cast_signed())),
    }
}
