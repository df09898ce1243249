//! Records of queues, and writes of several things at once. [`change`] is written once for the writer and for transactions of
//! the user's own; [`attempts`] writes what attempts carry.

mod attempts;
mod change;
mod look;

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Record, RecordKey, RecordWrite};
use windlass_core::store::{
    AttemptWrite, AttemptWritten, Enqueued, PAGE_MAX, RecordPage, RecordTotals, Records, Right, StoreResult,
};
use windlass_core::{CallId, Name};

use crate::SqliteStore;
use crate::error::Fault;
use crate::jobs::{self, calls};
use crate::session::Session;
use crate::transaction::at_once;
use crate::writer::Lane;
pub(crate) use change::{change, check};
pub(crate) use look::{find_all, forget_over, is_any_over};

#[async_trait]
impl Records for SqliteStore {
    async fn read(&self, queue: &Name, keys: Arc<[RecordKey]>) -> StoreResult<Vec<Option<Record>>> {
        let queue = queue.clone();
        self.read(move |connection, now| look::read(connection, &queue, &keys, now)).await
    }

    async fn list(
        &self,
        queue: &Name,
        prefix: &str,
        after: Option<&RecordKey>,
        limit: u32,
    ) -> StoreResult<RecordPage> {
        let from = look::Start::of(queue, prefix, after);
        let limit = limit.min(PAGE_MAX);
        self.read(move |connection, now| look::page(connection, &from, limit, now)).await
    }

    async fn totals(&self, queue: &Name) -> StoreResult<RecordTotals> {
        let queue = queue.clone();
        self.read(move |connection, now| look::totals(connection, &queue, now)).await
    }

    async fn write(&self, call: CallId, queue: &Name, what: FollowUps) -> StoreResult<Vec<Enqueued>> {
        what.check_in(queue)?;
        let (queue, rows, lane) = (queue.clone(), rows(&what), lane(&what));
        self.inner.writer.call(lane, rows, move |session| write(session, call, &queue, &what)).await
    }

    async fn write_fenced(
        &self,
        right: Right,
        items: Arc<[AttemptWrite]>,
    ) -> StoreResult<Vec<AttemptWritten>> {
        let rows = items.iter().map(|item| 1 + rows(&item.then)).sum();
        self.write(rows, move |session| attempts::write(session, right, &items)).await
    }
}

/// About how many rows a write is, as for jobs.
fn rows(what: &FollowUps) -> usize {
    let weight: usize = what.records.iter().map(RecordWrite::weight).sum();
    jobs::rows(&what.jobs) + what.records.len() + weight / 1_024
}

/// What makes the store larger is refused while the disk is full.
fn lane(what: &FollowUps) -> Lane {
    if brings(what) { Lane::Intake } else { Lane::Normal }
}

/// Whether it brings jobs or values.
pub(crate) fn brings(what: &FollowUps) -> bool {
    !what.jobs.is_empty() || what.records.iter().any(|write| write.version().is_some())
}

/// Expectations are tested before anything is written, and jobs are taken back where one is refused.
fn write(
    session: &Session<'_>,
    call: CallId,
    queue: &Name,
    what: &FollowUps,
) -> Result<Vec<Enqueued>, Fault> {
    let FollowUps { jobs, records } = what;
    let mut answers = Vec::new();
    if !jobs.is_empty() && calls::is_known(session, call)? {
        return Ok(vec![Enqueued::Repeated; jobs.len()]);
    }
    at_once(check(&mut session.tx(), queue, records))?;
    if !jobs.is_empty() {
        answers = jobs::accept_call(session, call, jobs)?;
    }
    at_once(change(&mut session.tx(), queue, records))?;
    Ok(answers)
}
