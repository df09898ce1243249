//! What a waiting job weighs, in memory and on disk. Measured in a process of its own: one that has measured
//! before has memory to spare, and would not grow.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::ours;
use crate::report::{Report, whole};
use crate::server::Server;
use crate::subject::Subject;

/// Growth per waiting job, in bytes.
#[derive(Serialize, Deserialize)]
struct Weight {
    memory: f64,
    /// In the server's memory, where it keeps jobs there.
    disk: f64,
}

/// Has a fresh process weigh, and reports what it says.
pub(crate) fn measure(subject: Subject, jobs: u32, report: &mut Report) -> Result<()> {
    let weigh = ["--weigh", subject.name(), "--jobs", &jobs.to_string()];
    let mut command = Command::new(std::env::current_exe()?);
    if subject.is_postgres() {
        // The same server, rather than one more.
        command.env("DATABASE_URL", Server::get().url());
    }
    let output = command.args(weigh).output()?;
    ensure!(output.status.success(), "weighing failed: {}", String::from_utf8_lossy(&output.stderr));
    let weight: Weight = serde_json::from_slice(&output.stdout)?;
    report.figure(subject, "memory per waiting job", format!("{} B", whole(weight.memory)));
    if subject != Subject::Memory {
        let place = if subject.is_redis() { "server's memory" } else { "disk" };
        report.figure(subject, &format!("{place} per waiting job"), format!("{} B", whole(weight.disk)));
    }
    Ok(())
}

/// Fills a store, divides what it grew by, and prints that.
pub(crate) async fn weigh(subject: Subject, jobs: u32) -> Result<()> {
    let place = subject.place()?;
    let client = place.client().await?;
    // The first jobs also pay for caches and buffers that do not grow with the queue.
    ours::fill(&client, 10_000).await?;
    let (resident, on_disk) = (resident_bytes()?, place.bytes()?);
    ours::fill(&client, jobs).await?;
    let per_job = |after: u64, before: u64| after.saturating_sub(before) as f64 / f64::from(jobs);
    let weight =
        Weight { memory: per_job(resident_bytes()?, resident), disk: per_job(place.bytes()?, on_disk) };
    println!("{}", serde_json::to_string(&weight)?);
    Ok(())
}

/// The resident set of this process.
fn resident_bytes() -> Result<u64> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("resident memory is read on Linux only")?;
    let line =
        status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS in /proc/self/status")?;
    let kibibytes: u64 = line.split_whitespace().nth(1).context("VmRSS without a number")?.parse()?;
    Ok(kibibytes * 1024)
}
