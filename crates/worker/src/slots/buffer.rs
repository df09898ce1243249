//! The claimed jobs of one queue that wait for a slot.

use std::collections::VecDeque;
use std::time::Instant;

use windlass_core::{JobId, LeaseId, Name};

use super::plan::Rate;
use crate::ctx::Ctx;

/// Claimed jobs of one queue.
pub(super) struct Buffer {
    pub(super) queue: Name,
    waiting: VecDeque<Ctx>,
    /// Those that were lost with a worker before: at most one of them runs at a time.
    suspects: VecDeque<Ctx>,
    /// The last claim found all there was; only a hint or the clock makes asking worth while again.
    pub(super) is_dry: bool,
    /// How often there was a hint. A claim in flight may have looked before the last one, so its answer cannot say that
    /// there is nothing.
    pub(super) hints: u64,
    /// When its next scheduled job is due, as far as the last claim knew.
    pub(super) due: Option<Instant>,
    /// Whether the queue has limits, as far as is known: it gives no jobs to wait for a slot, and is asked for none. Until
    /// an answer says otherwise it may have some.
    pub(super) is_limited: bool,
    /// Where it has limits that left far more than was asked for, how many jobs it may be asked for to wait for a slot: it gives
    /// them if they are counted among those that can begin at once.
    pub(super) ample: Option<usize>,
    /// Why the last claim could not ask this queue.
    pub(super) sick: Option<String>,
    /// Slots that are kept for jobs which the next claim may bring.
    pub(super) held: usize,
    /// How many of them the claim in flight asks for.
    pub(super) held_asked: usize,
    /// How many jobs the last claim brought.
    pub(super) given: usize,
    pub(super) rate: Rate,
    pub(super) finished: u64,
    pub(super) last_finished: Instant,
    /// How many should wait, given how fast they go.
    pub(super) target: usize,
}

impl Buffer {
    pub(super) fn new(queue: Name, now: Instant) -> Self {
        Self {
            queue,
            waiting: VecDeque::new(),
            suspects: VecDeque::new(),
            is_dry: false,
            hints: 0,
            due: None,
            is_limited: true,
            ample: None,
            sick: None,
            held: 0,
            held_asked: 0,
            given: 0,
            rate: Rate::new(now),
            finished: 0,
            last_finished: now,
            target: 0,
        }
    }

    /// There may be something in the queue again. A sick queue is asked again when its pause is over.
    pub(super) fn hint(&mut self) {
        self.hints = self.hints.wrapping_add(1);
        self.is_dry &= self.sick.is_some();
    }

    /// Whether it has fewer jobs than it should, and asking may help, while so many more could start.
    pub(super) fn wants_more(&self, free: usize) -> bool {
        let has_room =
            if self.is_limited { self.total() < free } else { self.waiting.len() <= self.target / 2 };
        has_room && !self.is_dry
    }

    /// Whether the next claim is to ask for its jobs.
    pub(super) fn may_have_more(&self) -> bool {
        !self.is_dry && self.sick.is_none()
    }

    /// How many slots may be held for it. A queue with limits has no jobs ahead, so it needs as many as it is likely to fill;
    /// any other needs one to begin with.
    pub(super) fn held_max(&self) -> usize {
        if self.is_limited { (2 * self.given).max(1) } else { 1 }
    }

    /// Jobs that wait and may start beside any other.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Suspects that wait for another one: as many slots are spoken for.
    pub(super) fn suspects(&self) -> usize {
        self.suspects.len()
    }

    /// How many wait in all.
    pub(super) fn total(&self) -> usize {
        self.waiting.len() + self.suspects.len()
    }

    /// Everything that waits.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Ctx> {
        self.suspects.iter().chain(&self.waiting)
    }

    pub(super) fn push(&mut self, ctx: Ctx) {
        if ctx.is_suspect() { self.suspects.push_back(ctx) } else { self.waiting.push_back(ctx) }
    }

    /// Whether a job waits that may start now.
    pub(super) fn has_next(&self, takes_suspects: bool) -> bool {
        !self.waiting.is_empty() || (takes_suspects && !self.suspects.is_empty())
    }

    /// The next job, suspects first: they have waited longer.
    pub(super) fn pop(&mut self, takes_suspects: bool) -> Option<Ctx> {
        let suspect = if takes_suspects { self.suspects.pop_front() } else { None };
        suspect.or_else(|| self.waiting.pop_front())
    }

    /// Takes a job out, if it waits here.
    pub(super) fn take(&mut self, id: JobId) -> Option<Ctx> {
        let take = |jobs: &mut VecDeque<Ctx>| {
            let index = jobs.iter().position(|ctx| ctx.id() == id)?;
            jobs.remove(index)
        };
        take(&mut self.waiting).or_else(|| take(&mut self.suspects))
    }

    /// Forgets the jobs of a lease.
    pub(super) fn forget(&mut self, lease: LeaseId) {
        self.waiting.retain(|ctx| ctx.inner().claimed.lease != lease);
        self.suspects.retain(|ctx| ctx.inner().claimed.lease != lease);
    }

    /// Takes out everything.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Ctx> {
        self.suspects.drain(..).chain(self.waiting.drain(..))
    }

    /// Takes out what claimed_at before `before` and cannot start soon at the speed at which jobs go now; all of it
    /// that claimed_at before `last`.
    pub(super) fn drain_stale(&mut self, before: Instant, last: Instant, now: Instant) -> Vec<Ctx> {
        let claimed_at = |ctx: &Ctx| ctx.inner().claimed.at;
        if !self.iter().any(|ctx| claimed_at(ctx) <= before) {
            return Vec::new();
        }
        let soon = self.rate.ahead(self.finished, now);
        // Nothing moves any more: none of them starts soon, however fast others were before.
        let soon = if self.last_finished <= before { 0 } else { soon };
        let mut place = 0;
        let mut is_stale = |ctx: &Ctx| {
            place += 1;
            claimed_at(ctx) <= last || (claimed_at(ctx) <= before && place > soon)
        };
        let (stale, waiting) = self.waiting.drain(..).partition::<VecDeque<_>, _>(&mut is_stale);
        self.waiting = waiting;
        let (suspects, kept) =
            self.suspects.drain(..).partition::<VecDeque<_>, _>(|ctx| claimed_at(ctx) <= before);
        self.suspects = kept;
        if !stale.is_empty() {
            self.target = soon.min(self.target);
        }
        suspects.into_iter().chain(stale).collect()
    }

    /// When the job that waits longest claimed_at.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let fronts = [self.waiting.front(), self.suspects.front()];
        fronts.into_iter().flatten().map(|ctx| ctx.inner().claimed.at).min()
    }
}
