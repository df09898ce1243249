//! The claim: what is due becomes ready, and whose turn it is becomes running, in one script for each queue.
//!
//! All queues are asked side by side: the first in turn for jobs, the others to move along what is due and to tell whether
//! they have anything. Those that have are asked in their turn for what is left. So a limit is never passed, queues that
//! have nothing cost no more than one round trip together, and none waits for one that is sick: that one is named, and left
//! out for a while. One that does not answer while others have jobs is given up soon, and then left out until its server
//! answers again.

mod fill;
mod hurry;
mod probe;
mod question;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use windlass_core::StoreErrorKind;
use windlass_core::store::{ClaimAnswer, ClaimRequest, QueueShare, SickQueue};

use crate::Tools;
use crate::agenda::Notes;
use crate::error::{Fault, Unreachable};
use crate::leases::{Holder, Holders, LeaseCopy};
use crate::pauses::Work;
use crate::session::Session;
use crate::walk::Walk;
use fill::{Filled, Standing};
use hurry::Hurry;
use question::{Limits, Moving, Question, Step};

/// How long a queue may take to give jobs while others on other servers wait for their turn, and have none.
const FILL_PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn claim(
    tools: &Arc<Tools>,
    session: &Session,
    request: &ClaimRequest,
) -> Result<ClaimAnswer, Fault> {
    let Some(holder) = Holders::of(tools, session, request.lease).await? else {
        return Ok(ClaimAnswer::LeaseLost);
    };
    let hasty = session.hasty();
    let question = Question::new(tools, &hasty, request, &holder.label);
    let mut claim = Claim::new(&question, &holder, Walk::of(Work::Claim, tools, session));
    let turns = claim.turns();
    for sick in claim.sick.iter().filter(|sick| tools.pauses.is_to_probe(&sick.queue)) {
        probe::begin(tools, session, sick.queue.clone());
    }
    claim.ask(turns).await;
    if question.has_expired.load(Ordering::Relaxed) {
        Notes::flush(tools, session).await;
    }
    claim.answer()
}

/// A claim that is being filled.
struct Claim<'a> {
    question: &'a Question<'a>,
    holder: &'a Holder,
    walk: Walk<'a>,
    filled: Filled,
    sick: Vec<SickQueue>,
    /// Whether a queue was asked in which the lease lives.
    lives: bool,
    /// Whether it is lost in one.
    is_lost: bool,
}

/// A queue that is asked.
struct Turn<'a> {
    share: &'a QueueShare,
    moving: Moving,
}

impl<'a> Claim<'a> {
    fn new(question: &'a Question<'a>, holder: &'a Holder, walk: Walk<'a>) -> Self {
        let filled = Filled::default();
        Self { question, holder, walk, filled, sick: Vec::new(), lives: false, is_lost: false }
    }

