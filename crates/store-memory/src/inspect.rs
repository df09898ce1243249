//! Pages of jobs, the newest accepted first. A cursor is the place of the last job that was looked at, so
//! jobs that come, go or change between two pages move no other.

use async_trait::async_trait;
use windlass_core::store::{
    Cursor, EndPlace, Ended, Filter, Inspect, JobPage, PAGE_MAX, SCAN_MAX, StoreResult,
};
use windlass_core::{Name, State};

use crate::MemoryStore;
use crate::bug::Bug;
use crate::job::Seq;
use crate::table::Table;

/// More than any job's place.
const NEWEST: Seq = i64::MAX.unsigned_abs();

#[async_trait]
impl Inspect for MemoryStore {
    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> StoreResult<JobPage> {
        let before = after.map(Cursor::number).transpose()?.map_or(NEWEST, i64::unsigned_abs);
        Ok(self.read(|table, _| table.page(filter, before, limit)))
    }

    async fn ended(
        &self,
        queue: &Name,
        state: State,
        after: EndPlace,
        limit: u32,
    ) -> StoreResult<Vec<Ended>> {
        Ok(self.read(|table, _| table.ended(queue, state, after, limit.min(PAGE_MAX) as usize)))
    }
}

impl Table {
    fn ended(&self, queue: &Name, state: State, after: EndPlace, limit: usize) -> Vec<Ended> {
        let Some(order) = self.queues.get(queue).and_then(|queue| queue.finished(state)) else {
            return Vec::new();
        };
        let next = Seq::try_from(after.seq.saturating_add(1)).unwrap_or(0);
        let skips_ties = self.has(Bug::SkipEndsOfOneInstant) && next > 0;
        let rest = order.range((after.at, next)..).filter(|(at, _)| !skips_ties || *at > after.at);
        let ended = rest.filter_map(|&(at, seq)| {
            let id = self.jobs.get(&seq)?.new.id;
            Some(Ended { id, place: EndPlace { at, seq: seq.cast_signed() } })
        });
        ended.take(limit).collect()
    }

    fn page(&self, filter: &Filter, mut before: Seq, limit: u32) -> JobPage {
        let mut page = JobPage::default();
        let limit = limit.min(PAGE_MAX) as usize;
        if limit == 0 {
            return page;
        }
        let skipped = if self.has(Bug::PageByCount) { NEWEST - before } else { 0 };
        let first = if skipped > 0 { NEWEST } else { before };
        let newest_first = self.jobs.range(..first).rev().skip(skipped as usize);
        for (looked_at, (&seq, job)) in newest_first.enumerate() {
            if page.jobs.len() == limit || looked_at == SCAN_MAX as usize {
                page.next = Some(Cursor::before(before.cast_signed()));
                break;
            }
            before = if self.has(Bug::PageByCount) { before - 1 } else { seq };
            let new = &job.new;
            if filter.matches(new.queue.as_str(), new.kind.as_str(), job.state, &new.tags) {
                page.jobs.push(job.record());
            }
        }
        page
    }
}
