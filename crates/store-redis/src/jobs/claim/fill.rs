//! Filling a claim from one queue after the other.

use std::collections::HashMap;
use std::time::Duration;

use windlass_core::Name;
use windlass_core::job::{ClaimedJob, LostJob};

use super::hurry::Hurry;
use super::question::{End, Gates, Given, Limits, Moving, Question, Step};
use crate::error::Fault;

/// The most jobs that one script hands out.
const JOBS_MAX: u32 = 500;

/// How often a claim comes again because it met nothing but members that jobs left behind, or jobs of other kinds.
const PASSES_MAX: u32 = 20;

/// What a claim has got.
#[derive(Default)]
pub(super) struct Filled {
    pub(super) jobs: Vec<ClaimedJob>,
    pub(super) unreadable: Vec<LostJob>,
    pub(super) next_due: Option<Duration>,
    /// The limits of queues that were asked, as the last answer says.
    pub(super) limits: HashMap<Name, Limits>,
    taken: Taken,
    /// A payload did not fit: the claim ends, so that its job does not lose its turn to smaller ones.
    is_full: bool,
}

/// What scripts have handed out so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Taken {
    pub(super) jobs: u32,
    /// Of payload.
    pub(super) bytes: usize,
    /// What was asked in vain, of the queue that is being asked.
    pub(super) gates: Gates,
}

/// What a queue that was asked is to the claim.
pub(super) enum Standing {
    /// The lease lives there.
    Lives,
    /// The lease has run out there.
    Lost,
    /// The queue uses this rule, which this program does not know.
    Rules(u32),
}

impl Filled {
    /// How many jobs may still be taken.
    pub(super) fn left(&self, question: &Question<'_>) -> u32 {
        if self.is_full || question.kinds.is_empty() {
            return 0;
        }
        question.request.limit.saturating_sub(self.taken.jobs)
    }

    /// A queue has a job that is due then.
    pub(super) fn due(&mut self, span: Option<Duration>) {
        self.next_due = match (self.next_due, span) {
            (Some(known), Some(span)) => Some(known.min(span)),
            (known, span) => known.or(span),
        };
    }

    /// A queue was asked, and has such limits.
    pub(super) fn limit(&mut self, queue: &Name, limits: Limits) {
        if limits != Limits::None {
            self.limits.insert(queue.clone(), limits);
        }
    }

    /// Takes jobs of one queue, in their turn. Answers what it is to the claim.
    pub(super) async fn fill(
        &mut self,
        question: &Question<'_>,
        queue: &Name,
        limit: u32,
        moving: &mut Moving,
        hurry: &Hurry,
    ) -> Result<Standing, Fault> {
        let mut left = self.left(question).min(limit);
        let (mut passes, mut unread) = (0, None);
        self.taken.gates = Gates::default();
        loop {
            let wanted = left.min(JOBS_MAX);
            let asked = self.ask_and_read(question, queue, wanted, moving, unread.take());
            let given = match hurry.wait_for(asked).await? {
                Step::Lost => return Ok(Standing::Lost),
                Step::Rules(rules) => return Ok(Standing::Rules(rules)),
                Step::More => {
                    self.due(Some(Duration::ZERO));
                    return Ok(Standing::Lives);
                }
                Step::Given(given) => given,
            };
            let (count, end, next_due) = (given.count(), given.end, given.next_due);
            self.limit(queue, given.limits);
            self.taken.jobs = self.taken.jobs.saturating_add(count);
            self.taken.bytes = self.taken.bytes.saturating_add(given.bytes());
            self.taken.gates = given.gates;
            self.is_full |= end == End::Full;
            left -= count.min(left);
            let is_in_vain = end == End::Budget && count == 0;
            passes += u32::from(end == End::Passed || is_in_vain);
            let is_last = match end {
                End::Full => true,
                End::Passed => passes >= PASSES_MAX,
                // More may be due than the script has moved.
                End::Plain => count < wanted && !(next_due == Some(Duration::ZERO) && moving.may_promote()),
                End::Budget => is_in_vain && passes >= PASSES_MAX,
            };
            if is_last || left == 0 {
                question.read(queue, given, &mut self.jobs, &mut self.unreadable).await;
                self.due(if end == End::Passed { Some(Duration::ZERO) } else { next_due });
                return Ok(Standing::Lives);
            }
            unread = Some(given);
        }
    }

    /// Runs the script, and reads meanwhile what the one before handed out: neither the server nor this thread waits for
    /// the other.
    async fn ask_and_read(
        &mut self,
        question: &Question<'_>,
        queue: &Name,
        wanted: u32,
        moving: &mut Moving,
        unread: Option<Given>,
    ) -> Result<Step, Fault> {
        let taken = self.taken;
        let Some(unread) = unread else { return question.step(queue, wanted, taken, moving).await };
        let reading = async {
            // The request is on its way when this goes on.
            tokio::task::yield_now().await;
            question.read(queue, unread, &mut self.jobs, &mut self.unreadable).await;
        };
        let (step, ()) = tokio::join!(question.step(queue, wanted, taken, moving), reading);
        step
    }
}
