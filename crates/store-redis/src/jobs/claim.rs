//! The claim: what is due becomes ready, and whose turn it is becomes running, in one script for each queue.

mod question;

use std::time::Duration;

use tokio::time::timeout;
use windlass_core::job::ClaimedJob;
use windlass_core::store::{ClaimAnswer, ClaimRequest, QueueShare, Settlement};
use windlass_core::{Name, Outcome, judge};

use super::settle::{Right, settle};
use crate::error::Fault;
use crate::leases::Holders;
use crate::session::Session;
use crate::{Tools, spread};
use question::{End, Given, Moving, Question, Step};

/// The most jobs that one script hands out.
const JOBS_MAX: u32 = 500;

/// How often a claim comes again because it met nothing but members that jobs left behind.
const PASSES_MAX: u32 = 20;

pub(super) async fn claim(
    tools: &Tools,
    session: &Session,
    request: &ClaimRequest,
) -> Result<ClaimAnswer, Fault> {
    let Some(holder) = Holders::of(tools, session, request.lease).await? else {
        return Ok(ClaimAnswer::LeaseLost);
    };
    let mut claim = Claim::new(tools, session, request, &holder.label);
    // One server that hangs must leave time to put back what others gave.
    let patience = session.servers().options.timeout / 2;
    let mut is_lost = false;
    for (place, share) in request.queues.iter().enumerate() {
        if claim.left() == 0 {
            // Nothing more will be taken; these queues are only moved along, and need not wait for each other.
            is_lost |= claim.move_along(&request.queues[place..]).await?;
            break;
        }
        let filled = timeout(patience, claim.fill(share)).await;
        match filled.unwrap_or(Err(Fault::Timeout(patience))) {
            Ok(lives) => is_lost |= !lives,
            // It changed nothing: one queue that is away does not hold up the others.
            Err(fault @ (Fault::Away(_) | Fault::Said(_))) => {
                claim.fault = claim.fault.take().or(Some(fault));
            }
            // Jobs may have been handed out that nobody knows of: whoever asks must hear of it.
            Err(fault) if claim.jobs.is_empty() => return Err(fault),
            Err(fault) => {
                claim.give_back().await;
                return Err(Fault::Half(Box::new(fault)));
            }
        }
    }
    match claim.fault {
        Some(fault) if claim.jobs.is_empty() => Err(fault),
        _ if is_lost && claim.jobs.is_empty() => Ok(ClaimAnswer::LeaseLost),
        _ => Ok(ClaimAnswer::Jobs { jobs: claim.jobs, next_due: claim.next_due }),
    }
}

/// A claim that is being filled.
struct Claim<'a> {
    question: Question<'a>,
    jobs: Vec<ClaimedJob>,
    taken: Taken,
    /// A payload did not fit: the claim ends, so that its job does not lose its turn to smaller ones.
    is_full: bool,
    next_due: Option<Duration>,
    /// The first that kept a queue from giving anything.
    fault: Option<Fault>,
}

/// What scripts have handed out so far.
#[derive(Clone, Copy, Default)]
struct Taken {
    jobs: u32,
    /// Of payload.
    bytes: usize,
}

impl<'a> Claim<'a> {
    fn new(tools: &'a Tools, session: &'a Session, request: &'a ClaimRequest, label: &str) -> Self {
        Self {
            question: Question::new(tools, session, request, label),
            jobs: Vec::new(),
            taken: Taken::default(),
            is_full: false,
            next_due: None,
            fault: None,
        }
    }

    /// How many jobs may still be taken.
    fn left(&self) -> u32 {
        if self.is_full || self.question.kinds.is_empty() {
            return 0;
        }
        self.question.request.limit.saturating_sub(self.taken.jobs)
    }

