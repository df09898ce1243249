//! The runners: who runs something, who is parked and can be called, who was called and has not come yet.
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
pub(crate) struct Seats {
    seats: Vec<Seat>,
    vacant: Vec<u32>,
    parked: Vec<u32>,
    /// Called, or hired, or stepped back, and not there yet.
    called: usize,
    /// The one that waits for the rate to allow the next start.
    timekeeper: Option<u32>,
    /// Seats that are taken.
    taken: usize,
    /// How many pieces of work were started.
    turns: u64,
}

#[derive(Debug)]
struct Seat {
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
    /// The how many-th it is that was ever started.
    turn: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Vacant,
    Busy,
    Parked,
    Called,
    Timekeeper,
}

/// Whom to call.
pub(crate) enum Call {
    Wake(Waker),
    Hire,
}

impl Seats {
    pub(crate) fn new() -> Self {
        Self {
            seats: Vec::new(),
            vacant: Vec::new(),
            parked: Vec::new(),
            called: 0,
            timekeeper: None,
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

    /// Whether nobody is there and nobody is coming.
    pub(crate) fn is_deserted(&self) -> bool {
        self.taken == 0 && self.called == 0
    }

    pub(crate) fn has_timekeeper(&self) -> bool {
        self.timekeeper.is_some()
    }

    /// Calls one more runner.
    pub(crate) fn call(&mut self) -> Call {
        self.called += 1;
        let Some(number) = self.parked.pop() else { return Call::Hire };
        let seat = &mut self.seats[number as usize];
        seat.state = State::Called;
        Call::Wake(seat.waker.clone().expect("who is parked has left its waker"))
    }

    /// Calls the timekeeper back, because what it waits for has changed.
    pub(crate) fn call_timekeeper(&mut self) -> Option<Waker> {
        let number = self.timekeeper.take()?;
        self.called += 1;
        let seat = &mut self.seats[number as usize];
        seat.state = State::Called;
        seat.waker.clone()
    }

    /// A hired runner has come: its seat and its bell.
    pub(crate) fn enroll(&mut self) -> (u32, Arc<AtomicBool>) {
        self.called -= 1;
        self.taken += 1;
        let bell = Arc::new(AtomicBool::new(false));
        let seat = Seat {
            waker: None,
            state: State::Busy,
            bell: Arc::clone(&bell),
            stop: None,
            started: None,
            entry: NONE,
            turn: 0,
        };
        if let Some(number) = self.vacant.pop() {
            self.seats[number as usize] = seat;
            return (number, bell);
        }
        self.seats.push(seat);
        let number = u32::try_from(self.seats.len() - 1).expect("fewer than four billion runners");
        (number, bell)
    }

    /// A hired runner was dropped before it came.
    pub(crate) fn never_came(&mut self) {
        self.called -= 1;
    }

    /// A runner asks for work: whether it was called, or is busy anyway. One that is parked and was not called
    /// goes on waiting.
    #[inline]
    pub(crate) fn arrive(&mut self, number: u32) -> bool {
        let seat = &mut self.seats[number as usize];
        match seat.state {
            State::Busy => true,
            State::Called => {
                seat.state = State::Busy;
                self.called -= 1;
                true
            }
            State::Parked | State::Timekeeper | State::Vacant => false,
        }
    }

    /// A runner that has ended its work asks for more a little later: it is on its way, like one that was called.
    pub(crate) fn step_back(&mut self, number: u32) {
        let state = std::mem::replace(&mut self.seats[number as usize].state, State::Called);
        debug_assert!(state == State::Busy, "only who has run something steps back");
        self.called += 1;
    }

    /// The timekeeper's time has come.
    pub(crate) fn end_timekeeping(&mut self, number: u32) {
        if self.timekeeper == Some(number) {
            self.timekeeper = None;
            self.seats[number as usize].state = State::Busy;
        }
    }

    /// Makes a runner the timekeeper.
    pub(crate) fn keep_time(&mut self, number: u32, waker: &Waker) {
        self.register(number, waker);
        self.timekeeper = Some(number);
        self.seats[number as usize].state = State::Timekeeper;
    }

    /// Whether a runner still is the timekeeper; if so, remembers how it is woken.
    pub(crate) fn keeps_time(&mut self, number: u32, waker: &Waker) -> bool {
        let keeps = self.timekeeper == Some(number);
        if keeps {
            self.register(number, waker);
        }
        keeps
    }

    /// Parks a runner, or sends it home if enough are parked.
    pub(crate) fn park(&mut self, number: u32, waker: &Waker) -> bool {
        if self.parked.len() >= IDLE_MAX {
            return false;
        }
        self.register(number, waker);
        self.seats[number as usize].state = State::Parked;
        self.parked.push(number);
        true
    }

    /// Remembers how a runner is woken.
    pub(crate) fn register(&mut self, number: u32, waker: &Waker) {
        let kept = &mut self.seats[number as usize].waker;
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// A runner begins with other work.
    #[inline]
    pub(crate) fn begin(&mut self, number: u32, entry: u32) {
        let seat = &mut self.seats[number as usize];
        seat.stop = None;
        seat.started = None;
        seat.entry = entry;
        seat.turn = self.turns;
        self.turns += 1;
    }

    /// What was begun last at each seat, in the order of its start.
    pub(crate) fn begun(&self) -> Vec<(u32, u32)> {
        let mut seats: Vec<_> = (0..).zip(&self.seats).collect();
        seats.sort_unstable_by_key(|(_, seat)| seat.turn);
        seats.into_iter().map(|(number, seat)| (seat.entry, number)).collect()
    }

    /// Tells a runner that its work has to stop. The first reason counts: answers whether this is it.
    pub(crate) fn ring(&mut self, number: u32, why: Why, wake: impl FnOnce(Waker)) -> bool {
        let seat = &mut self.seats[number as usize];
        if seat.stop.is_some() {
            return false;
        }
        seat.stop = Some(why);
        seat.bell.store(true, Ordering::Release);
        if let Some(waker) = seat.waker.clone() {
            wake(waker);
        }
        true
    }

    /// Why the work of a runner has to stop, if it has to.
    pub(crate) fn stop(&self, number: u32) -> Option<Why> {
        self.seats[number as usize].stop
    }

    /// Notes since when the work of a runner runs, if it is not known: it has a timeout, or has to wait for something.
    pub(crate) fn note_start(&mut self, number: u32) {
        self.seats[number as usize].started.get_or_insert_with(Instant::now);
    }

    /// Since when the work of a runner runs.
    pub(crate) fn started(&self, number: u32) -> Option<Instant> {
        self.seats[number as usize].started
    }

    /// A runner leaves, whatever it was doing.
    pub(crate) fn leave(&mut self, number: u32) {
        let seat = &mut self.seats[number as usize];
        match std::mem::replace(&mut seat.state, State::Vacant) {
            State::Called => self.called -= 1,
            State::Parked => self.parked.retain(|parked| *parked != number),
            State::Timekeeper => self.timekeeper = None,
            State::Busy | State::Vacant => {}
        }
        seat.waker = None;
        self.vacant.push(number);
        self.taken -= 1;
    }

    /// Calls everybody who is parked, to go home.
    pub(crate) fn call_all(&mut self, mut wake: impl FnMut(Waker)) {
        while !self.parked.is_empty() {
            if let Call::Wake(waker) = self.call() {
                wake(waker);
            }
        }
        self.call_timekeeper().into_iter().for_each(wake);
    }
}
