//! Opening, renewing and losing leases, and taking jobs back from lost ones.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::clock::Timestamp;
use windlass_core::job::LostJob;
use windlass_core::store::{
    Cause, LeaseRecord, Leases, NewLease, Renewal, Settled, Settlement, StoreResult, Swept,
};
use windlass_core::{Fence, JobId, LeaseId, Name};

use crate::MemoryStore;
use crate::bug::Bug;
use crate::job::Job;
use crate::lease::Lease;
use crate::table::Table;

#[async_trait]
impl Leases for MemoryStore {
    async fn open(&self, lease: &NewLease) -> StoreResult<()> {
        self.write(|table, now| {
            table.leases.open(lease, now);
        });
        Ok(())
    }

    async fn renew(&self, lease: LeaseId, ttl: Duration, limit: u32) -> StoreResult<Renewal> {
        Ok(self.write(|table, now| table.renew(lease, ttl, limit, now)))
    }

    async fn close(&self, id: LeaseId) -> StoreResult<()> {
        self.write(|table, now| match table.leases.alive(id, now) {
            Some(lease) if lease.running.is_empty() => table.leases.forget(id),
            Some(_) => table.leases.expire_at(id, now),
            None => {}
        });
        Ok(())
    }

    async fn lost(&self, limit: u32) -> StoreResult<Vec<LostJob>> {
        Ok(self.read(|table, now| {
            let running = table.leases.lost(now).flat_map(|(_, lease)| &lease.running);
            let lost = running.take(limit as usize).map(|seq| table.jobs[seq].lost());
            let has_begun = table.has(Bug::StallUnbegun);
            lost.map(|job| LostJob { has_begun: job.has_begun || has_begun, ..job }).collect()
        }))
    }

    async fn held(
        &self,
        lease: LeaseId,
        nonce: u64,
        queues: Arc<[Name]>,
        limit: u32,
    ) -> StoreResult<Vec<LostJob>> {
        Ok(self.read(|table, _| {
            let running = table.leases.get(lease).into_iter().flat_map(|lease| &lease.running);
            let jobs = running.map(|seq| &*table.jobs[seq]);
            let is_held = |job: &&Job| job.fence.nonce == nonce && queues.contains(&job.new.queue);
            jobs.filter(is_held).take(limit as usize).map(Job::lost).collect()
        }))
    }

    async fn reap(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        Ok(self.write(|table, now| settlements.iter().map(|lost| table.reap(lost, now)).collect()))
    }

    async fn sweep(&self, limit: u32) -> StoreResult<Swept> {
        Ok(self.write(|table, now| {
            let idle = table.leases.lost(now).filter(|(_, lease)| lease.running.is_empty());
            let idle: Vec<_> = idle.map(|(id, _)| id).take(limit as usize).collect();
            idle.iter().for_each(|&id| table.leases.forget(id));
            Swept { leases: idle.len() as u32 }
        }))
    }

    async fn leases(&self, limit: u32) -> StoreResult<Vec<LeaseRecord>> {
        Ok(self.read(|table, now| {
            // There are as many as workers, so sorting them beats keeping one more order.
            let mut leases: Vec<_> = table.leases.iter().collect();
            leases.sort_unstable_by_key(|(_, lease)| Reverse(lease.number));
            leases.into_iter().take(limit as usize).map(|(id, lease)| record(id, lease, now)).collect()
        }))
    }
}

impl Table {
    fn renew(&mut self, id: LeaseId, ttl: Duration, limit: u32, now: Timestamp) -> Renewal {
        if self.leases.alive(id, now).is_none() && !self.has(Bug::RenewExpired) {
            return Renewal::Lost;
        }
        self.leases.renew(id, ttl, now);
        let Some(lease) = self.leases.get(id) else {
            return Renewal::Lost;
        };
        let stopping = lease.stopping.iter().take(limit as usize).map(|seq| &self.jobs[seq]);
        let cancel = stopping.map(|job| (job.new.id, job.fence)).collect();
        Renewal::Renewed { cancel, lost: Vec::new() }
    }

    /// Between the look at lost jobs and this write the worker may have renewed, settled or been reaped by
    /// another, so both the fence and the expiry are tested here.
    pub(crate) fn reap(&mut self, lost: &Settlement, now: Timestamp) -> Settled {
        if self.lost_to(&lost.queue, lost.id, lost.fence, now).is_none() {
            return Settled::Fenced;
        }
        let settled = self.settle(lost, Cause::Reaped, now);
        if matches!(settled, Settled::Applied(state) if state.is_waiting()) {
            let seq = self.get(lost.id).expect("a job that waits is there").seq;
            self.note(seq, |job| job.is_reaped = true);
        }
        settled
    }

    /// The running job of this attempt, if its lease has run out.
    pub(crate) fn lost_to(&self, queue: &Name, id: JobId, fence: Fence, now: Timestamp) -> Option<&Job> {
        let is_alive = |job: &Job| job.lease().is_some_and(|id| self.leases.alive(id, now).is_some());
        let is_lost = |job: &&Job| !is_alive(job) || self.has(Bug::ReapUnchecked);
        self.fenced(queue, id, fence).filter(is_lost)
    }
}

fn record(id: LeaseId, lease: &Lease, now: Timestamp) -> LeaseRecord {
    LeaseRecord {
        id,
        worker: lease.worker.to_string(),
        queues: lease.queues.clone(),
        kinds: lease.kinds.clone(),
        opened_at: lease.opened_at,
        expires_at: lease.expires_at,
        is_lost: lease.is_lost(now),
        running: lease.running.len() as u64,
    }
}
