//! Watches the jobs of a demo from outside until all have come to their end.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use windlass::Client;
use windlass_core::outcome::Ending;
use windlass_core::{JobId, JobRecord, Name, State};

use super::kinds::Kind;
use super::view::View;
use super::worker_process::WorkerProcess;
use crate::interrupt::Interrupt;

/// How often the store is asked.
const TICK: Duration = Duration::from_millis(100);
/// How often what was seen is said, so that a line can stand for many jobs.
const SAY: Duration = Duration::from_millis(500);
/// How long the demo may take, and how much longer for each job.
const DEADLINE: Duration = Duration::from_secs(90);
const DEADLINE_PER_JOB: Duration = Duration::from_millis(100);
/// How many jobs one store call reads.
const CHUNK: usize = 500;

/// What was seen last of each job that the store still has, and why the watch ended.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) jobs: HashMap<JobId, JobRecord>,
    pub(super) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    AllFinished,
    Interrupted,
    TookTooLong,
}

pub(super) async fn run(
    client: &Client,
    jobs: &[(JobId, &'static Kind)],
    worker: &mut WorkerProcess,
    view: &mut View,
    interrupt: &mut Interrupt,
) -> anyhow::Result<Watched> {
    let mut seen: HashMap<JobId, JobRecord> = HashMap::new();
    let mut news = News::default();
    let mut open: Vec<JobId> = jobs.iter().map(|(id, _)| *id).collect();
    let budget = DEADLINE + DEADLINE_PER_JOB.saturating_mul(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
    let deadline = Instant::now() + budget;
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    view.say(&format!("worker {} started", worker.pid()))?;
    let end = loop {
        tokio::select! {
            biased;
            () = interrupt.heard() => break End::Interrupted,
            died = worker.died() => {
                let died = died?;
                worker.replace(died)?;
                news.say(view)?;
                view.say(&format!("the worker died ({died}); worker {} started", worker.pid()))?;
            }
            _ = ticks.tick() => {
                look(client, &mut open, &mut seen, &mut news, view).await?;
                if open.is_empty() || news.since.is_none_or(|since| since.elapsed() >= SAY) {
                    news.say(view)?;
                }
                if open.is_empty() {
                    break End::AllFinished;
                }
                if Instant::now() > deadline {
                    break End::TookTooLong;
                }
            }
        }
    };
    Ok(Watched { jobs: seen, end })
}

/// What happened since it was last said, in order, alike things together.
#[derive(Debug, Default)]
struct News {
    lines: Vec<(Name, String, u32)>,
    since: Option<Instant>,
}

impl News {
    fn add(&mut self, kind: &Name, text: String) {
        match self.lines.iter_mut().find(|(of, said, _)| of == kind && *said == text) {
            Some((_, _, count)) => *count += 1,
            None => self.lines.push((kind.clone(), text, 1)),
        }
    }

    fn say(&mut self, view: &mut View) -> io::Result<()> {
        self.since = Some(Instant::now());
        self.lines.drain(..).try_for_each(|(kind, text, count)| {
            let times = if count > 1 { format!(" (x{count})") } else { String::new() };
            view.say(&format!("{kind:<13} {text}{times}"))
        })
    }
}

/// Reads the open jobs, notes what is new about them, and closes those that have ended. A job that the store
/// does not have is closed too: the summary will miss it.
async fn look(
    client: &Client,
    open: &mut Vec<JobId>,
    seen: &mut HashMap<JobId, JobRecord>,
    news: &mut News,
    view: &mut View,
) -> anyhow::Result<()> {
    let mut still_open = Vec::with_capacity(open.len());
    for chunk in open.chunks(CHUNK) {
        let records = client.store().get(chunk.into()).await?;
        for (id, record) in chunk.iter().zip(records) {
            let Some(record) = record else {
                seen.remove(id);
                continue;
            };
            changes(seen.get(id), &record).into_iter().for_each(|text| news.add(&record.kind, text));
            if record.state.is_terminal() {
                view.finished(record.kind.as_str());
            } else {
                still_open.push(*id);
            }
            seen.insert(*id, record);
        }
    }
    *open = still_open;
    Ok(())
}

/// What has happened to a job since it was last seen, as far as it is worth a line.
fn changes(before: Option<&JobRecord>, now: &JobRecord) -> Vec<String> {
    let last_fence =
        before.and_then(|job| job.attempts.iter().filter(|a| a.ending.is_some()).map(|a| a.fence).max());
    let mut said: Vec<String> = now
        .attempts
        .iter()
        .filter(|attempt| last_fence.is_none_or(|last| attempt.fence > last))
        .filter_map(|attempt| match attempt.ending? {
            // Said by the end of the job itself.
            Ending::Completed | Ending::Discarded => None,
            Ending::Stalled => Some("was lost with its worker, taken back".to_owned()),
            Ending::Snoozed => Some("asked to come back later".to_owned()),
            Ending::Returned => Some("was returned unfinished".to_owned()),
            Ending::TimedOut => Some(format!("attempt {} took too long", attempt.number)),
            Ending::Failed | Ending::FailedForGood => Some(format!("attempt {} failed", attempt.number)),
            other => Some(other.to_string()),
        })
        .collect();
    if now.state.is_terminal() {
        said.push(match (now.state, now.reason) {
            (State::Completed, _) => "completed".to_owned(),
            (state, Some(reason)) => format!("{state}: {reason}"),
            (state, None) => state.to_string(),
        });
    }
    said
}
