//! What a batch handler says about its items.

use std::collections::HashMap;
use std::fmt;

use windlass_core::JobId;

use crate::job::Job;
use crate::job_error::JobError;

/// One result per item of a batch, by the job's id. An item without one has failed: it is tried again by its own policy.
///
/// [`Batch::done`](crate::Batch::done) and [`Batch::each`](crate::Batch::each) make it; so does `collect` from pairs of
/// an id and a result:
///
/// ```
/// use windlass_worker::{Answers, Batch, JobError};
/// # use windlass_worker::Job;
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Row { table: String }
/// # impl Job for Row { const KIND: &'static str = "row"; type Output = i64; }
/// # async fn insert_all(rows: impl Iterator<Item = &Row>) -> Result<Vec<i64>, std::io::Error> { Ok(vec![]) }
/// async fn insert(rows: Batch<Row>) -> Result<Answers<Row>, JobError> {
///     let numbers = insert_all(rows.jobs()).await?;              // an error is the error of every item
///     Ok(rows.iter().zip(numbers).map(|(row, number)| (row.id(), Ok(number))).collect())
/// }
/// ```
pub struct Answers<J: Job> {
    by_id: HashMap<JobId, Result<J::Output, JobError>>,
}

impl<J: Job> Answers<J> {
    /// No answer yet.
    pub fn new() -> Self {
        Self { by_id: HashMap::new() }
    }

    /// Says what became of an item; what was said of it before no longer counts.
    pub fn set(&mut self, id: JobId, result: Result<J::Output, JobError>) {
        self.by_id.insert(id, result);
    }

    pub(super) fn take(&mut self, id: JobId) -> Option<Result<J::Output, JobError>> {
        self.by_id.remove(&id)
    }

    /// How many have not been taken.
    pub(super) fn left(&self) -> usize {
        self.by_id.len()
    }
}

impl<J: Job> Default for Answers<J> {
    fn default() -> Self {
        Self::new()
    }
}

impl<J: Job> FromIterator<(JobId, Result<J::Output, JobError>)> for Answers<J> {
    fn from_iter<I: IntoIterator<Item = (JobId, Result<J::Output, JobError>)>>(answers: I) -> Self {
        Self { by_id: answers.into_iter().collect() }
    }
}

impl<J: Job> Extend<(JobId, Result<J::Output, JobError>)> for Answers<J> {
    fn extend<I: IntoIterator<Item = (JobId, Result<J::Output, JobError>)>>(&mut self, answers: I) {
        self.by_id.extend(answers);
    }
}

/// Outputs are not shown: they may be secret.
impl<J: Job> fmt::Debug for Answers<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.by_id.iter().map(|(id, result)| (id, result.as_ref().map(|_| ())));
        f.debug_map().entries(said).finish()
    }
}
