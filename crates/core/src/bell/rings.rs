//! What a store owes a ring about: gathered while it writes, rung when a claim sees the write.

use serde::{Deserialize, Serialize};

use super::{Bell, Claiming, Topic};
use crate::id::JobId;
use crate::job::NewJob;
use crate::name::Name;
use crate::state::State;

/// The most queues, and kinds of them, that one ring names.
const FRESH_MAX: usize = 32;
/// The most jobs to stop that one ring names.
const CANCELS_MAX: usize = 64;

/// What a ring names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Named<T> {
    /// Nothing, and no ring is owed.
    #[default]
    None,
    /// These, at least one.
    These(Vec<T>),
    /// No names: any may be meant.
    Any,
}

impl<T> Named<T> {
    /// Whether nothing is named and no ring is owed.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// Jobs that became ready or scheduled in one queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fresh {
    /// The queue.
    pub queue: Name,
    /// Their kind; nothing if it is not known, or they are of several.
    pub kind: Option<Name>,
    /// How many they are.
    pub jobs: u32,
}

/// Rings that are owed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    #[serde(default, skip_serializing_if = "Named::is_none")]
    work: Named<Fresh>,
    #[serde(default, skip_serializing_if = "Named::is_none")]
    cancels: Named<JobId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_ends: bool,
}

impl Rings {
    /// None.
    pub const NONE: Self = Self { work: Named::None, cancels: Named::None, has_ends: false };

    /// About one topic, without names.
    pub fn about(topic: Topic) -> Self {
        let (mut work, mut cancels) = (Named::None, Named::None);
        match topic {
            Topic::Work => work = Named::Any,
            Topic::Cancel => cancels = Named::Any,
            Topic::Finish => {}
        }
        Self { work, cancels, has_ends: matches!(topic, Topic::Finish) }
    }

    /// About fresh work in one queue.
    pub fn fresh(fresh: Fresh) -> Self {
        Self { work: Named::These(vec![fresh]), ..Self::NONE }
    }

