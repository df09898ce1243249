//! Which queue a job is in, for calls that name only its id.
//!
//! Ids say nothing about their queue, so this process remembers where it has lately seen them. What it does not
//! remember, or remembers wrongly, is looked for in all queues. An id is unique within its queue; of several queues that
//! have it, the first by name is taken.

use std::mem;
use std::sync::{Mutex, PoisonError};

use windlass_core::{JobId, Name};

use crate::error::Fault;
use crate::ids::IdMap;
use crate::scripts::WHERE;
use crate::session::Session;
use crate::walk::Walk;
use crate::{Tools, answer, spread};

/// How many ids are remembered for sure; up to twice as many are.
const GENERATION: usize = 32_768;

/// How many ids one queue is asked about at once. Removing a job may mean the records of 50 attempts.
const STEP: usize = 100;

/// Where jobs were last seen.
#[derive(Debug, Default)]
pub(crate) struct QueueCache {
    seen: Mutex<Generations>,
}

/// Two generations: when the young one is full it becomes the old one, and what nobody has asked for since is forgotten
/// with the one before. That costs no order to be kept.
#[derive(Debug, Default)]
struct Generations {
    young: IdMap<Name>,
    old: IdMap<Name>,
}

impl Generations {
    fn note(&mut self, id: JobId, queue: &Name) {
        if self.young.len() >= GENERATION {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(id, queue.clone());
    }

    fn find(&mut self, id: JobId) -> Option<Name> {
        if let Some(queue) = self.young.get(&id) {
            return Some(queue.clone());
        }
        let queue = self.old.get(&id)?.clone();
        self.note(id, &queue);
        Some(queue)
    }
}

impl QueueCache {
    /// Jobs were seen in this queue.
    pub(crate) fn note(&self, queue: &Name, ids: impl Iterator<Item = JobId>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        ids.for_each(|id| seen.note(id, queue));
    }

    /// Asks about jobs where they are, in the order of their ids; one that no queue has is answered with nothing.
    ///
    /// `ask` is given a queue and some ids and answers one result for each, nothing where the queue does not have it.
    pub(crate) async fn each<T, F, Fut>(
        tools: &Tools,
        session: &Session,
        ids: &[JobId],
        ask: F,
    ) -> Result<Vec<Option<T>>, Fault>
    where
        F: Fn(Name, Vec<JobId>) -> Fut,
        Fut: Future<Output = Result<Vec<Option<T>>, Fault>>,
    {
        let remembered = tools.queue_cache.remembered(ids);
        let mut answers = ask_each(ids, &remembered, &ask).await?;
        let missing: Vec<_> = (0..ids.len()).filter(|&place| answers[place].is_none()).collect();
        if missing.is_empty() {
            return Ok(answers);
        }
        let sought: Vec<_> = missing.iter().map(|&place| ids[place]).collect();
        let found = search(tools, session, &sought).await?;
        // An id that stands twice, of a job that the first one removed, is found nowhere now; that is its answer.
        for (place, answer) in missing.into_iter().zip(ask_each(&sought, &found, &ask).await?) {
            answers[place] = answer;
        }
        Ok(answers)
    }

    fn remembered(&self, ids: &[JobId]) -> Vec<Option<Name>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        ids.iter().map(|&id| seen.find(id)).collect()
    }
}

/// Asks each queue about those ids that are thought to be in it.
async fn ask_each<T, F, Fut>(ids: &[JobId], queues: &[Option<Name>], ask: &F) -> Result<Vec<Option<T>>, Fault>
where
    F: Fn(Name, Vec<JobId>) -> Fut,
    Fut: Future<Output = Result<Vec<Option<T>>, Fault>>,
{
    let mut places: Vec<(Name, Vec<usize>)> = Vec::new();
    for (place, queue) in queues.iter().enumerate() {
        let Some(queue) = queue else { continue };
        match places.iter_mut().find(|(name, _)| name == queue) {
            Some((_, places)) => places.push(place),
            None => places.push((queue.clone(), vec![place])),
        }
    }
    let mut answers: Vec<Option<T>> = ids.iter().map(|_| None).collect();
    let asked = spread::each(places, |(queue, places)| async move {
        let mut answers = Vec::with_capacity(places.len());
        // One after the other: what stands later in the slice takes effect later.
        for step in places.chunks(STEP) {
            answers.extend(ask(queue.clone(), step.iter().map(|&place| ids[place]).collect()).await?);
        }
        if answers.len() != places.len() {
            return Err(Fault::Defect(format!("{} answers about {} jobs", answers.len(), places.len())));
        }
        Ok(places.into_iter().zip(answers).collect::<Vec<_>>())
    });
    for (place, answer) in asked.await?.into_iter().flatten() {
        answers[place] = answer;
    }
    Ok(answers)
}

