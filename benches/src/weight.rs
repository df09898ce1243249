//! What a waiting job weighs, in memory and on disk.

use anyhow::{Context, Result};

use crate::Scale;
use crate::ours;
use crate::report::{Report, whole};
use crate::subject::Subject;

/// Fills a store and divides what it grew by.
pub(crate) async fn measure(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    let jobs = scale.jobs;
    let place = subject.place()?;
    let client = place.client().await?;
    ours::fill(&client, 10_000).await?;
    let (resident, on_disk) = (resident_bytes()?, place.bytes()?);
    ours::fill(&client, jobs).await?;
    let per_job = |after: u64, before: u64| whole(after.saturating_sub(before) as f64 / f64::from(jobs));
    report.figure(subject, "memory per waiting job", format!("{} B", per_job(resident_bytes()?, resident)));
    if subject != Subject::Memory {
        report.figure(subject, "disk per waiting job", format!("{} B", per_job(place.bytes()?, on_disk)));
    }
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
