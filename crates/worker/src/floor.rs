//! The floor of a worker: which attempts sit in which slot, which claimed jobs wait for one, and what to ask
//! the store for next.
//!
//! One lock, held for moments and never across an await. Everything that changes hands does so here, so slots
//! are counted exactly: a seat is taken when an attempt starts and given back when its [`Seat`](crate::engine::Seat) is
//! dropped, however the attempt ended.

mod line;
mod look;
mod plan;

use std::time::{Duration, Instant};

use windlass_core::{JobId, LeaseId, Name};

use self::line::Line;
pub(crate) use self::plan::Plan;
use crate::begin::is_told;
use crate::ctx::Ctx;
use crate::ctx::control::Stop;
use crate::slots::Slots;
use crate::worker::Config;

/// How long a claimed job may wait for a slot while jobs go too slowly to reach it soon.
const WAIT: Duration = Duration::from_millis(80);
/// How long it may wait at all.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// How long a suspect stays away that could not start beside another one.
const SUSPECT_PAUSE_LEAST: Duration = Duration::from_secs(1);
/// How long a suspect runs before another may start beside it. Long jobs that were lost with a machine would otherwise
/// run one after the other.
const SUSPECT_WATCH: Duration = Duration::from_secs(60);

/// Seats, lines and doors.
pub(crate) struct Floor {
    slots: Slots,
    /// One line per queue, in the order of the configuration.
    lines: Vec<Line>,
    seats: Vec<Option<Sitting>>,
    seats_free: Vec<usize>,
    /// When the newest attempt started whose job was lost with a worker before. It may be what ended that worker, so
    /// for [`SUSPECT_WATCH`] no second one starts beside it: only the culprit collects more stalls.
    suspect_since: Option<Instant>,
    /// Where the next search for a job to start, and the next claim, begin.
    turn: usize,
    waiting_bytes: usize,
    prefetch_max: usize,
    /// The lease that everything on the floor hangs on.
    lease: Option<LeaseId>,
    doors: Doors,
    /// The lease under which a claim is on its way.
    claiming: Option<LeaseId>,
    /// How often there was a hint.
    hints: u64,
    /// How often in a row the store did not answer a claim; each halves what the next one asks for.
    shrinks: u32,
    /// When it was last looked what waits too long.
    stale_looked: Instant,
}

struct Sitting {
    line: usize,
    /// Since when, for a suspect.
    since: Option<Instant>,
    ctx: Ctx,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doors {
    Open,
    /// Nothing is claimed or started any more.
    Closed,
    /// Nor is anything handed back.
    Gone,
}

/// An attempt to start, in the seat that was taken for it.
pub(crate) struct Start {
    pub(crate) seat: usize,
    pub(crate) ctx: Ctx,
}

/// What giving a seat back led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freed {
    /// Enough waits to go on with.
    Fed,
    /// Asking for more jobs has become worth while.
    Hungry,
    /// The worker is about to end.
    Closed,
}

