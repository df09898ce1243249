//! A disk that fills up under a worker, and is freed again; `cargo xtask chaos` runs it. The file store is put on a
//! small file system in memory, in a mount namespace of this program's own, which Linux grants where user namespaces
//! are allowed. That is why it is a program and not a test.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use windlass::core::NewJob;
use windlass::{Client, Error, JobId, JobState, Options, Running, StoreErrorKind, Worker};
use windlass_e2e::eventually;
use windlass_e2e::jobs::{self, Hold, Touch};
use windlass_e2e::witness::Witness;

/// Room for the log, for what is kept in reserve and for some jobs.
const DISK_MIB: u32 = 96;
/// What something else has on the disk, and gives back.
const BALLAST_MIB: usize = 32;
const LEASE: Duration = Duration::from_secs(4);
const HELD: usize = 30;

fn main() -> Result<()> {
    if let Some(folder) = std::env::args().nth(1) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        return runtime.block_on(fill_and_free(Path::new(&folder)));
    }
    let folder = tempfile::tempdir()?;
    let script = format!("mount -t tmpfs -o size={DISK_MIB}m none \"$1\" && exec \"$2\" \"$1\"");
    let status = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe()?)
        .status()
        .context("unshare (util-linux) is needed, to mount a small disk")?;
    ensure!(status.success(), "the small disk: {status}");
    Ok(())
}

async fn fill_and_free(disk: &Path) -> Result<()> {
    let ballast = disk.join("ballast");
    std::fs::write(&ballast, vec![b'x'; BALLAST_MIB << 20])?;
    let client = windlass::open(format!("sqlite://{}", disk.join("jobs.db").display())).await?;
    // The witness and the gate are not on the small disk.
    let elsewhere = tempfile::tempdir()?;
    let running = Worker::with_state(&client, Witness::open(elsewhere.path(), "worker"))
        .concurrency(HELD + 10)
        .lease_unchecked(LEASE)
        .reap_interval(LEASE / 4)
        .handle(jobs::touch)
        .handle(jobs::hold)
        .start()?;
    let gate = elsewhere.path().join("gate");
    let held = client.enqueue_all((0..HELD).map(|_| Hold { gate: gate.clone() })).await?;
    let held: Vec<_> = held.iter().map(windlass::Handle::id).collect();
    until_all(&client, &held, JobState::Running).await;

    let stored = fill(&client).await?;
    // Leases live on and running jobs complete, while nothing more is accepted.
    let since = Instant::now();
    eventually("three leases have passed", async || (since.elapsed() > 3 * LEASE).then_some(())).await;
    well(&running)?;
    std::fs::create_dir(&gate)?;
    std::fs::write(gate.join("worker"), "")?;
    until_all(&client, &held, JobState::Completed).await;
    for record in client.store().get(held.as_slice().into()).await?.into_iter().flatten() {
        ensure!((record.fence, record.counters.stalls) == (1, 0), "it ran through: {record:?}");
    }
    ensure!(ballast_job(&client).await.is_err(), "the disk is full all along");

    std::fs::remove_file(&ballast)?;
    let freed = Instant::now();
    let handle =
        eventually("jobs are accepted again", async || client.enqueue(Touch { number: 0 }).await.ok()).await;
    until_all(&client, &[handle.id()], JobState::Completed).await;
    let took = freed.elapsed();
    for number in 1..200 {
        client.enqueue(Touch { number }).await?;
    }
    let is_idle = async || {
        let queues = client.store().queues(None, 10).await.ok()?;
        let default = queues.iter().find(|queue| queue.name.as_str() == "default")?;
        (default.counts.open() == 0).then_some(())
    };
    eventually("all of them complete", is_idle).await;
    well(&running)?;
    eventually("health is good again", async || running.health().is_ok().then_some(())).await;
    let found = client.store().get(stored.as_slice().into()).await?.into_iter().flatten().count();
    ensure!(found == stored.len(), "{found} of {} accepted jobs are there", stored.len());
    running.stop().await;
    println!("a full disk: {HELD} running jobs completed on it; freed, it went on within {took:?}");
    Ok(())
}

/// A job that takes room and that no worker runs.
async fn ballast_job(client: &Client) -> Result<JobId, Error> {
    let options = Options::new().queue("ballast");
    let job = NewJob::new("e2e.ballast", vec![b'x'; 50_000], options).expect("a plain job");
    client.store().enqueue([job.clone()].into()).await?;
    Ok(job.id)
}

/// Enqueues until nothing more is accepted, small or large.
async fn fill(client: &Client) -> Result<Vec<JobId>> {
    let mut stored = Vec::new();
    let refusal = loop {
        match ballast_job(client).await {
            Ok(id) => stored.push(id),
            Err(error) => break error,
        }
    };
    println!("full after {} jobs of 50 kB: {refusal}", stored.len());
    let Error::Store(refusal) = refusal else { bail!("no error of a store: {refusal}") };
    ensure!(refusal.kind() == StoreErrorKind::Unavailable, "{refusal:?}");
    ensure!(refusal.to_string().contains("full"), "it says what is the matter: {refusal}");
    Ok(stored)
}

fn well(running: &Running) -> Result<()> {
    let health = running.health();
    ensure!((health.lease.lost, health.fenced) == (0, 0), "{health:?}");
    Ok(())
}

async fn until_all(client: &Client, ids: &[JobId], state: JobState) {
    eventually(&format!("all are {state:?}"), async || {
        let records = client.store().get(ids.into()).await.ok()?;
        records.iter().flatten().all(|record| record.state == state).then_some(())
    })
    .await;
}