    /// Takes jobs of one queue, in their turn. Answers whether the lease lives there.
    async fn fill(&mut self, share: &QueueShare) -> Result<bool, Fault> {
        let mut left = self.left().min(share.limit);
        let (mut moving, mut passes, mut unread) = (Moving::default(), 0, None);
        loop {
            let wanted = left.min(JOBS_MAX);
            let given = match self.ask_and_read(&share.queue, wanted, &mut moving, unread.take()).await? {
                Step::Lost => return Ok(false),
                Step::More => {
                    self.due_in(Duration::ZERO);
                    return Ok(true);
                }
                Step::Given(given) => given,
            };
            let (count, end, next_due) = (given.count(), given.end, given.next_due);
            self.taken.jobs = self.taken.jobs.saturating_add(count);
            self.taken.bytes = self.taken.bytes.saturating_add(given.bytes());
            self.is_full |= end == End::Full;
            left -= count.min(left);
            passes += u32::from(end == End::Passed);
            let is_last = match end {
                End::Full => true,
                End::Passed => passes >= PASSES_MAX,
                End::Plain => count < wanted,
            };
            if is_last || left == 0 {
                self.question.read(&share.queue, given, &mut self.jobs).await?;
                let next_due = if end == End::Passed { Some(Duration::ZERO) } else { next_due };
                next_due.into_iter().for_each(|span| self.due_in(span));
                return Ok(true);
            }
            unread = Some(given);
        }
    }

    /// Runs the script, and reads meanwhile what the one before handed out: neither the server nor this thread waits for
    /// the other.
    async fn ask_and_read(
        &mut self,
        queue: &Name,
        wanted: u32,
        moving: &mut Moving,
        unread: Option<Given>,
    ) -> Result<Step, Fault> {
        let (question, taken) = (&self.question, self.taken);
        let Some(unread) = unread else { return question.step(queue, wanted, taken, moving).await };
        let reading = async {
            // The request is on its way when this goes on.
            tokio::task::yield_now().await;
            question.read(queue, unread, &mut self.jobs).await
        };
        let (step, read) = tokio::join!(question.step(queue, wanted, taken, moving), reading);
        match (step, read) {
            (step, Ok(())) => step,
            (Ok(Step::Given(given)), Err(fault)) => {
                // Whoever asked hears of the fault; these must be known, so that they can be put back.
                let _ = question.read(queue, given, &mut self.jobs).await;
                Err(fault)
            }
            (_, Err(fault)) => Err(fault),
        }
    }

    /// Moves queues along that give nothing. Answers whether the lease is lost there.
    async fn move_along(&mut self, shares: &[QueueShare]) -> Result<bool, Fault> {
        let (question, taken) = (&self.question, self.taken);
        let moved = spread::each(shares.iter().collect(), |share: &QueueShare| async move {
            let mut moving = Moving::default();
            // A fault is kept, not raised: it took nothing, and the jobs of others must be told of.
            Ok(question.step(&share.queue, 0, taken, &mut moving).await)
        });
        let mut is_lost = false;
        for step in moved.await? {
            match step {
                Ok(Step::Lost) => is_lost = true,
                Ok(Step::More) => self.due_in(Duration::ZERO),
                Ok(Step::Given(given)) => given.next_due.into_iter().for_each(|span| self.due_in(span)),
                Err(fault) => self.fault = self.fault.take().or(Some(fault)),
            }
        }
        Ok(is_lost)
    }

    fn due_in(&mut self, span: Duration) {
        self.next_due = Some(self.next_due.map_or(span, |known| known.min(span)));
    }

    /// Puts back what was taken, as far as that can be done: whoever asked will not hear of it. Left to a reaper, it would
    /// count as stalled, and a job that never began could die of that.
    async fn give_back(&self) {
        let settlements: Vec<_> = self.jobs.iter().map(returned).collect();
        let Question { tools, session, .. } = &self.question;
        let settled = settle(tools, session, &settlements, Right::Fence).await;
        if let Err(fault) = settled {
            tracing::debug!(?fault, "jobs of a claim without an answer are left to the reaper");
        }
    }
}

fn returned(job: &ClaimedJob) -> Settlement {
    // No delay is drawn for what goes back as it was.
    let transition = judge(&job.facts, Outcome::Returned, 0.0);
    Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
}