/// Looks for jobs in all queues. A queue that cannot be asked matters only if a job is found in none: it may be there.
async fn search(tools: &Tools, session: &Session, ids: &[JobId]) -> Result<Vec<Option<Name>>, Fault> {
    let names = tools.registry.all(session, &tools.keys).await?;
    let hasty = &session.hasty();
    let found = Walk::looking(tools, session).each(names.clone(), |queue: Name| async move {
        let mut places = Vec::new();
        for (start, step) in (0..).step_by(STEP).zip(ids.chunks(STEP)) {
            let clock = tools.clock();
            let arguments =
                std::iter::once(clock).chain(step.iter().map(|id| id.as_bytes()[..].to_vec().into()));
            let answer = hasty.run(&WHERE, tools.keys.queue(&queue).all(), arguments.collect()).await?;
            for place in answer::array(answer)? {
                places.push(start + answer::integer(place)? as usize - 1);
            }
        }
        Ok(places)
    });
    let (mut queues, mut unasked): (Vec<Option<Name>>, _) = (vec![None; ids.len()], None);
    for (queue, places) in names.into_iter().zip(found.await) {
        let places = match places {
            Ok(places) => places,
            Err(sick) => {
                unasked = unasked.or(Some(sick));
                continue;
            }
        };
        tools.queue_cache.note(&queue, places.iter().filter_map(|&place| ids.get(place).copied()));
        for place in places {
            let first = queues.get_mut(place);
            let first =
                first.ok_or_else(|| Fault::Corrupt("a queue has an id that was not asked for".to_owned()))?;
            first.get_or_insert_with(|| queue.clone());
        }
    }
    match unasked {
        Some(sick) if queues.iter().any(Option::is_none) => Err(Fault::Sick(sick)),
        _ => Ok(queues),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn what_is_asked_for_is_not_forgotten() {
        let seen = QueueCache::default();
        let (kept, left) = (JobId::new(), JobId::new());
        seen.note(&name("q"), [kept, left].into_iter());
        for _ in 0..5 {
            seen.note(&name("r"), (0..GENERATION / 2).map(|_| JobId::new()));
            assert_eq!(seen.remembered(&[kept]), [Some(name("q"))]);
        }
        assert_eq!(seen.remembered(&[left]), [None]);
        let generations = seen.seen.into_inner().unwrap();
        assert!(generations.young.len() <= GENERATION && generations.old.len() <= GENERATION);
    }

    #[test]
    fn a_job_that_moved_is_found_where_it_was_seen_last() {
        let (seen, id) = (QueueCache::default(), JobId::new());
        seen.note(&name("q"), [id].into_iter());
        seen.note(&name("r"), [id].into_iter());
        assert_eq!(seen.remembered(&[id, JobId::new()]), [Some(name("r")), None]);
    }

    #[tokio::test]
    async fn answers_come_in_the_order_of_the_ids() {
        let ids: Vec<_> = (0..600).map(|_| JobId::new()).collect();
        let queues: Vec<_> =
            (0..600).map(|place| [Some(name("a")), Some(name("b")), None][place % 3].clone()).collect();
        let ask = async |queue: Name, asked: Vec<JobId>| {
            assert!(asked.len() <= STEP);
            Ok(asked.into_iter().map(|id| Some((queue.clone(), id))).collect())
        };
        let answers = ask_each(&ids, &queues, &ask).await.expect("all are answered");
        for (place, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer, queues[place].clone().map(|queue| (queue, ids[place])));
        }
    }
}