    /// The queues that can be asked. Not where the lease does not live, and not what failed a moment ago.
    fn turns(&mut self) -> Vec<Turn<'a>> {
        let (request, pauses) = (self.question.request, &self.question.tools.pauses);
        let mut turns = Vec::with_capacity(request.queues.len());
        for share in &request.queues {
            match (self.holder.copies.of(&share.queue), pauses.of(&share.queue, Work::Claim)) {
                (LeaseCopy::Lost, _) => self.is_lost = true,
                (_, Some(sick)) => self.sick.push(sick),
                (LeaseCopy::Missing, None) => self.sick.push(SickQueue {
                    queue: share.queue.clone(),
                    what: "the lease is not open there yet: its server was away".to_owned(),
                    kind: StoreErrorKind::Unavailable,
                }),
                (LeaseCopy::Lives(_), None) => turns.push(Turn { share, moving: Moving::default() }),
            }
        }
        turns
    }

    async fn ask(&mut self, turns: Vec<Turn<'a>>) {
        // One server that hangs must leave time for an answer about the others.
        let whole = self.question.session.servers().options.timeout / 2;
        let is_apart = turns.len() > 1 && self.question.session.is_cluster();
        let patience = |least: Duration| if is_apart { least.min(whole) } else { whole };
        let mut turns = turns.into_iter();
        let Some(first) = turns.next() else { return };
        let (question, walk, pauses) = (self.question, self.walk, &self.question.tools.pauses);
        let (hurry, tell) = Hurry::new(patience(pauses.grace(&first.share.queue)));
        let moved = join_all(turns.map(|turn| {
            let grace = patience(pauses.grace(&turn.share.queue));
            move_along(question, walk, turn, grace)
        }));
        let others = async {
            let moved = moved.await;
            let has_jobs = |(_, moved): &_| matches!(moved, Ok(Step::Given(given)) if given.ready > 0);
            if is_apart && moved.iter().any(has_jobs) {
                tell.send_replace(true);
            }
            moved
        };
        let (_, others) = tokio::join!(self.fill(first, patience(FILL_PATIENCE), &hurry), others);
        let (hurry, _) = Hurry::new(whole);
        for (turn, moved) in others {
            let has_jobs = match moved {
                Ok(Step::Given(given)) => {
                    self.lives = true;
                    self.filled.due(given.next_due);
                    self.filled.limit(&turn.share.queue, given.limits);
                    given.ready > 0
                }
                Ok(Step::More) => {
                    self.lives = true;
                    self.filled.due(Some(Duration::ZERO));
                    false
                }
                Ok(Step::Lost) => {
                    self.lose(&turn);
                    false
                }
                Ok(Step::Rules(rules)) => {
                    self.leave_out(&turn, rules);
                    false
                }
                Err(sick) => {
                    self.sick.push(sick);
                    false
                }
            };
            if has_jobs && self.filled.left(question) > 0 {
                self.fill(turn, patience(FILL_PATIENCE), &hurry).await;
            }
        }
    }

    /// Takes jobs of one queue. What it gave before it failed is kept.
    async fn fill(&mut self, mut turn: Turn<'a>, patience: Duration, hurry: &Hurry) {
        let (queue, limit) = (turn.share.queue.clone(), turn.share.limit);
        let work = self.filled.fill(self.question, &turn.share.queue, limit, &mut turn.moving, hurry);
        match self.walk.ask(queue, patience, work).await {
            Ok(Standing::Lives) => self.lives = true,
            Ok(Standing::Lost) => self.lose(&turn),
            Ok(Standing::Rules(rules)) => self.leave_out(&turn, rules),
            Err(sick) => self.sick.push(sick),
        }
    }

    fn lose(&mut self, turn: &Turn<'_>) {
        self.holder.copies.lost(&turn.share.queue);
        self.is_lost = true;
    }

    /// The lease lives there, and the queue is not for this program.
    fn leave_out(&mut self, turn: &Turn<'_>, rules: u32) {
        self.lives = true;
        self.sick.extend(SickQueue::of_rules(&turn.share.queue, rules));
    }

    fn answer(self) -> Result<ClaimAnswer, Fault> {
        let Filled { jobs, unreadable, next_due, limits, .. } = self.filled;
        let queues = self.question.request.queues.iter().map(|share| &share.queue);
        let limited: Vec<_> = queues.filter(|queue| limits.contains_key(*queue)).cloned().collect();
        let ample = limited.iter().filter(|queue| limits[*queue] == Limits::Far).cloned().collect();
        // Jobs may have come from a queue that failed then.
        let has_any = self.lives || !jobs.is_empty() || !unreadable.is_empty();
        match self.sick.first() {
            None if !has_any && self.is_lost => Ok(ClaimAnswer::LeaseLost),
            Some(sick) if !has_any && !self.is_lost => Err(Fault::Sick(sick.clone())),
            _ => Ok(ClaimAnswer::Jobs { jobs, next_due, unreadable, sick: self.sick, limited, ample }),
        }
    }
}

/// Moves along what is due in a queue, and takes nothing: so if it fails, nothing was taken.
async fn move_along<'a>(
    question: &Question<'_>,
    walk: Walk<'_>,
    mut turn: Turn<'a>,
    patience: Duration,
) -> (Turn<'a>, Result<Step, SickQueue>) {
    let work = async {
        let step = question.step(&turn.share.queue, 0, fill::Taken::default(), &mut turn.moving);
        match tokio::time::timeout(patience, step).await {
            Ok(Err(fault)) if fault.is_open() => {
                Err(Unreachable::because("it was not asked", format!("{fault:?}")).into())
            }
            Ok(step) => step,
            Err(_) => Err(Unreachable::passing(format!("no answer within {patience:?}")).into()),
        }
    };
    let moved = walk.ask(turn.share.queue.clone(), 2 * patience, work).await;
    (turn, moved)
}
