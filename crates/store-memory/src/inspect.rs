//! Pages of jobs, the newest accepted first. A cursor is the place of the last job that was looked at, so
//! jobs that come, go or change between two pages move no other.

use async_trait::async_trait;
use windlass_core::StoreError;
use windlass_core::store::{Cursor, Filter, Inspect, JobPage, PAGE_MAX, SCAN_MAX, StoreResult};

use crate::MemoryStore;
use crate::bug::Bug;
use crate::job::{Job, Seq};
use crate::table::Table;

#[async_trait]
impl Inspect for MemoryStore {
    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> StoreResult<JobPage> {
        let before = after.map(position).transpose()?.unwrap_or(Seq::MAX);
        Ok(self.read(|table, _| table.page(filter, before, limit)))
    }
}

fn position(cursor: &Cursor) -> StoreResult<Seq> {
    cursor.0.parse().map_err(|_| StoreError::Cursor { cursor: cursor.0.clone() })
}

impl Table {
    fn page(&self, filter: &Filter, mut before: Seq, limit: u32) -> JobPage {
        let mut page = JobPage::default();
        let limit = limit.min(PAGE_MAX) as usize;
        if limit == 0 {
            return page;
        }
        let skipped = if self.has(Bug::PageByCount) { Seq::MAX - before } else { 0 };
        let first = if skipped > 0 { Seq::MAX } else { before };
        let newest_first = self.jobs.range(..first).rev().skip(skipped as usize);
        for (looked_at, (&seq, job)) in newest_first.enumerate() {
            if page.jobs.len() == limit || looked_at == SCAN_MAX as usize {
                page.next = Some(Cursor(before.to_string()));
                break;
            }
            before = if self.has(Bug::PageByCount) { before - 1 } else { seq };
            if is_match(filter, job) {
                page.jobs.push(job.record());
            }
        }
        page
    }
}

fn is_match(filter: &Filter, job: &Job) -> bool {
    let spec = &job.spec;
    filter.queue.as_ref().is_none_or(|queue| *queue == spec.queue)
        && filter.kind.as_ref().is_none_or(|kind| *kind == spec.kind)
        && filter.state.is_none_or(|state| state == job.state)
        && filter.tag.as_ref().is_none_or(|tag| spec.tags.contains(tag))
}
