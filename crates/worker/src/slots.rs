//! The slots of a worker: which attempt runs in which, which claimed jobs wait for one, and what to claim next.
//!
//! One lock, held for moments and never across an await. All changes are made under it, so slots are counted exactly:
//! a slot is taken when an attempt starts and given back when its [`Slot`](crate::attempts::Slot) is dropped, however the
//! attempt ended.

mod asked;
mod buffer;
mod config;
mod health;
mod learn;
mod plan;
mod rotation;
mod shares;
mod turns;

use std::time::{Duration, Instant};

use windlass_core::{JobId, LeaseId, Name};

use self::asked::Asked;
use self::buffer::Buffer;
pub(crate) use self::config::{Config, QueueSlots};
pub(crate) use self::learn::Answer;
pub(crate) use self::plan::Plan;
use self::rotation::Rotation;
use self::shares::Shares;
use crate::begin::is_told;
use crate::ctx::Ctx;
use crate::ctx::control::Stop;

/// How long a claimed job may wait for a slot while jobs go too slowly to reach it soon.
const WAIT: Duration = Duration::from_millis(80);
/// How long it may wait at all.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// How long a suspect stays away that could not start beside another one.
const SUSPECT_PAUSE_LEAST: Duration = Duration::from_secs(1);
/// How long a suspect runs before another may start beside it. Long jobs that were lost with a machine would otherwise
/// run one after the other.
const SUSPECT_WATCH: Duration = Duration::from_secs(60);

/// Running attempts, claimed jobs that wait for a slot, and whether more are taken in.
pub(crate) struct Slots {
    shares: Shares,
    /// One buffer per queue, in the order of the configuration.
    buffers: Vec<Buffer>,
    occupied: Vec<Option<Occupied>>,
    free: Vec<usize>,
    /// When the newest attempt started whose job was lost with a worker before. It may be what ended that worker, so
    /// for [`SUSPECT_WATCH`] no second one starts beside it: only the culprit collects more stalls.
    suspect_since: Option<Instant>,
    /// Whose turn it is to start a job, and to be asked for some.
    rotation: Rotation,
    waiting_bytes: usize,
    config: Config,
    /// The current lease, under which jobs are claimed.
    lease: Option<LeaseId>,
    intake: Intake,
    /// The lease of the claim in flight.
    claiming: Option<LeaseId>,
    /// Jobs that were asked to stop while the claim in flight may bring them.
    asked: Asked,
    /// How often in a row the store did not answer a claim; each halves what the next one asks for.
    shrinks: u32,
    /// When it was last looked what waits too long.
    stale_looked: Instant,
}

struct Occupied {
    /// Index of its queue.
    queue: usize,
    /// Since when, for a suspect.
    since: Option<Instant>,
    ctx: Ctx,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intake {
    Open,
    /// Nothing is claimed or started any more.
    Draining,
    /// Nor is anything handed back.
    Gone,
}

/// An attempt to start, in the slot that was taken for it.
pub(crate) struct Start {
    pub(crate) slot: usize,
    pub(crate) ctx: Ctx,
}

/// What giving a slot back led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freed {
    /// Enough waits to go on with.
    Enough,
    /// Asking for more jobs has become worth while.
    AskForMore,
    /// The worker is about to end.
    Draining,
}

impl Slots {
    pub(crate) fn new(config: Config, now: Instant) -> Self {
        let buffer = |queue: Name| Buffer::new(queue, now);
        Self {
            shares: Shares::new(&config),
            buffers: config.queue_names().into_iter().map(buffer).collect(),
            occupied: (0..config.concurrency).map(|_| None).collect(),
            free: (0..config.concurrency).rev().collect(),
            suspect_since: None,
            rotation: Rotation::new(config.queues.iter().map(|slots| slots.weight)),
            waiting_bytes: 0,
            lease: None,
            intake: Intake::Open,
            claiming: None,
            asked: Asked::default(),
            shrinks: 0,
            stale_looked: now,
            config,
        }
    }

    /// Takes in what a claim under `lease` brought, for [`fill`](Self::fill) to start. What comes back is to be handed
    /// back: all of it once the worker drains, and under a lease that is not the current one. If that lease is lost,
    /// the fence decides.
    pub(crate) fn take_in(&mut self, lease: LeaseId, jobs: Vec<Ctx>) -> Vec<Ctx> {
        match self.intake {
            Intake::Gone => return Vec::new(),
            Intake::Open if self.lease == Some(lease) => {}
            Intake::Open | Intake::Draining => return jobs,
        }
        let mut unknown = Vec::new();
        for ctx in jobs {
            match self.buffers.iter_mut().find(|buffer| buffer.queue == *ctx.queue()) {
                Some(buffer) => {
                    self.waiting_bytes += ctx.payload().len();
                    buffer.push(ctx);
                }
                None => unknown.push(ctx),
            }
        }
        unknown
    }

