//! What it costs a store that handlers report and log: 10,000 calls a second of one worker's attempts, and the writes that
//! come of them, counted at the store. At most 20 a second are wanted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use windlass::worker::LogLevel;
use windlass::{Client, Ctx, Job, JobError, Worker};

use crate::counted::Counted;
use crate::report::{Report, whole};
use crate::subject::Subject;

/// Attempts that say something at once.
const ATTEMPTS: u32 = 100;
/// Calls of all attempts together.
const CALLS_PER_SECOND: u32 = 10_000;
/// How often each attempt says something: as many calls as are due by then.
const STEP: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Saying {
    Progress,
    Line,
}

#[derive(Debug, Serialize, Deserialize)]
struct Say {
    what: Saying,
    millis: u64,
}

impl Job for Say {
    const KIND: &'static str = "bench.say";
    type Output = u32;
}

/// Says something again and again for a while, at an even pace. Answers how often.
async fn say(job: Say, ctx: Ctx) -> Result<u32, JobError> {
    let (began, mut said) = (Instant::now(), 0);
    let lasts = Duration::from_millis(job.millis);
    while began.elapsed() < lasts {
        let due = began.elapsed().as_secs_f64() * f64::from(CALLS_PER_SECOND / ATTEMPTS);
        while f64::from(said) < due {
            said += 1;
            match job.what {
                Saying::Progress => ctx.progress(&said)?,
                Saying::Line => ctx.log(LogLevel::Info, format_args!("row {said} of many was imported")),
            }
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(said)
}

pub(super) async fn measure(subject: Subject, seconds: u64, report: &mut Report) -> Result<()> {
    for (what, work) in [(Saying::Progress, "progress"), (Saying::Line, "log")] {
        report.progress(&format!("{}: {work} calls for {seconds} s", subject.name()));
        let (calls, writes, last) = run(subject, what, seconds).await?;
        let figure =
            format!("{} calls/s, {writes:.1} writes/s, {last:.1} ms at the end of an attempt", whole(calls));
        report.figure(subject, &format!("{work} calls of {ATTEMPTS} attempts"), figure);
    }
    Ok(())
}

/// Calls and writes a second, and how long attempts took beyond their work, in milliseconds.
async fn run(subject: Subject, what: Saying, seconds: u64) -> Result<(f64, f64, f64)> {
    let place = subject.place()?;
    let store = Counted::around(Arc::clone(place.client().await?.store()));
    let client = Client::new(Arc::clone(&store) as _);
    let millis = seconds * 1_000;
    let jobs = (0..ATTEMPTS).map(|_| Say { what, millis });
    let handles = client.enqueue_all(jobs).await?;
    let running = Worker::new(&client).handle(say).concurrency(ATTEMPTS as usize).start()?;
    let began = Instant::now();
    let (mut said, mut beyond) = (0.0, 0.0);
    for handle in &handles {
        said += f64::from(handle.output().await?);
    }
    let (took, writes) = (began.elapsed().as_secs_f64(), store.writes());
    for handle in &handles {
        let record = client.job(handle.id()).await?;
        let attempt = record.as_ref().and_then(|job| job.attempts.last());
        let lasted = attempt.and_then(|attempt| Some(attempt.ended_at?.since(attempt.started_at)));
        beyond += lasted.unwrap_or_default().as_secs_f64() * 1e3 - millis as f64;
    }
    ensure!(writes > 0, "nothing was written");
    running.stop().await;
    Ok((said / took, writes as f64 / took, beyond / f64::from(ATTEMPTS)))
}
