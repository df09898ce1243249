//! How do I enqueue a job, run it and get its result?

use serde::{Deserialize, Serialize};
use windlass::{Ctx, Job, JobError, Worker};

#[derive(Serialize, Deserialize)]
struct Greet {
    name: String,
}

impl Job for Greet {
    const KIND: &'static str = "greet";
    type Output = String;
}

async fn greet(job: Greet, ctx: Ctx) -> Result<String, JobError> {
    Ok(format!("hello {}, attempt {}", job.name, ctx.attempt()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let client = windlass::open(format!("sqlite://{}/jobs.db", folder.path().display())).await?;

    // A durable job: it is on the disk when this returns.
    let handle = client.enqueue(Greet { name: "Ferris".into() }).await?;
    println!("enqueued {} ({})", handle.id(), client.about().durability);

    // Usually in another process; `run` instead of `start` ends with SIGTERM or Ctrl-C.
    let worker = Worker::new(&client).handle(greet).start()?;
    println!("{}", handle.output().await?);
    worker.stop().await;
    Ok(())
}