    /// Gives a slot back.
    pub(crate) fn finish(&mut self, slot: usize) -> Freed {
        if let Some(occupied) = self.occupied[slot].take() {
            self.free.push(slot);
            self.shares.give_back(occupied.queue);
            if occupied.ctx.is_suspect() {
                self.suspect_since = self.occupied.iter().flatten().filter_map(|other| other.since).max();
            }
            self.buffers[occupied.queue].last_finished = Instant::now();
            self.buffers[occupied.queue].finished += 1;
        }
        match self.intake {
            Intake::Draining | Intake::Gone => Freed::Draining,
            Intake::Open if self.claiming.is_none() && self.wants_more() => Freed::AskForMore,
            Intake::Open => Freed::Enough,
        }
    }

    /// Whether a queue with limits, which is asked for free slots only, is about to have more of them: its jobs go fast.
    pub(crate) fn frees_more(&self) -> bool {
        let is_fast = |queue: usize, buffer: &Buffer| {
            let free = self.shares.free(queue) + buffer.held;
            buffer.is_limited && !buffer.is_dry && free > 0 && free < buffer.target
        };
        self.claiming.is_none()
            && self.buffers.iter().enumerate().any(|(queue, buffer)| is_fast(queue, buffer))
    }

    fn wants_more(&self) -> bool {
        let mut buffers = self.buffers.iter().enumerate();
        buffers.any(|(queue, buffer)| buffer.wants_more(self.shares.free(queue) + buffer.held))
    }

    /// A lease was opened; jobs may be claimed under it.
    pub(crate) fn lease_opened(&mut self, lease: LeaseId) {
        self.lease = Some(lease);
        self.hint();
    }

    /// Nothing more is claimed under the lease; its jobs stay.
    pub(crate) fn lease_retired(&mut self) {
        self.lease = None;
        self.release_all();
    }

    /// A lease is lost, and its jobs with it: waiting ones are forgotten, running attempts are stopped.
    pub(crate) fn lease_lost(&mut self, lease: LeaseId) {
        if self.lease.take_if(|held| *held == lease).is_some() {
            self.release_all();
        }
        self.buffers.iter_mut().for_each(|buffer| buffer.forget(lease));
        self.count_bytes();
        let running = self.running().filter(|ctx| ctx.inner().claimed.lease == lease);
        running.for_each(|ctx| ctx.inner().control.stop(Stop::Lost));
    }

    /// A lease is lost in one queue: as [`lease_lost`](Self::lease_lost), for what came from there.
    pub(crate) fn lease_lost_in(&mut self, lease: LeaseId, queue: &Name) {
        let buffers = self.buffers.iter_mut().filter(|buffer| buffer.queue == *queue);
        buffers.for_each(|buffer| buffer.forget(lease));
        self.count_bytes();
        let is_lost = |ctx: &&Ctx| ctx.inner().claimed.lease == lease && ctx.queue() == queue;
        self.running().filter(is_lost).for_each(|ctx| ctx.inner().control.stop(Stop::Lost));
    }

    fn count_bytes(&mut self) {
        self.waiting_bytes = self.buffers.iter().flat_map(Buffer::iter).map(|ctx| ctx.payload().len()).sum();
    }

    /// Whether a lease has jobs here that wait or run, or a claim in flight that may bring more.
    pub(crate) fn holds(&self, lease: LeaseId) -> bool {
        let waiting = self.buffers.iter().flat_map(Buffer::iter);
        let mut held = waiting.chain(self.running());
        self.claiming == Some(lease) || held.any(|ctx| ctx.inner().claimed.lease == lease)
    }

    /// Lets go of everything, as if the process had ended.
    pub(crate) fn let_go(&mut self) {
        self.lease = None;
        self.intake = Intake::Gone;
        self.take_waiting();
        self.stop_all(Stop::Gone);
    }

    /// The lease that is held.
    pub(crate) fn lease(&self) -> Option<LeaseId> {
        self.lease
    }

    /// There may be something in every queue again.
    pub(crate) fn hint(&mut self) {
        self.buffers.iter_mut().for_each(Buffer::hint);
    }

    /// There may be something in this queue again.
    pub(crate) fn hint_in(&mut self, queue: &Name) {
        self.buffers.iter_mut().filter(|buffer| buffer.queue == *queue).for_each(Buffer::hint);
    }

