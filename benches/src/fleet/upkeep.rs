//! What a fleet does beside its jobs: pruning, and heeding requests to stop.

use std::time::{Duration, Instant};

use anyhow::Result;
use windlass::queue::{Keep, QueueConfig};
use windlass::{Client, JobState};

use super::Extent;
use super::ground::{Ground, Kind};
use super::member::{Beat, Hold, QUEUE};
use super::processes::Processes;
use super::table::{Bound, Table};

/// How long pruning is watched at most.
const PRUNE_MAX: Duration = Duration::from_secs(40);
const BULK: u32 = 1_000;

/// How many jobs a second one worker prunes that its queue no longer keeps.
pub(super) async fn prune(ground: &Ground, extent: Extent, table: &mut Table) -> Result<()> {
    let (name, place) = (ground.kind.name(), ground.place()?);
    let client = place.client().await?;
    table.progress(name, &format!("pruning {} jobs", extent.pruned));
    let mut config = QueueConfig::default();
    config.retention.completed = Keep::FOREVER;
    client.define_queue(QUEUE, config.clone()).await?;
    {
        let mut processes = Processes::new();
        // Killed below, so it must not have the duty to prune, which would run out only minutes later.
        processes.add(1, &place.url, &["--quiet", "--no-maintenance"])?;
        for _ in 0..extent.pruned / BULK {
            client.enqueue_all((0..BULK).map(|_| Beat { micros: 0 })).await?;
        }
        while completed(&client).await? < u64::from(extent.pruned / BULK * BULK) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    config.retention.completed = Keep::count(0);
    client.define_queue(QUEUE, config).await?;
    let (before, began) = (completed(&client).await?, Instant::now());
    let mut processes = Processes::new();
    processes.add(1, &place.url, &[])?;
    let mut left = before;
    while left > 0 && began.elapsed() < PRUNE_MAX {
        tokio::time::sleep(Duration::from_millis(100)).await;
        left = completed(&client).await?;
    }
    let rate = (before - left) as f64 / began.elapsed().as_secs_f64();
    table.add(name, "pruned by one worker", rate, "/s", Bound::AtLeast(20_000.0));
    Ok(())
}

async fn completed(client: &Client) -> Result<u64> {
    Ok(client.queue(QUEUE)?.counts().await?.of(JobState::Completed))
}

/// What a request to stop costs the leases of workers that do not have the job.
pub(super) async fn cancels(ground: &Ground, table: &mut Table) -> Result<()> {
    const MEMBERS: usize = 20;
    const CANCELS: u32 = 100;
    if ground.kind != Kind::Postgres {
        return Ok(());
    }
    let (name, place) = (ground.kind.name(), ground.place()?);
    table.progress(name, "100 cancels beside 20 workers");
    let client = place.client().await?;
    let mut processes = Processes::new();
    processes.add(MEMBERS, &place.url, &[])?;
    let handles = client.enqueue_all((0..CANCELS).map(|_| Hold)).await?;
    for handle in &handles {
        while handle.state().await? != Some(JobState::Running) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (before, began) = (ground.counted(), Instant::now());
    for handle in &handles {
        handle.cancel().await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Sessions report late what they counted.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let rate = ground.counted().rate(before, began.elapsed());
    let own = MEMBERS as f64 / 10.0 * began.elapsed().as_secs_f64();
    let per_cancel = (rate.renewals * began.elapsed().as_secs_f64() - own) / f64::from(CANCELS);
    table.add(name, "20 workers, renewals of leases per cancel", per_cancel, "", Bound::AtMost(2.0));
    Ok(())
}
