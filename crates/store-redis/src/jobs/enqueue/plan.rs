//! How the jobs of a call are shared out over scripts: single calls that share one go into one script, and never travel as
//! transfers.

use std::collections::HashMap;

use bytes::Bytes;
use windlass_core::batch::{ITEMS_MAX, WEIGHT_MAX};
use windlass_core::job::NewJob;
use windlass_core::store::{Enqueued, Taken};
use windlass_core::{JobId, Name, State};

use super::enqueued;
use crate::error::Fault;
use crate::ids::{IdMap, Secret};

/// The jobs of a call, in chunks that one script takes each.
pub(super) struct Plan<'j> {
    /// Every id once, unless the job that has it may meet the holder of its unique key and not be stored: then the script
    /// tells what the next one with this id is.
    pub(super) chunks: Vec<Chunk<'j>>,
    /// Jobs whose id stood in the call before, with the place where.
    repeats: Vec<(usize, usize)>,
    /// The first job that is another one than that of the same id before it. What comes after it is left out.
    pub(super) conflict: Option<JobId>,
}

/// Jobs of one queue, by their places in the call, in order.
pub(super) struct Chunk<'j> {
    pub(super) queue: &'j Name,
    pub(super) places: Vec<usize>,
    weight: usize,
}

impl Chunk<'_> {
    pub(super) fn jobs<'j>(&self, jobs: &'j [NewJob]) -> impl Iterator<Item = &'j NewJob> {
        self.places.iter().map(|&place| &jobs[place])
    }
}

impl<'j> Plan<'j> {
    pub(super) fn of(jobs: &'j [NewJob]) -> Self {
        Self::bounded(jobs, ITEMS_MAX, WEIGHT_MAX)
    }

    /// The same of jobs that are of one queue and not too many, in one chunk.
    pub(super) fn whole(jobs: &'j [NewJob]) -> Self {
        Self::bounded(jobs, usize::MAX, usize::MAX)
    }

    fn bounded(jobs: &'j [NewJob], items_max: usize, weight_max: usize) -> Self {
        let mut plan = Self { chunks: Vec::new(), repeats: Vec::new(), conflict: None };
        let mut places = IdMap::with_capacity_and_hasher(jobs.len(), Secret::default());
        // The chunk of each queue that is being filled, and the newest of them all.
        let mut filling: HashMap<&Name, usize> = HashMap::new();
        let mut newest = None;
        for (place, job) in jobs.iter().enumerate() {
            let before = *places.entry(job.id).or_insert(place);
            if before != place {
                let NewJob { queue, kind, payload, .. } = &jobs[before];
                let first =
                    Taken { state: State::Ready, queue: queue.as_str(), kind: kind.as_str(), payload };
                let is_open = jobs[before].unique.is_some() && *queue == job.queue;
                if !is_open && first.answer(job).is_err() {
                    plan.conflict = Some(job.id);
                    break;
                }
                if !is_open {
                    plan.repeats.push((place, before));
                    continue;
                }
            }
            let weight = job.weight();
            let room =
                |chunk: &Chunk<'_>| chunk.places.len() < items_max && chunk.weight + weight <= weight_max;
            let is_same = |&chunk: &usize| *plan.chunks[chunk].queue == job.queue;
            let found = newest.filter(is_same).or_else(|| filling.get(&job.queue).copied());
            let found = found.filter(|&chunk| room(&plan.chunks[chunk]));
            let chunk = found.unwrap_or_else(|| {
                plan.chunks.push(Chunk { queue: &job.queue, places: Vec::new(), weight: 0 });
                filling.insert(&job.queue, plan.chunks.len() - 1);
                plan.chunks.len() - 1
            });
            newest = Some(chunk);
            plan.chunks[chunk].places.push(place);
            plan.chunks[chunk].weight += weight;
        }
        plan
    }

    /// The answers in the order of the call, from what was said of each chunk: a byte for each job, then which holders of
    /// unique keys were met.
    pub(super) fn answers(&self, jobs: &[NewJob], said: &[Bytes]) -> Result<Vec<Enqueued>, Fault> {
        let mut found = vec![None; jobs.len()];
        for (chunk, said) in self.chunks.iter().zip(said) {
            let (said, mut met) = said.split_at(said.len().min(chunk.places.len()));
            for (&place, &said) in chunk.places.iter().zip(said) {
                found[place] = Some(match said {
                    b'd' | b'p' => {
                        let holder =
                            met.split_off(..MET).ok_or_else(|| Fault::Corrupt(NO_HOLDER.to_owned()))?;
                        (self::met(said, holder)?, State::Ready)
                    }
                    _ => enqueued(said, jobs[place].id)?,
                });
            }
            if said.len() < chunk.places.len() || !met.is_empty() {
                return Err(Fault::Corrupt(format!(
                    "{} answers for {} jobs",
                    said.len() + met.len(),
                    chunk.places.len()
                )));
            }
        }
        for &(place, before) in &self.repeats {
            found[place] = found[before].map(|(_, state)| (Enqueued::Existing(state), state));
        }
        let answers = found.into_iter().map(|found| found.map(|(answer, _)| answer));
        answers
            .collect::<Option<_>>()
            .ok_or_else(|| Fault::Defect("a job of the call was left out".to_owned()))
    }
}

/// How many bytes a holder that was met is answered with: its id and its state.
const MET: usize = 17;
const NO_HOLDER: &str = "a job met no holder of its key";

