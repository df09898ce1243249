//! How are 100,000 mails sent in parts, a few parts at a time, and their results added up?

use serde::{Deserialize, Serialize};
use windlass::{Ctx, Job, JobError, Worker};

#[derive(Serialize, Deserialize)]
struct Campaign {
    mails: u64,
}

impl Job for Campaign {
    const KIND: &'static str = "campaign";
    type Output = u64;
}

#[derive(Serialize, Deserialize)]
struct SendMails {
    from: u64,
    to: u64,
}

impl Job for SendMails {
    const KIND: &'static str = "send_mails";
    type Output = u64;
}

async fn campaign(job: Campaign, ctx: Ctx) -> Result<u64, JobError> {
    let parts = (0..job.mails).step_by(500);
    let sent = ctx.gather("mails", |flow| {
        flow.at_most(20);
        flow.add_all(parts.map(|from| SendMails { from, to: (from + 500).min(job.mails) }));
    });
    // Ends this attempt the first time, and has the results when all parts have ended.
    Ok(sent.await?.outputs::<SendMails>()?.into_iter().sum())
}

async fn send_mails(job: SendMails) -> Result<u64, JobError> {
    Ok(job.to - job.from)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = windlass::open("memory:").await?;
    let worker = Worker::new(&client).handle(campaign).handle(send_mails).start()?;
    let handle = client.enqueue(Campaign { mails: 100_000 }).await?;
    println!("{} mails sent", handle.output().await?);
    worker.stop().await;
    Ok(())
}
