//! Splits a batch that fails, so that no caller gets an error that another caller's item caused.
//!
//! ```text
//!  batch ──answered──────────────────────────────────────────▶ each its own answer
//!    │ one is refused by name        that one gets the refusal, the others go again
//!    │ a queue is refused by name    its items get the refusal, but for those that fit; the others go again
//!    │ nothing stored, took too long halves go again
//!    │ a fault of part of the store  by queue, then halves, until the culprit is alone
//!    └ an answer lost for good       all get the error: what was perhaps stored is never sent under another id
//! ```
//!
//! A store that does not answer at all is not asked about every item: two calls in a row that were given up end it.

use std::collections::HashMap;
use std::sync::Arc;

use windlass_core::backoff::Retries;
use windlass_core::{JobId, Name, StoreError, StoreErrorKind};

use super::lane::{Answer, Call};
use super::repeat::{Repeat, repeat, retries};
use super::shared_error::{copies, copy};

/// After so many calls in a row that the store has not answered, what is left is not asked for.
const UNANSWERED_MAX: u32 = 2;

/// One answer per item, whatever happens.
pub(super) async fn flush<C: Call>(call: &C, items: Vec<C::Item>) -> Vec<Answer<C::Answer>> {
    let (items, mut retries): (Arc<[_]>, _) = (items.into(), retries());
    let ask = |id| call.ask(id, Arc::clone(&items));
    match repeat(items.len(), halved::<C>(), &mut retries, ask).await {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(error) if items.len() == 1 => vec![Err(error)],
        Err(error) => Split::new(call, items, retries).run(error).await,
    }
}

const fn halved<C: Call>() -> Repeat {
    Repeat::Halved { is_fenced: C::IS_FENCED }
}

struct Split<'a, C: Call> {
    call: &'a C,
    items: Arc<[C::Item]>,
    /// Of each item, once it is known.
    answers: Vec<Option<Answer<C::Answer>>>,
    /// Places of items that go out together; the next last.
    parts: Vec<Vec<usize>>,
    retries: Retries,
    unanswered: u32,
}

impl<'a, C: Call> Split<'a, C> {
    fn new(call: &'a C, items: Arc<[C::Item]>, retries: Retries) -> Self {
        let answers = items.iter().map(|_| None).collect();
        Self { call, items, answers, parts: Vec::new(), retries, unanswered: 0 }
    }

    async fn run(mut self, error: StoreError) -> Vec<Answer<C::Answer>> {
        self.failed((0..self.items.len()).collect(), error);
        while let Some(part) = self.parts.pop() {
            let items: Arc<[_]> = part.iter().map(|&place| self.items[place].clone()).collect();
            let ask = |id| self.call.ask(id, Arc::clone(&items));
            match repeat(items.len(), halved::<C>(), &mut self.retries, ask).await {
                Ok(answers) => {
                    self.unanswered = 0;
                    for (place, answer) in part.into_iter().zip(answers) {
                        self.answers[place] = Some(Ok(answer));
                    }
                }
                Err(error) => self.failed(part, error),
            }
        }
        let unasked = || Err(StoreError::Internal { what: "no answer".into(), source: None });
        self.answers.into_iter().map(|answer| answer.unwrap_or_else(unasked)).collect()
    }

    /// These went out together, and failed.
    fn failed(&mut self, mut part: Vec<usize>, error: StoreError) {
        let is_lone = part.len() == 1;
        match error.kind() {
            StoreErrorKind::Refused if !is_lone => match self.blamed(&part, &error) {
                Some(position) => {
                    let place = part.remove(position);
                    self.answers[place] = Some(Err(error));
                    self.parts.push(part);
                }
                None => self.refused(part, error),
            },
            StoreErrorKind::Fatal if !is_lone && is_about_a_part(&error) => self.split(part),
            StoreErrorKind::Unavailable if !is_lone && self.retries.are_left() => self.halve(part),
            StoreErrorKind::Unknown if !is_lone && self.retries.are_left() && C::IS_FENCED => {
                self.halve(part);
            }
            StoreErrorKind::Unavailable | StoreErrorKind::Unknown => {
                self.unanswered += 1;
                // A single try tells whether the store answers the next call.
                self.retries.leave_one();
                if self.unanswered >= UNANSWERED_MAX {
                    self.give_up(&error);
                }
                self.tell(part, error);
            }
            _ => self.tell(part, error),
        }
    }

