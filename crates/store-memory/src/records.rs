//! Records, and writes of several things at once. What may be refused is tested before anything is written.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::clock::Timestamp;
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Change, Record, RecordKey, RecordWrite};
use windlass_core::store::{
    AttemptWrite, AttemptWritten, Enqueued, PAGE_MAX, RecordPage, RecordTotals, Records, Right, Settled,
    StoreResult, TOTALS_MAX,
};
use windlass_core::{CallId, Name, State, StoreError};

use crate::MemoryStore;
use crate::bug::Bug;
use crate::job::Job;
use crate::table::Table;

/// The records of all queues.
pub(crate) type RecordBook = BTreeMap<Name, BTreeMap<RecordKey, Record>>;

#[async_trait]
impl Records for MemoryStore {
    async fn read(&self, queue: &Name, keys: Arc<[RecordKey]>) -> StoreResult<Vec<Option<Record>>> {
        Ok(self.read(|table, now| keys.iter().map(|key| table.record(queue, key, now).cloned()).collect()))
    }

    async fn list(
        &self,
        queue: &Name,
        prefix: &str,
        after: Option<&RecordKey>,
        limit: u32,
    ) -> StoreResult<RecordPage> {
        let limit = limit.min(PAGE_MAX);
        Ok(self.read(|table, now| table.record_page(queue, prefix, after, limit, now)))
    }

    async fn totals(&self, queue: &Name) -> StoreResult<RecordTotals> {
        Ok(self.read(|table, now| {
            let mut totals = RecordTotals::default();
            for record in table.records.get(queue).into_iter().flat_map(BTreeMap::values) {
                if totals.count == u64::from(TOTALS_MAX) {
                    totals.has_more = true;
                    break;
                }
                if is_there(record, now) {
                    totals.count += 1;
                    totals.bytes += record.value.len() as u64;
                }
            }
            totals
        }))
    }

    async fn write(&self, call: CallId, queue: &Name, what: FollowUps) -> StoreResult<Vec<Enqueued>> {
        what.check_in(queue)?;
        self.write(|table, now| table.write_together(call, queue, &what, now))
    }

    async fn write_fenced(
        &self,
        right: Right,
        items: Arc<[AttemptWrite]>,
    ) -> StoreResult<Vec<AttemptWritten>> {
        Ok(self.write(|table, now| {
            let write =
                |item: &AttemptWrite| item.check().and_then(|()| table.write_fenced(right, item, now));
            items.iter().map(write).map(|answer| answer.unwrap_or_else(AttemptWritten::Refused)).collect()
        }))
    }
}

impl Table {
    /// A record whose time is not over.
    fn record(&self, queue: &Name, key: &RecordKey, now: Timestamp) -> Option<&Record> {
        self.records.get(queue)?.get(key).filter(|record| self.has_record(record, now))
    }

    fn has_record(&self, record: &Record, now: Timestamp) -> bool {
        is_there(record, now) || self.has(Bug::ReadExpiredRecord)
    }

    fn record_page(
        &self,
        queue: &Name,
        prefix: &str,
        after: Option<&RecordKey>,
        limit: u32,
        now: Timestamp,
    ) -> RecordPage {
        let Some(records) = self.records.get(queue) else { return RecordPage::default() };
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let found = records.range::<RecordKey, _>((start, Bound::Unbounded)).map(|(_, record)| record);
        let begins = |record: &&Record| record.key.as_str().starts_with(prefix);
        let found = found.filter(|record| begins(record) && self.has_record(record, now));
        RecordPage::of(found.take(limit as usize + 1).cloned().collect(), limit)
    }

    fn write_together(
        &mut self,
        call: CallId,
        queue: &Name,
        what: &FollowUps,
        now: Timestamp,
    ) -> StoreResult<Vec<Enqueued>> {
        let is_repeat = !what.jobs.is_empty() && self.calls.knows(call);
        if !is_repeat {
            self.check_records(queue, &what.records, now)?;
        }
        let answers = match what.jobs.is_empty() {
            true => Vec::new(),
            false => self.accept_call(call, &what.jobs, now)?,
        };
        if !is_repeat {
            self.change_records(queue, &what.records, now);
        }
        Ok(answers)
    }

