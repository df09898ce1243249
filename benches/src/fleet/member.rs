//! A process of the fleet: this program, started by itself with `--member`. It runs one or several workers until its
//! input ends, says when they are ready, and how long after its enqueue each job started.

use std::io::{Read, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use windlass::worker::Maintenance;
use windlass::{Job, JobError, Options, State, Worker};

use super::spread;

/// The queue that jobs go to unless told otherwise.
pub(crate) const QUEUE: &str = "fleet";

/// How a process of the fleet calls itself
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub(crate) struct MemberArguments {
    /// Run workers on this store until the input ends; how the benchmark calls itself
    #[arg(long = "member", hide = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// How many workers
    #[arg(long, hide = true, default_value_t = 1)]
    pub(crate) workers: u32,
    /// How many queues they serve: fleet, fleet-1, fleet-2 and so on
    #[arg(long, hide = true, default_value_t = 1)]
    pub(crate) queues: u32,
    /// How many slots a worker has for each of them
    #[arg(long, hide = true, default_value_t = 64)]
    pub(crate) slots: usize,
    /// Serve jobs of many kinds as well
    #[arg(long, hide = true)]
    pub(crate) spread: bool,
    /// Leave the order of the store to others
    #[arg(long, hide = true)]
    pub(crate) no_maintenance: bool,
    /// Do not say when jobs start
    #[arg(long, hide = true)]
    pub(crate) quiet: bool,
}

/// A job that says when it was enqueued, by the machine's clock.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub(crate) micros: u64,
}

impl Beat {
    pub(crate) fn now() -> Self {
        Self { micros: micros() }
    }
}

impl Job for Beat {
    const KIND: &'static str = "fleet.beat";
    type Output = ();

    fn options() -> Options {
        Options::new().queue(QUEUE)
    }
}

/// A job that ends when it is told to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hold;

impl Job for Hold {
    const KIND: &'static str = "fleet.hold";
    type Output = ();

    fn options() -> Options {
        Options::new().queue(QUEUE)
    }
}

fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

async fn beat(job: Beat, State(is_quiet): State<bool>) -> Result<(), JobError> {
    if !is_quiet {
        say_start(&job);
    }
    Ok(())
}

async fn hold(_job: Hold, ctx: windlass::Ctx) -> Result<(), JobError> {
    ctx.cancelled().await;
    Ok(())
}

/// Says how long after its enqueue a job has started.
pub(super) fn say_start(job: &Beat) {
    say(&format!("start {}", micros().saturating_sub(job.micros)));
}

/// A line of its own, at once.
fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    // The benchmark has gone; the input ends as well.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// The name of a queue by its number.
pub(crate) fn queue_name(number: u32) -> String {
    if number == 0 { QUEUE.to_owned() } else { format!("{QUEUE}-{number}") }
}

/// Runs workers until the input ends.
pub(crate) async fn run(url: &str, arguments: &MemberArguments) -> Result<()> {
    let client = windlass::open(url).await?;
    let mut running = Vec::new();
    for number in 0..arguments.workers {
        let worker = Worker::with_state(&client, arguments.quiet).name(format!("member-{number}"));
        let mut worker = worker.handle(beat).handle(hold);
        if arguments.no_maintenance {
            worker = worker.maintenance(Maintenance::Off);
        }
        if arguments.spread {
            worker = spread::serve(worker);
        }
        for number in 0..arguments.queues {
            worker = worker.queue(queue_name(number), arguments.slots);
        }
        running.push(worker.start()?);
    }
    while running.iter().any(|running| running.health().lease.id.is_none()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    say("ready");
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().lock().read_to_end(&mut Vec::new()));
    ended.await??;
    // Leases run out by themselves: the store is not used again.
    std::process::exit(0);
}
