//! Whether a store that holds much history and many delayed jobs is as fast as an empty one.

use std::time::Duration;

use anyhow::Result;
use windlass::Client;

use crate::ours::{self, BULK, Nothing};
use crate::report::Report;
use crate::subject::{Finished, Subject};
use crate::{Scale, report};

/// Measures draining on an empty store and on a full one, in alternation.
pub(crate) async fn measure(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    report.progress(&format!(
        "{}: filling with {} finished and as many scheduled jobs",
        subject.name(),
        scale.history
    ));
    let full = subject.place()?;
    let client = full.client().await?;
    ours::fill(&client, scale.history).await?;
    ours::drain_filled(&client, scale.history).await?;
    schedule(&client, scale.history).await?;
    let (mut with, mut without) = (vec![], vec![]);
    for round in 1..=scale.rounds {
        report.progress(&format!("{}: history, round {round} of {}", subject.name(), scale.rounds));
        without.push(ours::drain(subject, scale.jobs, Finished::Kept).await?);
        // A server writes out what is left of earlier work when a place is made, as it did for the empty store.
        drop(subject.place()?);
        ours::fill(&client, scale.jobs).await?;
        with.push(ours::drain_filled(&client, scale.jobs).await?);
    }
    let millions = f64::from(scale.history) / 1e6;
    let work = format!("run jobs with {millions} M finished + {millions} M scheduled");
    report.rate(subject, &work, report::median(&mut with), "our empty store", report::median(&mut without));
    Ok(())
}

async fn schedule(client: &Client, jobs: u32) -> Result<()> {
    const FAR: Duration = Duration::from_secs(24 * 60 * 60);
    for start in (0..jobs).step_by(BULK as usize) {
        let batch = (start..jobs.min(start + BULK)).map(|i| Nothing { i });
        client.enqueue_all(batch).delay(FAR + Duration::from_secs(u64::from(start))).await?;
    }
    Ok(())
}