    /// A refusal that is about a queue: others go again. Of a full queue as many as it has room for do, too.
    fn refused(&mut self, part: Vec<usize>, error: StoreError) {
        let (StoreError::QueueFull { queue, .. }
        | StoreError::NoKeys { queue }
        | StoreError::UnknownRules { queue, .. }) = &error
        else {
            return self.tell(part, error);
        };
        let is_named = |place: &usize| C::queue(&self.items[*place]) == queue;
        let (mut named, others): (Vec<usize>, Vec<usize>) = part.into_iter().partition(is_named);
        if !others.is_empty() {
            self.parts.push(others);
        }
        match error {
            StoreError::QueueFull { capacity, waiting, .. } => {
                let room = usize::try_from(capacity.saturating_sub(waiting)).unwrap_or(usize::MAX);
                // Never all of them again: they did not fit.
                let refused = named.split_off(room.min(named.len().saturating_sub(1)));
                if !named.is_empty() {
                    self.parts.push(named);
                }
                self.tell(refused, error);
            }
            StoreError::NoKeys { .. } if named.len() > 1 => self.halve(named),
            _ => self.tell(named, error),
        }
    }

    /// The one that a refusal is about.
    fn blamed(&self, part: &[usize], error: &StoreError) -> Option<usize> {
        let job = blamed(error)?;
        part.iter().position(|&place| C::id(&self.items[place]) == job)
    }

    /// By queue if there are several, otherwise in halves.
    fn split(&mut self, part: Vec<usize>) {
        let mut queues: Vec<Vec<usize>> = Vec::new();
        let mut known: HashMap<&Name, usize> = HashMap::new();
        for &place in &part {
            let queue = *known.entry(C::queue(&self.items[place])).or_insert_with(|| {
                queues.push(Vec::new());
                queues.len() - 1
            });
            queues[queue].push(place);
        }
        if queues.len() > 1 {
            self.parts.extend(queues.into_iter().rev());
        } else {
            self.halve(part);
        }
    }

    fn halve(&mut self, mut part: Vec<usize>) {
        let second = part.split_off(part.len() / 2);
        self.parts.extend([second, part]);
    }

    /// All of them get this error.
    fn tell(&mut self, part: Vec<usize>, error: StoreError) {
        let errors = copies(error, part.len());
        for (place, error) in part.into_iter().zip(errors) {
            self.answers[place] = Some(error);
        }
    }

    /// What was not asked for yet is told that the store is away; nothing of it was stored.
    fn give_up(&mut self, error: &StoreError) {
        let what = match error {
            StoreError::Unavailable { what, .. } | StoreError::Unknown { what, .. } => what.clone(),
            other => other.to_string(),
        };
        let error = Arc::new(StoreError::Unavailable { what, source: None });
        for place in self.parts.drain(..).flatten() {
            self.answers[place] = Some(Err(copy(&error)));
        }
    }
}

/// The job that a refusal is about.
fn blamed(error: &StoreError) -> Option<JobId> {
    match error {
        StoreError::TooLarge { id, .. } | StoreError::IdTaken { id } => Some(*id),
        _ => None,
    }
}

/// Whether a fault may be that of one queue or one job.
fn is_about_a_part(error: &StoreError) -> bool {
    matches!(error, StoreError::Internal { .. } | StoreError::Corrupt(_))
}

#[cfg(test)]
mod tests;
