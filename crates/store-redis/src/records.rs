//! What queues remember beside their jobs, and writes of several things at once. A record is read, listed and counted by
//! scripts that answer a bounded number of bytes each; [`write`] and [`follow`] change records, and accept jobs with them.

mod follow;
mod plan;
mod stored;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use redis::Value;
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Record, RecordKey};
use windlass_core::store::{
    AttemptWrite, AttemptWritten, Enqueued, PAGE_BYTES, PAGE_MAX, RecordPage, RecordTotals, Records, Right,
    StoreResult, TOTALS_MAX,
};
use windlass_core::{CallId, Name};

use crate::connect::Call;
use crate::error::Fault;
use crate::scripts::{COUNT_REMEMBERED, LIST_REMEMBERED, READ_REMEMBERED};
use crate::session::Session;
use crate::{RedisStore, Tools, answer};

/// How many keys one script reads, and how many it counts.
const KEYS_MAX: usize = 500;
const COUNTED_MAX: u64 = 1_000;

#[async_trait]
impl Records for RedisStore {
    async fn read(&self, queue: &Name, keys: Arc<[RecordKey]>) -> StoreResult<Vec<Option<Record>>> {
        let queue = queue.clone();
        self.remote
            .call(Call::READ, async move |tools, session| read(&tools, &session, &queue, &keys).await)
            .await
    }

    async fn list(
        &self,
        queue: &Name,
        prefix: &str,
        after: Option<&RecordKey>,
        limit: u32,
    ) -> StoreResult<RecordPage> {
        let (queue, range) = (queue.clone(), Range::of(prefix, after));
        let limit = limit.min(PAGE_MAX);
        if limit == 0 {
            return Ok(RecordPage::default());
        }
        self.remote
            .call(Call::READ, async move |tools, session| list(&tools, &session, &queue, range, limit).await)
            .await
    }

    async fn totals(&self, queue: &Name) -> StoreResult<RecordTotals> {
        let queue = queue.clone();
        self.remote.call(Call::READ, async move |tools, session| totals(&tools, &session, &queue).await).await
    }

    async fn write(&self, call: CallId, queue: &Name, what: FollowUps) -> StoreResult<Vec<Enqueued>> {
        what.check_in(queue)?;
        if what.is_empty() {
            return Ok(Vec::new());
        }
        let queue = queue.clone();
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                write::write(&tools, &session, call, &queue, &what).await
            })
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

async fn read(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    keys: &[RecordKey],
) -> Result<Vec<Option<Record>>, Fault> {
    let mut records = Vec::with_capacity(keys.len());
    while records.len() < keys.len() {
        let wanted = &keys[records.len()..(records.len() + KEYS_MAX).min(keys.len())];
        let mut arguments = vec![tools.clock(), PAGE_BYTES.to_string().into()];
        arguments.extend(wanted.iter().map(stored::key));
        let said = session.run(&READ_REMEMBERED, tools.keys.queue(queue).all(), arguments).await?;
        let said = answer::byte_strings(said)?;
        if said.len() < 2 {
            return Err(Fault::Corrupt("records were not answered".to_owned()));
        }
        for (key, said) in wanted.iter().zip(said.chunks_exact(2)) {
            records.push(match said[0].is_empty() {
                true => None,
                false => Some(stored::read(key.clone(), &said[0], &said[1])?),
            });
        }
    }
    Ok(records)
}

/// From where to where keys are listed, as ranges by bytes say it.
struct Range {
    from: Bytes,
    upto: Bytes,
}

impl Range {
    fn of(prefix: &str, after: Option<&RecordKey>) -> Self {
        let from = match after {
            Some(after) if after.as_str() >= prefix => excluded(after.as_str().as_bytes()),
            _ if prefix.is_empty() => Bytes::from_static(b"-"),
            _ => [b"[", prefix.as_bytes()].concat().into(),
        };
        // No text has this byte.
        let upto = match prefix {
            "" => Bytes::from_static(b"+"),
            _ => [b"(", prefix.as_bytes(), b"\xff"].concat().into(),
        };
        Self { from, upto }
    }
}

fn excluded(key: &[u8]) -> Bytes {
    [b"(", key].concat().into()
}

/// A script looks at a bounded number of keys, of which the records may be gone: then the next one goes on.
async fn list(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    mut range: Range,
    limit: u32,
) -> Result<RecordPage, Fault> {
    let (mut page, mut bytes, mut last) = (RecordPage::default(), 0, Bytes::new());
    loop {
        let (left, room) = (limit as usize - page.records.len(), PAGE_BYTES.saturating_sub(bytes));
        let numbers = [left, room].map(|number| Bytes::from(number.to_string()));
        let mut arguments = vec![tools.clock(), range.from, range.upto.clone()];
        arguments.extend(numbers);
        let said = session.run(&LIST_REMEMBERED, tools.keys.queue(queue).all(), arguments).await?;
        let said = answer::byte_strings(said)?;
        let [next, is_enough, found @ ..] = &said[..] else {
            return Err(Fault::Corrupt("a list of records has no beginning".to_owned()));
        };
        for found in found.chunks_exact(3) {
            let record = stored::key_of(&found[0]).and_then(|key| stored::read(key, &found[1], &found[2]));
            match record {
                Ok(record) => {
                    bytes += record.value.len();
                    page.records.push(record);
                }
                // It hides no other.
                Err(fault) => {
                    tracing::warn!(%queue, ?fault, "a record does not read, and is left out of a list")
                }
            }
        }
        if !is_enough.is_empty() {
            // There are more, after the last one that was looked at, by this script or by the one before.
            page.next = Some(stored::key_of(if next.is_empty() { &last } else { next })?);
            return Ok(page);
        }
        if next.is_empty() {
            return Ok(page);
        }
        range.from = excluded(next);
        last = next.clone();
    }
}

async fn totals(tools: &Tools, session: &Session, queue: &Name) -> Result<RecordTotals, Fault> {
    let (mut totals, mut looked_at) = (RecordTotals::default(), 0);
    let mut from = Bytes::from_static(b"-");
    while looked_at < u64::from(TOTALS_MAX) {
        let arguments = vec![tools.clock(), from, COUNTED_MAX.to_string().into()];
        let said = session.run(&COUNT_REMEMBERED, tools.keys.queue(queue).all(), arguments).await?;
        let mut said = answer::array(said)?.into_iter();
        let mut next = || said.next().unwrap_or(Value::Nil);
        let mut number = || answer::integer(next()).map(i64::unsigned_abs);
        looked_at += number()?;
        totals.count += number()?;
        totals.bytes += number()?;
        let last = answer::bytes(next())?;
        if last.is_empty() {
            return Ok(totals);
        }
        from = excluded(&last);
    }
    totals.has_more = true;
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_begins_at_its_prefix_or_after_a_key() {
        let key = |text: &str| RecordKey::new(text).unwrap();
        let from = |prefix, after: Option<&RecordKey>| Range::of(prefix, after).from;
        assert_eq!((from("", None), from("a", None)), ("-".into(), "[a".into()));
        assert_eq!((from("b", Some(&key("a"))), from("b", Some(&key("b/1")))), ("[b".into(), "(b/1".into()));
        assert_eq!(from("", Some(&key("a"))), "(a");
        assert_eq!(Range::of("", None).upto, "+");
        assert_eq!(Range::of("é", None).upto, [b"(", "é".as_bytes(), b"\xff"].concat());
    }
}