    /// About jobs that were just accepted.
    pub fn accepted<'j>(jobs: impl IntoIterator<Item = &'j NewJob>) -> Self {
        let mut rings = Self::NONE;
        jobs.into_iter().for_each(|job| rings.add_work(&job.queue, Some(&job.kind), 1));
        rings
    }

    /// About a running job that is asked to stop.
    pub fn cancel(id: JobId) -> Self {
        Self { cancels: Named::These(vec![id]), ..Self::NONE }
    }

    /// What is owed when a job of this queue comes into a state: about work when it is ready or scheduled, about finishing
    /// when it is terminal (also when its queue keeps none of that end), and otherwise nothing.
    pub fn entered(state: State, queue: &Name) -> Self {
        let mut rings = Self::NONE;
        rings.add_entered(state, queue);
        rings
    }

    /// Adds what [`entered`](Self::entered) says.
    pub fn add_entered(&mut self, state: State, queue: &Name) {
        match state {
            State::Ready | State::Scheduled => self.add_work(queue, None, 1),
            State::Completed | State::Dead | State::Cancelled => self.add_ends(),
            State::Blocked | State::Running => {}
        }
    }

    /// Adds that jobs have ended or are gone.
    pub fn add_ends(&mut self) {
        self.has_ends = true;
    }

    /// Adds work, to what is named already if it can be. What has too many names is said of the queue as a whole, and in
    /// the end of any.
    pub(crate) fn add_work(&mut self, queue: &Name, kind: Option<&Name>, jobs: u32) {
        let list = match &mut self.work {
            Named::Any => return,
            Named::These(list) => list,
            none @ Named::None => {
                *none = Named::These(Vec::with_capacity(1));
                let Named::These(list) = none else { return };
                list
            }
        };
        // The newest first: jobs of one call are mostly of one queue and kind.
        let is_it = |known: &Fresh| known.kind.as_ref() == kind && known.queue == *queue;
        if let Some(known) = list.iter_mut().rev().find(|known| is_it(known)) {
            known.jobs = known.jobs.saturating_add(jobs);
            return;
        }
        list.push(Fresh { queue: queue.clone(), kind: kind.cloned(), jobs });
        if list.len() > FRESH_MAX {
            let all = std::mem::take(list);
            self.work = whole_queues(all).map_or(Named::Any, Named::These);
        }
    }

    /// These and those.
    #[must_use]
    pub fn and(mut self, more: Self) -> Self {
        match more.work {
            Named::None => {}
            Named::These(list) => {
                for Fresh { queue, kind, jobs } in list {
                    self.add_work(&queue, kind.as_ref(), jobs);
                }
            }
            Named::Any => self.work = Named::Any,
        }
        self.cancels = match (self.cancels, more.cancels) {
            (Named::None, cancels) | (cancels, Named::None) => cancels,
            (Named::These(mut ids), Named::These(more)) => {
                ids.extend(more);
                if ids.len() > CANCELS_MAX { Named::Any } else { Named::These(ids) }
            }
            (Named::Any, _) | (_, Named::Any) => Named::Any,
        };
        self.has_ends |= more.has_ends;
        self
    }

    /// Takes out what is about work whose kind is known: how much of it workers here have room for can be told.
    #[must_use]
    pub fn take_fresh(&mut self) -> Self {
        let Named::These(list) = &mut self.work else { return Self::NONE };
        let (known, rest) =
            std::mem::take(list).into_iter().partition::<Vec<_>, _>(|fresh| fresh.kind.is_some());
        let named = |list: Vec<Fresh>| if list.is_empty() { Named::None } else { Named::These(list) };
        self.work = named(rest);
        Self { work: named(known), ..Self::NONE }
    }

    /// These, but none about a topic.
    #[must_use]
    pub fn without(mut self, topic: Topic) -> Self {
        match topic {
            Topic::Work => self.work = Named::None,
            Topic::Cancel => self.cancels = Named::None,
            Topic::Finish => self.has_ends = false,
        }
        self
    }

    /// Whether a ring about this topic is owed.
    pub fn has(&self, topic: Topic) -> bool {
        match topic {
            Topic::Work => !self.work.is_none(),
            Topic::Cancel => !self.cancels.is_none(),
            Topic::Finish => self.has_ends,
        }
    }

    /// Whether no ring is owed.
    pub fn is_empty(&self) -> bool {
        self.topics().next().is_none()
    }

    /// The topics that a ring is owed about.
    pub fn topics(&self) -> impl Iterator<Item = Topic> {
        Topic::ALL.into_iter().filter(move |&topic| self.has(topic))
    }

    /// The work that there is.
    pub fn work(&self) -> &Named<Fresh> {
        &self.work
    }

    /// The jobs that are asked to stop.
    pub fn cancels(&self) -> &Named<JobId> {
        &self.cancels
    }

    /// The claim that a worker here makes at once for some of the work, which it has room for: that much of it is no longer
    /// owed. Nothing is rung.
    pub fn claim(&mut self, bell: &Bell) -> Option<Box<dyn Claiming>> {
        let Named::These(list) = &mut self.work else { return None };
        let found = list.iter().enumerate().find_map(|(place, fresh)| Some((place, bell.claim(fresh)?)));
        let (place, (claim, room)) = found?;
        list[place].jobs = list[place].jobs.saturating_sub(room);
        list.retain(|fresh| fresh.jobs > 0);
        if list.is_empty() {
            self.work = Named::None;
        }
        Some(claim)
    }

    /// Rings for all of it. Answers what other processes should hear of: work that workers here have room for is theirs.
    #[must_use = "other processes may have to be told"]
    pub fn ring(self, bell: &Bell) -> Self {
        let Self { work, cancels, has_ends } = self;
        let mut left = Self { has_ends, ..Self::NONE };
        match work {
            Named::None => {}
            Named::These(list) => {
                for fresh in list {
                    let jobs = bell.call(&fresh);
                    if jobs > 0 {
                        left.add_work(&fresh.queue, fresh.kind.as_ref(), jobs);
                    }
                }
            }
            Named::Any => {
                bell.ring(Topic::Work);
                left.work = Named::Any;
            }
        }
        match &cancels {
            Named::None => {}
            Named::These(ids) => bell.cancel(ids),
            Named::Any => bell.ring(Topic::Cancel),
        }
        if has_ends {
            bell.ring(Topic::Finish);
        }
        Self { cancels, ..left }
    }
}

/// The same work by queue alone; nothing if that is still too much to name.
fn whole_queues(list: Vec<Fresh>) -> Option<Vec<Fresh>> {
    let mut queues: Vec<Fresh> = Vec::new();
    for Fresh { queue, jobs, .. } in list {
        match queues.iter_mut().find(|known| known.queue == queue) {
            Some(known) => known.jobs = known.jobs.saturating_add(jobs),
            None => queues.push(Fresh { queue, kind: None, jobs }),
        }
    }
    (queues.len() <= FRESH_MAX / 2).then_some(queues)
}

