//! The child of a demo: a worker with all of its kinds. Lives until it is interrupted, until its parent closes
//! its standard input (which a parent that dies does too), or until a job kills it.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use windlass::Worker;

use super::kinds;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

pub(super) async fn run(url: &str, lease: Duration) -> anyhow::Result<Exit> {
    let mut interrupt = Interrupt::listen()?;
    let client = windlass::open(url).await?;
    Worker::new(&client)
        .name(format!("demo-{}", std::process::id()))
        .queue(kinds::QUEUE, 16)
        .lease_unchecked(lease)
        .reap_interval(lease / 8)
        .cancel_grace(Duration::from_millis(200))
        .drain_deadline(Duration::from_secs(2))
        .handle(kinds::email)
        .handle(kinds::flaky)
        .handle(kinds::invalid)
        .handle_blocking(kinds::resize)
        .handle(kinds::slow)
        .handle(kinds::later)
        .handle(kinds::stale)
        .handle(kinds::crash)
        .handle(kinds::poison)
        .run_until(dismissed(&mut interrupt))
        .await?;
    Ok(Exit::Done)
}

/// Waits until the parent is gone or there is an interrupt.
async fn dismissed(interrupt: &mut Interrupt) {
    let parent_gone = async {
        let mut stdin = tokio::io::stdin();
        let mut buffer = [0; 64];
        while matches!(stdin.read(&mut buffer).await, Ok(1..)) {}
    };
    tokio::select! {
        () = parent_gone => {}
        () = interrupt.heard() => {}
    }
}
