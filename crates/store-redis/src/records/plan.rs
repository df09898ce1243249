//! What attempts write, as one script of their queue takes it: jobs for that queue, changes of records, and jobs for other
//! queues, which go as transfers.

use bytes::{BufMut, Bytes, BytesMut};
use windlass_core::job::NewJob;
use windlass_core::store::{AttemptWrite, Taken};
use windlass_core::{JobId, Name, State, StoreError};

use super::stored;
use crate::Tools;
use crate::agenda::Needs;
use crate::definitions::Definition;
use crate::error::Fault;
use crate::format::FOLLOWING;
use crate::ids::{IdMap, IdSet, Secret};
use crate::jobs::packed::Packed;
use crate::session::Session;
use crate::transfers::Transfer;

/// The most jobs of one transfer, and about the most bytes of its payloads.
const JOBS_MAX: usize = 1_000;
const BYTES_MAX: usize = 1 << 20;

/// What one attempt writes.
pub(super) struct Item<'a> {
    pub(super) write: &'a AttemptWrite,
    /// Jobs for its own queue, and for others. An id stands twice only where the first one with it may not be stored.
    pub(super) own: Vec<&'a NewJob>,
    pub(super) elsewhere: Vec<&'a NewJob>,
    /// Why it is refused, as far as the program can tell.
    pub(super) refusal: Option<StoreError>,
}

impl<'a> Item<'a> {
    pub(super) fn of(write: &'a AttemptWrite) -> Self {
        let mut item = Self { write, own: Vec::new(), elsewhere: Vec::new(), refusal: None };
        let jobs = &write.then.jobs;
        let mut seen: IdMap<&NewJob> = IdMap::with_capacity_and_hasher(jobs.len(), Secret::default());
        for job in jobs {
            let before = *seen.entry(job.id).or_insert(job);
            if !std::ptr::eq(before, job) {
                let NewJob { queue, kind, payload, .. } = before;
                let first =
                    Taken { state: State::Ready, queue: queue.as_str(), kind: kind.as_str(), payload };
                if let Err(refused) = first.answer(job) {
                    item.refusal.get_or_insert(refused);
                }
                if before.unique.is_none() {
                    continue;
                }
            }
            let jobs = if job.queue == write.queue { &mut item.own } else { &mut item.elsewhere };
            jobs.push(job);
        }
        item
    }

    /// Tests its jobs by the definitions that this program knows; payloads for its own queue the script tests. What would be
    /// refused is tested by the definition as it is now.
    pub(super) async fn check(&mut self, tools: &Tools, session: &Session, own: &Definition) {
        if self.refusal.is_some() {
            return;
        }
        if let Some(job) = self.own.iter().find(|job| refused_by(own, job).is_some()) {
            self.refusal = refused(tools, session, job, refused_by).await;
        }
        for job in &self.elsewhere {
            let by = |definition: &Definition, job: &NewJob| {
                refused_by(definition, job)
                    .or_else(|| job.check_payload(definition.config.caps.payload).err())
            };
            if self.refusal.is_none() {
                self.refusal = refused(tools, session, job, by).await;
            }
        }
    }
}

fn refused_by(definition: &Definition, job: &NewJob) -> Option<StoreError> {
    if job.key.is_some() && !definition.takes_keys() {
        return Some(StoreError::NoKeys { queue: job.queue.clone() });
    }
    definition.check_rules(&job.queue).err()
}

/// Why the queue of a job refuses it. A queue that is away is not asked: what comes to it by a transfer is taken.
async fn refused(
    tools: &Tools,
    session: &Session,
    job: &NewJob,
    by: impl Fn(&Definition, &NewJob) -> Option<StoreError>,
) -> Option<StoreError> {
    let mut refused = None;
    for _ in 0..2 {
        match tools.definitions.of(session, &tools.keys, &job.queue).await {
            Ok(definition) => refused = by(&definition, job),
            Err(fault) => {
                tracing::debug!(queue = %job.queue, ?fault, "a job follows by a definition that is not known");
                return refused;
            }
        }
        if refused.is_none() {
            break;
        }
        tools.definitions.forget(&job.queue);
    }
    refused
}

