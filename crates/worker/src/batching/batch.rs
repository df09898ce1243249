//! What a batch handler is given.

use std::fmt;

use windlass_core::JobId;

use super::Answers;
use crate::ctx::Ctx;
use crate::job::Job;
use crate::job_error::JobError;

/// Jobs that are run in one call; never empty. See [`Worker::batch`](crate::Worker::batch).
pub struct Batch<J> {
    items: Vec<BatchItem<J>>,
}

/// One job of a batch, and its own attempt.
#[non_exhaustive]
pub struct BatchItem<J> {
    /// The job.
    pub job: J,
    /// Its attempt. It tells when this item alone should stop: see [`Ctx::is_cancelled`].
    pub ctx: Ctx,
}

impl<J> BatchItem<J> {
    pub(super) fn new(job: J, ctx: Ctx) -> Self {
        Self { job, ctx }
    }

    /// The job's id, by which it is answered for.
    pub fn id(&self) -> JobId {
        self.ctx.id()
    }
}

impl<J> Batch<J> {
    pub(super) fn new(items: Vec<BatchItem<J>>) -> Self {
        Self { items }
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it has none; a handler is not called for nothing.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Its items, in the order in which they came.
    pub fn iter(&self) -> std::slice::Iter<'_, BatchItem<J>> {
        self.items.iter()
    }

    /// The jobs alone.
    pub fn jobs(&self) -> impl Iterator<Item = &J> {
        self.items.iter().map(|item| &item.job)
    }
}

impl<J: Job> Batch<J> {
    /// What this says of each item.
    pub fn each(&self, mut answer: impl FnMut(&BatchItem<J>) -> Result<J::Output, JobError>) -> Answers<J> {
        self.items.iter().map(|item| (item.id(), answer(item))).collect()
    }

    /// All of them are done.
    pub fn done(&self) -> Answers<J>
    where
        J: Job<Output = ()>,
    {
        self.each(|_| Ok(()))
    }
}

impl<J> IntoIterator for Batch<J> {
    type Item = BatchItem<J>;
    type IntoIter = std::vec::IntoIter<BatchItem<J>>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, J> IntoIterator for &'a Batch<J> {
    type Item = &'a BatchItem<J>;
    type IntoIter = std::slice::Iter<'a, BatchItem<J>>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

/// Payloads are not shown: they may be secret.
impl<J> fmt::Debug for Batch<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("items", &self.items).finish()
    }
}

impl<J> fmt::Debug for BatchItem<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchItem").field("ctx", &self.ctx).finish_non_exhaustive()
    }
}
