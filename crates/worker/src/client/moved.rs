//! Moving a job to another queue. The stores know nothing of it: the copy is enqueued and held back, the job is deleted,
//! and the copy is let go. A caller that dies between these steps leaves both, never neither, and a repeat goes on where
//! it ended, since the copy's id follows from the job's.

use std::time::Duration;

use windlass_core::flow::Member;
use windlass_core::options::Due;
use windlass_core::store::{Amended, Enqueued};
use windlass_core::{JobId, Name, State};

use super::Client;
use crate::error::{ConfigError, Result};

/// For how long the copy is held back while the job is deleted.
const HELD: Duration = Duration::from_secs(60);

/// The answer to [`Client::move_job`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It is in the other queue, under this id and in this state.
    Done(JobId, State),
    /// It was not moved: this job of the other queue holds its unique key.
    Held(JobId),
    /// It was not moved: it runs, has ended meanwhile, is there already, belongs to a flow, or cannot be read by this program.
    Refused(State),
    /// There is no such job.
    Missing,
}

impl Client {
    /// Moves a job that waits, is dead or was cancelled to another queue. There it has a new id and fresh attempts; one
    /// that was scheduled keeps its instant, any other is ready at once. Its history stays behind and is removed.
    ///
    /// A job that a worker takes in the same moment is not moved. One that comes to its end in the same moment is not
    /// moved either, and its record is gone; in a queue that keeps none it cannot be told from one that another caller
    /// moved, and runs again. If the call fails half-way, repeat it: until then both may be there, and both may run.
    pub async fn move_job(&self, id: JobId, queue: impl AsRef<str>) -> Result<Moved> {
        let queue = Name::new(queue).map_err(|error| ConfigError::Name { what: "queue", error })?;
        let Some(job) = self.job(id).await? else {
            // A move that was cut short may have left the copy held back.
            return Ok(match self.let_go(id.moved_to(&queue)).await? {
                Some(moved) => moved,
                None => Moved::Missing,
            });
        };
        // A flow knows its jobs by their ids and queues.
        let is_movable =
            !matches!(job.state, State::Running | State::Completed) && Member::of(&job.spec).is_none();
        if !is_movable || job.queue == queue || job.unreadable.is_some() {
            return Ok(Moved::Refused(job.state));
        }
        let mut copy = job.moved_to(&queue);
        let (moved, is_held) = (copy.id, copy.due == Due::Now);
        if is_held {
            copy.due = Due::After(HELD);
        }
        if let Enqueued::Duplicate { id: holder, .. } = self.enqueue_new(copy).await? {
            return Ok(Moved::Held(holder));
        }
        match self.delete(id).await? {
            // As it was, or waiting all the same.
            Amended::Done(state) if state == job.state || !state.is_terminal() => {}
            // Gone meanwhile: perhaps because another caller moves it, so the copy stays.
            Amended::Missing | Amended::Held(_) => {}
            // A worker has it, or it came to its end.
            Amended::Refused(state) | Amended::Done(state) => {
                self.delete(moved).await?;
                return Ok(Moved::Refused(state));
            }
        }
        if !is_held {
            return Ok(Moved::Done(moved, State::Scheduled));
        }
        Ok(self.let_go(moved).await?.unwrap_or(Moved::Done(moved, State::Ready)))
    }

    /// Lets a copy go that is held back. Nothing comes back if there is none.
    async fn let_go(&self, moved: JobId) -> Result<Option<Moved>> {
        let Some(copy) = self.job(moved).await? else { return Ok(None) };
        if copy.state == State::Scheduled && copy.due_at.since(copy.enqueued_at) <= HELD {
            self.retry(moved).await?;
            return Ok(Some(Moved::Done(moved, State::Ready)));
        }
        Ok(Some(Moved::Done(moved, copy.state)))
    }
}
