//! The processes of a fleet, as the benchmark sees them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long processes may take to become ready.
const READY_MAX: Duration = Duration::from_secs(120);
/// How many are started at once: each opens connections, and a server forks for them.
const STARTED_AT_ONCE: usize = 10;

/// Processes that run workers; killed when they are dropped.
pub(super) struct Processes {
    members: Vec<Child>,
    said: Receiver<String>,
    say: mpsc::Sender<String>,
}

impl Processes {
    pub(super) fn new() -> Self {
        let (say, said) = mpsc::channel();
        Self { members: Vec::new(), said, say }
    }

    /// Starts more processes and waits until they are ready.
    pub(super) fn add(&mut self, count: usize, url: &str, arguments: &[&str]) -> Result<()> {
        let mut left = count;
        while left > 0 {
            let some = left.min(STARTED_AT_ONCE);
            for _ in 0..some {
                self.start(url, arguments)?;
            }
            let until = Instant::now() + READY_MAX;
            for _ in 0..some {
                while self.next(until)?.context("a process of the fleet is not ready in time")? != "ready" {}
            }
            left -= some;
        }
        Ok(())
    }

    fn start(&mut self, url: &str, arguments: &[&str]) -> Result<()> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--member", url])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("the process has an output")?;
        let say = self.say.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if say.send(line).is_err() {
                    break;
                }
            }
        });
        self.members.push(child);
        Ok(())
    }

    /// The next line that one of them says; nothing if none comes in time.
    fn next(&self, until: Instant) -> Result<Option<String>> {
        match self.said.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("all processes of the fleet have ended"),
        }
    }

    /// How long after their enqueue so many jobs started; fewer, if they do not start in time.
    pub(super) fn starts(&self, count: usize, patience: Duration) -> Result<Vec<Duration>> {
        let (mut starts, until) = (Vec::with_capacity(count), Instant::now() + patience);
        while starts.len() < count
            && let Some(line) = self.next(until)?
        {
            if let Some(micros) = line.strip_prefix("start ").and_then(|micros| micros.parse().ok()) {
                starts.push(Duration::from_micros(micros));
            }
        }
        Ok(starts)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for member in &mut self.members {
            // One that has ended already need not be.
            let _ = member.kill();
        }
        for member in &mut self.members {
            let _ = member.wait();
        }
    }
}
