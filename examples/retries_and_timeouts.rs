//! How often, how soon, and how long?

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Ctx, Jitter, Job, JobError, Options, Retry, Worker};

#[derive(Serialize, Deserialize)]
struct Fetch;

impl Job for Fetch {
    const KIND: &'static str = "fetch";
    type Output = String;

    /// What every job of this type does, unless a call says otherwise.
    fn options() -> Options {
        Options::new()
            .retry(Retry::exponential(5, Duration::from_millis(20)).jitter(Jitter::Equal))
            .timeout(Duration::from_millis(50))
    }
}

async fn fetch(_job: Fetch, ctx: Ctx) -> Result<String, JobError> {
    println!("attempt {} of {}", ctx.attempt(), ctx.max_attempts());
    match ctx.attempt() {
        1 => Err(JobError::new("connection refused")),
        // Too slow. The attempt is told to stop; if it does not, it is dropped after a grace.
        2 => {
            tokio::select! {
                () = std::future::pending() => unreachable!("nothing comes"),
                () = ctx.cancelled() => Err(JobError::new("gave up waiting")),
            }
        }
        _ => Ok(format!("done, {} attempts to spare", ctx.max_attempts() - ctx.attempt())),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = windlass::open("memory:").await?;
    let worker = Worker::new(&client).handle(fetch).start()?;

    let handle = client.enqueue(Fetch).await?;
    println!("{}", handle.output().await?);
    let record = client.job(handle.id()).await?.ok_or("finished jobs are kept for a day")?;
    for attempt in &record.attempts {
        let ending = attempt.ending.map_or("running", |ending| ending.as_str());
        println!("  {}: {ending} {}", attempt.number, attempt.error.as_deref().unwrap_or(""));
    }

    // The call wins over the type: one attempt, and not before a moment has passed.
    let once = client.enqueue(Fetch).retry(Retry::never()).delay(Duration::from_millis(50)).await?;
    println!("once: {}", once.output().await.unwrap_or_else(|error| error.to_string()));
    worker.stop().await;
    Ok(())
}
