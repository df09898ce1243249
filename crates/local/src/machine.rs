//! The rules of a queue, without locks, threads or code of users: what may start now, who is to be called, which
//! events and conditions follow. [`Shared`](crate::shared::Shared) puts a lock around it and carries out the
//! [`Effects`] after the lock is released.
//!
//! What must hold: if work is ready, the queue is not paused, the rate allows it and a slot is free, then a runner
//! is on its way or busy and about to ask.

mod control;
mod effects;
pub(crate) mod feed;
mod keys;
mod lanes;
mod listing;
mod rare;
pub(crate) mod rate;
mod room;
mod rules;
mod runners;
mod slab;
mod terms;
mod tokens;
pub(crate) mod watch;

use std::time::Duration;

use tokio::time::Instant;

use crate::work::Work;
pub(crate) use effects::Effects;
use feed::{Event, Feed};
use keys::Keys;
use lanes::Lanes;
pub use listing::{Running, Waiting};
use rate::Gauge;
use room::Room;
use runners::{Call, Runners};
pub use terms::{Counts, Failure, Id, Order};
pub(crate) use terms::{Extra, Options, Outcome, Settings, Verdict};
use tokens::Tokens;
use watch::{Sight, Watch};

/// The state of a queue.
pub(crate) struct Machine<W: Work> {
    lanes: Lanes<W>,
    keys: Option<Keys>,
    tokens: Tokens,
    gauge: Option<Gauge>,
    pub(crate) runners: Runners,
    pub(crate) room: Room,
    watch: Watch,
    feed: Feed,
    settings: Settings,
    waiting: usize,
    /// Of those that wait, how many are held aside by their key.
    held: usize,
    running: usize,
    counts: Counts,
    is_paused: bool,
    is_closed: bool,
    /// No handle is left to start it again, so it cannot be paused.
    is_abandoned: bool,
    is_rate_limited: bool,
    is_saturated: bool,
    is_flooded: bool,
}

/// What a runner is to run.
pub(crate) struct Start<W> {
    pub(crate) id: Id,
    pub(crate) work: W,
}

/// What a runner is to do that has asked for work when there is none for it.
pub(crate) enum Pause {
    /// It has held so much aside that it is to ask again, and let others go first.
    Again,
    /// Nothing before this time; this runner is to come back then.
    Later(Instant),
    Park,
    Leave,
}