/// What several attempts write, in order.
pub(super) struct Step<'a> {
    pub(super) items: Vec<Item<'a>>,
    sent: Vec<Sent<'a>>,
}

/// Jobs of several attempts for one queue, which go by one transfer. No id stands twice.
struct Sent<'a> {
    target: &'a Name,
    /// By attempt, each job with its place among all that are sent.
    parts: Vec<(usize, Vec<(usize, &'a NewJob)>)>,
    ids: IdSet,
    bytes: usize,
}

impl<'a> Step<'a> {
    pub(super) fn of(items: Vec<Item<'a>>) -> Self {
        let mut step = Self { items, sent: Vec::new() };
        let mut offset = 0;
        for index in 0..step.items.len() {
            for place in 0..step.items[index].elsewhere.len() {
                let job = step.items[index].elsewhere[place];
                step.send(index, offset, job);
                offset += 1;
            }
        }
        step
    }

    fn send(&mut self, index: usize, offset: usize, job: &'a NewJob) {
        let has_room = |sent: &Sent<'_>| {
            sent.ids.len() < JOBS_MAX
                && (sent.ids.is_empty() || sent.bytes + job.payload.len() <= BYTES_MAX)
                && !sent.ids.contains(&job.id)
        };
        let newest = self.sent.iter().rposition(|sent| *sent.target == job.queue);
        let sent = match newest.filter(|&place| has_room(&self.sent[place])) {
            Some(place) => place,
            None => {
                let ids = IdSet::with_hasher(Secret::default());
                self.sent.push(Sent { target: &job.queue, parts: Vec::new(), ids, bytes: 0 });
                self.sent.len() - 1
            }
        };
        let sent = &mut self.sent[sent];
        sent.ids.insert(job.id);
        sent.bytes += job.payload.len();
        match sent.parts.last_mut() {
            Some((of, jobs)) if *of == index => jobs.push((offset, job)),
            _ => sent.parts.push((index, vec![(offset, job)])),
        }
    }

    /// All jobs for the queue of the attempts.
    pub(super) fn own(&self) -> impl Iterator<Item = &'a NewJob> {
        self.items.iter().flat_map(|item| item.own.iter().copied())
    }

    /// What all of that leaves to maintenance. If this process does not deliver transfers, maintenance does.
    pub(super) fn needs(&self) -> Needs {
        let needs = Needs { promote: !self.sent.is_empty(), prune: false };
        self.items.iter().fold(needs, |needs, item| needs.and(stored::needs(&item.write.then.records)))
    }

    /// The arguments that come after the outcomes, but for the jobs of the queue itself.
    pub(super) fn push_to(&self, arguments: &mut Vec<Bytes>) -> Result<(), Fault> {
        let mut following = BytesMut::with_capacity(FOLLOWING.width() * self.items.len());
        for item in &self.items {
            following.put_u8(if item.refusal.is_some() { b'1' } else { b'0' });
            following.put_u32(item.own.len() as u32);
            following.put_u32(item.write.then.records.len() as u32);
        }
        arguments.push(following.freeze());
        let records = || self.items.iter().flat_map(|item| &item.write.then.records);
        arguments.push(records().count().to_string().into());
        stored::push_changes(arguments, records());
        let mut transfers = Vec::new();
        for sent in &self.sent {
            transfers.push(Bytes::copy_from_slice(sent.target.as_str().as_bytes()));
            transfers.push(sent.parts.len().to_string().into());
            for (index, jobs) in &sent.parts {
                let packed = Packed::of(jobs.iter().map(|(_, job)| *job), usize::MAX)?;
                let offsets: Bytes =
                    jobs.iter().flat_map(|(offset, _)| (*offset as u32).to_be_bytes()).collect();
                let (form, jobs, bodies) = packed.parts();
                let form = Bytes::copy_from_slice(&[form]);
                transfers.extend([(index + 1).to_string().into(), form, offsets, jobs, bodies]);
            }
        }
        arguments.push(transfers.len().to_string().into());
        arguments.extend(transfers);
        Ok(())
    }

    /// The transfers that a script has posted, in order: of the attempts that are followed.
    pub(super) fn transfers(&self, is_followed: impl Fn(usize) -> bool) -> Result<Vec<Transfer>, Fault> {
        let mut transfers = Vec::new();
        for sent in &self.sent {
            let parts =
                || sent.parts.iter().filter(|(index, _)| is_followed(*index)).flat_map(|(_, jobs)| jobs);
            let places: Vec<_> = parts().map(|(offset, _)| *offset).collect();
            if !places.is_empty() {
                let packed = Packed::of(parts().map(|(_, job)| *job), usize::MAX)?;
                transfers.push(Transfer::enqueue(sent.target, packed, &places));
            }
        }
        Ok(transfers)
    }
}