/// The answer for a job that met the holder of its key.
fn met(said: u8, holder: &[u8]) -> Result<Enqueued, Fault> {
    let corrupt = || Fault::Corrupt(NO_HOLDER.to_owned());
    let (&state, id) = holder.split_last().ok_or_else(corrupt)?;
    let id = JobId::from_bytes(id.try_into().map_err(|_| corrupt())?);
    if said == b'p' {
        return Ok(Enqueued::Replaced(id));
    }
    let state = match state {
        b'-' => None,
        digit => {
            Some(digit.checked_sub(b'0').and_then(|code| State::from_code(code.into())).ok_or_else(corrupt)?)
        }
    };
    Ok(Enqueued::Duplicate { id, state })
}

#[cfg(test)]
mod tests {
    use windlass_core::Options;
    use windlass_core::unique::Unique;

    use super::*;

    fn job(queue: &str, payload: &[u8]) -> NewJob {
        NewJob::new("k", payload.to_vec(), Options::new().queue(queue)).unwrap()
    }

    #[test]
    fn chunks_are_bounded_and_keep_the_order_of_each_queue() {
        let mut jobs: Vec<_> = (0..2_500).map(|place| job(["a", "b"][place % 2], b"")).collect();
        jobs.push(job("a", &vec![0; WEIGHT_MAX + 1]));
        jobs.push(job("a", b"x"));
        let plan = Plan::of(&jobs);
        let sizes: Vec<_> =
            plan.chunks.iter().map(|chunk| (chunk.queue.as_str(), chunk.places.len())).collect();
        assert_eq!(sizes, [("a", 1_000), ("b", 1_000), ("a", 250), ("b", 250), ("a", 1), ("a", 1)]);
        assert!(plan.chunks.iter().all(|chunk| chunk.places.is_sorted()));
        let said: Vec<_> =
            plan.chunks.iter().map(|chunk| Bytes::from(vec![b'r'; chunk.places.len()])).collect();
        assert_eq!(plan.answers(&jobs, &said).unwrap(), vec![Enqueued::New; jobs.len()]);
    }

    /// As many and as much as single calls that share one come to.
    #[test]
    fn a_call_of_one_queue_is_one_script_as_far_as_that_goes() {
        let jobs = |queues: &[&str], count, bytes| {
            let jobs: Vec<_> =
                (0..count).map(|place| job(queues[place % queues.len()], &vec![0; bytes])).collect();
            Plan::of(&jobs).chunks.len()
        };
        assert_eq!((jobs(&["a"], ITEMS_MAX, 9), jobs(&["a"], 7, 1 << 20)), (1, 1));
        assert_eq!((jobs(&["a"], ITEMS_MAX + 1, 9), jobs(&["a"], 8, 1 << 20)), (2, 2));
        assert_eq!(jobs(&["a", "b"], 10, 1 << 20), 2);
    }

    #[test]
    fn a_repeat_is_answered_by_what_became_of_the_first() {
        let (first, other) = (job("a", b"1"), job("a", b"2"));
        let jobs = [first.clone(), other, first.clone()];
        let plan = Plan::of(&jobs);
        assert!(plan.conflict.is_none());
        let answers = plan.answers(&jobs, &[Bytes::from_static(b"s4")]).unwrap();
        let existing = Enqueued::Existing;
        assert_eq!(answers, [Enqueued::New, existing(State::Completed), existing(State::Scheduled)]);
        assert!(plan.answers(&jobs, &[Bytes::from_static(b"s")]).is_err());
    }

    /// The first may not be stored, so that only the script knows what the second is.
    #[test]
    fn a_repeat_of_a_job_with_a_key_is_left_to_the_script() {
        let options = || Options::new().queue("a").unique(Unique::key("k"));
        let first = NewJob::new("k", "1", options()).unwrap();
        let jobs = [first.clone(), job("a", b"2").with_id(first.id), first.clone()];
        let plan = Plan::of(&jobs);
        assert_eq!((plan.conflict, &plan.chunks[0].places[..]), (None, &[0, 1, 2][..]));
        let holder = JobId::new();
        let said = |state: &[u8]| {
            Bytes::from([b"drp", &holder.as_bytes()[..], state, holder.as_bytes(), b"1"].concat())
        };
        let met = |state| Enqueued::Duplicate { id: holder, state };
        for (state, met) in [(b"-", met(None)), (b"3", met(Some(State::Running)))] {
            let answers = plan.answers(&jobs, &[said(state)]).unwrap();
            assert_eq!(answers, [met, Enqueued::New, Enqueued::Replaced(holder)]);
        }
        for length in 0..said(b"-").len() {
            assert!(plan.answers(&jobs, &[said(b"-").slice(..length)]).is_err(), "{length} bytes");
        }
        assert!(Plan::of(&[first.clone(), job("b", b"1").with_id(first.id)]).conflict.is_some());
    }

    #[test]
    fn another_job_under_the_same_id_ends_the_plan() {
        let first = job("a", b"1");
        for other in [job("b", b"1"), job("a", b"2")] {
            let jobs = [first.clone(), other.with_id(first.id), job("a", b"3")];
            let plan = Plan::of(&jobs);
            assert_eq!(plan.conflict, Some(first.id));
            assert_eq!(plan.chunks[0].places, [0]);
        }
    }
}
