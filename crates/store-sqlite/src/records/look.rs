//! Records as they are read, listed, counted and forgotten. One that does not read harms no other.

use rusqlite::{Connection, params};
use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::record::{Record, RecordKey, Version};
use windlass_core::sql::{Row, SqlError};
use windlass_core::store::{PAGE_BYTES, RecordPage, RecordTotals, SCAN_MAX, TOTALS_MAX};

use crate::error::Fault;
use crate::row;
use crate::session::Session;
use crate::transaction::{self, Field, Transaction};

const FIND: &str = include_str!("../../queries/records/find.sql");
const LIST: &str = include_str!("../../queries/records/list.sql");
const TOTALS: &str = include_str!("../../queries/records/totals.sql");
const IS_ANY_OVER: &str = include_str!("../../queries/records/is_any_over.sql");
const OVER: &str = include_str!("../../queries/records/over.sql");
const FORGET: &str = include_str!("../../queries/records/forget.sql");

/// The values that one transaction forgets have about so many bytes at most: each page of theirs is written.
const FORGET_BYTES: i64 = 4 << 20;

/// A version as it is stored.
pub(super) fn bits(version: Version) -> i64 {
    version.0.cast_signed()
}

/// A version as it was stored.
pub(super) fn version(bits: i64) -> Version {
    Version(bits.cast_unsigned())
}

pub(super) fn read(
    connection: &Connection,
    queue: &Name,
    keys: &[RecordKey],
    now: Timestamp,
) -> Result<Vec<Option<Record>>, Fault> {
    let mut statement = connection.prepare_cached(FIND)?;
    let mut records = Vec::with_capacity(keys.len());
    for key in keys {
        let fields = params![queue.as_str(), key.as_str().as_bytes(), now.as_micros()];
        let mut rows = statement.query(fields)?;
        records.push(rows.next()?.map(|row| record(&transaction::read(row)?)).transpose()?);
    }
    Ok(records)
}

/// The same in a transaction.
pub(crate) async fn find_all<T: Transaction>(
    tx: &mut T,
    queue: &Name,
    keys: &[RecordKey],
) -> Result<Vec<Option<Record>>, T::Error> {
    let mut records = Vec::with_capacity(keys.len());
    for key in keys {
        let fields =
            [queue.as_str().into(), Field::Slice(key.as_str().as_bytes()), tx.now().as_micros().into()];
        records.push(tx.find(FIND, &fields).await?.map(|row| record(&row)).transpose()?);
    }
    Ok(records)
}

/// A record as `records/find.sql` and `records/list.sql` select it.
fn record(row: &Row) -> Result<Record, Fault> {
    let key = key(row)?;
    let read = || {
        Ok(Record {
            key,
            version: version(row.int(1)?),
            value: row.bytes(4)?.clone(),
            written_at: row::time(row.int(2)?),
            expires_at: row.optional_int(3)?.map(row::time),
        })
    };
    read().map_err(|error: SqlError| Fault::Corrupt(error.to_string()))
}

fn key(row: &Row) -> Result<RecordKey, Fault> {
    let corrupt = |what: String| Fault::Corrupt(format!("the key of a record does not read: {what}"));
    let bytes = row.bytes(0).map_err(|error| corrupt(error.to_string()))?;
    let text = std::str::from_utf8(bytes).map_err(|error| corrupt(error.to_string()))?;
    RecordKey::new(text).map_err(|error| corrupt(error.to_string()))
}

/// Where a list begins, and which keys it has.
pub(super) struct Start {
    queue: Name,
    prefix: Vec<u8>,
    from: Vec<u8>,
}

impl Start {
    pub(super) fn of(queue: &Name, prefix: &str, after: Option<&RecordKey>) -> Self {
        let prefix = prefix.as_bytes().to_vec();
        // No key lies between one and itself with a NUL at its end.
        let after = after.map_or(Vec::new(), |after| [after.as_str().as_bytes(), &[0]].concat());
        Self { queue: queue.clone(), from: after.max(prefix.clone()), prefix }
    }
}

/// Looks at no more than [`SCAN_MAX`] records, of which many may be over.
pub(super) fn page(
    connection: &Connection,
    start: &Start,
    limit: u32,
    now: Timestamp,
) -> Result<RecordPage, Fault> {
    if limit == 0 {
        return Ok(RecordPage::default());
    }
    let mut statement = connection.prepare_cached(LIST)?;
    let fields = params![start.queue.as_str(), start.from, now.as_micros(), SCAN_MAX];
    let mut rows = statement.query(fields)?;
    let (mut records, mut bytes, mut looked_at, mut last) = (Vec::new(), 0, 0, None);
    while let Some(found) = rows.next()? {
        let found = transaction::read(found)?;
        let stored = found.bytes(0).map_err(|error| Fault::Corrupt(error.to_string()))?;
        if !stored.starts_with(&start.prefix) {
            return Ok(RecordPage::of(records, limit));
        }
        looked_at += 1;
        let Some(key) = row::readable(key(&found))? else { continue };
        last = Some(key);
        let is_over = found.columns().get(4).is_none_or(windlass_core::sql::Value::is_null);
        if is_over {
            continue;
        }
        // One more than the page has tells that there are more.
        let is_full = records.len() == limit as usize || bytes >= PAGE_BYTES;
        let record = record(&found)?;
        bytes += record.value.len();
        records.push(record);
        if is_full {
            return Ok(RecordPage::of(records, limit));
        }
    }
    let mut page = RecordPage::of(records, limit);
    if looked_at == SCAN_MAX {
        page.next = page.next.or(last);
    }
    Ok(page)
}

pub(super) fn totals(connection: &Connection, queue: &Name, now: Timestamp) -> Result<RecordTotals, Fault> {
    let mut statement = connection.prepare_cached(TOTALS)?;
    let mut rows = statement.query(params![queue.as_str(), now.as_micros(), TOTALS_MAX + 1])?;
    let (mut totals, mut looked_at) = (RecordTotals::default(), 0);
    while let Some(found) = rows.next()? {
        if looked_at == TOTALS_MAX {
            totals.has_more = true;
            break;
        }
        looked_at += 1;
        if found.get::<_, Option<bool>>(0)? != Some(true) {
            totals.count += 1;
            totals.bytes += found.get::<_, i64>(1)?.unsigned_abs();
        }
    }
    Ok(totals)
}

/// Whether the time of a record is over that is still there.
pub(crate) fn is_any_over(connection: &Connection, now: Timestamp) -> Result<bool, Fault> {
    Ok(connection.prepare_cached(IS_ANY_OVER)?.query_row([now.as_micros()], |row| row.get(0))?)
}

/// Forgets records whose time is over, at most so many, and fewer where they are large. Answers how many.
pub(crate) fn forget_over(session: &Session<'_>, limit: u32) -> Result<u32, Fault> {
    let (mut over, mut bytes) = (Vec::new(), 0);
    let mut statement = session.prepare(OVER)?;
    let mut rows = statement.query([session.now.as_micros(), limit.into()])?;
    while bytes < FORGET_BYTES
        && let Some(found) = rows.next()?
    {
        over.push(found.get(0)?);
        bytes += found.get::<_, i64>(1)?;
    }
    drop(rows);
    if over.is_empty() {
        return Ok(0);
    }
    Ok(session.prepare(FORGET)?.execute([row::list(over.into_iter())])? as u32)
}
