//! How often an address may try to log in.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::problem::{Code, Problem};

/// Failures in this time after which an address waits until it is over.
const TIME: Duration = Duration::from_secs(60);
const FAILURES_MAX: u32 = 10;
/// The most addresses that are remembered; beyond that all are forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// From where a connection comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Failed logins by address; those of unknown ones count together.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    failures: Mutex<HashMap<Option<Peer>, (u32, Instant)>>,
}

impl Logins {
    /// Refuses an address that has failed too often.
    pub(crate) fn check(&self, peer: Option<Peer>) -> Result<(), Problem> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match failures.get(&peer) {
            Some((count, since)) if *count >= FAILURES_MAX && since.elapsed() < TIME => {
                Err(Code::TooMany.because("too many logins have failed").remedy("wait a minute"))
            }
            _ => Ok(()),
        }
    }

    /// One more has failed.
    pub(crate) fn failed(&self, peer: Option<Peer>) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= REMEMBERED_MAX {
            failures.clear();
        }
        let entry = failures.entry(peer).or_insert((0, Instant::now()));
        if entry.1.elapsed() >= TIME {
            *entry = (0, Instant::now());
        }
        entry.0 += 1;
    }
}
