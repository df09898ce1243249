//! Writing inside a transaction of the user's own: jobs get in by `accept` and change by `moves`, as in the writer, by
//! statements that the user's connection runs.
//!
//! The user's transaction holds the file's write lock from the first of them to its end, and the writer waits
//! for it as for any other process.

mod commit_watch;
mod complete;
mod user_tx;

use std::path::Path;

use async_trait::async_trait;
use windlass_core::follow_ups::FollowUps;
use windlass_core::options::Due;
use windlass_core::record::{Record, RecordKey};
use windlass_core::sql::{Dialect, Line, SqlError};
use windlass_core::store::{Enqueued, Settled, Settlement, StoreResult, Within};
use windlass_core::{Name, NewJob, StoreError};

use crate::SqliteStore;
use crate::accept::{Capacity, accept};
use crate::error::Fault;
use crate::jobs::settle::makes_room;
use crate::records;
use crate::transaction::Transaction as _;
pub(crate) use commit_watch::{Awaited, CommitWatch};
use user_tx::UserTx;

const PLACE: &str = include_str!("../queries/within/place.sql");
const LOCK: &str = include_str!("../queries/within/lock.sql");

#[async_trait]
impl Within for SqliteStore {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    async fn enqueue(&self, line: &mut Line, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
        let mut tx = self.tx(line).await?;
        self.inner.conditions.check_room().map_err(StoreError::from)?;
        let answers = accept(&mut tx, jobs, Capacity::Binds).await?;
        tx.write_counters().await?;
        self.watch_jobs(jobs, &answers);
        Ok(answers)
    }

    async fn complete(&self, line: &mut Line, settlement: &Settlement) -> StoreResult<Settled> {
        let mut tx = self.tx(line).await?;
        let answer = complete::complete(&mut tx, settlement).await?;
        tx.write_counters().await?;
        if let Settled::Applied(_) = answer {
            let Settlement { queue, id, fence, .. } = settlement;
            // A ring too many is a look too many.
            let makes_room = makes_room(&tx.definition(queue).await?.config, true);
            self.inner.watch_commit(Awaited::End { id: *id, fence: *fence, makes_room });
        }
        Ok(answer)
    }

    async fn read_records(
        &self,
        line: &mut Line,
        queue: &Name,
        keys: &[RecordKey],
    ) -> StoreResult<Vec<Option<Record>>> {
        let mut tx = self.reader(line).await?;
        Ok(records::find_all(&mut tx, queue, keys).await?)
    }

    async fn write_records(
        &self,
        line: &mut Line,
        queue: &Name,
        what: &FollowUps,
    ) -> StoreResult<Vec<Enqueued>> {
        what.check_in(queue)?;
        let mut tx = self.tx(line).await?;
        if records::brings(what) {
            self.inner.conditions.check_room().map_err(StoreError::from)?;
        }
        records::check(&mut tx, queue, &what.records).await?;
        let answers = accept(&mut tx, &what.jobs, Capacity::Binds).await?;
        records::change(&mut tx, queue, &what.records).await?;
        tx.write_counters().await?;
        self.watch_jobs(&what.jobs, &answers);
        Ok(answers)
    }
}

impl SqliteStore {
    fn watch_jobs(&self, jobs: &[NewJob], answers: &[Enqueued]) {
        if let Some(awaited) = fresh(jobs, answers) {
            self.inner.watch_commit(awaited);
        }
    }

    /// Begins to write over a line. The time is read with the write lock held, as the writer does it.
    async fn tx<'l>(&self, line: &'l mut Line) -> Result<UserTx<'l>, Failed> {
        let mut tx = self.reader(line).await?;
        tx.ask(LOCK, Vec::new()).await?;
        tx.now = self.inner.clock.now();
        Ok(tx)
    }

    /// Begins to look over a line, once it is known to lead to this store's file. Takes no lock.
    async fn reader<'l>(&self, line: &'l mut Line) -> Result<UserTx<'l>, Failed> {
        self.inner.conditions.check(None).map_err(StoreError::from)?;
        let mut tx = UserTx::new(line);
        let place = tx.ask(PLACE, Vec::new()).await?;
        let place = place.first().map(|row| row.text(0)).transpose()?.unwrap_or_default();
        self.check_place(place)?;
        tx.now = self.inner.clock.now();
        Ok(tx)
    }

    /// Fails unless the transaction's main file is the store's: two attached files are not committed as one.
    fn check_place(&self, place: &str) -> StoreResult<()> {
        let refused = |what: String| Err(StoreError::Transaction(what));
        let Some(file) = &self.inner.file else {
            return refused(
                "a store in memory has no connection but its own: use a file to share transactions with it"
                    .to_owned(),
            );
        };
        // Nothing where the user's database is in memory.
        if Path::new(place).canonicalize().is_ok_and(|place| place == file.path) {
            return Ok(());
        }
        let (place, own) = (if place.is_empty() { "memory" } else { place }, file.path.display());
        refused(format!(
            "the transaction is on {place} and the store is {own}: begin it on a connection to the store's file"
        ))
    }
}

