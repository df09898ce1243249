//! One queue: its definition, how many jobs it holds, and the orders in which they are looked for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use windlass_core::clock::Timestamp;
use windlass_core::queue::{Counts, Permits, QueueConfig, Spent};
use windlass_core::{Name, State};

use crate::gates::Gates;
use crate::job::{Job, Seq};

/// Jobs by an instant; those of one instant in the order of acceptance.
pub(crate) type ByTime = BTreeSet<(Timestamp, Seq)>;

/// The place of a ready job: by priority, then by due instant, then by acceptance.
pub(crate) type Place = (Reverse<i16>, Timestamp, Seq);

#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) config: QueueConfig,
    /// The newest rule that its definition uses.
    pub(crate) rules: u32,
    /// Whether it was defined; otherwise it is there only as long as it holds jobs.
    pub(crate) is_defined: bool,
    pub(crate) counts: Counts,
    /// Ready jobs with a key.
    pub(crate) gates: Gates,
    /// Ready jobs without a key, by kind. A kind stays when its last job leaves: there are few, and it will be back.
    ready: BTreeMap<Name, BTreeSet<Place>>,
    /// Scheduled jobs by due instant.
    pub(crate) scheduled: ByTime,
    /// Jobs that may still expire, by the instant when they do.
    pub(crate) expiring: ByTime,
    completed: ByTime,
    dead: ByTime,
    cancelled: ByTime,
    /// What was spent of its rate.
    pub(crate) spent: BTreeMap<Timestamp, u64>,
}

impl Queue {
    /// Puts a job into every order that its state belongs in.
    pub(crate) fn add(&mut self, job: &Job) {
        match (job.state, &job.new.key) {
            (State::Ready, Some(key)) => self.gates.add(key, place(job)),
            (State::Ready, None) => {
                if !self.ready.contains_key(&job.new.kind) {
                    self.ready.insert(job.new.kind.clone(), BTreeSet::new());
                }
                self.ready.get_mut(&job.new.kind).expect("it was made above").insert(place(job));
            }
            (State::Scheduled, _) => {
                self.scheduled.insert((job.due_at, job.seq));
            }
            _ => {}
        }
        if let Some(expiry) = job.expiry() {
            self.expiring.insert((expiry, job.seq));
        }
        if let (Some(finished), Some(at)) = (self.finished_mut(job.state), job.finished_at) {
            finished.insert((at, job.seq));
        }
    }

    /// Takes a job out of every order that `add` put it in.
    pub(crate) fn take_out(&mut self, job: &Job) {
        match (job.state, &job.new.key) {
            (State::Ready, Some(key)) => self.gates.take_out(key, place(job)),
            (State::Ready, None) => {
                if let Some(places) = self.ready.get_mut(&job.new.kind) {
                    places.remove(&place(job));
                }
            }
            (State::Scheduled, _) => {
                self.scheduled.remove(&(job.due_at, job.seq));
            }
            _ => {}
        }
        if let Some(expiry) = job.expiry() {
            self.expiring.remove(&(expiry, job.seq));
        }
        if let (Some(finished), Some(at)) = (self.finished_mut(job.state), job.finished_at) {
            finished.remove(&(at, job.seq));
        }
    }

    /// The ready job of these kinds whose turn it is.
    pub(crate) fn first_ready(&self, kinds: &[Name]) -> Option<Seq> {
        let firsts = kinds.iter().filter_map(|kind| self.ready.get(kind)?.first());
        firsts.min().map(|&(_, _, seq)| seq)
    }

    /// The lines of ready jobs of these kinds.
    pub(crate) fn lines(&self, kinds: &[Name]) -> impl Iterator<Item = &BTreeSet<Place>> {
        let kinds: BTreeSet<_> = kinds.iter().collect();
        kinds.into_iter().filter_map(|kind| self.ready.get(kind))
    }

    /// The ready job of these kinds that came last in the highest priority: what a careless order gives.
    pub(crate) fn newest_ready(&self, kinds: &[Name]) -> Option<Seq> {
        let places = kinds.iter().filter_map(|kind| self.ready.get(kind)).flatten();
        places
            .min_by_key(|&&(priority, due_at, seq)| (priority, Reverse(due_at), Reverse(seq)))
            .map(|place| place.2)
    }

    /// What its rate permits; nothing where it has none.
    pub(crate) fn permits(&self, now: Timestamp) -> Option<Permits> {
        Some(self.config.rate?.permits(self.spent(), now))
    }

    /// Spends permits of its rate for jobs that start.
    pub(crate) fn spend(&mut self, jobs: u64, now: Timestamp) {
        let Some(rate) = self.config.rate.filter(|_| jobs > 0) else { return };
        let Spent { back_at, jobs } = rate.spend(jobs, self.spent(), now);
        self.spent.retain(|kept_until, kept| *kept_until > now && (jobs > 0 || *kept > 0));
        *self.spent.entry(back_at).or_default() += jobs;
    }

    fn spent(&self) -> impl Iterator<Item = Spent> {
        self.spent.iter().map(|(&back_at, &jobs)| Spent { back_at, jobs })
    }

    /// Finished jobs of a terminal state by the instant when they ended.
    pub(crate) fn finished(&self, state: State) -> Option<&ByTime> {
        match state {
            State::Completed => Some(&self.completed),
            State::Dead => Some(&self.dead),
            State::Cancelled => Some(&self.cancelled),
            _ => None,
        }
    }

    fn finished_mut(&mut self, state: State) -> Option<&mut ByTime> {
        match state {
            State::Completed => Some(&mut self.completed),
            State::Dead => Some(&mut self.dead),
            State::Cancelled => Some(&mut self.cancelled),
            _ => None,
        }
    }
}

fn place(job: &Job) -> Place {
    (Reverse(job.new.priority), job.due_at, job.seq)
}

/// The jobs whose instant has come, earliest first.
pub(crate) fn come(times: &ByTime, now: Timestamp, limit: u32) -> Vec<Seq> {
    times.range(..=(now, Seq::MAX)).take(limit as usize).map(|&(_, seq)| seq).collect()
}
