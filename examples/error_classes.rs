//! Which errors are tried again, which are not, and how does a handler say so?

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Classify, Job, JobError, OutputError, ResultExt, Retry, Verdict, Worker};

#[derive(Serialize, Deserialize)]
struct Order {
    text: String,
}

impl Job for Order {
    const KIND: &'static str = "order";
    type Output = u32;

    fn options() -> windlass::Options {
        windlass::Options::new().retry(Retry::fixed(2, Duration::from_millis(10)))
    }
}

/// Any std error becomes a [`JobError`] by `?` and is tried again; the other classes are said aloud.
async fn order(job: Order) -> Result<u32, JobError> {
    match job.text.as_str() {
        "offline" => Err(std::io::Error::other("the line is dead"))?, // transient: tried again
        "maybe" => Err(JobError::ambiguous("no answer from the bank"))?, // tried again, but few times
        "busy" => Err(JobError::retry_after(Duration::from_millis(20), "too many orders"))?,
        "unwanted" => Err(JobError::discard("the customer has left"))?, // cancelled, as intended
        _ => {}
    }
    job.text.parse::<u32>().fail() // permanent: dead at once
}

#[derive(Serialize, Deserialize)]
struct Mail;

impl Job for Mail {
    const KIND: &'static str = "mail";
    type Output = ();
}

/// An error type of one's own that knows its classes.
#[derive(Debug, thiserror::Error)]
enum MailError {
    #[error("no such mailbox")]
    NoSuchMailbox,
}

impl Classify for MailError {
    fn message(&self) -> String {
        self.to_string()
    }
    fn verdict(&self) -> Verdict {
        match self {
            Self::NoSuchMailbox => Verdict::Fail,
        }
    }
}

async fn mail(_job: Mail) -> Result<(), MailError> {
    Err(MailError::NoSuchMailbox)
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = windlass::open("memory:").await?;
    let worker = Worker::new(&client).handle(order).handle(mail).start()?;
    for text in ["42", "offline", "maybe", "busy", "unwanted", "many"] {
        let handle = client.enqueue(Order { text: text.into() }).await?;
        match handle.output().await {
            Ok(number) => println!("{text}: completed with {number}"),
            Err(error @ (OutputError::Dead { .. } | OutputError::Cancelled { .. })) => {
                println!("{text}: {error}");
            }
            Err(OutputError::Call(error)) => return Err(error),
            Err(error) => println!("{text}: unexpected, {error}"),
        }
    }
    if let Err(error) = client.enqueue(Mail).await?.output().await {
        println!("mail: {error}");
    }
    worker.stop().await;
    Ok(())
}
