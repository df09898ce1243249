//! The smallest program: enqueue a job into a file and run it. Ends on Ctrl-C or SIGTERM.

use serde::{Deserialize, Serialize};
use windlass::{Ctx, Job, JobError, Worker};

#[derive(Serialize, Deserialize)]
struct Greet {
    name: String,
}

impl Job for Greet {
    const KIND: &'static str = "greet"; // a stored contract, never the Rust type's path
    type Output = ();
}

async fn greet(job: Greet, ctx: Ctx) -> Result<(), JobError> {
    println!("hello {}, attempt {}", job.name, ctx.attempt());
    Ok(())
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = windlass::open("sqlite://jobs.db").await?; // or memory:
    client.enqueue(Greet { name: "Ferris".into() }).await?;
    Worker::new(&client).handle(greet).run().await // SIGTERM drains; store errors never kill it
}
