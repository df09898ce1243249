//! What people do to a queue: pause, clear, close, cancel, change settings, ask.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::feed::Event;
use super::keys::Keys;
use super::rate::{Gauge, Rate};
use super::slab::{Spare, Stage};
use super::watch::Condition;
use super::{Counts, Effects, Failure, Id, Machine, Outcome, Settings, Verdict};
use crate::error::Why;
use crate::token::Token;
use crate::work::Work;

/// What is left of work whose handle goes away: what may run code of users, or takes long, and is dropped without the
/// lock.
pub(crate) struct Left<W: Work> {
    outcome: Option<Outcome<W::Done>>,
    _waker: Option<Waker>,
    _spare: Option<Box<Spare<W>>>,
}

impl<W: Work> Machine<W> {
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { waiting: self.waiting, running: self.running, ..self.counts }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(crate) fn is_rate_limited(&self) -> bool {
        self.is_rate_limited
    }

    pub(crate) fn is_flooded(&self) -> bool {
        self.is_flooded
    }

    /// Whether work waits that has to wait: for a slot, or for the rate.
    pub(crate) fn is_saturated(&self) -> bool {
        self.waiting > 0 && (self.running >= self.settings.concurrency || self.is_rate_limited)
    }

    pub(crate) fn pause(&mut self, effects: &mut Effects<W>) {
        if !self.is_abandoned && !std::mem::replace(&mut self.is_paused, true) {
            self.emit(Event::Paused, effects);
        }
    }

    pub(crate) fn start_again(&mut self, effects: &mut Effects<W>) {
        if std::mem::replace(&mut self.is_paused, false) {
            self.emit(Event::Resumed, effects);
            self.call(effects);
        }
    }

    pub(crate) fn set_concurrency(&mut self, concurrency: usize, effects: &mut Effects<W>) {
        self.settings.concurrency = concurrency;
        self.call(effects);
    }

