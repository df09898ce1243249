//! Maintenance: promotes jobs that are due, and removes finished jobs beyond the retention of their queue and records whose
//! time is over; folds tallies.

use std::time::Duration;

use async_trait::async_trait;
use windlass_core::clock::Timestamp;
use windlass_core::outcome::Reason;
use windlass_core::store::{Cause, Duty, Maintenance, Promotion, Shift, StoreResult};
use windlass_core::{HolderId, Name, State};

use crate::MemoryStore;
use crate::bug::Bug;
use crate::job::Seq;
use crate::queue::{Queue, come};
use crate::table::Table;

#[async_trait]
impl Maintenance for MemoryStore {
    async fn promote(&self, limit: u32) -> StoreResult<Promotion> {
        Ok(self.write(|table, now| {
            let mut moved = Promotion::default();
            for name in table.queue_names() {
                let more = table.promote(&name, now, limit - moved.expired, limit - moved.promoted);
                moved.expired += more.expired;
                moved.promoted += more.promoted;
                table.ring(more.rings(&name));
            }
            moved
        }))
    }

    async fn prune(&self, limit: u32) -> StoreResult<u32> {
        Ok(self.write(|table, now| {
            let mut pruned = 0;
            for name in table.queue_names() {
                for state in State::TERMINAL {
                    let old = table.not_kept(&name, state, now, limit - pruned);
                    pruned += old.len() as u32;
                    old.into_iter().for_each(|seq| table.remove(seq, Cause::NotKept));
                }
            }
            pruned
        }))
    }

    async fn tidy(&self, limit: u32) -> StoreResult<u32> {
        Ok(self.write(|table, now| {
            let records = table.tidy_records(now, limit);
            records + table.tidy_tallies(now, limit - records)
        }))
    }

    async fn take_duty(&self, duty: Duty, holder: HolderId, ttl: Duration) -> StoreResult<Shift> {
        Ok(self.write(|table, now| {
            let shift = match table.duties.get(&duty) {
                Some(&(other, until)) if other != holder && !table.has(Bug::ShareDuty) => {
                    Shift::of_other(until, now, ttl)
                }
                _ => Shift::Own,
            };
            if shift == Shift::Own {
                table.duties.insert(duty, (holder, now.plus(ttl)));
            }
            shift
        }))
    }

    async fn leave_duty(&self, duty: Duty, holder: HolderId) -> StoreResult<()> {
        self.write(|table, _| table.duties.retain(|&kept, (other, _)| kept != duty || *other != holder));
        Ok(())
    }
}

impl Table {
    fn queue_names(&self) -> Vec<Name> {
        self.queues.keys().cloned().collect()
    }

    /// Moves what has expired in one queue to `dead`, then what is due to `ready`.
    pub(crate) fn promote(&mut self, queue: &Name, now: Timestamp, expired: u32, due: u32) -> Promotion {
        let expired = self.come(queue, |queue| come(&queue.expiring, now, expired));
        for &seq in &expired {
            self.change(seq, (Cause::Expired, None), |job| job.end(State::Dead, Reason::Expired, now));
        }
        let early = if self.has(Bug::PromoteEarly) { Duration::from_secs(1) } else { Duration::ZERO };
        let due = self.come(queue, |queue| come(&queue.scheduled, now.plus(early), due));
        for &seq in &due {
            self.change(seq, (Cause::Due, None), |job| job.state = State::Ready);
        }
        Promotion { promoted: due.len() as u32, expired: expired.len() as u32 }
    }

    fn come(&self, queue: &Name, find: impl FnOnce(&Queue) -> Vec<Seq>) -> Vec<Seq> {
        self.queues.get(queue).map(find).unwrap_or_default()
    }

    /// Finished jobs of a queue that its retention no longer keeps, the oldest first.
    fn not_kept(&self, queue: &Name, state: State, now: Timestamp, limit: u32) -> Vec<Seq> {
        let Some(queue) = self.queues.get(queue) else {
            return Vec::new();
        };
        let (Some(keep), Some(finished)) = (queue.config.retention.of(state), queue.finished(state)) else {
            return Vec::new();
        };
        let counted = if self.has(Bug::PruneIgnoresCount) { 0 } else { finished.len() as u64 };
        let excess = keep.excess(counted, now);
        let not_kept = (0..).zip(finished).take_while(|&(place, &(at, _))| excess.takes(place, at));
        not_kept.take(limit as usize).map(|(_, &(_, seq))| seq).collect()
    }
}