/// What an attempt adds to the work of a script, in bytes: as much as the script is given for it, and a fixed amount for each
/// job and record.
pub(super) fn cost(write: &AttemptWrite) -> (JobId, usize) {
    const JOB: usize = 2 << 10;
    const RECORD: usize = 1 << 10;
    let jobs: usize = write.then.jobs.iter().map(|job| job.payload.len() + JOB).sum();
    let records: usize = write.then.records.iter().map(|record| record.weight() + RECORD).sum();
    (write.id, crate::jobs::outcomes::Attempt::from(write).size() + jobs + records)
}

#[cfg(test)]
mod tests {
    use windlass_core::follow_ups::FollowUps;
    use windlass_core::unique::Unique;
    use windlass_core::{Fence, Options};

    use super::*;

    fn job(queue: &str, payload: &str) -> NewJob {
        NewJob::new("k", payload.to_owned(), Options::new().queue(queue)).unwrap()
    }

    fn write(jobs: Vec<NewJob>) -> AttemptWrite {
        let then = FollowUps { jobs, records: Vec::new() };
        let fence = Fence { number: 1, nonce: 1 };
        AttemptWrite { queue: Name::new("q").unwrap(), id: JobId::new(), fence, transition: None, then }
    }

    #[test]
    fn a_repeat_is_left_out_and_another_job_under_its_id_refuses_all() {
        let first = job("q", "1");
        let keyed = NewJob::new("k", "1", Options::new().queue("q").unique(Unique::key("u"))).unwrap();
        let repeats = write(vec![first.clone(), first.clone(), keyed.clone(), keyed]);
        let item = Item::of(&repeats);
        assert!(item.refusal.is_none());
        assert_eq!(item.own.len(), 3, "whether a job with a key is stored the script knows");
        let other = write(vec![first.clone(), job("q", "2").with_id(first.id)]);
        assert!(matches!(Item::of(&other).refusal, Some(StoreError::IdTaken { .. })));
    }

    #[test]
    fn a_transfer_has_the_jobs_of_attempts_that_are_followed() {
        let same = job("a", "1");
        let writes =
            [vec![job("q", ""), same.clone(), job("b", "2")], vec![same], vec![job("a", "3")]].map(write);
        let step = Step::of(writes.iter().map(Item::of).collect());
        assert_eq!(step.own().count(), 1);
        let targets = |followed: &[usize]| {
            let transfers = step.transfers(|index| followed.contains(&index)).unwrap();
            transfers.iter().map(|transfer| transfer.target.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(targets(&[0, 1, 2]), ["a", "b", "a"], "an id stands once in a transfer");
        assert_eq!(
            (targets(&[1]), targets(&[2]), targets(&[])),
            (vec!["a".into()], vec!["a".into()], vec![])
        );
        assert!(step.needs().promote);
    }
}
