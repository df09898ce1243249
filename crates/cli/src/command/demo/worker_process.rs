//! The worker process of a demo, seen from its parent: started, started again when it dies, dismissed.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use tokio::process::{Child, ChildStdin, Command};

use crate::exit::Fault;

/// How long a dismissed worker may take before it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct WorkerProcess {
    url: String,
    lease: Duration,
    child: Child,
    /// The worker lives as long as this is open. Held apart from the child, because waiting for a child
    /// closes what it still holds.
    leash: Option<ChildStdin>,
    crashes: u32,
}

impl WorkerProcess {
    /// Starts the first worker.
    pub(super) fn start(url: &str, lease: Duration) -> anyhow::Result<Self> {
        let mut child = spawn(url, lease)?;
        let leash = child.stdin.take();
        Ok(Self { url: url.to_owned(), lease, child, leash, crashes: 0 })
    }

    /// The id of the living worker.
    pub(super) fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// How many workers have died.
    pub(super) fn crashes(&self) -> u32 {
        self.crashes
    }

    /// Waits until the worker dies. May be dropped and called again.
    pub(super) async fn died(&mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.child.wait().await?)
    }

    /// Starts another worker after one died. One that ended by itself, with an exit code of ours, would only
    /// do so again.
    pub(super) fn replace(&mut self, died: ExitStatus) -> anyhow::Result<()> {
        if let Some(code @ 0..=4) = died.code() {
            return Err(
                Fault::failed(format!("the demo's worker ended by itself with exit code {code}")).into()
            );
        }
        self.crashes += 1;
        self.child = spawn(&self.url, self.lease)?;
        self.leash = self.child.stdin.take();
        Ok(())
    }

    /// Lets the worker finish what it does and waits for it.
    pub(super) async fn stop(&mut self) {
        drop(self.leash.take());
        if tokio::time::timeout(PATIENCE, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

fn spawn(url: &str, lease: Duration) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program to start it as a worker")?;
    Command::new(program)
        .args(["demo", "--as-worker", "--lease"])
        .arg(format!("{}us", lease.as_micros()))
        // Not as an argument: everyone on the machine can read those.
        .env("WINDLASS_STORE", url)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the demo's worker")
}
