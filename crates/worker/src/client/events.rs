//! What happens to one job, as it happens: for any process, by asking. Its end is told by the bell as well, through the one loop
//! of the client that waits for ends.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::job::AttemptRecord;
use windlass_core::{Bytes, JobId, JobRecord, State};

use super::{Client, Handle, LogReader};
use crate::attempt_log::LogLine;
use crate::error::{Error, Result};
use crate::job::Job;

/// How soon the job is looked at again; grows while nothing happens.
const POLL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// How long a job that was just accepted may take to be found.
const ARRIVAL_MAX: Duration = Duration::from_secs(2);

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum JobEvent {
    /// It is in another state than when it was last looked at; also the first that is seen. States between two looks are not
    /// seen.
    State(State),
    /// An attempt has ended. None is missed, as long as the job's record keeps it.
    Attempt(AttemptRecord),
    /// Its handler has reported this. Of reports between two looks the newest is seen.
    Progress(Bytes),
    /// Its handler has said this.
    Line(LogLine),
    /// It has come to its end: the last event.
    Ended(Box<JobRecord>),
    /// The store does not have it, or no longer: the last event. A queue that keeps none of the job's end removes it with it.
    Gone,
}

/// The events of one job; see [`Client::events`].
pub struct JobEvents {
    client: Client,
    id: JobId,
    made: Instant,
    log: Option<LogReader>,
    /// What has happened and was not answered yet.
    happened: VecDeque<JobEvent>,
    state: Option<State>,
    /// The fence of the newest attempt whose end was seen.
    ended: u64,
    progress: Option<Bytes>,
    /// Waits for the end, over several looks: each caller that begins to wait makes the client ask at once.
    ending: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    pause: Duration,
    is_over: bool,
}

impl Client {
    /// What happens to a job from now on, and what can be seen of what has happened: states, ends of attempts, progress and log
    /// lines as they come, until its end. From any process. Log lines that are kept come first, oldest first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass_worker::Result<()> {
    /// # use windlass_worker::JobEvent;
    /// # let client = windlass_worker::Client::new(std::sync::Arc::new(windlass_store_memory::MemoryStore::new()));
    /// # let job = windlass_core::NewJob::new("k", "", windlass_core::Options::new())?;
    /// # let id = job.id;
    /// # client.enqueue_new(job).await?;
    /// # client.cancel(id).await?;
    /// let mut events = client.events(id);
    /// while let Some(event) = events.next().await? {
    ///     match event {
    ///         JobEvent::Line(line) => println!("{:?}", line.text),
    ///         JobEvent::Ended(job) => println!("it is {}", job.state),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self, id: JobId) -> JobEvents {
        JobEvents {
            client: self.clone(),
            id,
            made: Instant::now(),
            log: None,
            happened: VecDeque::new(),
            state: None,
            ended: 0,
            progress: None,
            ending: None,
            pause: POLL.0,
            is_over: false,
        }
    }
}

impl<J: Job> Handle<J> {
    /// What happens to the job: see [`Client::events`].
    pub fn events(&self) -> JobEvents {
        self.client().events(self.id())
    }
}

impl JobEvents {
    /// The next event; nothing after the last. May be dropped and called again: no event is lost. A store that is away for a
    /// moment is asked again.
    ///
    /// The job is looked at up to ten times a second while something happens, and once a second otherwise.
    ///
    /// # Errors
    /// The store's, if it does not pass by itself.
    pub async fn next(&mut self) -> Result<Option<JobEvent>> {
        loop {
            if let Some(event) = self.happened.pop_front() {
                self.pause = POLL.0;
                return Ok(Some(event));
            }
            if self.is_over {
                return Ok(None);
            }
            match self.look().await {
                Ok(()) => {}
                Err(Error::Store(error)) if error.is_transient() => {}
                Err(error) => return Err(error),
            }
            if self.happened.is_empty() {
                self.wait().await;
            }
        }
    }