    /// How many jobs of this queue could start at once if they were asked for now. None while a claim is in flight, or
    /// the store does not answer.
    pub(crate) fn room(&self, queue: &Name) -> usize {
        if self.lease.is_none() || self.claiming.is_some() || self.intake != Intake::Open || self.shrinks > 0
        {
            return 0;
        }
        let place = self.buffers.iter().position(|buffer| buffer.queue == *queue && buffer.sick.is_none());
        let free = |place: usize| self.shares.free(place) + self.buffers[place].held;
        place.map_or(0, |place| free(place).saturating_sub(self.buffers[place].total()))
    }

    /// Asking buffers whose next job is due by now is worth while again. Answers when the next one is.
    pub(crate) fn mark_due(&mut self, now: Instant) -> Option<Instant> {
        for buffer in &mut self.buffers {
            if buffer.due.take_if(|due| *due <= now).is_some() {
                buffer.is_dry = false;
            }
        }
        self.buffers.iter().filter_map(|buffer| buffer.due).min()
    }

    /// Nothing is claimed or started from now on.
    pub(crate) fn close(&mut self) {
        if self.intake == Intake::Open {
            self.intake = Intake::Draining;
        }
    }

    /// Whether a claim is in flight.
    pub(crate) fn is_claiming(&self) -> bool {
        self.claiming.is_some()
    }

    /// Takes out everything that waits.
    pub(crate) fn take_waiting(&mut self) -> Vec<Ctx> {
        self.waiting_bytes = 0;
        self.buffers.iter_mut().flat_map(Buffer::drain).collect()
    }

    /// Takes out what waits too long: its slots are held by slower jobs than was expected, and another worker may
    /// have free ones.
    pub(crate) fn take_stale(&mut self, now: Instant) -> Vec<Ctx> {
        if self.next_stale().is_none_or(|next| next > now) {
            return Vec::new();
        }
        self.stale_looked = now;
        let (Some(before), last) = (now.checked_sub(WAIT), now.checked_sub(WAIT_MAX)) else {
            return Vec::new();
        };
        let last = last.unwrap_or(before);
        let stale: Vec<_> =
            self.buffers.iter_mut().flat_map(|buffer| buffer.drain_stale(before, last, now)).collect();
        self.count_bytes();
        stale
    }

    /// When to look next whether something waits too long.
    pub(crate) fn next_stale(&self) -> Option<Instant> {
        let oldest = self.buffers.iter().filter_map(Buffer::oldest).min()?;
        Some((oldest + WAIT).max(self.stale_looked + WAIT / 2))
    }

    /// How long a suspect that has to wait for another one should stay away: twice as long as that one has run by now,
    /// so that those behind a long one do not come and go all the time.
    pub(crate) fn suspect_pause(&self, now: Instant) -> Duration {
        let ran = self.suspect_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        (2 * ran).clamp(SUSPECT_PAUSE_LEAST, SUSPECT_WATCH)
    }

    /// Queues that could not be asked by the last claim, and why.
    pub(crate) fn sick(&self) -> Vec<(Name, String)> {
        let sick =
            self.buffers.iter().filter_map(|buffer| Some((buffer.queue.clone(), buffer.sick.clone()?)));
        sick.collect()
    }

    /// The attempt in a slot.
    pub(crate) fn attempt_in(&self, slot: usize) -> Option<Ctx> {
        self.occupied[slot].as_ref().map(|occupied| occupied.ctx.clone())
    }

    /// Takes a waiting job out of its buffer.
    pub(crate) fn take(&mut self, id: JobId) -> Option<Ctx> {
        let ctx = self.buffers.iter_mut().find_map(|buffer| buffer.take(id))?;
        self.waiting_bytes -= ctx.payload().len();
        Some(ctx)
    }

    /// The attempts that run, those excepted whose handler has outlived them.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Ctx> {
        let occupied = self.occupied.iter().flatten().map(|occupied| &occupied.ctx);
        occupied.filter(|ctx| !ctx.is_zombie())
    }

    /// Whether an attempt runs of which the store has not been told that it has begun.
    pub(crate) fn runs_untold(&self) -> bool {
        self.running().any(|ctx| !is_told(ctx))
    }

    /// Tells every attempt that runs to stop.
    pub(crate) fn stop_all(&self, reason: Stop) {
        self.running().for_each(|ctx| ctx.inner().control.stop(reason));
    }

    /// Jobs that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.buffers.iter().map(Buffer::total).sum()
    }
}

#[cfg(test)]
mod tests;