impl<W: Work> Machine<W> {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            lanes: Lanes::new(settings.per_key.is_some()),
            keys: settings.per_key.map(Keys::new),
            tokens: Tokens::default(),
            gauge: settings.rate.map(Gauge::new),
            runners: Runners::new(),
            room: Room::default(),
            watch: Watch::default(),
            feed: Feed::default(),
            waiting: 0,
            held: 0,
            running: 0,
            counts: Counts::default(),
            is_paused: settings.is_paused,
            is_closed: false,
            is_abandoned: false,
            is_rate_limited: false,
            is_saturated: false,
            is_flooded: false,
            settings,
        }
    }

    /// Whether one more, without a promised place, would be too many.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.waiting + self.room.promised() >= self.settings.capacity
    }

    /// Takes work in. The caller has made sure that there is room.
    #[inline]
    pub(crate) fn insert(&mut self, work: W, options: Options, effects: &mut Effects<W>) -> Id {
        let Options { priority, is_first, is_awaited, extra } = options;
        let id = if is_first || self.settings.order == Order::NewestFirst {
            self.lanes.push_front(work, priority, is_awaited)
        } else {
            self.lanes.push_back(work, priority, is_awaited)
        };
        if extra.is_some() {
            self.tokens.add(extra.as_deref(), id.index());
            self.lanes.slab.rare(id.index()).extra = extra;
        }
        self.waiting += 1;
        self.counts.added += 1;
        self.emit(Event::Added(id), effects);
        if !self.is_saturated && self.waiting > self.settings.concurrency.saturating_sub(self.running) {
            self.is_saturated = true;
            self.emit(Event::Saturated, effects);
        }
        if let Some((_, high)) = self.settings.watermarks
            && self.waiting >= high
            && !self.is_flooded
        {
            self.is_flooded = true;
            self.emit(Event::HighWater, effects);
        }
        self.call(effects);
        if self.runners.is_deserted() {
            // One runner has to be there to notice the end of the runtime.
            self.call_one(effects);
        }
        id
    }

    /// A runner asks for work. How long that may run is left in `timeout`.
    #[inline]
    pub(crate) fn take(
        &mut self,
        runner: u32,
        timeout: &mut Option<Duration>,
        effects: &mut Effects<W>,
    ) -> Result<Start<W>, Pause> {
        if self.waiting == 0 {
            return Err(if self.is_closed { Pause::Leave } else { Pause::Park });
        }
        if self.is_paused || self.running >= self.settings.concurrency {
            return Err(Pause::Park);
        }
        if self.gauge.is_none() && self.keys.is_none() {
            let (index, entry) = self.lanes.take_first().expect("what no key holds aside is ready");
            let has_rare = entry.has_rare();
            let start = entry.start(index, runner);
            self.note_start(&start, has_rare, runner, timeout, effects);
            return Ok(start);
        }
        self.take_by_rules(runner, timeout, effects)
    }

    /// Work was handed out, with rare parts or without.
    #[inline]
    fn note_start(
        &mut self,
        start: &Start<W>,
        has_rare: bool,
        runner: u32,
        timeout: &mut Option<Duration>,
        effects: &mut Effects<W>,
    ) {
        self.waiting -= 1;
        self.running += 1;
        self.runners.begin(runner, start.id.index());
        *timeout = None;
        if has_rare || self.settings.timeout.is_some() {
            *timeout = self.timeout_of(start.id.index());
            if timeout.is_some() {
                self.runners.note_start(runner);
            }
        }
        self.emit(Event::Started(start.id), effects);
        self.rate_clears(effects);
        self.after_decrease(effects);
        self.call(effects);
    }

    /// How long an entry may run.
    fn timeout_of(&self, index: u32) -> Option<Duration> {
        let own = self.lanes.slab.extra(index).and_then(|extra| extra.timeout);
        own.or(self.settings.timeout).filter(|timeout| *timeout != Duration::MAX)
    }

    /// A runner's work has ended. Answers the outcome if it has no handle, to be dropped.
    #[inline(always)]
    pub(crate) fn finish(
        &mut self,
        id: Id,
        verdict: Verdict,
        outcome: Outcome<W::Done>,
        effects: &mut Effects<W>,
    ) -> Option<Outcome<W::Done>> {
        self.running -= 1;
        if self.keys.is_some() || !self.tokens.is_empty() {
            self.untie(id.index(), Keys::end);
        }
        self.record(id, verdict, effects);
        if self.running == 0 {
            self.emit(Event::NoneRunning, effects);
            if self.waiting == 0 {
                self.emit(Event::Idle, effects);
            }
        }
        self.look(effects);
        if self.is_closed {
            self.end_if_over(effects);
        }
        self.settle(id.index(), outcome, effects)
    }

    /// Keeps the outcome for the handle, if there is one.
    #[inline(always)]
    fn settle(
        &mut self,
        index: u32,
        outcome: Outcome<W::Done>,
        effects: &mut Effects<W>,
    ) -> Option<Outcome<W::Done>> {
        let (unwanted, waker) = self.lanes.slab.settle(index, outcome);
        if let Some(waker) = waker {
            effects.wake(waker);
        }
        if let Some(spare) = self.lanes.slab.take_spare() {
            effects.drop_later(spare);
        }
        unwanted
    }

    #[inline]
    fn record(&mut self, id: Id, verdict: Verdict, effects: &mut Effects<W>) {
        match verdict {
            Verdict::Completed => {
                self.counts.completed += 1;
                self.emit(Event::Completed(id), effects);
            }
            Verdict::Failed(why) => {
                self.counts.failed += 1;
                self.emit(Event::Failed(id, why), effects);
                if !self.watch.is_empty() {
                    self.watch.fail(Failure { id, why }, |waker| effects.wake(waker));
                }
            }
        }
    }

    /// Fewer wait than before.
    #[inline]
    fn after_decrease(&mut self, effects: &mut Effects<W>) {
        if self.waiting == 0 {
            self.is_saturated = false;
            self.rate_clears(effects);
            self.emit(Event::Empty, effects);
            if self.running == 0 {
                self.emit(Event::Idle, effects);
            }
        }
        if self.is_flooded && self.settings.watermarks.is_some_and(|(low, _)| self.waiting <= low) {
            self.is_flooded = false;
            self.emit(Event::LowWater, effects);
        }
        self.admit(effects);
        self.look(effects);
        if self.waiting == 0 && self.is_closed {
            self.runners.call_all(|waker| effects.wake(waker));
        }
    }

    /// Lets those in who wait for room.
    #[inline]
    pub(crate) fn admit(&mut self, effects: &mut Effects<W>) {
        while self.room.is_wanted() && (self.is_closed || !self.is_full()) {
            if let Some(waker) = self.room.admit() {
                effects.wake(waker);
            }
        }
    }

    /// Calls runners for what is ready, two at most: those call more if need be.
    #[inline]
    fn call(&mut self, effects: &mut Effects<W>) {
        if self.is_paused || self.is_rate_limited {
            return;
        }
        for _ in 0..2 {
            let called = self.runners.called();
            let is_enough = called >= self.waiting - self.held
                || self.running + called >= self.settings.concurrency
                || !self.runners.may_call();
            if is_enough {
                return;
            }
            self.call_one(effects);
        }
    }

    fn call_one(&mut self, effects: &mut Effects<W>) {
        effects.has_called = true;
        match self.runners.call() {
            Call::Wake(waker) => effects.wake(waker),
            Call::Add => effects.adds += 1,
        }
    }

    fn rate_limits(&mut self, effects: &mut Effects<W>) {
        if !self.is_rate_limited {
            self.is_rate_limited = true;
            self.emit(Event::RateLimited, effects);
            self.look(effects);
        }
    }

    #[inline]
    pub(crate) fn rate_clears(&mut self, effects: &mut Effects<W>) {
        if self.is_rate_limited {
            self.is_rate_limited = false;
            self.emit(Event::RateCleared, effects);
            self.look(effects);
        }
    }

    #[inline]
    fn emit(&mut self, event: Event, effects: &mut Effects<W>) {
        if !self.feed.is_empty() {
            self.tell(event, effects);
        }
    }

    #[cold]
    fn tell(&mut self, event: Event, effects: &mut Effects<W>) {
        self.feed.emit(event, |waker| effects.wake(waker));
    }

    #[inline]
    fn look(&mut self, effects: &mut Effects<W>) {
        if self.watch.wants(self.waiting) {
            let sight = self.sight();
            self.watch.look(sight, |waker| effects.wake(waker));
        }
    }

    fn sight(&self) -> Sight {
        Sight {
            waiting: self.waiting,
            running: self.running,
            is_rate_limited: self.is_rate_limited,
            is_flooded: self.is_flooded,
            is_over: self.is_over(),
        }
    }

    fn end_if_over(&mut self, effects: &mut Effects<W>) {
        if self.is_over() {
            self.feed.end(|waker| effects.wake(waker));
            self.look(effects);
        }
    }

    /// Whether nothing can happen any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_closed && self.waiting == 0 && self.running == 0
    }
}
