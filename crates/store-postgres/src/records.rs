//! Records, and what is written together with them. [`changes`] says how changes of records go to the server, [`follow`] what
//! becomes of the follow-ups of attempts, of which a [`batch`] goes by one call of one function.

mod batch;
pub(crate) mod changes;
mod follow;
mod runs;

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::follow_ups::{FollowUps, RECORDS_MAX};
use windlass_core::record::{KEY_MAX, Record, RecordKey, Version};
use windlass_core::store::{
    AttemptWrite, AttemptWritten, Enqueued, PAGE_BYTES, PAGE_MAX, RecordPage, RecordTotals, Records, Right,
    StoreResult, TOTALS_MAX,
};
use windlass_core::{CallId, Name};

use crate::connect::Call;
use crate::definitions::{Current, ROUNDS};
use crate::error::Fault;
use crate::functions::{RECORDS_LIST, RECORDS_READ, RECORDS_TOTALS, RECORDS_WRITE};
use crate::jobs::enqueue::{self, Columns, is_heard, queues, rings};
use crate::jobs::settle::index;
use crate::row::{self, at};
use crate::session::{Parameters, Session};
use crate::{PostgresStore, Tools};
use changes::Changes;

/// How many records one statement reads: as many as one writes.
pub(crate) const READ_STEP: usize = RECORDS_MAX;

#[async_trait]
impl Records for PostgresStore {
    async fn read(&self, queue: &Name, keys: Arc<[RecordKey]>) -> StoreResult<Vec<Option<Record>>> {
        let queue = queue.clone();
        self.remote.call(Call::READ, async move |_, session| read(&session, &queue, &keys).await).await
    }

    async fn list(
        &self,
        queue: &Name,
        prefix: &str,
        after: Option<&RecordKey>,
        limit: u32,
    ) -> StoreResult<RecordPage> {
        let Some((from, until)) = bounds(prefix, after).filter(|_| limit > 0) else {
            return Ok(RecordPage::default());
        };
        let (queue, limit) = (queue.clone(), limit.min(PAGE_MAX));
        self.remote
            .call(Call::READ, async move |_, session| {
                // One more tells whether there is more.
                let (most, bytes) = (i64::from(limit) + 1, PAGE_BYTES as i64);
                let parameters: Parameters<'_> = &[&queue.as_str(), &from, &until, &most, &bytes];
                let rows = session.call(&RECORDS_LIST, parameters).await?;
                let key = |row: &Row| {
                    RecordKey::new(at::<&str>(row, 0)?).map_err(|error| Fault::Corrupt(error.to_string()))
                };
                let records = rows.iter().map(|row| record(row, key(row)?));
                Ok(RecordPage::of(records.collect::<Result<_, _>>()?, limit))
            })
            .await
    }

    async fn totals(&self, queue: &Name) -> StoreResult<RecordTotals> {
        let queue = queue.clone();
        self.remote
            .call(Call::READ, async move |_, session| {
                let row =
                    session.call_one(&RECORDS_TOTALS, &[&queue.as_str(), &i64::from(TOTALS_MAX)]).await?;
                let (count, bytes) = (row::number(at(&row, 0)?), row::number(at(&row, 1)?));
                Ok(RecordTotals { count, bytes, has_more: at(&row, 2)? })
            })
            .await
    }

    async fn write(&self, call: CallId, queue: &Name, what: FollowUps) -> StoreResult<Vec<Enqueued>> {
        what.check_in(queue)?;
        if what.is_empty() {
            return Ok(Vec::new());
        }
        let queue = queue.clone();
        self.remote
            .call(Call::WRITE, async move |tools, session| write(&tools, &session, call, &queue, &what).await)
            .await
    }

    async fn write_fenced(
        &self,
        right: Right,
        items: Arc<[AttemptWrite]>,
    ) -> StoreResult<Vec<AttemptWritten>> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                follow::write_fenced(&tools, &session, right, &items).await
            })
            .await
    }
}

async fn read(session: &Session, queue: &Name, keys: &[RecordKey]) -> Result<Vec<Option<Record>>, Fault> {
    let mut found = vec![None; keys.len()];
    for (step, keys) in keys.chunks(READ_STEP).enumerate() {
        let texts: Vec<_> = keys.iter().map(RecordKey::as_str).collect();
        for row in session.call(&RECORDS_READ, &[&queue.as_str(), &texts]).await? {
            let place = index(&row, 0, keys.len())?;
            found[step * READ_STEP + place] = Some(record(&row, keys[place].clone())?);
        }
    }
    Ok(found)
}

