//! What happens to jobs when the program ends?

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use windlass::{Ctx, Job, JobError, JobState, State, Worker};

#[derive(Serialize, Deserialize)]
struct Cook {
    dish: String,
    /// How long it takes; for ever if nothing is said.
    millis: Option<u64>,
}

impl Job for Cook {
    const KIND: &'static str = "cook";
    type Output = ();
}

async fn cook(job: Cook, ctx: Ctx, State(started): State<mpsc::Sender<()>>) -> Result<(), JobError> {
    started.send(()).await?;
    let done = async {
        match job.millis {
            Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = done => println!("{} is ready", job.dish),
        // Time to save what can be saved. An error returned now does not use up an attempt.
        () = ctx.cancelled() => Err(JobError::new("the kitchen closes"))?,
    }
    Ok(())
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = windlass::open("memory:").await?;
    let (started, mut starts) = mpsc::channel(10);
    let soup = client.enqueue(Cook { dish: "soup".into(), millis: Some(100) }).await?;
    let stew = client.enqueue(Cook { dish: "stew".into(), millis: None }).await?;
    let cake = client.enqueue(Cook { dish: "cake".into(), millis: Some(1) }).await?;

    Worker::with_state(&client, started)
        .handle(cook)
        .concurrency(2) // the cake has to wait
        .drain_deadline(Duration::from_millis(500)) // then running attempts are told to stop
        .cancel_grace(Duration::from_millis(500)) // and then dropped
        // `run` stops on SIGTERM or Ctrl-C; here two started jobs are the signal.
        .run_until(async {
            starts.recv().await;
            starts.recv().await;
            println!("closing");
        })
        .await?;

    for (dish, handle) in [("soup", soup), ("stew", stew), ("cake", cake)] {
        let Some(record) = client.job(handle.id()).await? else { continue };
        let fate = match record.state {
            JobState::Completed => "was finished",
            JobState::Ready => "went back, as if it had never been started",
            other => other.as_str(),
        };
        println!("{dish}: {fate}, attempts used: {}", record.counters.attempt);
    }
    Ok(())
}
