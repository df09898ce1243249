//! The runners: which run something, which are parked and can be called, which were called and have not come yet.
//!
//! One is called for every piece of work that could start, at the time it is added. A runner that finds more to
//! do than are coming calls others itself, and steps aside before it begins: an executor may keep those it called
//! behind the very work that it is about to run.

use std::sync::Arc;
use std::task::Waker;

use tokio::time::Instant;

use super::slab::NONE;
use crate::error::Why;
use crate::sync::{AtomicBool, Ordering};

/// Idle runners beyond so many leave.
const IDLE_MAX: usize = 256;

/// So many may be on their way at once. Where there is no limit to concurrency, short work is then done by those
/// that are there instead of by one more each.
const CALLED_MAX: usize = 256;

/// All runners.
#[derive(Debug)]
pub(crate) struct Runners {
    records: Vec<RunnerRecord>,
    vacant: Vec<u32>,
    parked: Vec<u32>,
    /// Called, added or stepped back, and not there yet.
    called: usize,
    /// The one that waits for the rate to allow the next start.
    rate_waiter: Option<u32>,
    /// Runners that have come and not left.
    taken: usize,
    /// How many pieces of work were started.
    turns: u64,
}

#[derive(Debug)]
struct RunnerRecord {
    waker: Option<Waker>,
    state: State,
    /// Tells the runner that its work has to stop.
    bell: Arc<AtomicBool>,
    /// Why it has to, if it has to.
    stop: Option<Why>,
    /// Since when it runs.
    started: Option<Instant>,
    /// What it runs, or ran last.
    entry: u32,
    /// The sequence number of that start.
    turn: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Vacant,
    Busy,
    Parked,
    Called,
    WaitsForRate,
}

/// How a runner is called.
pub(crate) enum Call {
    Wake(Waker),
    Add,
}

impl Runners {
    pub(crate) fn new() -> Self {
        Self {
            records: Vec::new(),
            vacant: Vec::new(),
            parked: Vec::new(),
            called: 0,
            rate_waiter: None,
            taken: 0,
            turns: 0,
        }
    }

    #[inline]
    pub(crate) fn called(&self) -> usize {
        self.called
    }

    /// Whether more may be on their way.
    #[inline]
    pub(crate) fn may_call(&self) -> bool {
        self.called < CALLED_MAX
    }

    /// Whether no runner is there and none is coming.
    pub(crate) fn is_deserted(&self) -> bool {
        self.taken == 0 && self.called == 0
    }

    pub(crate) fn has_rate_waiter(&self) -> bool {
        self.rate_waiter.is_some()
    }

    /// Calls one more runner.
    pub(crate) fn call(&mut self) -> Call {
        self.called += 1;
        let Some(number) = self.parked.pop() else { return Call::Add };
        let record = &mut self.records[number as usize];
        record.state = State::Called;
        Call::Wake(record.waker.clone().expect("a parked runner has left its waker"))
    }

    /// Calls the runner back that waits for the rate, because the rate has changed.
    pub(crate) fn call_rate_waiter(&mut self) -> Option<Waker> {
        let number = self.rate_waiter.take()?;
        self.called += 1;
        let record = &mut self.records[number as usize];
        record.state = State::Called;
        record.waker.clone()
    }

    /// A runner that was added has come: its number and its bell.
    pub(crate) fn enroll(&mut self) -> (u32, Arc<AtomicBool>) {
        self.called -= 1;
        self.taken += 1;
        let bell = Arc::new(AtomicBool::new(false));
        let record = RunnerRecord {
            waker: None,
            state: State::Busy,
            bell: Arc::clone(&bell),
            stop: None,
            started: None,
            entry: NONE,
            turn: 0,
        };
        if let Some(number) = self.vacant.pop() {
            self.records[number as usize] = record;
            return (number, bell);
        }
        self.records.push(record);
        let number = u32::try_from(self.records.len() - 1).expect("fewer than four billion runners");
        (number, bell)
    }

    /// A runner that was added was dropped before it came.
    pub(crate) fn never_came(&mut self) {
        self.called -= 1;
    }

    /// A runner asks for work: whether it was called, or is busy anyway. One that is parked and was not called
    /// goes on waiting.
    #[inline]
    pub(crate) fn arrive(&mut self, number: u32) -> bool {
        let record = &mut self.records[number as usize];
        match record.state {
            State::Busy => true,
            State::Called => {
                record.state = State::Busy;
                self.called -= 1;
                true
            }
            State::Parked | State::WaitsForRate | State::Vacant => false,
        }
    }