/// A record from the columns behind the first.
fn record(row: &Row, key: RecordKey) -> Result<Record, Fault> {
    Ok(Record {
        key,
        version: Version(at::<i64>(row, 1)?.cast_unsigned()),
        written_at: row::time(at(row, 2)?),
        expires_at: at::<Option<i64>>(row, 3)?.map(row::time),
        value: row::bytes(row, 4)?,
    })
}

/// From which key on records begin with a text and come after another key, and before which key; nothing where there are none.
fn bounds(prefix: &str, after: Option<&RecordKey>) -> Option<(String, String)> {
    if prefix.len() > KEY_MAX || prefix.contains('\0') {
        return None;
    }
    // No key has a NUL, so nothing lies between a key and this.
    let next = after.map(|key| format!("{key}\u{1}")).unwrap_or_default();
    // Texts are ordered by their bytes, and so by their characters.
    let kept = prefix.trim_end_matches(char::MAX);
    let until = kept.chars().next_back().and_then(|last| {
        let above = ((last as u32 + 1)..=char::MAX as u32).find_map(char::from_u32)?;
        Some(format!("{}{above}", &kept[..kept.len() - last.len_utf8()]))
    });
    // Above every key: none has as many bytes.
    let end = || char::MAX.to_string().repeat(KEY_MAX / char::MAX.len_utf8() + 1);
    Some((next.max(prefix.to_owned()), until.unwrap_or_else(end)))
}

async fn write(
    tools: &Tools,
    session: &Session,
    call: CallId,
    queue: &Name,
    what: &FollowUps,
) -> Result<Vec<Enqueued>, Fault> {
    let calls: &[Uuid] = &[Uuid::from_bytes(*call.as_bytes())];
    let changes = Changes::of(what.records.iter().map(|write| (queue, write)));
    for _ in 0..ROUNDS {
        let definitions = match what.jobs.is_empty() {
            true => Current::new(0, Vec::new(), Vec::new()),
            false => tools.definitions.of(session, queues(&what.jobs)).await?,
        };
        let columns = Columns::of(&what.jobs, &definitions)?;
        let jobs = enqueue::Call { columns: &columns, is_one: false, version: definitions.version, calls };
        let (name, changed, digests) = (queue.as_str(), changes.columns(), columns.keys.texts());
        let queue: [&(dyn ToSql + Sync); 1] = [&name];
        let parameters = [&jobs.all()[..], &jobs.keys(&digests), &queue, &changed[1..]].concat();
        let rows = session.call(&RECORDS_WRITE, &parameters).await?;
        let said = rows.iter().map(|row| at(row, 0)).collect::<Result<Vec<&str>, _>>()?;
        if said.first() == Some(&"conflict") {
            let found = rows.iter().map(|row| Ok((index(row, 1, what.records.len())?, at(row, 2)?)));
            return Err(changes.conflict(&what.records, found.collect::<Result<_, Fault>>()?)?.into());
        }
        if what.jobs.is_empty() {
            return Ok(Vec::new());
        }
        if said.iter().any(|said| is_heard(said)) {
            tools.ring(rings(&what.jobs));
        }
        match columns.answers(&what.jobs, &definitions, said)? {
            Some(answers) => return Ok(answers),
            None => tools.definitions.forget(),
        }
    }
    Err(Fault::Defect("the definitions of queues never stand still".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_enclose_a_prefix() {
        let key = |text: &str| RecordKey::new(text).unwrap();
        let within = |prefix: &str, after: Option<&RecordKey>, text: &str| {
            bounds(prefix, after).is_some_and(|(from, until)| *from <= *text && *text < *until)
        };
        let max = "\u{10ffff}";
        let texts =
            ["a", "a/", "a/\u{10ffff}\u{10ffff}", "a0", "b", "\u{d7ff}", "\u{e000}", max, &max.repeat(64)];
        for prefix in ["", "a", "a/", "a/\u{10ffff}", "\u{d7ff}", max, &max.repeat(2)] {
            for text in texts {
                assert_eq!(within(prefix, None, text), text.starts_with(prefix), "{text:?} of {prefix:?}");
            }
        }
        assert!(!within("a", Some(&key("a/")), "a/") && within("a", Some(&key("a/")), "a/\u{1}"));
        assert!(!within("a", Some(&key("b")), "ab") && within("b", Some(&key("a")), "b"));
        assert_eq!(bounds("\0", None), None);
    }
}
