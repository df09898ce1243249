//! What a handler says of its attempt while it runs: progress, and lines of a log.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use windlass_core::StoreError;
use windlass_core::size::TooLarge;

use super::control::Stop;
use super::within::Completion;
use super::{Ctx, too_large};
use crate::attempt_log::{LogLevel, line_text};
use crate::client::{Sayings, Standing, copy_of};
use crate::error::{Error, Result};

/// How long the end of an attempt waits until what it said is written. Longer, and the store is in trouble.
const LAST_WORDS_MAX: Duration = Duration::from_secs(3);
/// The same once the worker waits no longer: the outcome must be handed in before the job is handed back without it.
const LAST_WORDS_STOPPED: Duration = Duration::from_millis(500);

impl Ctx {
    /// Reports how far the attempt is, for readers of the job. Returns at once: the newest report of an attempt is written about
    /// four times a second, together with those of other attempts, and before the outcome is recorded.
    ///
    /// A report with a number named `percent`, or that is a number, is shown as a percentage.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass_worker::{Ctx, Job, JobError};
    /// # #[derive(Serialize, Deserialize)] struct Import { rows: u64 }
    /// # impl Job for Import { const KIND: &'static str = "import"; type Output = (); }
    /// async fn import(job: Import, ctx: Ctx) -> Result<(), JobError> {
    ///     for row in 0..job.rows {
    ///         // … the work …
    ///         ctx.progress(&serde_json::json!({ "percent": 100 * row / job.rows, "row": row }))?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Fenced`] when an earlier write was told that the job has gone to another attempt: stop working on it. When the
    /// report does not encode or is above the queue's cap for outputs.
    pub fn progress(&self, report: &impl Serialize) -> Result<()> {
        let encoded =
            serde_json::to_vec(report).map_err(|error| Error::Encode { kind: "progress", error })?;
        let cap = self.inner().job.caps.output;
        TooLarge::check("progress", encoded.len(), cap).map_err(|error| too_large(self.id(), error))?;
        match self.said_or_new().report(encoded.into()) {
            Some(true) => self.client().reporter().tell(self),
            Some(false) => {}
            None => return Err(Error::Fenced),
        }
        Ok(())
    }

    /// As [`progress`](Ctx::progress), with a percentage alone: `{"percent": 40.0}`.
    ///
    /// # Errors
    /// As there.
    pub fn percent(&self, percent: impl Into<f64>) -> Result<()> {
        self.progress(&json!({ "percent": percent.into() }))
    }

    /// Adds a line to the log of the attempt, which is kept beside the job: `client.logs(id)` and `windlass jobs logs` read it.
    /// Returns at once, and never fails: lines are written about four times a second, together with those of other attempts, and
    /// before the outcome is recorded. A worker that crashes loses what was said since.
    ///
    /// A line has at most 4 KiB and an attempt 128 KiB ([`Worker::log_bytes`](crate::Worker::log_bytes)). Above that, lines are
    /// dropped that are neither among the first nor the newest, and readers are told how many. Lines are gone after seven days
    /// ([`Worker::log_ttl`](crate::Worker::log_ttl)). What is said after the attempt has ended, or has lost its job, is not
    /// kept. Do not log secrets: readers of the job see all of it.
    ///
    /// `CaptureLayer` does this for events of `tracing`.
    ///
    /// ```
    /// # use windlass_worker::{Ctx, LogLevel};
    /// # fn example(ctx: &Ctx, rows: u64) {
    /// ctx.log(LogLevel::Info, "the file is here");
    /// ctx.log(LogLevel::Warn, format_args!("{rows} rows have no address"));
    /// # }
    /// ```
    pub fn log(&self, level: LogLevel, text: impl fmt::Display) {
        self.say(level, line_text(text));
    }

    pub(crate) fn say(&self, level: LogLevel, text: String) {
        if self.inner().log_limits.bytes_max == 0 || self.client().store().records().is_none() {
            return;
        }
        if self.said_or_new().say(level, text) {
            self.client().reporter().tell(self);
        }
    }

    /// Waits until progress and lines that were said so far are written. Each call costs a write, so it is for what others must
    /// see before the handler goes on; an attempt that ends needs none.
    ///
    /// # Errors
    /// [`Error::Fenced`] when the job has gone to another attempt: stop working on it. Else the store's; it is tried again with
    /// the next write. After [`complete_within`](Ctx::complete_within) it is refused: its transaction may hold what the write
    /// waits for.
    pub async fn flush(&self) -> Result<()> {
        if self.inner().within.get() != Completion::Engine {
            let why = "a transaction completes this job: what was said comes with its commit";
            return Err(StoreError::Transaction(why.into()).into());
        }
        self.write_said().await
    }

    async fn write_said(&self) -> Result<()> {
        let Some(said) = self.said() else { return Ok(()) };
        let mut failures_before = None;
        loop {
            // Registered before the question, so that an end between the two is not missed.
            let mut changed = pin!(said.changed());
            changed.as_mut().enable();
            match said.standing() {
                Standing::Told => return Ok(()),
                Standing::Over => return Err(Error::Fenced),
                Standing::Untold(failures, error) => {
                    let before = *failures_before.get_or_insert(failures);
                    if let Some(error) = error.filter(|_| failures > before) {
                        return Err(copy_of(&error).into());
                    }
                }
            }
            self.client().reporter().urge(self);
            changed.await;
        }
    }

    /// Whether the attempt has said anything.
    pub(crate) fn has_said(&self) -> bool {
        self.said().is_some()
    }

    /// The attempt ends: what it said is written, as far as the store takes it. Nothing counts after that.
    pub(crate) async fn last_words(&self) {
        let Some(said) = self.said() else { return };
        let too_late = async {
            let stopped = async {
                self.inner().control.stronger_than(Stop::Shutdown).await;
                tokio::time::sleep(LAST_WORDS_STOPPED).await;
            };
            let _ = tokio::time::timeout(LAST_WORDS_MAX, stopped).await;
        };
        let written = tokio::select! {
            biased;
            written = self.write_said() => Some(written),
            () = too_late => None,
        };
        match written {
            Some(Ok(()) | Err(Error::Fenced)) => {}
            Some(Err(error)) => {
                tracing::warn!(job.id = %self.id(), %error, "the last of what an attempt said is lost");
            }
            None => {
                tracing::warn!(job.id = %self.id(), "the last of what an attempt said is not written in time");
            }
        }
        said.end();
    }

    pub(crate) fn said(&self) -> Option<&Sayings> {
        self.inner().said.get().map(|said| &**said)
    }

    fn said_or_new(&self) -> &Sayings {
        self.inner().said.get_or_init(|| Box::new(Sayings::new(self.inner().log_limits)))
    }
}
