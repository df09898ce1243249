//! Dead jobs of a queue by the error that they died of, for queues that are to be searched by it often.
//!
//! An index is records in the queue itself, one for each dead job: `dead/FINGERPRINT/…`, the newest death first. The round of
//! maintenance that looks after dead jobs writes them, in the order of deaths, and notes how far it is; a search reads what died
//! since then by itself. So a search by index finds all that a search by pages finds. Entries of jobs that are no longer dead are
//! passed over, and removed by later rounds.

use std::collections::HashSet;
use std::sync::Arc;

use windlass_core::clock::Timestamp;
use windlass_core::fingerprint::Fingerprint;
use windlass_core::follow_ups::{FollowUps, RECORDS_MAX};
use windlass_core::record::{RecordKey, RecordWrite, Version};
use windlass_core::store::{Cursor, EndPlace, Ended, PAGE_MAX};
use windlass_core::{JobId, JobRecord, Name, State, StoreError};

use super::rules::{HOME, place_key};
use super::{DeadLetter, DeadLetters, DeadPage};
use crate::client::{Client, Records};
use crate::error::{ConfigError, Result};

/// What keys of queues begin with that have an index.
pub(crate) const INDEXED: &str = "index/";
/// What keys of entries begin with.
pub(crate) const ENTRIES: &str = "dead/";
/// Deaths that a search looks at which are not in the index yet. Where there are more, the index is not complete.
const REST_MAX: usize = 1_000;

/// How far the index of a queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadIndex {
    /// The last death that it has; nothing where no round was made yet.
    pub place: Option<EndPlace>,
}

impl Client {
    /// Keeps an index of the dead jobs of a queue by fingerprint from now on: a search by fingerprint in this queue then takes about
    /// as long as what it finds, however many dead jobs there are. Workers write it, also for what is dead already. It costs
    /// one record for each death, and a look at some 500 entries in each round, to remove those of jobs that are dead no more.
    ///
    /// # Errors
    /// The store's, and when it is not a name.
    pub async fn index_dead(&self, queue: impl AsRef<str>) -> Result<()> {
        let key = mark(&named(queue)?)?;
        let home = self.records(HOME)?;
        match home.get_raw(&key).await? {
            Some(_) => Ok(()),
            None => home.put(&key, &serde_json::json!({})).await.map(drop),
        }
    }

    /// Keeps no index any more, and removes what there is of it. False where there is none.
    ///
    /// # Errors
    /// As [`index_dead`](Self::index_dead).
    pub async fn forget_dead_index(&self, queue: impl AsRef<str>) -> Result<bool> {
        let queue = named(queue)?;
        let (key, home) = (mark(&queue)?, self.records(HOME)?);
        let is_there = home.get_raw(&key).await?.is_some();
        home.remove(&key).await?;
        home.remove(place_key(key.as_str())?).await?;
        let (records, mut after) = (Records::of(self.clone(), queue), None);
        loop {
            let page = records.list(ENTRIES, after.as_ref(), RECORDS_MAX as u32).await?;
            // Others may keep records of their own under such keys.
            let entries = page.records.into_iter().filter(|record| entry(&record.key).is_some());
            let writes: Vec<_> = entries.map(|record| RecordWrite::remove(record.key)).collect();
            if !writes.is_empty() {
                records.write(FollowUps { jobs: Vec::new(), records: writes }).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(is_there);
            }
        }
    }

    /// How far the index of a queue is; nothing where it has none.
    ///
    /// # Errors
    /// As [`index_dead`](Self::index_dead).
    pub async fn dead_index(&self, queue: impl AsRef<str>) -> Result<Option<DeadIndex>> {
        let (key, home) = (mark(&named(queue)?)?, self.records(HOME)?);
        let Some(mark) = home.get_raw(&key).await? else { return Ok(None) };
        let found = home.get::<Noted>(place_key(key.as_str())?).await?.map(|found| found.value);
        let own = found.filter(|noted| noted.of == Some(mark.version));
        Ok(Some(DeadIndex { place: own.map(|noted| noted.place) }))
    }
}

/// What rounds note of how far they are.
#[derive(serde::Deserialize)]
struct Noted {
    /// The version of the mark: an index that was forgotten and asked for again begins anew.
    of: Option<Version>,
    place: EndPlace,
}