    /// Writes what an attempt says, if its right holds.
    fn write_fenced(
        &mut self,
        right: Right,
        item: &AttemptWrite,
        now: Timestamp,
    ) -> StoreResult<AttemptWritten> {
        let Some(job) = self.may_write(right, item, now) else {
            return Ok(AttemptWritten::Fenced);
        };
        let (state, is_followed) = (job.state, item.is_followed(job.cancel_requested));
        if is_followed || self.has(Bug::FollowCancelled) {
            self.check_acceptable(&item.then.jobs)?;
            self.check_records(&item.queue, &item.then.records, now)?;
        }
        let state = match item.settlement() {
            None => state,
            Some(end) => match self.end(right, &end, now) {
                Settled::Applied(state) => state,
                Settled::Fenced => return Ok(AttemptWritten::Fenced),
                Settled::Refused(error) => return Err(StoreError::TooLarge { id: item.id, error }),
            },
        };
        if is_followed || self.has(Bug::FollowCancelled) {
            self.follow(&item.queue, &item.then, now)?;
        }
        Ok(AttemptWritten::Applied(state))
    }

    /// Accepts and changes what was tested.
    fn follow(&mut self, queue: &Name, then: &FollowUps, now: Timestamp) -> StoreResult<()> {
        if !self.has(Bug::LoseFollowUps) {
            self.accept_following(&then.jobs, now)?;
        }
        self.change_records(queue, &then.records, now);
        Ok(())
    }

    /// Tests what is expected of each record.
    fn check_records(&self, queue: &Name, writes: &[RecordWrite], now: Timestamp) -> StoreResult<()> {
        for write in writes {
            let found = self.record(queue, &write.key, now).map(|record| record.version);
            if !write.is_met_by(found) && !self.has(Bug::WriteUnexpected) {
                return Err(StoreError::Conflict { key: write.key.clone(), found });
            }
        }
        Ok(())
    }

    fn change_records(&mut self, queue: &Name, writes: &[RecordWrite], now: Timestamp) {
        if writes.is_empty() {
            return;
        }
        let records = self.records.entry(queue.clone()).or_default();
        for write in writes {
            match &write.change {
                Change::Put { version, value, .. } => {
                    let (key, expires_at) = (write.key.clone(), write.expires_at(now));
                    let record =
                        Record { key, version: *version, value: value.clone(), written_at: now, expires_at };
                    records.insert(write.key.clone(), record);
                }
                Change::Remove => {
                    records.remove(&write.key);
                }
            }
        }
        if records.is_empty() {
            self.records.remove(queue);
        }
    }

    /// Removes records whose time is over, at most so many.
    pub(crate) fn tidy_records(&mut self, now: Timestamp, limit: u32) -> u32 {
        let all =
            self.records.iter().flat_map(|(queue, records)| records.values().map(move |each| (queue, each)));
        let over = all.filter(|(_, record)| !is_there(record, now)).take(limit as usize);
        let over: Vec<_> = over.map(|(queue, record)| (queue.clone(), record.key.clone())).collect();
        for (queue, key) in &over {
            self.change_records(queue, &[RecordWrite::remove(key.clone())], now);
        }
        over.len() as u32
    }

    /// The job that this right is about, if it holds.
    fn may_write(&self, right: Right, item: &AttemptWrite, now: Timestamp) -> Option<&Job> {
        let is_running = |job: &&Job| job.state == State::Running;
        let unfenced = || self.get(item.id).filter(is_running).filter(|_| self.has(Bug::FollowUnfenced));
        match (right, &item.transition) {
            (Right::Fence, _) => self.fenced(&item.queue, item.id, item.fence).or_else(unfenced),
            (Right::LostLease, Some(_)) => self.lost_to(&item.queue, item.id, item.fence, now),
            (Right::Late, Some(transition)) if transition.state.is_terminal() => {
                self.reaped(&item.queue, item.id, item.fence)
            }
            _ => None,
        }
    }
}

fn is_there(record: &Record, now: Timestamp) -> bool {
    record.expires_at.is_none_or(|expires_at| expires_at > now)
}
