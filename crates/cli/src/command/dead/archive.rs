//! `dead archive`: writes dead jobs to a file, then removes them where that was asked for.

use std::collections::BTreeMap;
use std::pin::pin;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass::worker::DeadLetters;
use windlass_core::job::AttemptRecord;
use windlass_core::outcome::{Ending, Reason};
use windlass_core::store::Seen;
use windlass_core::{JobId, JobRecord, Name};

use super::file::Writer;
use super::purge::{Removed, remove};
use super::{check_known, counter, jobs, letters};
use crate::args::DeadArchiveArgs;
use crate::exit::{Exit, Fault};
use crate::interrupt::Interrupt;
use crate::output::clean;
use crate::session::{Access, Session};

/// The newest form of a line that this program knows.
pub(super) const FORM: u32 = 1;

/// One dead job, as a line of an archive. Fields may be added; what means something else has another form.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) form: u32,
    pub(super) id: JobId,
    pub(super) queue: Name,
    pub(super) kind: Name,
    pub(super) key: Option<Name>,
    pub(super) priority: i16,
    /// In base64.
    pub(super) payload: String,
    reason: Option<String>,
    attempt: u32,
    attempts: Vec<AttemptLine>,
    pub(super) tags: Vec<Name>,
    meta: BTreeMap<String, String>,
    /// As stores write them, meta among them; nothing where all have their default.
    pub(super) options: Option<Box<RawValue>>,
    pub(super) unique: Option<UniqueLine>,
    enqueued_at: String,
    due_at: String,
    expires_at: Option<String>,
    finished_at: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AttemptLine {
    number: u32,
    worker: String,
    started_at: String,
    ended_at: Option<String>,
    ending: Option<String>,
    error: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UniqueLine {
    /// In hexadecimal.
    pub(super) digest: String,
    pub(super) lifetime: String,
}

impl Line {
    fn of(job: &JobRecord) -> serde_json::Result<Self> {
        Ok(Self {
            form: FORM,
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            key: job.key.clone(),
            priority: job.priority,
            payload: BASE64_STANDARD.encode(&job.payload),
            reason: job.reason.map(Reason::as_str).map(str::to_owned),
            attempt: job.counters.attempt,
            attempts: job.attempts.iter().map(AttemptLine::of).collect(),
            tags: job.tags.clone(),
            meta: job.spec.meta.clone(),
            options: job.spec.text().map(RawValue::from_string).transpose()?,
            unique: job.unique.map(|unique| UniqueLine {
                digest: format!("{:?}", unique.digest),
                lifetime: unique.lifetime.to_string(),
            }),
            enqueued_at: job.enqueued_at.to_string(),
            due_at: job.due_at.to_string(),
            expires_at: job.expires_at.map(|at| at.to_string()),
            finished_at: job.finished_at.map(|at| at.to_string()),
        })
    }
}

impl AttemptLine {
    fn of(attempt: &AttemptRecord) -> Self {
        Self {
            number: attempt.number,
            worker: attempt.worker.clone(),
            started_at: attempt.started_at.to_string(),
            ended_at: attempt.ended_at.map(|at| at.to_string()),
            ending: attempt.ending.map(Ending::as_str).map(str::to_owned),
            error: attempt.error.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Answer {
    file: String,
    written: u64,
    /// Jobs that this program cannot read; they stay.
    unreadable: u64,
    #[serde(flatten)]
    removed: Removed,
}

pub(crate) async fn run(session: &mut Session, args: &DeadArchiveArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let letters = letters(&client, &args.filter).await?;
    let mut interrupt = Interrupt::listen()?;
    let writer = Writer::create(&args.to)?;
    let written = tokio::select! {
        written = write(&letters, writer) => Some(written?),
        () = interrupt.heard() => None,
    };
    let Some((seen, unreadable)) = written else {
        session.note("interrupted: no file was made, and nothing was removed");
        return Ok(Exit::Interrupted);
    };
    if seen.is_empty() {
        check_known(session, &client, &args.filter).await?;
    }
    let file = args.to.display().to_string();
    let mut answer = Answer { file, written: seen.len() as u64, unreadable, removed: Removed::default() };
    let mut is_interrupted = false;
    if args.purge {
        let ended = {
            let mut removing = pin!(remove(&client, &seen, &mut answer.removed));
            tokio::select! {
                ended = &mut removing => ended,
                () = interrupt.heard() => {
                    is_interrupted = true;
                    Ok(())
                }
            }
        };
        print(session, &answer, true)?;
        ended?;
    } else {
        print(session, &answer, false)?;
    }
    if is_interrupted {
        session.note("interrupted: the file is complete, and some of its jobs are not removed");
        return Ok(Exit::Interrupted);
    }
    Ok(if answer.removed.left == 0 && unreadable == 0 { Exit::Done } else { Exit::Failed })
}

/// Writes those that match. Answers which those are, and how many there are that do not read.
async fn write(letters: &DeadLetters, mut writer: Writer) -> anyhow::Result<(Vec<Seen>, u64)> {
    let (mut seen, mut unreadable, mut fault) = (Vec::new(), 0, None);
    let bar = counter("written");
    letters
        .each(u64::MAX, async |letter| {
            let job = &letter.job;
            if job.unreadable.is_some() {
                unreadable += 1;
                return Ok(true);
            }
            match add(&mut writer, job) {
                Ok(()) => {
                    seen.push(Seen::of(job));
                    bar.inc(1);
                }
                Err(error) => fault = Some(error),
            }
            Ok(fault.is_none())
        })
        .await?;
    bar.finish_and_clear();
    match fault {
        Some(fault) => Err(fault.into()),
        None => {
            writer.finish()?;
            Ok((seen, unreadable))
        }
    }
}

fn add(writer: &mut Writer, job: &JobRecord) -> Result<(), Fault> {
    let text = Line::of(job).and_then(|line| serde_json::to_string(&line));
    let text = text.map_err(|error| Fault::failed(format!("job {} cannot be written: {error}", job.id)))?;
    // The same JSON without anything that a terminal would obey: archives are looked at with less and grep.
    writer.add(&clean::json(&text))
}

fn print(session: &mut Session, answer: &Answer, is_purge: bool) -> anyhow::Result<()> {
    if session.output.is_json() {
        return Ok(session.output.json(answer)?);
    }
    let Answer { file, written, unreadable, removed: Removed { removed, left } } = answer;
    let mut text = format!("{} written to {}", jobs(*written), clean::line(file));
    if is_purge {
        text = format!("{text}, {removed} removed");
    }
    if *left > 0 {
        text = format!("{text}; {left} were left, because they changed meanwhile");
    }
    if *unreadable > 0 {
        text = format!("{text}; {unreadable} were not written, because they do not read");
    }
    Ok(session.output.line(text)?)
}
