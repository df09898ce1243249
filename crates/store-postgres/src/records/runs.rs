//! Which writes of attempts go together. Those of a run share nothing, so all of them at once leave what they leave one after the
//! other, and what is refused of one is refused whatever the others do.

use std::collections::HashSet;

use windlass_core::follow_ups::{JOBS_MAX, JOBS_WEIGHT_MAX};
use windlass_core::record::RecordKey;
use windlass_core::store::AttemptWrite;
use windlass_core::{JobId, Name};

/// The most attempts, and the most records, of one statement.
const MOST: usize = 1_000;

/// Splits the writes at these places into runs, in their order.
pub(super) fn runs(items: &[AttemptWrite], places: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut held = Held::default();
    for place in places {
        let more = Held::of(&items[place]);
        match runs.last_mut() {
            Some(run) if held.has_room_for(&more) => {
                run.push(place);
                held.add(more);
            }
            _ => {
                runs.push(vec![place]);
                held = more;
            }
        }
    }
    runs
}

/// What writes are about.
#[derive(Default)]
struct Held<'i> {
    has_end: bool,
    /// Of attempts and of jobs that follow.
    ids: HashSet<JobId>,
    records: HashSet<(&'i Name, &'i RecordKey)>,
    attempts: usize,
    jobs: usize,
    weight: usize,
}

impl<'i> Held<'i> {
    fn of(item: &'i AttemptWrite) -> Self {
        Self {
            has_end: item.transition.is_some(),
            ids: item.then.jobs.iter().map(|job| job.id).chain([item.id]).collect(),
            records: item.then.records.iter().map(|write| (&item.queue, &write.key)).collect(),
            attempts: 1,
            jobs: item.then.jobs.len(),
            weight: item.then.weight(),
        }
    }

    fn has_room_for(&self, more: &Self) -> bool {
        self.has_end == more.has_end
            && self.attempts < MOST
            && self.jobs + more.jobs <= JOBS_MAX
            && self.records.len() + more.records.len() <= MOST
            && self.weight + more.weight <= JOBS_WEIGHT_MAX
            && more.ids.iter().all(|id| !self.ids.contains(id))
            && more.records.iter().all(|record| !self.records.contains(record))
    }

    fn add(&mut self, more: Self) {
        self.ids.extend(more.ids);
        self.records.extend(more.records);
        self.attempts += 1;
        self.jobs += more.jobs;
        self.weight += more.weight;
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::follow_ups::FollowUps;
    use windlass_core::judge::judge;
    use windlass_core::record::RecordWrite;
    use windlass_core::{Fence, NewJob, Options, Outcome};

    use super::*;

    fn item(id: JobId, jobs: Vec<NewJob>, records: &[&str]) -> AttemptWrite {
        let records = records.iter().map(|key| RecordWrite::put(RecordKey::new(key).unwrap(), ""));
        let then = FollowUps { jobs, records: records.collect() };
        let (queue, fence) = (Name::new("q").unwrap(), Fence { number: 1, nonce: 1 });
        AttemptWrite { queue, id, fence, transition: None, then }
    }

    fn job() -> NewJob {
        NewJob::new("k", "", Options::new()).unwrap()
    }

    fn split(items: &[AttemptWrite]) -> Vec<Vec<usize>> {
        runs(items, 0..items.len())
    }

    #[test]
    fn what_shares_nothing_goes_together() {
        let same = job();
        let items = [
            item(JobId::new(), vec![same.clone(), same], &["a", "b"]),
            item(JobId::new(), vec![job()], &["c"]),
            item(JobId::new(), vec![], &[]),
        ];
        assert_eq!(split(&items), [[0, 1, 2]]);
        assert_eq!(split(&[]), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn what_meets_goes_one_after_the_other() {
        let (id, next) = (JobId::new(), job());
        assert_eq!(split(&[item(JobId::new(), vec![], &["a"]), item(JobId::new(), vec![], &["a"])]).len(), 2);
        assert_eq!(split(&[item(id, vec![], &[]), item(id, vec![], &[])]).len(), 2);
        let twice = [item(JobId::new(), vec![next.clone()], &[]), item(JobId::new(), vec![next], &[])];
        assert_eq!(split(&twice).len(), 2);
        let of_attempt = [item(JobId::new(), vec![job().with_id(id)], &[]), item(id, vec![], &[])];
        assert_eq!(split(&of_attempt).len(), 2);
        let many = [item(JobId::new(), vec![job(); 600], &[]), item(JobId::new(), vec![job(); 600], &[])];
        assert_eq!(split(&many).len(), 2);
    }

    #[test]
    fn ends_and_attempts_that_go_on_are_apart() {
        let running = item(JobId::new(), vec![], &[]);
        let facts = windlass_core::job::Facts { counters: Default::default(), spec: Default::default() };
        let transition = Some(judge(&facts, Outcome::Completed { output: None }, 0.5));
        let ending = AttemptWrite { transition, ..item(JobId::new(), vec![], &[]) };
        assert_eq!(split(&[running.clone(), ending, running]), [[0], [1], [2]]);
    }
}