impl FromIterator<Topic> for Rings {
    fn from_iter<I: IntoIterator<Item = Topic>>(topics: I) -> Self {
        topics.into_iter().fold(Self::NONE, |rings, topic| rings.and(Self::about(topic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a good name")
    }

    fn fresh(queue: &str, kind: Option<&str>, jobs: u32) -> Fresh {
        Fresh { queue: name(queue), kind: kind.map(name), jobs }
    }

    #[test]
    fn only_states_of_interest_ring() {
        for state in State::ALL {
            let owed = Rings::entered(state, &name("q"));
            assert_eq!(owed.has(Topic::Finish), state.is_terminal());
            assert_eq!(owed.has(Topic::Work), matches!(state, State::Ready | State::Scheduled));
            assert!(!owed.has(Topic::Cancel));
        }
    }

    #[test]
    fn work_adds_up_by_queue_and_kind() {
        let mut owed = Rings::fresh(fresh("q", Some("k"), 2)).and(Rings::fresh(fresh("q", Some("k"), 3)));
        owed.add_entered(State::Ready, &name("q"));
        owed.add_entered(State::Scheduled, &name("q"));
        assert_eq!(*owed.work(), Named::These(vec![fresh("q", Some("k"), 5), fresh("q", None, 2)]));
        assert_eq!(*owed.and(Rings::about(Topic::Work)).work(), Named::Any);
    }

    #[test]
    fn too_many_kinds_are_their_queue_and_too_many_queues_are_any() {
        let kinds = (0..100).map(|number| Rings::fresh(fresh("q", Some(&format!("k{number}")), 1)));
        let owed = kinds.fold(Rings::NONE, Rings::and);
        let Named::These(list) = owed.work() else { panic!("{owed:?}") };
        assert!(list.len() <= FRESH_MAX);
        assert_eq!(list.iter().map(|fresh| fresh.jobs).sum::<u32>(), 100, "none is lost");
        assert!(list.iter().any(|fresh| fresh.kind.is_none()));
        let queues = (0..100).map(|number| Rings::fresh(fresh(&format!("q{number}"), None, 1)));
        assert_eq!(*queues.fold(Rings::NONE, Rings::and).work(), Named::Any);
    }

    #[test]
    fn work_of_known_kinds_can_be_told_first() {
        let mut owed = Rings::fresh(fresh("q", Some("k"), 2)).and(Rings::about(Topic::Finish));
        owed.add_entered(State::Ready, &name("q"));
        assert_eq!(owed.take_fresh(), Rings::fresh(fresh("q", Some("k"), 2)));
        assert_eq!(owed, Rings::entered(State::Ready, &name("q")).and(Rings::about(Topic::Finish)));
        assert_eq!(owed.take_fresh(), Rings::NONE);
        assert_eq!(Rings::about(Topic::Work).take_fresh(), Rings::NONE);
        assert!(Rings::fresh(fresh("q", Some("k"), 2)).claim(&Bell::new()).is_none());
    }

    #[test]
    fn jobs_to_stop_are_named_until_they_are_too_many() {
        let id = JobId::new();
        let owed = Rings::cancel(id).and(Rings::NONE);
        assert_eq!(*owed.cancels(), Named::These(vec![id]));
        let many = (0..=CANCELS_MAX).map(|_| Rings::cancel(JobId::new())).fold(Rings::NONE, Rings::and);
        assert_eq!(*many.cancels(), Named::Any);
    }

    #[test]
    fn what_is_owed_is_rung_and_others_hear_what_nobody_here_has_room_for() {
        let owed = Rings::fresh(fresh("q", None, 3)).and(Rings::about(Topic::Finish));
        assert_eq!(owed.topics().collect::<Vec<_>>(), [Topic::Work, Topic::Finish]);
        assert!(!owed.is_empty());
        assert!(owed.clone().without(Topic::Work).without(Topic::Finish).is_empty());
        let bell = Bell::new();
        assert_eq!(owed.clone().ring(&bell), owed, "no caller waits here");
        assert_eq!([Topic::Work, Topic::Finish].into_iter().collect::<Rings>().topics().count(), 2);
    }
}
