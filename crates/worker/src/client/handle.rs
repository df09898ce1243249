//! A typed handle on one job: what an enqueue answers.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thiserror::Error as ThisError;
use tokio::time::Instant;
use windlass_core::outcome::Reason;
use windlass_core::store::{Amended, Enqueued};
use windlass_core::{JobId, JobRecord, State};

use super::Client;
use crate::error::{Error, Result};
use crate::job::{self, Job};

/// A job that the store has.
pub struct Handle<J> {
    client: Client,
    id: JobId,
    origin: Origin,
    answer: Option<Enqueued>,
    /// When this was made, just after the store had accepted the job or had said that it knows it.
    made: Instant,
    /// The store has shown the job: if it does not any more, it is gone.
    was_seen: AtomicBool,
    job: PhantomData<fn() -> J>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This call stored it.
    New,
    /// It was there before.
    Existing,
}

/// What made the id of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// The call that enqueues it, so no other call can have stored it.
    Call,
    /// The caller, which may use it in several calls.
    Caller,
}

/// How long a job that was just accepted may take to be found. Until then, a missing job may still arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(2);
/// How soon a job that is not there yet, or a store that is away, is asked for again; grows while nothing happens.
const POLL_FIRST: Duration = Duration::from_millis(5);
const POLL_LAST: Duration = Duration::from_millis(500);

impl<J: Job> Handle<J> {
    pub(super) fn new(client: Client, id: JobId, enqueued: Enqueued, choice: Choice) -> Self {
        let origin = match (enqueued, choice) {
            (Enqueued::New, _) | (Enqueued::Repeated, Choice::Call) => Origin::New,
            _ => Origin::Existing,
        };
        let id = match enqueued {
            Enqueued::Duplicate { id: holder, .. } | Enqueued::Replaced(holder) => holder,
            _ => id,
        };
        Self::made(client, id, origin, Some(enqueued))
    }

    pub(super) fn existing(client: Client, id: JobId) -> Self {
        Self::made(client, id, Origin::Existing, None)
    }

    fn made(client: Client, id: JobId, origin: Origin, answer: Option<Enqueued>) -> Self {
        let (made, was_seen) = (Instant::now(), AtomicBool::new(false));
        Self { client, id, origin, answer, made, was_seen, job: PhantomData }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// What the store answered to the enqueue; nothing for a handle that was made from an id.
    pub fn answer(&self) -> Option<Enqueued> {
        self.answer
    }

    /// The job's id. For a unique job that was not stored, that of the job that holds its key: this handle is about it.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Whether this call stored the job; otherwise it was there before.
    ///
    /// When the store's first answer was lost and the call had to be repeated, the store tells only that it had
    /// accepted the call. The job then counts as new if the call made its id, and as known if the caller chose it:
    /// it may have been there before.
    pub fn is_new(&self) -> bool {
        self.origin == Origin::New
    }

    /// The job's state now; nothing when the store does not have it any more.
    pub async fn state(&self) -> Result<Option<State>> {
        Ok(self.look().await?.map(|record| record.state))
    }

    /// Asks for the job to be cancelled.
    pub async fn cancel(&self) -> Result<Amended> {
        self.client.cancel(self.id).await
    }

    /// Waits until the job has come to its end and answers its output.
    ///
    /// The store must still have the job: where the queue keeps none of its end ([`Keep::NONE`]), the job is
    /// removed with it, and this answers [`OutputError::Missing`] however the job ended. A job that was accepted
    /// less than two seconds ago and that the store has not shown yet is looked for again until then.
    ///
    /// [`Keep::NONE`]: windlass_core::queue::Keep::NONE
    pub async fn output(&self) -> Result<J::Output, OutputError> {
        let record = self.finished().await?;
        match record.state {
            State::Completed => {
                job::decode_output(record.output.as_deref()).map_err(|error| OutputError::Decode { error })
            }
            State::Dead => Err(OutputError::Dead {
                reason: record.reason,
                error: record.last_error().unwrap_or("no error was recorded").to_owned(),
            }),
            _ => Err(OutputError::Cancelled { reason: record.reason }),
        }
    }

    /// Waits until the job has come to its end and answers its record. The bell is a hint; asking is the
    /// truth. When a job counts as missing is said at [`output`](Handle::output).
    pub async fn finished(&self) -> Result<JobRecord, OutputError> {
        let mut pause = POLL_FIRST;
        loop {
            match self.look().await {
                Ok(Some(record)) if record.state.is_terminal() => return Ok(record),
                Ok(Some(_running)) => self.client.worth_a_look(self.id).await,
                Ok(None) if self.may_arrive() => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(POLL_LAST);
                }
                Ok(None) => return Err(OutputError::Missing { id: self.id }),
                // A store that is away is asked again, as everywhere.
                Err(Error::Store(error)) if error.is_transient() => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(POLL_LAST);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn look(&self) -> Result<Option<JobRecord>> {
        let record = self.client.job(self.id).await?;
        self.was_seen.fetch_or(record.is_some(), Ordering::Relaxed);
        Ok(record)
    }

    /// Whether a job that is not there may still arrive.
    fn may_arrive(&self) -> bool {
        !self.was_seen.load(Ordering::Relaxed) && self.made.elapsed() < ARRIVAL_MAX
    }
}

impl<J> Clone for Handle<J> {
    fn clone(&self) -> Self {
        let was_seen = AtomicBool::new(self.was_seen.load(Ordering::Relaxed));
        Self { client: self.client.clone(), was_seen, ..*self }
    }
}

impl<J> fmt::Debug for Handle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("id", &self.id).field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// Why a job has no output.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum OutputError {
    /// The job was given up.
    #[error("the job is dead ({}): {error}", .reason.map_or("no reason", Reason::as_str))]
    Dead {
        /// Why.
        reason: Option<Reason>,
        /// The newest error text.
        error: String,
    },
    /// The job was ended on purpose.
    #[error("the job was cancelled ({})", .reason.map_or("no reason", Reason::as_str))]
    Cancelled {
        /// Why.
        reason: Option<Reason>,
    },
    /// The store does not have the job; its retention may have removed it, at its very end where the queue
    /// keeps none.
    #[error("the store has no job {id}: it was deleted, or removed by its queue's retention")]
    Missing {
        /// The job.
        id: JobId,
    },
    /// The output is not of the expected shape.
    #[error("the output does not decode: {error}")]
    Decode {
        /// What the codec says.
        #[source]
        error: serde_json::Error,
    },
    /// The call failed.
    #[error(transparent)]
    Call(#[from] Error),
}
