//! How do I test jobs without waiting, without a file and without a running worker?

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Client, Job, JobError, Options, Retry, Worker, testing};

#[derive(Serialize, Deserialize)]
struct SignUp {
    user: u64,
}

impl Job for SignUp {
    const KIND: &'static str = "sign_up";
    type Output = ();
}

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Remind {
    user: u64,
}

impl Job for Remind {
    const KIND: &'static str = "remind";
    type Output = ();

    fn options() -> Options {
        Options::new().retry(Retry::fixed(3, Duration::from_secs(60)))
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn sign_up(job: SignUp, client: Client) -> Result<(), JobError> {
    client.enqueue(Remind { user: job.user }).delay(DAY).await?;
    Ok(())
}

async fn remind(job: Remind) -> Result<(), JobError> {
    if job.user == 13 { Err(JobError::new("no such user")) } else { Ok(()) }
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    // A store in memory, and a clock that only this test moves.
    let (client, clock) = testing::client();
    let worker = || Worker::new(&client).handle(sign_up).handle(remind);

    for user in [7, 13] {
        client.enqueue(SignUp { user }).await?;
    }
    let drained = worker().drain().await?;
    assert_eq!(drained.completed, 2);
    println!("both signed up");

    // The reminders are there, and wait.
    testing::assert_enqueued::<Remind>(&client, |job| job.user == 7).await;
    assert_eq!(testing::enqueued::<Remind>(&client).await, [Remind { user: 7 }, Remind { user: 13 }]);
    assert_eq!(worker().drain().await?.total(), 0);
    println!("the reminders wait");

    // A day passes in no time.
    clock.advance(DAY);
    let drained = worker().drain().await?;
    assert_eq!((drained.completed, drained.retried), (1, 1));
    println!("one was reminded, the other will be tried again");

    clock.advance(Duration::from_secs(60));
    worker().drain().await?;
    clock.advance(Duration::from_secs(60));
    assert_eq!(worker().drain().await?.dead, 1);
    println!("and is given up after three attempts");
    Ok(())
}
