//! What a queue remembers, as callers see it: `client.records("mail")`.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Expect, Record, RecordKey, RecordWrite, Version};
use windlass_core::store::{self, AttemptWrite, AttemptWritten, Enqueued, RecordPage, RecordTotals, Right};
use windlass_core::{Bytes, Name, Store, StoreError};

use super::Client;
use super::repeat::{Repeat, repeat, retries};
use crate::error::{ConfigError, Error, Result};

/// Small values that a queue keeps under keys, beside its jobs. Values are JSON, at most 256 KiB each. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass_worker::Result<()> {
/// # use std::{sync::Arc, time::Duration};
/// # let client = windlass_worker::Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
/// let records = client.records("mail")?;
/// records.put("cursor", &17).await?;
/// let cursor = records.get::<u64>("cursor").await?.expect("it was put");
/// // Only if no other writer was faster:
/// let second = records.put("cursor", &18).if_version(cursor.version).ttl(Duration::from_secs(60));
/// second.await?;
/// let late = records.put("cursor", &19).if_version(cursor.version).await;
/// assert!(late.unwrap_err().is_conflict());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Records {
    client: Client,
    queue: Name,
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered<T> {
    /// Its value.
    pub value: T,
    /// What its newest write left; see [`Put::if_version`].
    pub version: Version,
    /// When it is gone, by the store's clock; nothing for one that stays.
    pub expires_at: Option<SystemTime>,
}

/// A value on its way into a record: say more about it, then await it.
#[must_use = "a record is written when this is awaited"]
pub struct Put {
    records: Records,
    key: Result<RecordKey>,
    value: serde_json::Result<Bytes>,
    expect: Expect,
    ttl: Option<Duration>,
}

impl Client {
    /// What a queue remembers beside its jobs. Asks the store nothing yet.
    ///
    /// # Errors
    /// When the text cannot be the name of a queue.
    pub fn records(&self, queue: impl AsRef<str>) -> Result<Records> {
        let queue = Name::new(queue).map_err(|error| ConfigError::Name { what: "queue", error })?;
        Ok(Records { client: self.clone(), queue })
    }

    /// Writes what an attempt says while it runs.
    pub(crate) async fn write_fenced(&self, item: AttemptWrite) -> Result<()> {
        let queue = item.queue.clone();
        let written = self.shared.writes.submit(&queue, item).await.map_err(|_closed| Error::Closed)??;
        applied(written)
    }

    /// As [`write_fenced`](Self::write_fenced), without a repeat, in work of its own.
    pub(crate) async fn write_fenced_once(&self, item: AttemptWrite) -> Result<()> {
        let store = Arc::clone(self.store());
        let call =
            tokio::spawn(async move { part(&*store)?.write_fenced(Right::Fence, [item].into()).await });
        let written = call.await.map_err(|_ended| Error::Closed)??.pop();
        applied(written.unwrap_or(AttemptWritten::Fenced))
    }
}

fn applied(written: AttemptWritten) -> Result<()> {
    match written {
        AttemptWritten::Applied(_) => Ok(()),
        AttemptWritten::Fenced => Err(Error::Fenced),
        AttemptWritten::Refused(error) => Err(error.into()),
    }
}

/// The part of a store that keeps records.
pub(crate) fn part(store: &dyn Store) -> Result<&dyn store::Records, StoreError> {
    store.records().ok_or_else(|| {
        let scheme = store.about().scheme;
        StoreError::Address(format!("the {scheme} store keeps no records: use another one"))
    })
}

impl Records {
    /// Records of this queue, which is known to be one.
    pub(crate) fn of(client: Client, queue: Name) -> Self {
        Self { client, queue }
    }

    /// The queue that they belong to.
    pub fn queue(&self) -> &Name {
        &self.queue
    }

    /// The record under a key.
    ///
    /// # Errors
    /// The store's, and when the key is none or the value does not decode as this type.
    pub async fn get<T: DeserializeOwned>(&self, key: impl AsRef<str>) -> Result<Option<Remembered<T>>> {
        self.get_raw(key).await?.map(decoded).transpose()
    }

    /// The record under a key, as it is stored.
    ///
    /// # Errors
    /// The store's, and when the key is none.
    pub async fn get_raw(&self, key: impl AsRef<str>) -> Result<Option<Record>> {
        let key = RecordKey::new(key)?;
        let part = part(&**self.client.store())?;
        Ok(part.read(&self.queue, [key].into()).await?.pop().flatten())
    }