    /// A runner that has ended its work asks for more a little later: it is on its way, like one that was called.
    pub(crate) fn step_back(&mut self, number: u32) {
        let state = std::mem::replace(&mut self.records[number as usize].state, State::Called);
        debug_assert!(state == State::Busy, "only a runner that has run something steps back");
        self.called += 1;
    }

    /// The time has come that a runner waited for.
    pub(crate) fn end_rate_wait(&mut self, number: u32) {
        if self.rate_waiter == Some(number) {
            self.rate_waiter = None;
            self.records[number as usize].state = State::Busy;
        }
    }

    /// A runner waits for the rate, as the only one.
    pub(crate) fn wait_for_rate(&mut self, number: u32, waker: &Waker) {
        self.register(number, waker);
        self.rate_waiter = Some(number);
        self.records[number as usize].state = State::WaitsForRate;
    }

    /// Whether a runner still waits for the rate; if so, remembers how it is woken.
    pub(crate) fn still_waits_for_rate(&mut self, number: u32, waker: &Waker) -> bool {
        let keeps = self.rate_waiter == Some(number);
        if keeps {
            self.register(number, waker);
        }
        keeps
    }

    /// Parks a runner. False if enough are parked, so that it leaves.
    pub(crate) fn park(&mut self, number: u32, waker: &Waker) -> bool {
        if self.parked.len() >= IDLE_MAX {
            return false;
        }
        self.register(number, waker);
        self.records[number as usize].state = State::Parked;
        self.parked.push(number);
        true
    }

    /// Remembers how a runner is woken.
    pub(crate) fn register(&mut self, number: u32, waker: &Waker) {
        let kept = &mut self.records[number as usize].waker;
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// A runner begins with other work.
    #[inline]
    pub(crate) fn begin(&mut self, number: u32, entry: u32) {
        let record = &mut self.records[number as usize];
        record.stop = None;
        record.started = None;
        record.entry = entry;
        record.turn = self.turns;
        self.turns += 1;
    }

    /// What each runner began last, in the order of starts.
    pub(crate) fn begun(&self) -> Vec<(u32, u32)> {
        let mut records: Vec<_> = (0..).zip(&self.records).collect();
        records.sort_unstable_by_key(|(_, record)| record.turn);
        records.into_iter().map(|(number, record)| (record.entry, number)).collect()
    }

    /// Tells a runner that its work has to stop. The first reason counts: answers whether this is it.
    pub(crate) fn ring(&mut self, number: u32, why: Why, wake: impl FnOnce(Waker)) -> bool {
        let record = &mut self.records[number as usize];
        if record.stop.is_some() {
            return false;
        }
        record.stop = Some(why);
        record.bell.store(true, Ordering::Release);
        if let Some(waker) = record.waker.clone() {
            wake(waker);
        }
        true
    }

    /// Why the work of a runner has to stop, if it has to.
    pub(crate) fn stop(&self, number: u32) -> Option<Why> {
        self.records[number as usize].stop
    }

    /// Notes since when the work of a runner runs, if it is not known: it has a timeout, or has to wait for something.
    pub(crate) fn note_start(&mut self, number: u32) {
        self.records[number as usize].started.get_or_insert_with(Instant::now);
    }

    /// Since when the work of a runner runs.
    pub(crate) fn started(&self, number: u32) -> Option<Instant> {
        self.records[number as usize].started
    }

    /// A runner leaves, whatever it was doing.
    pub(crate) fn leave(&mut self, number: u32) {
        let record = &mut self.records[number as usize];
        match std::mem::replace(&mut record.state, State::Vacant) {
            State::Called => self.called -= 1,
            State::Parked => self.parked.retain(|parked| *parked != number),
            State::WaitsForRate => self.rate_waiter = None,
            State::Busy | State::Vacant => {}
        }
        record.waker = None;
        self.vacant.push(number);
        self.taken -= 1;
    }

    /// Calls all runners that are parked, so that they leave.
    pub(crate) fn call_all(&mut self, mut wake: impl FnMut(Waker)) {
        while !self.parked.is_empty() {
            if let Call::Wake(waker) = self.call() {
                wake(waker);
            }
        }
        self.call_rate_waiter().into_iter().for_each(wake);
    }
}
