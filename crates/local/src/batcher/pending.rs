//! The items that wait, and the rules of when how many of them go out. The driver asks; callers put in.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use super::BatchError;
use crate::error::drop_quietly;
use crate::sync::{Mutex, lock};

/// What callers and driver share.
pub(super) struct Pending<T, R> {
    state: Mutex<State<T, R>>,
    /// One permit per item that may wait, given out in the order of coming.
    pub(super) room: Arc<Semaphore>,
}

/// When a batch is full, and when it has waited long enough.
pub(super) struct Limits<T> {
    pub(super) size: usize,
    pub(super) bytes: Option<(usize, Weigh<T>)>,
    pub(super) linger: Option<Duration>,
}

pub(super) type Weigh<T> = Box<dyn Fn(&T) -> usize + Send + Sync>;
pub(super) type Answer<R> = oneshot::Sender<Result<R, BatchError>>;

struct State<T, R> {
    limits: Arc<Limits<T>>,
    entries: VecDeque<Entry<T, R>>,
    /// Of all entries. What users say of theirs may be anything, so the sum is wider than they are.
    bytes: u128,
    sequence: u64,
    /// The first items of the flushes that are under way, or never came to their end.
    under_way: BTreeSet<u64>,
    /// Everything before this one goes out without waiting for company.
    urgent: u64,
    /// Those who wait for everything before an item to be done.
    waiters: Vec<(u64, oneshot::Sender<()>)>,
    is_closed: bool,
    /// The driver has ended.
    is_deserted: bool,
    driver: Option<Waker>,
}

struct Entry<T, R> {
    item: T,
    bytes: usize,
    arrived: Option<Instant>,
    answer: Option<Answer<R>>,
    permit: OwnedSemaphorePermit,
}

/// Items that go out together.
pub(super) struct Batch<T, R> {
    pub(super) first: u64,
    pub(super) items: Vec<T>,
    pub(super) answers: Vec<Option<Answer<R>>>,
    /// The room that these took. To give it up wakes those who wait for some, so it is not done under the lock.
    room: Option<OwnedSemaphorePermit>,
}

impl<T, R> Batch<T, R> {
    /// Lets others in, who may wait for the room that these took.
    pub(super) fn make_room(&mut self) {
        self.room = None;
    }
}

/// What the driver is to do.
pub(super) enum Cut<T, R> {
    Flush(Batch<T, R>),
    Wait(Option<Instant>),
    End,
}

impl<T, R> Pending<T, R> {
    pub(super) fn new(limits: Limits<T>, capacity: usize) -> Arc<Self> {
        let state = State {
            limits: Arc::new(limits),
            entries: VecDeque::new(),
            bytes: 0,
            sequence: 0,
            under_way: BTreeSet::new(),
            urgent: 0,
            waiters: Vec::new(),
            is_closed: false,
            is_deserted: false,
            driver: None,
        };
        let room = Arc::new(Semaphore::new(capacity.min(Semaphore::MAX_PERMITS)));
        Arc::new(Self { state: Mutex::new(state), room })
    }

