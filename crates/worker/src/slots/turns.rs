//! Which job starts next, and slots that are kept for jobs which have yet to come.
//!
//! A queue whose jobs are always there would take every slot that becomes free, and one whose jobs come with the next claim
//! only (because it has limits, or its jobs are slow) would never see a free one. So when it is the turn of such a queue, a
//! slot is held for it until the claim has its answer.

use std::time::Instant;

use super::{Intake, Occupied, SUSPECT_WATCH, Slots, Start};

impl Slots {
    /// Starts what can start.
    pub(crate) fn fill(&mut self) -> Vec<Start> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// The next job that waits and may start, taken from the buffers in rotation.
    pub(crate) fn next(&mut self) -> Option<Start> {
        if self.intake != Intake::Open {
            return None;
        }
        let takes_suspects = self.suspect_since.is_none_or(|since| since.elapsed() >= SUSPECT_WATCH);
        loop {
            let queue = self.next_queue(takes_suspects)?;
            if self.buffers[queue].has_next(takes_suspects) {
                return Some(self.start(queue, takes_suspects));
            }
            self.shares.take(queue);
            self.buffers[queue].held += 1;
        }
    }

    /// The queue whose turn it is, as long as a job waits that could start.
    fn next_queue(&self, takes_suspects: bool) -> Option<usize> {
        let has_next = |queue: usize| self.buffers[queue].has_next(takes_suspects);
        let mut queues = 0..self.buffers.len();
        if let Some(held) = queues.find(|queue| self.buffers[*queue].held > 0 && has_next(*queue)) {
            return Some(held);
        }
        let mut queues = 0..self.buffers.len();
        if !queues.any(|queue| has_next(queue) && self.shares.free(queue) > 0) {
            return None;
        }
        let wants = |queue| self.shares.free(queue) > 0 && (has_next(queue) || self.may_hold(queue));
        self.rotation.first(wants)
    }

    fn start(&mut self, queue: usize, takes_suspects: bool) -> Start {
        let buffer = &mut self.buffers[queue];
        if buffer.held > 0 {
            buffer.held -= 1;
            buffer.held_asked = buffer.held_asked.saturating_sub(1);
        } else {
            self.shares.take(queue);
        }
        // A slot that others may not use costs no turn.
        if self.buffers.len() > 1 && self.shares.uses_shared(queue) {
            let wants = |other: usize| {
                let has_jobs =
                    self.buffers[other].has_next(takes_suspects) || self.buffers[other].may_have_more();
                has_jobs && self.shares.may_use_more(other)
            };
            self.rotation.spend(queue, wants);
        }
        let buffer = &mut self.buffers[queue];
        let ctx = buffer.pop(takes_suspects).expect("the queue has a job that may start");
        let since = ctx.is_suspect().then(Instant::now);
        self.suspect_since = since.or(self.suspect_since);
        self.waiting_bytes -= ctx.payload().len();
        let slot = self.free.pop().expect("there are as many slots as slots");
        self.occupied[slot] = Some(Occupied { queue, since, ctx: ctx.clone() });
        Start { slot, ctx }
    }

    /// Whether a slot may be held for this queue: its jobs come with the next claim, which is sure to follow, and it has
    /// not got its part of the slots.
    fn may_hold(&self, queue: usize) -> bool {
        let buffer = &self.buffers[queue];
        let is_asked = self.lease.is_some() && self.shrinks == 0;
        let is_empty = buffer.total() == 0 && buffer.may_have_more();
        is_asked
            && is_empty
            && buffer.held < buffer.held_max()
            && self.shares.used(queue) < self.part_of(queue)
    }

    /// How many slots are a queue's by its weight, among those that are not idle.
    fn part_of(&self, queue: usize) -> usize {
        let is_busy = |other: usize| self.buffers[other].may_have_more() || self.buffers[other].total() > 0;
        let weight = |queue: usize| self.config.queues[queue].weight as usize;
        let all: usize = (0..self.buffers.len()).filter(|other| is_busy(*other)).map(weight).sum();
        (self.config.concurrency * weight(queue)).div_ceil(all.max(1))
    }

    /// Gives up slots that the claim which has ended was to fill, and all that no claim is to follow for.
    pub(super) fn release_asked(&mut self) {
        for queue in 0..self.buffers.len() {
            let buffer = &self.buffers[queue];
            let is_over = !buffer.may_have_more() || self.shrinks > 0 || self.lease.is_none();
            self.release(queue, if is_over { buffer.held } else { buffer.held_asked });
        }
    }

    /// Gives up every slot that is held.
    pub(super) fn release_all(&mut self) {
        (0..self.buffers.len()).for_each(|queue| self.release(queue, self.buffers[queue].held));
    }

    fn release(&mut self, queue: usize, slots: usize) {
        let buffer = &mut self.buffers[queue];
        buffer.held -= slots;
        buffer.held_asked = 0;
        (0..slots).for_each(|_| self.shares.give_back(queue));
    }
}
