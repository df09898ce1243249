//! How much of the machine a server uses, as the kernel counts it. PostgreSQL is a process with children; Redis is
//! one process, with a child only while it writes its data out.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// The time of processors that a server has used since a moment.
#[derive(Debug)]
pub(crate) struct ServerCpu {
    parent: u32,
    before: Duration,
}

impl ServerCpu {
    pub(crate) fn since_now(parent: u32) -> Result<Self> {
        Ok(Self { parent, before: total(parent)? })
    }

    pub(crate) fn used(&self) -> Result<Duration> {
        Ok(total(self.parent)?.saturating_sub(self.before))
    }
}

/// The server's first process with the children that have ended, and those that live.
fn total(parent: u32) -> Result<Duration> {
    let own = fs::read_to_string(format!("/proc/{parent}/stat"))
        .with_context(|| format!("no server runs as {parent}"))?;
    let mut ticks = ticks(&own, 4);
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
    for child in children.split_whitespace() {
        // One that ends just now is counted with the parent's next time.
        ticks += fs::read_to_string(format!("/proc/{child}/stat")).map_or(0, |stat| self::ticks(&stat, 2));
    }
    // Linux tells these in hundredths of a second, whatever the kernel's own rhythm is.
    Ok(Duration::from_millis(10 * ticks))
}

/// The sum of the first so many of user, system, children's user and children's system time.
fn ticks(stat: &str, fields: usize) -> u64 {
    // The name may contain anything, also spaces and brackets, and ends at the last bracket.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().skip(11).take(fields).filter_map(|field| field.parse::<u64>().ok()).sum()
}
