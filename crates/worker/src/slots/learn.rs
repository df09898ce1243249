//! What the answer to a claim says about the queues that were asked: which have no more, which have limits, when to come
//! back.

use std::time::{Duration, Instant};

use windlass_core::Name;
use windlass_core::queue::GATES_LOOKED_MAX;
use windlass_core::store::SickQueue;

use super::{Plan, Slots};
use crate::ctx::Ctx;

/// How long a queue that could not be asked is left alone.
const SICK_PAUSE: Duration = Duration::from_secs(1);

/// What a claim was answered with.
#[derive(Default)]
pub(crate) struct Answer<'a> {
    pub(crate) jobs: &'a [Ctx],
    /// The queues of jobs that were taken and do not read, one each.
    pub(crate) unreadable: &'a [Name],
    pub(crate) sick: &'a [SickQueue],
    pub(crate) limited: &'a [Name],
    pub(crate) ample: &'a [Name],
    /// More jobs were due or expired than one call moves, so that a queue may not have been looked at.
    pub(crate) is_partial: bool,
}

impl Answer<'_> {
    /// How many jobs a queue gave.
    fn given_by(&self, queue: &Name) -> usize {
        let jobs = self.jobs.iter().filter(|ctx| ctx.queue() == queue).count();
        jobs + self.unreadable.iter().filter(|of| *of == queue).count()
    }
}

impl Slots {
    /// Draws the conclusions. `due` says when to come for the next job that is due in a queue.
    pub(crate) fn learn(&mut self, plan: &Plan, answer: &Answer<'_>, due: impl Fn(&Name) -> Option<Instant>) {
        self.shrinks = self.shrinks.saturating_sub(1);
        let bytes: usize = answer.jobs.iter().map(|ctx| ctx.payload().len()).sum();
        // A job that no longer fits ends a claim. So only an answer that is small means that there was no more.
        let is_cut = bytes > plan.bytes / 8;
        let mut given_before = 0;
        for asking in &plan.shares {
            let buffer = &mut self.buffers[asking.queue];
            let sick = answer.sick.iter().find(|sick| sick.queue == buffer.queue);
            buffer.sick = sick.map(|sick| sick.what.clone());
            // A sick queue is left alone for a moment.
            let again = sick.and_then(|_| Instant::now().checked_add(SICK_PAUSE));
            buffer.due = again.or_else(|| due(&buffer.queue));
            buffer.is_dry |= sick.is_some();
            let is_limited = answer.limited.contains(&buffer.queue);
            if is_limited || (sick.is_none() && !answer.is_partial) {
                // What was asked for is a tenth of what they left at most, so that twice as much is a small part still.
                buffer.ample = answer.ample.contains(&buffer.queue).then_some(2 * asking.limit);
                buffer.is_limited = is_limited && buffer.ample.is_none();
            }
            // The queues are served in this order, and one with limits gives none to wait for a slot. One that was left no
            // room says nothing by giving nothing.
            let room = if is_limited { plan.at_once } else { plan.limit };
            // A claim asks so many gates at most, and leaves the rest to the next one.
            let most = asking.limit.min(room.saturating_sub(given_before)).min(GATES_LOOKED_MAX);
            let given = answer.given_by(&buffer.queue);
            given_before += given;
            buffer.given = given;
            // No answer means it for what came after the claim had looked.
            if given < most && !is_cut && buffer.hints == asking.hints {
                buffer.is_dry = true;
            }
        }
    }
}