/// The job whose commit is rung for. One is enough, for all become visible together; one that is held is none, for no worker
/// can take it.
fn fresh(jobs: &[NewJob], answers: &[Enqueued]) -> Option<Awaited> {
    let owes_ring = |(job, answer): &(&NewJob, &Enqueued)| **answer == Enqueued::New && job.due != Due::Held;
    jobs.iter().zip(answers).find(owes_ring).map(|(job, _)| Awaited::Enqueue { id: job.id })
}

/// An error on its way to the caller, whichever end of the line it comes from.
struct Failed(StoreError);

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> Self {
        failed.0
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self(error)
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self(fault.into())
    }
}

impl From<SqlError> for Failed {
    fn from(error: SqlError) -> Self {
        Self(meaning(error))
    }
}

/// What an error of the user's connection means.
fn meaning(error: SqlError) -> StoreError {
    let away = |what: &str, error: SqlError| StoreError::Unavailable {
        what: format!("{what} ({error})"),
        source: Some(Box::new(error)),
    };
    let code = match &error {
        SqlError::Shape(what) => return StoreError::Corrupt(what.clone()),
        SqlError::Broken { text, .. } => {
            return StoreError::Unknown { what: text.clone(), source: Some(Box::new(error)) };
        }
        other => other.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or_default(),
    };
    use rusqlite::ffi;
    match code {
        ffi::SQLITE_BUSY_SNAPSHOT => away(
            "the transaction has read before it wrote, and another has written since: begin it with BEGIN IMMEDIATE",
            error,
        ),
        _ => match code & 0xff {
            ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => {
                away("another connection has held the file's write lock for too long", error)
            }
            // Where a statement writes one row SQLite keeps no means to undo it alone.
            ffi::SQLITE_FULL => {
                away("the disk is full, and SQLite may have rolled back the whole transaction", error)
            }
            ffi::SQLITE_READONLY => away("the transaction or its file is read-only", error),
            ffi::SQLITE_IOERR => away("the file cannot be read or written", error),
            ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => StoreError::Corrupt(error.to_string()),
            _ => StoreError::Internal { what: format!("SQLite: {error}"), source: Some(Box::new(error)) },
        },
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{Options, State, StoreErrorKind};

    use super::*;

    #[test]
    fn the_first_job_that_a_worker_could_take_is_waited_for() {
        let job = || NewJob::new("k", "", Options::new()).unwrap();
        let (mut held, known, next) = (job(), job(), job());
        held.due = Due::Held;
        let (new, existing) = (Enqueued::New, Enqueued::Existing(State::Ready));
        let jobs = [held, known, next.clone(), job()];
        let awaited = fresh(&jobs, &[new, existing, new, new]);
        assert!(matches!(awaited, Some(Awaited::Enqueue { id }) if id == next.id), "{awaited:?}");
        assert!(fresh(&jobs[..2], &[new, existing]).is_none(), "no worker could take one");
    }

    fn kind(code: &str) -> (StoreErrorKind, String) {
        let error =
            meaning(SqlError::Answered { code: code.to_owned(), text: "said".to_owned(), source: None });
        (error.kind(), error.to_string())
    }

    #[test]
    fn codes_are_sorted_into_what_a_caller_can_do() {
        for passing in ["5", "6", "13", "8", "266", "261"] {
            assert_eq!(kind(passing).0, StoreErrorKind::Unavailable, "{passing}");
        }
        assert!(kind("517").1.contains("BEGIN IMMEDIATE"));
        for lasting in ["11", "26", "1", "1299"] {
            assert_eq!(kind(lasting).0, StoreErrorKind::Fatal, "{lasting}");
        }
        let lost = meaning(SqlError::Broken { text: "gone".to_owned(), source: None });
        assert_eq!(lost.kind(), StoreErrorKind::Unknown);
    }
}