    async fn wait(&mut self) {
        // What has not arrived counts as ended there.
        if self.log.is_none() {
            return tokio::time::sleep(POLL.0).await;
        }
        let (client, id) = (&self.client, self.id);
        let ending = self.ending.get_or_insert_with(|| {
            let client = client.clone();
            Box::pin(async move { client.worth_a_look(id).await })
        });
        let is_ended = tokio::select! {
            () = ending => true,
            () = tokio::time::sleep(self.pause) => false,
        };
        if is_ended {
            self.ending = None;
        }
        self.pause = (self.pause * 2).min(POLL.1);
    }

    /// Looks at the job, and then at its log: what was said before an end is seen before the end.
    async fn look(&mut self) -> Result<()> {
        let record = self.client.job(self.id).await?;
        if let Some(job) = &record {
            let log = || LogReader::new(&self.client, job.queue.clone(), self.id, Some(job.enqueued_at));
            self.log.get_or_insert_with(log);
        } else if self.log.is_none() && self.made.elapsed() < ARRIVAL_MAX {
            // It may still arrive.
            return Ok(());
        }
        let has_records = self.client.store().records().is_some();
        if let Some(log) = self.log.as_mut().filter(|_| has_records) {
            let lines = log.next().await?;
            if !lines.is_empty() {
                lines.into_iter().for_each(|line| self.said(record.as_ref(), line));
                // The rest of a long log waits until these are taken.
                return Ok(());
            }
        }
        match record {
            Some(job) => self.seen(job),
            None => {
                self.is_over = true;
                self.happened.push_back(JobEvent::Gone);
            }
        }
        Ok(())
    }

    /// A line, after what happened before it.
    fn said(&mut self, job: Option<&JobRecord>, line: LogLine) {
        if let Some(job) = job {
            self.attempts_before(job, line.fence);
            if job.fence == line.fence && !job.state.is_terminal() {
                self.stands(job.state);
            }
        }
        self.happened.push_back(JobEvent::Line(line));
    }

    /// All else that is to be seen of the job.
    fn seen(&mut self, job: JobRecord) {
        self.attempts_before(&job, u64::MAX);
        if job.progress != self.progress {
            self.progress.clone_from(&job.progress);
            self.happened.extend(job.progress.clone().map(JobEvent::Progress));
        }
        if job.state.is_terminal() {
            self.is_over = true;
            self.happened.push_back(JobEvent::Ended(Box::new(job)));
        } else {
            self.stands(job.state);
        }
    }

    fn stands(&mut self, state: State) {
        if self.state.replace(state) != Some(state) {
            self.happened.push_back(JobEvent::State(state));
        }
    }

    /// The ends of attempts that were claimed before this fence.
    fn attempts_before(&mut self, job: &JobRecord, fence: u64) {
        let is_fresh = |attempt: &&AttemptRecord| {
            attempt.ending.is_some() && attempt.fence < fence && attempt.fence > self.ended
        };
        let fresh: Vec<AttemptRecord> = job.attempts.iter().filter(is_fresh).cloned().collect();
        self.ended = fresh.last().map_or(self.ended, |attempt| attempt.fence);
        self.happened.extend(fresh.into_iter().map(JobEvent::Attempt));
    }
}

/// The percentage in a progress report: the report itself if it is a number, or what it calls `percent`.
pub fn percent_of(progress: &[u8]) -> Option<f64> {
    let report: serde_json::Value = serde_json::from_slice(progress).ok()?;
    let percent = report.as_f64().or_else(|| report.get("percent")?.as_f64())?;
    (0.0..=100.0).contains(&percent).then_some(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_a_number_or_what_is_called_so() {
        let cases = [
            ("40", Some(40.0)),
            ("{\"percent\": 12.5, \"row\": 3}", Some(12.5)),
            ("{\"percent\": 101}", None),
            ("-1", None),
            ("\"half\"", None),
            ("{}", None),
            ("nothing", None),
        ];
        for (report, percent) in cases {
            assert_eq!(percent_of(report.as_bytes()), percent, "{report}");
        }
    }
}