impl DeadLetters {
    /// A page of those that match, the newest death first, by the index of their queue. Nothing where the filter names no queue or
    /// no fingerprint, or the queue has no index that is complete: then look by [`page`](Self::page).
    ///
    /// The first page may have more than `limit`: what the index does not have yet.
    ///
    /// # Errors
    /// The store's.
    pub async fn indexed(&self, after: Option<&Cursor>, limit: u32) -> Result<Option<DeadPage>> {
        let Some((queue, fingerprint)) = self.filter.indexed_by() else { return Ok(None) };
        if self.client.store().records().is_none() {
            return Ok(None);
        }
        let Some(DeadIndex { place: Some(place) }) = self.client.dead_index(queue).await? else {
            return Ok(None);
        };
        let (mut page, mut rest) = (DeadPage::default(), Vec::new());
        if after.is_none() {
            let Some(found) = self.rest(queue, place).await? else { return Ok(None) };
            rest = found;
            page.looked += rest.len() as u64;
            page.letters = self.matching(&rest).await?.into_iter().flatten().collect();
        }
        let records = Records::of(self.client.clone(), queue.clone());
        let after = after.map(|cursor| RecordKey::new(&cursor.0)).transpose()?;
        let found = records.list(&entries_of(fingerprint), after.as_ref(), limit.min(PAGE_MAX)).await?;
        // A round may have come further since: what it wrote is in the rest as well.
        let rest: HashSet<JobId> = rest.into_iter().collect();
        let entries = found.records.iter().filter_map(|record| entry(&record.key));
        let entries: Vec<(i64, JobId)> = entries.filter(|(_, id)| !rest.contains(id)).collect();
        page.looked += entries.len() as u64;
        let ids: Vec<JobId> = entries.iter().map(|(_, id)| *id).collect();
        // A job that died again has an entry for each death, and the newest is its own.
        let is_own = |(at, letter): &(i64, DeadLetter)| letter.job.finished_at.map(inverted) == Some(*at);
        let letters = entries.into_iter().zip(self.matching(&ids).await?);
        let letters = letters.filter_map(|((at, _), letter)| Some((at, letter?))).filter(is_own);
        page.letters.extend(letters.map(|(_, letter)| letter));
        page.next = found.next.map(|key| Cursor(key.to_string()));
        Ok(Some(page))
    }

    /// Whether a cursor is one of [`indexed`](Self::indexed).
    pub fn is_indexed_cursor(cursor: &Cursor) -> bool {
        cursor.0.starts_with(ENTRIES)
    }

    /// What died after a place, the newest first; nothing if it is too much.
    async fn rest(&self, queue: &Name, mut place: EndPlace) -> Result<Option<Vec<JobId>>> {
        let mut rest = Vec::new();
        loop {
            let page = self.client.store().ended(queue, State::Dead, place, PAGE_MAX).await?;
            rest.extend(page.iter().map(|ended| ended.id));
            match page.last() {
                Some(_) if rest.len() > REST_MAX => return Ok(None),
                Some(last) if page.len() == PAGE_MAX as usize => place = last.place,
                _ => break,
            }
        }
        rest.reverse();
        Ok(Some(rest))
    }

    /// These jobs, each if it is dead and matches.
    async fn matching(&self, ids: &[JobId]) -> Result<Vec<Option<DeadLetter>>> {
        let mut letters = Vec::with_capacity(ids.len());
        for some in ids.chunks(super::PAGE as usize) {
            let found = self.client.store().get(Arc::from(some)).await?;
            letters.extend(found.into_iter().map(|job| {
                let dead = job.filter(|job| job.state == State::Dead).map(DeadLetter::of);
                dead.filter(|letter| self.filter.matches(letter))
            }));
        }
        Ok(letters)
    }
}

/// The entries of dead jobs.
pub(crate) fn entries(jobs: &[JobRecord], ended: &[Ended]) -> Result<Vec<RecordWrite>, StoreError> {
    let place_of = |job: &JobRecord| ended.iter().find(|ended| ended.id == job.id).map(|ended| ended.place);
    let pairs = jobs.iter().filter_map(|job| Some((job, place_of(job)?)));
    pairs
        .map(|(job, EndPlace { at, seq })| {
            let fingerprint = DeadLetter::of(job.clone()).fingerprint;
            // The newest first, by the order of bytes.
            let (at, seq) = (inverted(at), i64::MAX - seq.max(0));
            let key = RecordKey::new(format!("{}{at:016x}{seq:016x}/{}", entries_of(fingerprint), job.id));
            let key = key.map_err(|error| StoreError::Corrupt(error.to_string()))?;
            Ok(RecordWrite::put(key, ""))
        })
        .collect()
}

/// An instant so that later ones come first.
fn inverted(at: Timestamp) -> i64 {
    i64::MAX.saturating_sub(at.as_micros().max(0))
}

fn entries_of(fingerprint: Fingerprint) -> String {
    format!("{ENTRIES}{fingerprint}/")
}

/// The job of an entry.
pub(crate) fn entry_id(key: &RecordKey) -> Option<JobId> {
    entry(key).map(|(_, id)| id)
}

/// When the job of an entry died, inverted, and which it is.
fn entry(key: &RecordKey) -> Option<(i64, JobId)> {
    let mut parts = key.as_str().strip_prefix(ENTRIES)?.splitn(3, '/');
    let _: Fingerprint = parts.next()?.parse().ok()?;
    let (at, seq) = parts.next().filter(|place| place.len() == 32)?.split_at_checked(16)?;
    i64::from_str_radix(seq, 16).ok()?;
    Some((i64::from_str_radix(at, 16).ok()?, parts.next()?.parse().ok()?))
}

fn mark(queue: &Name) -> Result<RecordKey> {
    Ok(RecordKey::new(format!("{INDEXED}{queue}"))?)
}

fn named(queue: impl AsRef<str>) -> Result<Name> {
    Ok(Name::new(queue).map_err(|error| ConfigError::Name { what: "queue", error })?)
}