    /// Puts a value under a key, whatever is there: a builder that is awaited. Answers the version that it leaves.
    pub fn put(&self, key: impl AsRef<str>, value: &impl Serialize) -> Put {
        Put {
            records: self.clone(),
            key: RecordKey::new(key).map_err(Error::from),
            value: serde_json::to_vec(value).map(Bytes::from),
            expect: Expect::Any,
            ttl: None,
        }
    }

    /// Removes the record under a key, if there is one.
    ///
    /// # Errors
    /// The store's, and when the key is none.
    pub async fn remove(&self, key: impl AsRef<str>) -> Result<()> {
        self.write_one(RecordWrite::remove(RecordKey::new(key)?)).await
    }

    /// Removes a record that is still as this write left it.
    ///
    /// # Errors
    /// As [`remove`](Self::remove), and [a conflict](Error::is_conflict) if it has changed or is gone. If an answer of the
    /// store was lost, the record may be gone by this very call.
    pub async fn remove_version(&self, key: impl AsRef<str>, version: Version) -> Result<()> {
        self.write_one(RecordWrite::remove(RecordKey::new(key)?).expect(Expect::Version(version))).await
    }

    /// Records whose key begins with this text, by key, after the given one, at most `limit`, 1,000 and about 1 MiB.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self, prefix: &str, after: Option<&RecordKey>, limit: u32) -> Result<RecordPage> {
        Ok(part(&**self.client.store())?.list(&self.queue, prefix, after, limit).await?)
    }

    /// How many records there are, and how large they are.
    ///
    /// # Errors
    /// The store's.
    pub async fn totals(&self) -> Result<RecordTotals> {
        Ok(part(&**self.client.store())?.totals(&self.queue).await?)
    }

    /// Changes several records, and enqueues jobs of this queue, in one write: all or nothing.
    ///
    /// # Errors
    /// The store's, and [a conflict](Error::is_conflict) if a record is not as it is expected to be.
    pub async fn write(&self, what: FollowUps) -> Result<Vec<Enqueued>> {
        what.check_in(&self.queue).map_err(StoreError::from)?;
        let (store, queue, what) = (Arc::clone(self.client.store()), self.queue.clone(), Arc::new(what));
        // In work of its own: a caller that goes away must not interrupt it between two tries.
        let call = tokio::spawn(async move {
            let count = what.jobs.len();
            let call = |id| {
                let (store, queue, what) = (Arc::clone(&store), queue.clone(), Arc::clone(&what));
                async move { part(&*store)?.write(id, &queue, FollowUps::clone(&what)).await }
            };
            repeat(count, Repeat::Whole, &mut retries(), call).await
        });
        Ok(call.await.map_err(|_ended| Error::Closed)??)
    }

    async fn write_one(&self, write: RecordWrite) -> Result<()> {
        self.write(FollowUps { jobs: Vec::new(), records: vec![write] }).await.map(|_| ())
    }
}

/// A record whose value is of this type.
pub(crate) fn decoded<T: DeserializeOwned>(record: Record) -> Result<Remembered<T>> {
    let Record { key, version, value, expires_at, .. } = record;
    let value = serde_json::from_slice(&value).map_err(|error| Error::Record { key, error })?;
    Ok(Remembered { value, version, expires_at: expires_at.map(SystemTime::from) })
}

impl Put {
    /// Only if nothing is there. Otherwise it is refused with [a conflict](Error::is_conflict).
    pub fn if_absent(mut self) -> Self {
        self.expect = Expect::Absent;
        self
    }

    /// Only if the record is still as this write left it. Otherwise it is refused with [a conflict](Error::is_conflict).
    pub fn if_version(mut self, version: Version) -> Self {
        self.expect = Expect::Version(version);
        self
    }

    /// It is gone this long after the write, by the store's clock.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The change that is to be made.
    pub(crate) fn into_write(self) -> Result<(Records, RecordWrite)> {
        let value = self.value.map_err(|error| Error::Encode { kind: "record", error })?;
        let write = RecordWrite::put(self.key?, value).expect(self.expect);
        Ok((self.records, self.ttl.into_iter().fold(write, RecordWrite::ttl)))
    }
}

impl IntoFuture for Put {
    type Output = Result<Version>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Version>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (records, write) = self.into_write()?;
            let version = write.version().expect("a put has a version");
            records.write_one(write).await?;
            Ok(version)
        })
    }
}