    pub(crate) fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.settings.timeout = timeout;
    }

    pub(crate) fn set_rate(&mut self, rate: Option<Rate>, effects: &mut Effects<W>) {
        self.settings.rate = rate;
        match (&mut self.gauge, rate) {
            (Some(gauge), Some(rate)) => gauge.change(rate),
            (gauge, rate) => *gauge = rate.map(Gauge::new),
        }
        self.rate_clears(effects);
        if let Some(waker) = self.runners.call_rate_waiter() {
            effects.wake(waker);
        }
        self.call(effects);
    }

    /// Removes everything that waits.
    pub(crate) fn clear(&mut self, why: Why, effects: &mut Effects<W>) -> usize {
        if self.waiting == 0 {
            return 0;
        }
        let waiting = self.waiting();
        let cleared = waiting.len();
        for id in waiting {
            self.remove(id, why, effects);
        }
        self.after_decrease(effects);
        self.end_if_over(effects);
        cleared
    }

    /// Removes everything that waits, and stops everything that runs.
    pub(crate) fn abort(&mut self, effects: &mut Effects<W>) -> usize {
        let running: Vec<Id> = self.running().collect();
        for id in &running {
            self.stop(*id, Why::Aborted, effects);
        }
        running.len() + self.clear(Why::Aborted, effects)
    }

    /// Takes nothing in any more.
    pub(crate) fn close(&mut self, effects: &mut Effects<W>) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        self.emit(Event::Closed, effects);
        self.admit(effects);
        if self.waiting == 0 {
            self.runners.call_all(|waker| effects.wake(waker));
        }
        self.end_if_over(effects);
    }

    /// No handle is left to start the queue again: what a pause keeps waiting would wait for ever.
    pub(crate) fn abandon(&mut self, effects: &mut Effects<W>) {
        self.close(effects);
        self.is_abandoned = true;
        if self.is_paused {
            self.clear(Why::Closed, effects);
        }
    }

    /// There is no runner any more.
    pub(crate) fn end(&mut self, effects: &mut Effects<W>) {
        self.close(effects);
        self.clear(Why::Closed, effects);
    }

    /// A caller that waits for room, or was promised some, goes away. Answers its waker, to be dropped.
    pub(crate) fn give_up(&mut self, ticket: Option<u64>, effects: &mut Effects<W>) -> Option<Waker> {
        let waker = match ticket {
            Some(ticket) => self.room.leave(ticket),
            None => {
                self.room.redeem();
                None
            }
        };
        self.admit(effects);
        waker
    }

    /// Cancels one that waits or runs.
    pub(crate) fn cancel(&mut self, id: Id, why: Why, effects: &mut Effects<W>) -> bool {
        match self.lanes.slab.find(id).map(|entry| entry.stage) {
            Some(Stage::Running) => self.stop(id, why, effects),
            Some(Stage::Ready | Stage::Held | Stage::Freed) => {
                self.remove(id, why, effects);
                self.after_decrease(effects);
                // Another of its key may be ready instead.
                self.call(effects);
                self.end_if_over(effects);
                true
            }
            Some(Stage::Free | Stage::Settled) | None => false,
        }
    }

    /// Cancels everything that hangs on this token.
    pub(crate) fn cancel_token(&mut self, token: &Token, effects: &mut Effects<W>) {
        let id = |index| Id::new(index, self.lanes.slab[index].sequence);
        let ids: Vec<Id> = self.tokens.of(token).map(id).collect();
        for id in ids {
            self.cancel(id, Why::Cancelled, effects);
        }
    }

    /// Removes one that waits.
    fn remove(&mut self, id: Id, why: Why, effects: &mut Effects<W>) {
        let entry = &mut self.lanes.slab[id.index()];
        if let Some(work) = entry.take_work() {
            effects.refuse(work);
        }
        let stage = entry.stage;
        let place = self.lanes.place(id.index());
        if stage == Stage::Held {
            let key = self.lanes.slab.extra(id.index()).and_then(|extra| extra.key.as_ref());
            if let (Some(keys), Some(key)) = (&mut self.keys, key) {
                keys.let_go(key, place);
            }
            self.held -= 1;
            self.tokens.remove(self.lanes.slab.extra(id.index()), id.index());
        } else {
            match &mut self.keys {
                Some(keys) if stage == Stage::Freed => drop(keys.take_freed(place)),
                _ => self.lanes.take_out(id.index()),
            }
            self.untie(id.index(), Keys::next);
        }
        self.waiting -= 1;
        self.record(id, Verdict::Failed(why), effects);
        // An error has nothing of users in it.
        drop(self.settle(id.index(), Err(Box::new(why.into_error())), effects));
    }

    /// The outcome for the handle, or leaves word whom to wake. The entry is free afterwards. Who was to be woken
    /// before and what a burst needed is answered in `stale` and `spare`, to be dropped without the lock.
    #[inline]
    pub(crate) fn poll_outcome(
        &mut self,
        id: Id,
        context: &Context<'_>,
        stale: &mut Option<Waker>,
        spare: &mut Option<Box<Spare<W>>>,
    ) -> Poll<Option<Outcome<W::Done>>> {
        let slab = &mut self.lanes.slab;
        let outcome = slab.poll_outcome(id);
        if outcome.is_pending() {
            *stale = slab.listen(id.index(), context.waker());
        } else {
            *spare = slab.take_spare();
        }
        outcome
    }

    /// Whether an outcome is there for the handle.
    pub(crate) fn is_settled(&mut self, id: Id) -> bool {
        self.lanes.slab.find(id).is_none_or(|entry| entry.stage == Stage::Settled)
    }

    /// The handle is dropped: what has not ended is cancelled. Answers what is there for the handle, to be dropped.
    pub(crate) fn abandon_one(&mut self, id: Id, effects: &mut Effects<W>) -> Left<W> {
        let left = self.let_go(id);
        if left.outcome.is_none() {
            self.cancel(id, Why::Cancelled, effects);
        }
        left
    }

    /// The handle goes away. Answers what is there for it, to be dropped.
    pub(crate) fn let_go(&mut self, id: Id) -> Left<W> {
        let slab = &mut self.lanes.slab;
        let Some(entry) = slab.find(id) else { return Left { outcome: None, _waker: None, _spare: None } };
        entry.let_go();
        let waker = slab.take_waker(id.index());
        let outcome = match slab.poll_outcome(id) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => None,
        };
        Left { outcome, _waker: waker, _spare: slab.take_spare() }
    }

    /// Tells the runner of one that runs to stop it. The first reason counts.
    fn stop(&mut self, id: Id, why: Why, effects: &mut Effects<W>) -> bool {
        let runner = self.lanes.slab[id.index()].runner();
        self.runners.ring(runner, why, |waker| effects.wake(waker))
    }

    /// Moves one that waits behind all of another priority.
    pub(crate) fn set_priority(&mut self, id: Id, priority: i16) -> bool {
        let Some(entry) = self.lanes.slab.find(id) else { return false };
        let before = entry.priority;
        match entry.stage {
            Stage::Ready | Stage::Held | Stage::Freed if before == priority => {}
            Stage::Ready => self.lanes.move_to(id.index(), priority),
            stage @ (Stage::Held | Stage::Freed) => {
                let place = self.lanes.place(id.index());
                self.lanes.slab[id.index()].priority = priority;
                self.lanes.put_last(id.index());
                let last = self.lanes.place(id.index());
                let key = self.lanes.slab.extra(id.index()).and_then(|extra| extra.key.as_ref());
                match (&mut self.keys, key) {
                    (Some(keys), _) if stage == Stage::Freed => {
                        keys.take_freed(place);
                        keys.free(last, id.index());
                    }
                    (Some(keys), Some(key)) => {
                        keys.let_go(key, place);
                        keys.hold(key, last, id.index());
                    }
                    _ => {}
                }
            }
            Stage::Running | Stage::Settled | Stage::Free => return false,
        }
        true
    }

    pub(crate) fn subscribe(&mut self, capacity: usize) -> u64 {
        self.feed.subscribe(capacity)
    }

    pub(crate) fn unsubscribe(&mut self, number: u64) -> Option<Waker> {
        self.feed.unsubscribe(number)
    }

    pub(crate) fn poll_event(
        &mut self,
        number: u64,
        context: &Context<'_>,
        stale: &mut Option<Waker>,
    ) -> Poll<Option<Event>> {
        let is_over = self.is_over();
        self.feed.poll(number, is_over, context.waker(), stale)
    }

    /// Waits for a condition. The number is that of the one who waits, once it has to.
    pub(crate) fn poll_condition(
        &mut self,
        condition: Condition,
        number: &mut Option<u64>,
        context: &Context<'_>,
        stale: &mut Option<Waker>,
    ) -> Poll<Option<Failure>> {
        let Some(known) = *number else {
            if condition.holds(self.sight()) {
                return Poll::Ready(None);
            }
            *number = Some(self.watch.add(condition, context.waker().clone()));
            return Poll::Pending;
        };
        self.watch.has_held(known, context.waker(), stale).map_or(Poll::Pending, Poll::Ready)
    }

    pub(crate) fn unwatch(&mut self, number: u64) -> Option<Waker> {
        self.watch.remove(number)
    }
}
