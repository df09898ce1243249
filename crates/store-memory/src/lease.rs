//! The leases of workers and the jobs that hang on them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{Step, Timestamp};
use windlass_core::store::{NewLease, serves};
use windlass_core::{LeaseId, Name};

use crate::job::{Job, Seq};

#[derive(Debug)]
pub(crate) struct Lease {
    /// Where it stands in the order of opening.
    pub(crate) number: u64,
    pub(crate) worker: Arc<str>,
    pub(crate) queues: Vec<Name>,
    /// The kinds it runs.
    pub(crate) kinds: Vec<Name>,
    pub(crate) opened_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    /// How long a renewal lasts.
    pub(crate) ttl: Duration,
    /// Jobs that hang on it.
    pub(crate) running: BTreeSet<Seq>,
    /// Those of them that are asked to stop.
    pub(crate) stopping: BTreeSet<Seq>,
}

impl Lease {
    /// Whether it has run out. At the very instant of its expiry it has.
    pub(crate) fn is_lost(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }
}

/// All leases, also by the instant when they run out.
#[derive(Debug, Default)]
pub(crate) struct LeaseBook {
    leases: HashMap<LeaseId, Lease>,
    by_expiry: BTreeSet<(Timestamp, LeaseId)>,
    opened: u64,
}

impl LeaseBook {
    /// Opens a lease; one that is there already stays as it is.
    pub(crate) fn open(&mut self, new: &NewLease, at: Timestamp) {
        let (id, ttl) = (new.id, new.ttl);
        if self.leases.contains_key(&id) {
            return;
        }
        self.opened += 1;
        let lease = Lease {
            number: self.opened,
            worker: new.label().into(),
            queues: new.queues.clone(),
            kinds: new.kinds.iter().take(serves::KINDS_KEPT).cloned().collect(),
            opened_at: at,
            expires_at: at.plus(ttl),
            ttl,
            running: BTreeSet::new(),
            stopping: BTreeSet::new(),
        };
        self.by_expiry.insert((lease.expires_at, id));
        self.leases.insert(id, lease);
    }

    pub(crate) fn get(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(&id)
    }

    pub(crate) fn alive(&self, id: LeaseId, now: Timestamp) -> Option<&Lease> {
        self.get(id).filter(|lease| !lease.is_lost(now))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.leases.iter().map(|(&id, lease)| (id, lease))
    }

    /// Keeps a lease alive for so long from now.
    pub(crate) fn renew(&mut self, id: LeaseId, ttl: Duration, now: Timestamp) {
        self.expire_at(id, now.plus(ttl));
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.ttl = ttl;
        }
    }

    /// The clock was set: what lived gets one more term, what was lost stays lost.
    pub(crate) fn outlive(&mut self, step: Step) {
        for (id, lease) in &mut self.leases {
            self.by_expiry.remove(&(lease.expires_at, *id));
            lease.expires_at = step.renewed(lease.expires_at, lease.ttl);
            self.by_expiry.insert((lease.expires_at, *id));
        }
    }

    /// Lets a lease run out at another instant.
    pub(crate) fn expire_at(&mut self, id: LeaseId, at: Timestamp) {
        if let Some(lease) = self.leases.get_mut(&id) {
            self.by_expiry.remove(&(lease.expires_at, id));
            lease.expires_at = at;
            self.by_expiry.insert((at, id));
        }
    }

    pub(crate) fn forget(&mut self, id: LeaseId) {
        if let Some(lease) = self.leases.remove(&id) {
            self.by_expiry.remove(&(lease.expires_at, id));
        }
    }

    /// Leases that have run out, the longest lost first.
    pub(crate) fn lost(&self, now: Timestamp) -> impl Iterator<Item = (LeaseId, &Lease)> {
        let until_now = self.by_expiry.iter().take_while(move |&&(expires_at, _)| expires_at <= now);
        until_now.filter_map(|&(_, id)| Some((id, self.get(id)?)))
    }

    /// Hangs a running job on its lease.
    pub(crate) fn add(&mut self, job: &Job) {
        if let Some(lease) = job.lease().and_then(|id| self.leases.get_mut(&id)) {
            lease.running.insert(job.seq);
            if job.cancel_requested {
                lease.stopping.insert(job.seq);
            }
        }
    }

    /// Takes a running job off its lease.
    pub(crate) fn take_out(&mut self, job: &Job) {
        if let Some(lease) = job.lease().and_then(|id| self.leases.get_mut(&id)) {
            lease.running.remove(&job.seq);
            lease.stopping.remove(&job.seq);
        }
    }
}
