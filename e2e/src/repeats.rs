//! Jobs that must leave the same behind, however often their workers are killed: effects that are done once, chains, and
//! jobs that die whenever they run.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Ctx, Job, JobError, Options, Retry, State};

use crate::witness::Witness;

/// For how long what was done once is remembered: longer than any test.
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// Random kills hit the same job more often than life would.
fn patient() -> Options {
    Options::new().max_stalls(1_000).retry(Retry::fixed(1_000, Duration::ZERO))
}

/// Does what its key stands for, unless that was done.
#[derive(Debug, Serialize, Deserialize)]
pub struct Effect {
    /// What is done once.
    pub key: String,
}

impl Job for Effect {
    const KIND: &'static str = "e2e.effect";
    type Output = String;

    fn options() -> Options {
        patient().queue("effects")
    }
}

/// Handles [`Effect`]; answers the claim that did it.
pub async fn effect(job: Effect, ctx: Ctx, State(witness): State<Witness>) -> Result<String, JobError> {
    let attempt = ctx.clone();
    let body = async move || {
        // Others that come meanwhile have to wait.
        tokio::time::sleep(Duration::from_millis(2)).await;
        witness.line("effect", &attempt);
        Ok(format!("{} {}", attempt.id(), attempt.fence().number))
    };
    ctx.once(&job.key, REMEMBERED, body).body(&job.key).await
}

/// Is followed by the next one of its chain, in the other queue.
#[derive(Debug, Serialize, Deserialize)]
pub struct Link {
    /// How many follow.
    pub left: u32,
}

impl Link {
    /// The queues that chains go back and forth between.
    pub const QUEUES: [&'static str; 2] = ["links-0", "links-1"];

    /// The queue of a link.
    pub fn queue(&self) -> &'static str {
        Self::QUEUES[self.left as usize % 2]
    }
}

impl Job for Link {
    const KIND: &'static str = "e2e.link";
    type Output = ();

    fn options() -> Options {
        patient()
    }
}

/// Handles [`Link`].
pub async fn link(job: Link, ctx: Ctx) -> Result<(), JobError> {
    if let Some(left) = job.left.checked_sub(1) {
        let next = Link { left };
        let queue = next.queue();
        ctx.then(next.with(Options::new().queue(queue))).await?;
    }
    Ok(())
}

/// Dies whenever it runs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Doomed;

impl Job for Doomed {
    const KIND: &'static str = "e2e.doomed";
    type Output = ();

    fn options() -> Options {
        patient().queue("doomed")
    }
}

/// Handles [`Doomed`].
pub async fn doomed(_job: Doomed) -> Result<(), JobError> {
    Err(JobError::fail("it never works"))
}