impl Floor {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        let line = |queue: Name| Line::new(queue, now);
        Self {
            slots: Slots::new(config),
            lines: config.queue_names().into_iter().map(line).collect(),
            seats: (0..config.concurrency).map(|_| None).collect(),
            seats_free: (0..config.concurrency).rev().collect(),
            suspect_since: None,
            turn: 0,
            waiting_bytes: 0,
            prefetch_max: config.prefetch_max,
            lease: None,
            doors: Doors::Open,
            claiming: None,
            hints: 0,
            shrinks: 0,
            stale_looked: now,
        }
    }

    /// Takes in what a claim under `lease` brought and starts what can start. What comes back is to be handed
    /// back: all of it after closing time, and under a lease that is no longer current. If that one is lost,
    /// the fence decides.
    pub(crate) fn land(&mut self, lease: LeaseId, jobs: Vec<Ctx>) -> (Vec<Start>, Vec<Ctx>) {
        match self.doors {
            Doors::Gone => return (Vec::new(), Vec::new()),
            Doors::Open if self.lease == Some(lease) => {}
            Doors::Open | Doors::Closed => return (Vec::new(), jobs),
        }
        let mut strangers = Vec::new();
        for ctx in jobs {
            match self.lines.iter_mut().find(|line| line.queue == *ctx.queue()) {
                Some(line) => {
                    self.waiting_bytes += ctx.payload().len();
                    line.push(ctx);
                }
                None => strangers.push(ctx),
            }
        }
        (self.fill(), strangers)
    }

    /// Starts what can start.
    pub(crate) fn fill(&mut self) -> Vec<Start> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Gives a seat back.
    pub(crate) fn finish(&mut self, seat: usize) -> Freed {
        if let Some(sitting) = self.seats[seat].take() {
            self.seats_free.push(seat);
            self.slots.give_back(sitting.line);
            if sitting.ctx.is_suspect() {
                self.suspect_since = self.seats.iter().flatten().filter_map(|other| other.since).max();
            }
            self.lines[sitting.line].last_finished = Instant::now();
            self.lines[sitting.line].finished += 1;
        }
        match self.doors {
            Doors::Closed | Doors::Gone => Freed::Closed,
            Doors::Open if self.claiming.is_none() && self.lines.iter().any(Line::is_hungry) => Freed::Hungry,
            Doors::Open => Freed::Fed,
        }
    }

    /// The next job that waits and may start, each line in its turn.
    pub(crate) fn next(&mut self) -> Option<Start> {
        if self.doors != Doors::Open {
            return None;
        }
        let count = self.lines.len();
        for step in 0..count {
            let line = (self.turn + step) % count;
            let takes_suspects = self.suspect_since.is_none_or(|since| since.elapsed() >= SUSPECT_WATCH);
            if !self.lines[line].has_next(takes_suspects) || !self.slots.take(line) {
                continue;
            }
            self.turn = (line + 1) % count;
            let ctx = self.lines[line].pop(takes_suspects).expect("the line has a job that may start");
            let since = ctx.is_suspect().then(Instant::now);
            self.suspect_since = since.or(self.suspect_since);
            self.waiting_bytes -= ctx.payload().len();
            let seat = self.seats_free.pop().expect("there are as many seats as slots");
            self.seats[seat] = Some(Sitting { line, since, ctx: ctx.clone() });
            return Some(Start { seat, ctx });
        }
        None
    }

    /// A lease was opened; jobs may be claimed under it.
    pub(crate) fn lease_opened(&mut self, lease: LeaseId) {
        self.lease = Some(lease);
        self.hint();
    }

    /// Nothing more is claimed under the lease; what hangs on it stays.
    pub(crate) fn lease_retired(&mut self) {
        self.lease = None;
    }

    /// A lease is lost: what waits is forgotten, what runs is stopped, for all of it is no longer ours.
    pub(crate) fn lease_lost(&mut self, lease: LeaseId) {
        self.lease.take_if(|held| *held == lease);
        self.lines.iter_mut().for_each(|line| line.forget(lease));
        self.count_bytes();
        let running = self.running().filter(|ctx| ctx.inner().landing.lease == lease);
        running.for_each(|ctx| ctx.inner().control.stop(Stop::Lost));
    }

    /// A lease is lost in one queue: as [`lease_lost`](Self::lease_lost), for what came from there.
    pub(crate) fn lease_lost_in(&mut self, lease: LeaseId, queue: &Name) {
        let lines = self.lines.iter_mut().filter(|line| line.queue == *queue);
        lines.for_each(|line| line.forget(lease));
        self.count_bytes();
        let is_lost = |ctx: &&Ctx| ctx.inner().landing.lease == lease && ctx.queue() == queue;
        self.running().filter(is_lost).for_each(|ctx| ctx.inner().control.stop(Stop::Lost));
    }

    fn count_bytes(&mut self) {
        self.waiting_bytes = self.lines.iter().flat_map(Line::iter).map(|ctx| ctx.payload().len()).sum();
    }

    /// Whether anything that waits or runs hangs on a lease, or a claim is on its way that may bring more.
    pub(crate) fn holds(&self, lease: LeaseId) -> bool {
        let waiting = self.lines.iter().flat_map(Line::iter);
        let mut held = waiting.chain(self.running());
        self.claiming == Some(lease) || held.any(|ctx| ctx.inner().landing.lease == lease)
    }

    /// Lets go of everything, as if the process had ended.
    pub(crate) fn let_go(&mut self) {
        self.lease = None;
        self.doors = Doors::Gone;
        self.take_waiting();
        self.stop_all(Stop::Gone);
    }

    /// The lease that is held.
    pub(crate) fn lease(&self) -> Option<LeaseId> {
        self.lease
    }

    /// There may be something in every queue again. A claim that is on its way may have looked before that, so
    /// its answer cannot say otherwise.
    pub(crate) fn hint(&mut self) {
        self.hints = self.hints.wrapping_add(1);
        // A sick queue is asked again when its pause is over.
        self.lines.iter_mut().for_each(|line| line.is_dry &= line.sick.is_some());
    }

    /// Asking lines whose next job is due by now is worth while again. Answers when the next one is.
    pub(crate) fn heed_due(&mut self, now: Instant) -> Option<Instant> {
        for line in &mut self.lines {
            if line.due.take_if(|due| *due <= now).is_some() {
                line.is_dry = false;
            }
        }
        self.lines.iter().filter_map(|line| line.due).min()
    }

    /// Nothing is claimed or started from now on.
    pub(crate) fn close(&mut self) {
        if self.doors == Doors::Open {
            self.doors = Doors::Closed;
        }
    }

    /// Whether a claim is on its way.
    pub(crate) fn is_claiming(&self) -> bool {
        self.claiming.is_some()
    }

    /// Takes out everything that waits.
    pub(crate) fn take_waiting(&mut self) -> Vec<Ctx> {
        self.waiting_bytes = 0;
        self.lines.iter_mut().flat_map(Line::drain).collect()
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
            self.lines.iter_mut().flat_map(|line| line.drain_stale(before, last, now)).collect();
        self.count_bytes();
        stale
    }

    /// When to look next whether something waits too long.
    pub(crate) fn next_stale(&self) -> Option<Instant> {
        let oldest = self.lines.iter().filter_map(Line::oldest).min()?;
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
        let sick = self.lines.iter().filter_map(|line| Some((line.queue.clone(), line.sick.clone()?)));
        sick.collect()
    }

    /// The attempt in a seat.
    pub(crate) fn sitting(&self, seat: usize) -> Option<Ctx> {
        self.seats[seat].as_ref().map(|sitting| sitting.ctx.clone())
    }

    /// Takes a job out of its line, if it waits there.
    pub(crate) fn take(&mut self, id: JobId) -> Option<Ctx> {
        let ctx = self.lines.iter_mut().find_map(|line| line.take(id))?;
        self.waiting_bytes -= ctx.payload().len();
        Some(ctx)
    }

    /// The attempts that run, those excepted whose handler has outlived them.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Ctx> {
        let sitting = self.seats.iter().flatten().map(|sitting| &sitting.ctx);
        sitting.filter(|ctx| !ctx.is_zombie())
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
        self.lines.iter().map(Line::total).sum()
    }
}
