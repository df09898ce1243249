//! Where schedules are: one record for each, under its id, in a queue of the engine's own that holds no jobs. Written before the
//! schedule, so none is forgotten; an entry whose schedule is gone means nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_core::Name;
use windlass_core::record::RecordKey;
use windlass_core::schedule::{ScheduleRecord, check_id};

use super::{ScheduleView, key};
use crate::client::{Client, Records, decoded};
use crate::error::Result;

/// The queue of the entries.
const QUEUE: &str = "windlass.schedules";
/// Records of schedules that one call reads.
const READ_MAX: usize = 100;

/// Where a schedule is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) queue: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
}

fn entries(client: &Client) -> Result<Records> {
    client.records(QUEUE)
}

pub(super) async fn get(client: &Client, id: &str) -> Result<Option<Entry>> {
    check_id(id)?;
    Ok(entries(client)?.get(id).await?.map(|entry| entry.value))
}

pub(super) async fn put(client: &Client, id: &str, entry: &Entry) -> Result<()> {
    entries(client)?.put(id, entry).await.map(drop)
}

pub(super) async fn remove(client: &Client, id: &str) -> Result<()> {
    entries(client)?.remove(id).await
}

/// Entries by id, after the given one, and where the next page begins.
pub(crate) async fn page(
    client: &Client,
    after: Option<&RecordKey>,
    limit: u32,
) -> Result<(Vec<(String, Entry)>, Option<RecordKey>)> {
    let page = entries(client)?.list("", after, limit).await?;
    let entry = |record: windlass_core::record::Record| {
        let id = record.key.to_string();
        decoded::<Entry>(record).map(|entry| (id, entry.value))
    };
    // An entry that does not read hides no other.
    let entries = page.records.into_iter().filter_map(|record| entry(record).ok()).collect();
    Ok((entries, page.next))
}

/// The schedules of these entries, in their order. One that is gone or does not read is left out.
pub(crate) async fn views(
    client: &Client,
    entries: &[(String, Entry)],
) -> Result<Vec<(ScheduleView, windlass_core::record::Version)>> {
    let mut by_queue: BTreeMap<&Name, Vec<&str>> = BTreeMap::new();
    for (id, entry) in entries {
        by_queue.entry(&entry.queue).or_default().push(id);
    }
    let mut found = BTreeMap::new();
    for (queue, ids) in by_queue {
        let part = crate::client::records_of(&**client.store())?;
        for ids in ids.chunks(READ_MAX) {
            let keys: Vec<RecordKey> = ids.iter().map(|id| key(id)).collect::<Result<_>>()?;
            let records = part.read(queue, keys.into()).await?;
            for (id, record) in ids.iter().zip(records) {
                let Some(record) = record else { continue };
                match ScheduleRecord::read(&record.value) {
                    Ok(read) => {
                        found.insert(*id, (ScheduleView::of(id, queue, read), record.version));
                    }
                    Err(error) => {
                        tracing::warn!(schedule = id, job.queue = %queue, %error, "a schedule does not read");
                    }
                }
            }
        }
    }
    Ok(entries.iter().filter_map(|(id, _)| found.remove(id.as_str())).collect())
}
