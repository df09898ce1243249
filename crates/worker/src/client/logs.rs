//! Reading the logs of a job's attempts, once or as they grow.

use windlass_core::clock::Timestamp;
use windlass_core::record::{Record, RecordKey};
use windlass_core::{JobId, Name};

use super::{Client, Records};
use crate::attempt_log::LogLine;
use crate::attempt_log::stored;
use crate::error::{ConfigError, Result};

/// How many chunks one question asks for; a few hundred KiB.
const PAGE: u32 = 50;

/// Reads what attempts of a job have said, in their order: see [`Client::logs`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass_worker::Result<()> {
/// # let client = windlass_worker::Client::new(std::sync::Arc::new(windlass_store_memory::MemoryStore::new()));
/// # let id = windlass_core::JobId::new();
/// if let Some(mut logs) = client.logs(id).await? {
///     loop {
///         let lines = logs.next().await?;
///         if lines.is_empty() {
///             break;
///         }
///         for line in lines {
///             println!("{} {} {:?}", line.attempt, line.level, line.text);
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LogReader {
    records: Records,
    prefix: String,
    /// What was written before belongs to an earlier job of the same id.
    since: Option<Timestamp>,
    attempt: Option<u32>,
    /// The newest chunk may grow, so it is read again: this is the one before it.
    after: Option<RecordKey>,
    /// Fence and number of the newest line that was read.
    seen: (u64, u64),
}

impl Client {
    /// Reads the logs of a job's attempts; nothing if the store does not have the job. See [`Ctx::log`](crate::Ctx::log).
    ///
    /// # Errors
    /// The store's.
    pub async fn logs(&self, id: JobId) -> Result<Option<LogReader>> {
        let job = self.job(id).await?;
        Ok(job.map(|job| LogReader::new(self, job.queue.clone(), id, Some(job.enqueued_at))))
    }

    /// As [`logs`](Self::logs), for a job that the store may no longer have: its log may have been kept longer.
    ///
    /// # Errors
    /// When the text cannot be the name of a queue.
    pub fn logs_in(&self, queue: impl AsRef<str>, id: JobId) -> Result<LogReader> {
        let queue = Name::new(queue).map_err(|error| ConfigError::Name { what: "queue", error })?;
        Ok(LogReader::new(self, queue, id, None))
    }
}

impl LogReader {
    pub(super) fn new(client: &Client, queue: Name, id: JobId, since: Option<Timestamp>) -> Self {
        let records = Records::of(client.clone(), queue);
        Self { records, prefix: stored::prefix(id), since, attempt: None, after: None, seen: (0, 0) }
    }

    /// Only lines of this attempt.
    #[must_use]
    pub fn attempt(mut self, number: u32) -> Self {
        self.attempt = Some(number);
        self
    }

    /// The next lines, some hundred at most; none when all that is stored was read. Asked again later, it answers what came
    /// since.
    ///
    /// # Errors
    /// The store's. It may be asked again.
    pub async fn next(&mut self) -> Result<Vec<LogLine>> {
        loop {
            let page = self.records.list(&self.prefix, self.after.as_ref(), PAGE).await?;
            let lines: Vec<LogLine> = page.records.iter().flat_map(|record| self.fresh(record)).collect();
            if let [.., before, _newest] = &page.records[..] {
                self.after = Some(before.key.clone());
            }
            if !lines.is_empty() || page.next.is_none() {
                return Ok(lines);
            }
        }
    }

    /// The lines of a chunk that were not read before. What is not a chunk has none.
    fn fresh(&mut self, record: &Record) -> Vec<LogLine> {
        if self.since.is_some_and(|since| record.written_at < since) {
            return Vec::new();
        }
        let mut lines = stored::decode(record).unwrap_or_default();
        lines.retain_mut(|line| {
            let (fence, number) = self.seen;
            if (line.fence, line.number) <= self.seen {
                return false;
            }
            let before = if line.fence == fence { number } else { 0 };
            line.dropped = line.number.saturating_sub(before + 1);
            self.seen = (line.fence, line.number);
            self.attempt.is_none_or(|attempt| attempt == line.attempt)
        });
        lines
    }
}
