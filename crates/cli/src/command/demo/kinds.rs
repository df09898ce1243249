//! The built-in kinds of the demo: their payloads, their handlers, and how each of their jobs must end.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Client, Ctx, Job, JobError, Options, Retry};
use windlass_core::outcome::Reason;
use windlass_core::retry::Jitter;
use windlass_core::{JobId, NewJob, State};

/// The queue that the demo works in.
pub(super) const QUEUE: &str = "demo";

/// One kind, for the parent.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// What it shows, in a few words.
    pub(super) shows: &'static str,
    /// How many jobs of it there are; nothing for as many as asked for.
    count: Option<u32>,
    /// How each of them must end.
    pub(super) ends: (State, Option<Reason>),
    options: fn() -> Options,
}

const COMPLETED: (State, Option<Reason>) = (State::Completed, None);

pub(super) const KINDS: [Kind; 9] = [
    Kind {
        name: Email::KIND,
        shows: "succeeds",
        count: None,
        ends: COMPLETED,
        options: || patient().priority(-1),
    },
    Kind {
        name: Flaky::KIND,
        shows: "fails twice, then succeeds",
        count: Some(8),
        ends: COMPLETED,
        options: patient,
    },
    Kind {
        name: Invalid::KIND,
        shows: "fails for good",
        count: Some(4),
        ends: (State::Dead, Some(Reason::Permanent)),
        options: patient,
    },
    Kind { name: Resize::KIND, shows: "holds a thread", count: Some(8), ends: COMPLETED, options: patient },
    Kind {
        name: Slow::KIND,
        shows: "times out once",
        count: Some(3),
        ends: COMPLETED,
        options: || patient().timeout(Duration::from_millis(600)),
    },
    Kind {
        name: Later::KIND,
        shows: "asks to come back later",
        count: Some(3),
        ends: COMPLETED,
        options: patient,
    },
    Kind {
        name: Stale::KIND,
        shows: "finds itself unwanted",
        count: Some(2),
        ends: (State::Cancelled, Some(Reason::Discarded)),
        options: patient,
    },
    Kind {
        name: Crash::KIND,
        shows: "kills its worker once",
        count: Some(1),
        ends: COMPLETED,
        options: || patient().delay(Duration::from_secs(2)).priority(10),
    },
    Kind {
        name: Poison::KIND,
        shows: "kills every worker",
        count: Some(1),
        ends: (State::Dead, Some(Reason::Stalled)),
        options: || patient().delay(Duration::from_millis(4_500)).priority(10).max_stalls(1),
    },
];

/// Retries soon. How many lost leases a job survives is left at its default: what kills its worker harms no other.
fn patient() -> Options {
    let retry = Retry::fixed(20, Duration::from_millis(400)).jitter(Jitter::Equal);
    Options::new().queue(QUEUE).retry(retry)
}

/// Hands in the jobs of all kinds in one call, so that there are all of them or none.
pub(super) async fn enqueue(client: &Client, mails: u32) -> anyhow::Result<Vec<(JobId, &'static Kind)>> {
    let mut jobs = Vec::new();
    for kind in &KINDS {
        for number in 0..kind.count.unwrap_or(mails) {
            let payload = serde_json::to_vec(&serde_json::json!({ "number": number }))?;
            jobs.push((NewJob::new(kind.name, payload, (kind.options)())?, kind));
        }
    }
    let new: Vec<NewJob> = jobs.iter().map(|(job, _)| job.clone()).collect();
    for chunk in new.chunks(1_000) {
        client.store().enqueue(chunk.into()).await?;
    }
    Ok(jobs.into_iter().map(|(job, kind)| (job.id, kind)).collect())
}

/// Declares a kind whose payload is its number.
macro_rules! kinds {
    ($($type:ident $name:literal -> $output:ty;)*) => {$(
        #[derive(Debug, Clone, Copy, Serialize, Deserialize)]
        pub(super) struct $type {
            number: u32,
        }

        impl Job for $type {
            const KIND: &'static str = $name;
            type Output = $output;

            fn options() -> Options {
                patient()
            }
        }
    )*};
}

kinds! {
    Email "demo.email" -> String;
    Flaky "demo.flaky" -> u32;
    Invalid "demo.invalid" -> ();
    Resize "demo.resize" -> u64;
    Slow "demo.slow" -> ();
    Later "demo.later" -> ();
    Stale "demo.stale" -> ();
    Crash "demo.crash" -> ();
    Poison "demo.poison" -> ();
}

pub(super) async fn email(job: Email) -> Result<String, JobError> {
    tokio::time::sleep(Duration::from_millis(200 + u64::from(job.number % 7) * 60)).await;
    Ok(format!("sent to reader {}", job.number))
}

pub(super) async fn flaky(job: Flaky, ctx: Ctx) -> Result<u32, JobError> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    if ctx.attempt() < 3 {
        return Err(JobError::new(format!("service {} is busy", job.number)));
    }
    Ok(ctx.attempt())
}

pub(super) async fn invalid(job: Invalid) -> Result<(), JobError> {
    Err(JobError::fail(format!("no such customer: {}", job.number)))
}

/// Blocking work: computes for a while without ever yielding.
pub(super) fn resize(job: Resize) -> Result<u64, JobError> {
    let end = std::time::Instant::now() + Duration::from_millis(300);
    let mut pixels = u64::from(job.number);
    while std::time::Instant::now() < end {
        for _ in 0..10_000 {
            pixels = std::hint::black_box(pixels.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
    Ok(pixels)
}

pub(super) async fn slow(_job: Slow, ctx: Ctx) -> Result<(), JobError> {
    if ctx.attempt() == 1 {
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    Ok(())
}

pub(super) async fn later(_job: Later, ctx: Ctx) -> Result<(), JobError> {
    // A snooze gives the attempt back, so only the fence tells the first time from the second.
    if ctx.fence().number == 1 {
        return Err(JobError::snooze(Duration::from_secs(1)));
    }
    Ok(())
}

pub(super) async fn stale(job: Stale) -> Result<(), JobError> {
    Err(JobError::discard(format!("order {} was withdrawn", job.number)))
}

pub(super) async fn crash(_job: Crash, ctx: Ctx) -> Result<(), JobError> {
    if ctx.fence().number == 1 {
        std::process::abort();
    }
    Ok(())
}

pub(super) async fn poison(_job: Poison) -> Result<(), JobError> {
    std::process::abort()
}
