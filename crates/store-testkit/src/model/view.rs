//! What can be seen of a store, made comparable: random bits are dropped, durations are rounded, instants
//! count from the store's first one, and what the contract leaves in any order is sorted.

use std::collections::BTreeMap;

use windlass_core::clock::{Timestamp, whole_micros};
use windlass_core::job::{ClaimedJob, Facts, LostJob};
use windlass_core::queue::QueueRecord;
use windlass_core::record::Record;
use windlass_core::store::{Filter, LeaseRecord, Renewal, SharedStore, StoreResult};
use windlass_core::tally::{Interval, Tally, Window};
use windlass_core::{JobId, JobRecord, Name};

use super::operation::{JOBS, QUEUES, job_id};
use crate::scene::{name, seconds};

/// Everything that can be seen.
#[derive(Debug, PartialEq)]
pub(super) struct View {
    jobs: Vec<JobRecord>,
    listed: Vec<JobId>,
    queues: Vec<QueueRecord>,
    leases: Vec<LeaseRecord>,
    records: Vec<(Name, Record)>,
}

impl View {
    pub(super) async fn of(store: &SharedStore, start: Timestamp) -> StoreResult<Self> {
        let ids: Vec<_> = (0..JOBS).map(job_id).collect();
        let jobs = store
            .get(ids.as_slice().into())
            .await?
            .into_iter()
            .flatten()
            .map(|job| comparable_job(job, start));
        let mut leases = store.leases(100).await?;
        leases.sort_by_key(|lease| lease.id);
        for lease in &mut leases {
            lease.opened_at = since(lease.opened_at, start);
            lease.expires_at = since(lease.expires_at, start);
        }
        let mut queues = store.queues(None, 100).await?;
        // When permits come back is an instant of the store's own clock; how many there are, claims show.
        queues.iter_mut().for_each(|queue| queue.permits = None);
        let (listed, records) =
            (listed(store, &Filter::default(), 7).await?, comparable_records(store, start).await?);
        Ok(Self { jobs: jobs.collect(), listed, queues, leases, records })
    }

    /// The first thing that differs.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        first_difference("a job", &self.jobs, &other.jobs)
            .or_else(|| first_difference("the list", &self.listed, &other.listed))
            .or_else(|| first_difference("a queue", &self.queues, &other.queues))
            .or_else(|| first_difference("a lease", &self.leases, &other.leases))
            .or_else(|| first_difference("a record", &self.records, &other.records))
    }
}

fn first_difference<T: PartialEq + std::fmt::Debug>(
    what: &str,
    expected: &[T],
    seen: &[T],
) -> Option<String> {
    let length = expected.len().max(seen.len());
    let index = (0..length).find(|&index| expected.get(index) != seen.get(index))?;
    let (expected, seen) = (expected.get(index), seen.get(index));
    Some(format!("{what} differs\nreference: {expected:#?}\nstore:     {seen:#?}"))
}

/// The ids of all jobs that match, read in pages of this size. A limit of nothing reads one page.
pub(super) async fn listed(store: &SharedStore, filter: &Filter, limit: u32) -> StoreResult<Vec<JobId>> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(filter, after.as_ref(), limit).await?;
        found.extend(page.jobs.iter().map(|job| job.id));
        after = page.next;
        if after.is_none() || limit == 0 {
            return Ok(found);
        }
    }
}

async fn comparable_records(store: &SharedStore, start: Timestamp) -> StoreResult<Vec<(Name, Record)>> {
    let records = store.records().expect("the store keeps records");
    let mut found = Vec::new();
    for queue in QUEUES.map(name) {
        for mut record in records.list(&queue, "", None, 100).await?.records {
            record.written_at = since(record.written_at, start);
            record.expires_at = record.expires_at.map(|instant| since(instant, start));
            found.push((queue.clone(), record));
        }
    }
    Ok(found)
}

/// What was counted by queue and kind. Sums: a run may pass from one minute to the next.
pub(super) async fn counted(store: &SharedStore) -> StoreResult<Vec<((Name, Option<Name>), Tally)>> {
    let Some(part) = store.tallies() else { return Ok(Vec::new()) };
    let now = store.now().await?;
    let (from, until) = (now.minus(seconds(20 * 3_600)), now.plus(seconds(1)));
    let window = Window { queues: QUEUES.map(name).to_vec(), from, until, interval: Interval::Hour };
    let mut sums = BTreeMap::<_, Tally>::new();
    for row in part.tallies(&window).await? {
        sums.entry((row.queue, row.kind)).or_default().merge(&row.tally);
    }
    Ok(sums.into_iter().collect())
}

fn since(instant: Timestamp, start: Timestamp) -> Timestamp {
    Timestamp::from_micros(instant.as_micros() - start.as_micros())
}

fn comparable_job(mut job: JobRecord, start: Timestamp) -> JobRecord {
    job.counters.backoff = whole_micros(job.counters.backoff);
    job.spec.timeout = job.spec.timeout.map(whole_micros);
    job.enqueued_at = since(job.enqueued_at, start);
    job.due_at = since(job.due_at, start);
    job.expires_at = job.expires_at.map(|at| since(at, start));
    job.finished_at = job.finished_at.map(|at| since(at, start));
    for attempt in &mut job.attempts {
        attempt.started_at = since(attempt.started_at, start);
        attempt.ended_at = attempt.ended_at.map(|at| since(at, start));
    }
    job
}

/// A claimed job, with a nonce of 0 where it is the one that the claim asked for.
pub(super) fn comparable_claim(mut job: ClaimedJob, nonce: u64, start: Timestamp) -> ClaimedJob {
    job.fence.nonce ^= nonce;
    job.facts = comparable_facts(job.facts);
    job.enqueued_at = since(job.enqueued_at, start);
    job.due_at = since(job.due_at, start);
    job.claimed_at = since(job.claimed_at, start);
    job
}

/// What both judges must be told, so that they decide alike.
pub(super) fn comparable_facts(mut facts: Facts) -> Facts {
    facts.counters.backoff = whole_micros(facts.counters.backoff);
    facts.spec.timeout = facts.spec.timeout.map(whole_micros);
    facts
}

pub(super) fn comparable_lost(mut jobs: Vec<LostJob>) -> Vec<LostJob> {
    for job in &mut jobs {
        job.fence.nonce = 0;
        job.facts = comparable_facts(job.facts.clone());
    }
    jobs.sort_by_key(|job| job.id);
    jobs
}

pub(super) fn comparable_renewal(mut renewal: Renewal) -> Renewal {
    if let Renewal::Renewed { cancel, .. } = &mut renewal {
        cancel.iter_mut().for_each(|(_, fence)| fence.nonce = 0);
        cancel.sort_by_key(|(id, _)| *id);
    }
    renewal
}