    /// Takes an item in, unless the batcher is closed.
    pub(super) fn put(
        &self,
        item: T,
        answer: Option<Answer<R>>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), T> {
        let limits = Arc::clone(&lock(&self.state).limits);
        // The function is of users, so it is not called under the lock.
        let bytes = limits.bytes.as_ref().map_or(0, |(_, weigh)| weigh(&item));
        let arrived = limits.linger.map(|_| Instant::now());
        let driver = {
            let mut state = lock(&self.state);
            if state.is_closed {
                return Err(item);
            }
            state.bytes += bytes as u128;
            state.sequence += 1;
            state.entries.push_back(Entry { item, bytes, arrived, answer, permit });
            // The first sets the clock, and the one that fills a batch ends the wait. Others change nothing.
            let is_news = limits.linger.is_none() || state.entries.len() == 1 || state.is_full();
            if is_news { state.driver.take() } else { None }
        };
        driver.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// The next batch, if one is due and may go out now.
    pub(super) fn cut(&self, may_flush: bool, waker: &Waker) -> Cut<T, R> {
        let mut state = lock(&self.state);
        state.driver = Some(waker.clone());
        let Some(first) = state.entries.front() else {
            return if state.is_closed { Cut::End } else { Cut::Wait(None) };
        };
        if !may_flush {
            return Cut::Wait(None);
        }
        let due = match (first.arrived, state.limits.linger) {
            (Some(arrived), Some(linger)) => arrived.checked_add(linger),
            _ => None,
        };
        let is_natural = state.limits.linger.is_none();
        let is_urgent = state.urgent > state.first() || state.is_closed;
        let is_due = due.is_some_and(|due| due <= Instant::now());
        if is_natural || is_urgent || is_due || state.is_full() {
            return Cut::Flush(state.take_batch());
        }
        Cut::Wait(due)
    }

    /// A flush is over.
    pub(super) fn end(&self, first: u64) {
        let done = {
            let mut state = lock(&self.state);
            state.under_way.remove(&first);
            state.take_done()
        };
        for waiter in done {
            // Who went away needs no answer.
            let _ = waiter.send(());
        }
    }

    /// Has everything that is there flushed; the receiver hears when it is done.
    pub(super) fn flush(&self) -> oneshot::Receiver<()> {
        let (done, receiver) = oneshot::channel();
        let (ready, driver) = {
            let mut state = lock(&self.state);
            let sequence = state.sequence;
            state.urgent = sequence;
            state.waiters.push((sequence, done));
            let ready = state.take_done();
            if state.is_deserted {
                // What is not done by now never will be.
                state.waiters.clear();
            }
            (ready, state.driver.take())
        };
        for waiter in ready {
            let _ = waiter.send(());
        }
        driver.into_iter().for_each(Waker::wake);
        receiver
    }

    /// Takes nothing in any more.
    pub(super) fn close(&self) {
        self.room.close();
        let driver = {
            let mut state = lock(&self.state);
            state.is_closed = true;
            state.driver.take()
        };
        driver.into_iter().for_each(Waker::wake);
    }

    /// The driver has ended: drops all answers, which tells the callers that wait for them.
    pub(super) fn desert(&self) {
        self.close();
        let (entries, waiters) = {
            let mut state = lock(&self.state);
            state.is_deserted = true;
            if !state.entries.is_empty() {
                // They never will be done, and no caller may be told otherwise.
                let first = state.first();
                state.under_way.insert(first);
            }
            (std::mem::take(&mut state.entries), std::mem::take(&mut state.waiters))
        };
        drop(waiters);
        entries.into_iter().for_each(drop_quietly);
    }

    pub(super) fn waiting(&self) -> usize {
        lock(&self.state).entries.len()
    }
}

impl<T, R> State<T, R> {
    /// The number of the first item that waits.
    fn first(&self) -> u64 {
        self.sequence - self.entries.len() as u64
    }

    fn is_full(&self) -> bool {
        let is_heavy = self.limits.bytes.as_ref().is_some_and(|(limit, _)| self.bytes >= *limit as u128);
        self.entries.len() >= self.limits.size || is_heavy
    }

    fn take_batch(&mut self) -> Batch<T, R> {
        let first = self.first();
        self.under_way.insert(first);
        let limit = self.limits.bytes.as_ref().map_or(usize::MAX, |(limit, _)| *limit) as u128;
        let (mut items, mut answers, mut bytes) = (Vec::new(), Vec::new(), 0_u128);
        let mut room: Option<OwnedSemaphorePermit> = None;
        while let Some(entry) = self.entries.front() {
            let is_over = items.len() >= self.limits.size || bytes + entry.bytes as u128 > limit;
            if is_over && !items.is_empty() {
                break;
            }
            let Some(entry) = self.entries.pop_front() else { break };
            bytes += entry.bytes as u128;
            items.push(entry.item);
            answers.push(entry.answer);
            match &mut room {
                Some(room) => room.merge(entry.permit),
                None => room = Some(entry.permit),
            }
        }
        self.bytes -= bytes;
        Batch { first, items, answers, room }
    }

    /// Those who wait for nothing any more.
    fn take_done(&mut self) -> Vec<oneshot::Sender<()>> {
        let under_way = self.under_way.first().copied().unwrap_or(u64::MAX);
        let undone = self.first().min(under_way);
        let (done, waiters) =
            std::mem::take(&mut self.waiters).into_iter().partition(|(target, _)| *target <= undone);
        self.waiters = waiters;
        let done: Vec<(u64, oneshot::Sender<()>)> = done;
        done.into_iter().map(|(_, waiter)| waiter).collect()
    }
}
