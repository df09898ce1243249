//! Completing a job inside a transaction of its handler's own.
//!
//! What the handler calls only writes; the transaction decides. The engine learns of the decision when it
//! settles the attempt: it asks for a retry, and is fenced if the transaction was committed.

use std::sync::atomic::{AtomicU8, Ordering};

use serde::Serialize;
use windlass_core::follow_ups::FollowUps;
use windlass_core::store::{Enqueued, Settled, Settlement};
use windlass_core::{Bytes, Outcome, StoreError, judge};
use windlass_tx::{BlockingTx, Tx};

use super::{Ctx, too_large};
use crate::error::{Error, Result};
use crate::job;
use crate::settling::follow_ups;

/// How far an attempt is with completing its job within a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Completion {
    /// The engine completes the job.
    Engine = 0,
    /// The fence was stale; the job is another attempt's.
    Stale = 1,
    /// A transaction was handed to the store: only its commit completes the job.
    Begun = 2,
    /// And the handler has returned as if it were committed.
    Returned = 3,
}

/// The [`Completion`] of one attempt.
#[derive(Debug, Default)]
pub(crate) struct CompletionState(AtomicU8);

impl CompletionState {
    pub(crate) fn get(&self) -> Completion {
        [Completion::Engine, Completion::Stale, Completion::Begun, Completion::Returned]
            [usize::from(self.0.load(Ordering::Acquire))]
    }

    pub(crate) fn set(&self, progress: Completion) {
        self.0.store(progress as u8, Ordering::Release);
    }
}

impl Ctx {
    /// Completes the job inside a transaction of the handler's own: with its commit the job is done and the
    /// effects are there, without it neither. Commit soon after this, then return `Ok`.
    ///
    /// This is exactly once for effects in the same store. From the call on, only a committed transaction
    /// completes the job: a handler that returns `Ok` without having committed is run again. A transaction that
    /// failed to commit may be begun anew and this called again. Do not wait for other calls about the same
    /// store in between: the transaction may hold what they wait for.
    ///
    /// What [`then`](Ctx::then) and [`then_write`](Ctx::then_write) have said goes into the same transaction, and checkpoints go
    /// with it, as do log lines that are not written yet; progress that is not, is not. There the capacity of a queue counts, as for any enqueue within a transaction.
    ///
    /// # Errors
    /// [`Error::Fenced`] when the job has gone to another attempt. The transaction cannot be committed then:
    /// pass the error on. [`Error::Store`] when the transaction is not one of the store's database, and when something that
    /// follows is refused: then the job is not completed, and the transaction should be rolled back, since part of what follows may
    /// be in it.
    pub async fn complete_within<T: Tx>(&self, tx: &mut T) -> Result<()> {
        self.complete(tx, None).await
    }

    /// As [`complete_within`](Ctx::complete_within), with the output of the job. What the handler returns
    /// afterwards is not stored.
    ///
    /// # Errors
    /// As there, and when the output does not encode or is above the queue's cap; then nothing was written.
    pub async fn complete_within_with<T: Tx>(&self, tx: &mut T, output: &impl Serialize) -> Result<()> {
        self.complete(tx, encoded(output)?).await
    }

    /// As [`complete_within`](Ctx::complete_within), for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn complete_within_blocking<T: BlockingTx>(&self, tx: &mut T) -> Result<()> {
        windlass_tx::wait(self.complete(tx, None))
    }

    /// As [`complete_within_with`](Ctx::complete_within_with), for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn complete_within_blocking_with<T: BlockingTx>(
        &self,
        tx: &mut T,
        output: &impl Serialize,
    ) -> Result<()> {
        windlass_tx::wait(self.complete(tx, encoded(output)?))
    }

    async fn complete<T: Tx>(&self, tx: &mut T, output: Option<Bytes>) -> Result<()> {
        let transition = judge(&self.inner().job.facts, Outcome::Completed { output }, 0.0);
        let settlement =
            Settlement { queue: self.queue().clone(), id: self.id(), fence: self.fence(), transition };
        let part = &self.inner().within;
        // Before the first statement: a call that is dropped half-way may have written, and be committed.
        part.set(Completion::Begun);
        // First, so that a job which ends has what follows it. If this fails, the job is not completed.
        self.follow_within(tx, &settlement).await?;
        match windlass_tx::complete(&**self.client().store(), tx, &settlement).await? {
            Settled::Applied(_) => self.say_within(tx).await,
            Settled::Fenced => {
                part.set(Completion::Stale);
                Err(Error::Fenced)
            }
            Settled::Refused(error) => Err(too_large(self.id(), error)),
        }
    }
}

impl Ctx {
    /// Writes what follows the job into the transaction that completes it.
    async fn follow_within<T: Tx>(&self, tx: &mut T, end: &Settlement) -> Result<()> {
        let Some(FollowUps { jobs, records }) = follow_ups(self, end) else { return Ok(()) };
        let store = &**self.client().store();
        if !jobs.is_empty() {
            let answers = windlass_tx::enqueue(store, tx, &jobs).await?;
            // Its own key is held until the commit.
            let is_own =
                |answer: &Enqueued| matches!(answer, Enqueued::Duplicate { id, .. } if *id == self.id());
            if answers.iter().any(is_own) {
                let why = "a job that follows wants the unique key of this one, which is held until the transaction ends";
                return Err(StoreError::Transaction(why.into()).into());
            }
        }
        if !records.is_empty() {
            let what = FollowUps { jobs: Vec::new(), records };
            windlass_tx::write_records(store, tx, self.queue(), &what).await?;
        }
        Ok(())
    }
}

impl Ctx {
    /// Brings log lines that the store may lack: after the commit nothing is written about the attempt. Written last, since
    /// writes of attempts lock their job before their records.
    async fn say_within<T: Tx>(&self, tx: &mut T) -> Result<()> {
        let Some(said) = self.said() else { return Ok(()) };
        let records = said.lacking(self);
        if records.is_empty() {
            return Ok(());
        }
        let what = FollowUps { jobs: Vec::new(), records };
        windlass_tx::write_records(&**self.client().store(), tx, self.queue(), &what).await?;
        Ok(())
    }
}

fn encoded(output: &impl Serialize) -> Result<Option<Bytes>> {
    job::encode_output(output).map_err(|error| Error::Encode { kind: "output", error })
}
