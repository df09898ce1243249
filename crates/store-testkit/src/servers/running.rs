//! A server that runs as our child, and the ways to end it.

use std::fs;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{PATIENCE, poll};

/// A child process with children of its own. Its owner must end it; dropping it does.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
}

impl Running {
    pub(super) fn new(child: Child) -> Self {
        Self { child }
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked")
    }

    /// Sends a signal and does not wait for what comes of it.
    pub(super) fn signal(&self, signal: Signal) {
        send(self.id(), signal);
    }

    /// Sends a signal and waits for the end, which is forced after a minute.
    pub(super) fn end(mut self, signal: Signal) {
        self.end_within(signal, PATIENCE);
    }

    /// Kills it and every child it has, as a machine that stops would, and waits until all of them are gone.
    pub(super) fn kill(mut self) {
        if self.ended().is_some() {
            return;
        }
        // Stopped it has no more children, so that none is missed.
        send(self.id(), Signal::STOP);
        let children = children(self.id());
        let _ = self.child.kill();
        for child in &children {
            send(*child, Signal::KILL);
        }
        let _ = self.child.wait();
        let gone = poll(PATIENCE, || children.iter().all(|child| parent(*child).is_none()).then_some(()));
        assert!(gone.is_some(), "children of the server outlive SIGKILL: {children:?}");
    }

    fn end_within(&mut self, signal: Signal, patience: Duration) {
        if self.ended().is_some() {
            return;
        }
        send(self.id(), signal);
        if poll(patience, || self.ended()).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_within(Signal::QUIT, Duration::from_secs(10));
    }
}

fn send(id: u32, signal: Signal) {
    // It may have ended in the meantime; then there is nothing to signal.
    if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _ = kill_process(id, signal);
    }
}

/// The processes whose parent this is. Empty where there is no `/proc`: children of a killed server then go by
/// themselves a little later.
fn children(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent(*id) == Some(of)).collect()
}

/// The parent of a process that has not ended.
fn parent(id: u32) -> Option<u32> {
    let line = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before the bracket may contain anything.
    let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z" && state != "X").then_some(parent)
}
