//! Where does work go that blocks its thread: compression, image scaling, a synchronous driver?

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass::{Ctx, Job, JobError, Worker};

#[derive(Serialize, Deserialize)]
struct Sum {
    up_to: u64,
}

impl Job for Sum {
    const KIND: &'static str = "sum";
    type Output = u64;
}

#[derive(Serialize, Deserialize)]
struct Endless;

impl Job for Endless {
    const KIND: &'static str = "endless";
    type Output = ();
}

/// A plain function: it runs on a bounded pool of threads and holds up nothing else.
fn sum(job: Sum) -> Result<u64, JobError> {
    std::thread::sleep(Duration::from_millis(20));
    Ok((1..=job.up_to).sum())
}

/// A thread cannot be stopped from outside, so a long loop looks whether it should.
fn endless(_job: Endless, ctx: Ctx) -> Result<(), JobError> {
    let began = Instant::now();
    while !ctx.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("endless stopped, {}", if began.elapsed() < Duration::from_secs(10) { "soon" } else { "late" });
    Err(JobError::new("stopped"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = windlass::open("memory:").await?;
    let worker = Worker::new(&client)
        .handle_blocking(sum)
        .handle_blocking(endless)
        .concurrency(8)
        .blocking_threads(4)
        .start()?;

    let handles = client.enqueue_all((1..=8).map(|step| Sum { up_to: step * 1_000 })).await?;
    for handle in &handles {
        println!("sum: {}", handle.output().await?);
    }

    let endless =
        client.enqueue(Endless).timeout(Duration::from_millis(50)).retry(windlass::Retry::never()).await?;
    if let Err(error) = endless.output().await {
        println!("endless: {error}");
    }
    worker.stop().await;
    Ok(())
}
