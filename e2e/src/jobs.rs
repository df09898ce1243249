//! The jobs of the whole-system tests. Each handler tells the witness when it starts and when it is done.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass::worker::LogLevel;
use windlass::{Ctx, Job, JobError, Options, State};

use crate::witness::Witness;

/// Does nothing but be seen.
#[derive(Debug, Serialize, Deserialize)]
pub struct Touch {
    /// Which one it is.
    pub number: u32,
}

impl Job for Touch {
    const KIND: &'static str = "e2e.touch";
    type Output = ();

    fn options() -> Options {
        // Random kills hit the same job more often than life would.
        Options::new().max_stalls(1_000).retry(windlass::Retry::fixed(1_000, Duration::ZERO))
    }
}

/// Handles [`Touch`].
pub async fn touch(_job: Touch, ctx: Ctx, State(witness): State<Witness>) -> Result<(), JobError> {
    witness.start(&ctx);
    tokio::task::yield_now().await;
    witness.done(&ctx);
    Ok(())
}

/// Takes its time, with the options that a job has by default.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plain {
    /// What it is told from others by, also on its way.
    pub word: String,
    /// For how long it works.
    pub millis: u64,
}

impl Job for Plain {
    const KIND: &'static str = "e2e.plain";
    type Output = ();
}

/// Handles [`Plain`].
pub async fn plain(job: Plain, ctx: Ctx, State(witness): State<Witness>) -> Result<(), JobError> {
    witness.start(&ctx);
    tokio::time::sleep(Duration::from_millis(job.millis)).await;
    witness.done(&ctx);
    Ok(())
}

/// Waits for a file before it ends, so that a test decides when.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hold {
    /// Ends once this folder holds a file named after the worker's label.
    pub gate: PathBuf,
}

impl Job for Hold {
    const KIND: &'static str = "e2e.hold";
    type Output = String;
}

/// Handles [`Hold`]; answers the label of the worker that did it.
pub async fn hold(job: Hold, ctx: Ctx, State(witness): State<Witness>) -> Result<String, JobError> {
    witness.start(&ctx);
    while !job.gate.join(witness.label()).exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    progress(&ctx, &witness).await;
    witness.done(&ctx);
    Ok(witness.label().to_owned())
}

/// Reports progress and writes down whether the store took it.
async fn progress(ctx: &Ctx, witness: &Witness) {
    let reported = async {
        ctx.log(LogLevel::Info, witness.label());
        ctx.progress(&witness.label())?;
        ctx.flush().await
    };
    match reported.await {
        Ok(()) => witness.line("progressed", ctx),
        Err(windlass::Error::Fenced) => witness.line("progress-fenced", ctx),
        Err(windlass::Error::Store(error)) if error.is_transient() => witness.line("progress-refused", ctx),
        Err(error) => panic!("neither taken, fenced nor refused for a while: {error}"),
    }
}

/// Says so many lines, waits for a file, and says one more. Heeds a request to stop.
#[derive(Debug, Serialize, Deserialize)]
pub struct Chat {
    /// As in [`Hold`].
    pub gate: PathBuf,
    /// How many.
    pub lines: u32,
}

impl Job for Chat {
    const KIND: &'static str = "e2e.chat";
    type Output = ();
}

/// Handles [`Chat`].
pub async fn chat(job: Chat, ctx: Ctx, State(witness): State<Witness>) -> Result<(), JobError> {
    witness.start(&ctx);
    for line in 1..=job.lines {
        ctx.log(LogLevel::Info, format_args!("{} {line}", witness.label()));
        ctx.percent(100 * line / (job.lines + 1))?;
    }
    while !job.gate.join(witness.label()).exists() {
        if ctx.is_cancelled() {
            witness.line("told", &ctx);
            return Err(JobError::new("told to stop"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ctx.log(LogLevel::Warn, format_args!("{} ends", witness.label()));
    ctx.percent(100)?;
    witness.done(&ctx);
    Ok(())
}

/// As [`Hold`], in a handler that holds its thread and cannot be dropped.
#[derive(Debug, Serialize, Deserialize)]
pub struct HoldThread {
    /// As in [`Hold`].
    pub gate: PathBuf,
}

impl Job for HoldThread {
    const KIND: &'static str = "e2e.hold-thread";
    type Output = String;
}

/// Handles [`HoldThread`].
pub fn hold_thread(job: HoldThread, ctx: Ctx, State(witness): State<Witness>) -> Result<String, JobError> {
    witness.start(&ctx);
    while !job.gate.join(witness.label()).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    tokio::runtime::Handle::current().block_on(progress(&ctx, &witness));
    witness.done(&ctx);
    Ok(witness.label().to_owned())
}

/// Holds a runtime thread without ever yielding.
#[derive(Debug, Serialize, Deserialize)]
pub struct Spin {
    /// For how long.
    pub millis: u64,
}

impl Job for Spin {
    const KIND: &'static str = "e2e.spin";
    type Output = ();
}

/// Handles [`Spin`].
pub async fn spin(job: Spin, ctx: Ctx, State(witness): State<Witness>) -> Result<(), JobError> {
    witness.start(&ctx);
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(job.millis) {
        std::hint::spin_loop();
    }
    witness.done(&ctx);
    Ok(())
}

/// Takes its worker down with it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Abort;

impl Job for Abort {
    const KIND: &'static str = "e2e.abort";
    type Output = ();
}

/// Handles [`Abort`].
pub async fn abort(_job: Abort, ctx: Ctx, State(witness): State<Witness>) -> Result<(), JobError> {
    witness.start(&ctx);
    std::process::abort();
}
