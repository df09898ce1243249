//! Natural batching: at most one flush in flight per lane, and what arrives meanwhile goes out together with
//! the next one.
//!
//! There is no timer. A lone item is flushed at once and pays one round trip; under load thousands share
//! one, up to a number of items and up to a weight, which is in bytes as a rule. Callers that were answered
//! together usually come back together, so after a shared flush the driver steps aside for a moment instead of
//! running off with the first of them. Enqueues and settlements go through lanes. The [`Driver`] is run in a task
//! of its own, so a caller that goes away never interrupts a flush.

use std::future::Future;
use std::task::Poll;

use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

/// The weight of one flush, in bytes: enough to fill any link, and little enough that a server on a busy
/// machine takes it in long before a call counts as lost.
pub const WEIGHT_MAX: usize = 8 << 20;

/// The most items of one flush that callers share.
pub const ITEMS_MAX: usize = 1_000;

/// What a job weighs beside its payload: a server takes about as long for a job as for so many bytes of payload.
pub(crate) const JOB_WEIGHT: usize = 6 << 10;

/// What a lane holds, and what one flush carries.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Items that wait; beyond it, callers wait too.
    pub waiting: usize,
    /// Items of one flush.
    pub items: usize,
    /// The weight of one flush. An item that weighs more goes alone.
    pub weight: usize,
}

/// Makes a lane and the driver that flushes it. `weight` weighs an item; it is asked often and should only look.
pub fn lane<T, R>(limits: Limits, weight: fn(&T) -> usize) -> (Lane<T, R>, Driver<T, R>) {
    let (sender, receiver) = mpsc::channel(limits.waiting.max(1));
    (Lane { sender }, Driver { receiver, taken: Vec::new(), limits, weight })
}

/// Where callers put items.
#[derive(Debug)]
pub struct Lane<T, R> {
    sender: mpsc::Sender<Entry<T, R>>,
}

/// Flushes what callers put in.
#[derive(Debug)]
pub struct Driver<T, R> {
    receiver: mpsc::Receiver<Entry<T, R>>,
    /// What was received; after a flush, what did not fit into it.
    taken: Vec<Entry<T, R>>,
    limits: Limits,
    weight: fn(&T) -> usize,
}

#[derive(Debug)]
struct Entry<T, R> {
    item: T,
    answer: Option<oneshot::Sender<R>>,
}

/// The driver has stopped; the item was not flushed, or its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the lane is closed")]
pub struct Closed;

impl<T, R> Clone for Lane<T, R> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone() }
    }
}

impl<T, R> Lane<T, R> {
    /// Puts an item in and waits for its own answer. Dropping this future does not take the item back.
    pub async fn submit(&self, item: T) -> Result<R, Closed> {
        let (answer, answered) = oneshot::channel();
        self.send(Entry { item, answer: Some(answer) }).await?;
        answered.await.map_err(|_| Closed)
    }

    /// Puts an item in without waiting for its answer; waits only while the lane is full.
    pub async fn post(&self, item: T) -> Result<(), Closed> {
        self.send(Entry { item, answer: None }).await
    }

    /// Mostly there is room. Then the entry is moved once, and not through the states of futures.
    fn send(&self, entry: Entry<T, R>) -> impl Future<Output = Result<(), Closed>> {
        let unsent = self.sender.try_send(entry).map_err(|unsent| Box::new(unsent.into_inner()));
        async move {
            match unsent {
                Ok(()) => Ok(()),
                Err(entry) => Box::pin(self.sender.send(*entry)).await.map_err(|_| Closed),
            }
        }
    }

    /// As [`post`](Lane::post), but gives the item back instead of waiting.
    ///
    /// # Errors
    /// The item, when the lane is full or closed.
    pub fn try_post(&self, item: T) -> Result<(), T> {
        self.sender.try_send(Entry { item, answer: None }).map_err(|unsent| unsent.into_inner().item)
    }

    /// Whether nothing waits in it.
    pub fn is_empty(&self) -> bool {
        self.sender.capacity() == self.sender.max_capacity()
    }
}

impl<T, R> Driver<T, R> {
    /// Flushes until every [`Lane`] is gone and the lane is empty. `flush` answers one result per item, in
    /// the same order.
    pub async fn run<F, Fut>(mut self, mut flush: F)
    where
        F: FnMut(Vec<T>) -> Fut,
        Fut: Future<Output = Vec<R>>,
    {
        while self.receive().await {
            let count = self.fitting();
            let (items, answers): (Vec<_>, Vec<_>) =
                self.taken.drain(..count).map(|entry| (entry.item, entry.answer)).unzip();
            let shared = items.len();
            let results = flush(items).await;
            debug_assert_eq!(results.len(), answers.len(), "one result per item");
            for (result, answer) in results.into_iter().zip(answers) {
                if let Some(answer) = answer {
                    // The caller may have gone away; what it asked for is done all the same.
                    let _ = answer.send(result);
                }
            }
            self.gather(shared).await;
        }
    }

    /// Takes what waits, and waits if there is nothing at all. Answers whether there is something to flush.
    async fn receive(&mut self) -> bool {
        let room = self.limits.items.max(1).saturating_sub(self.taken.len());
        if self.taken.is_empty() {
            return self.receiver.recv_many(&mut self.taken, room).await > 0;
        }
        for _ in 0..room {
            let Ok(entry) = self.receiver.try_recv() else { break };
            self.taken.push(entry);
        }
        true
    }

    /// How many of the taken items go out together: as many as the weight allows, and always one.
    fn fitting(&self) -> usize {
        let mut weight = 0_usize;
        let is_within = |entry: &&Entry<T, R>| {
            weight = weight.saturating_add((self.weight)(&entry.item));
            weight <= self.limits.weight
        };
        self.taken.iter().take_while(is_within).count().max(1)
    }

    /// Steps aside until about as many items wait as the flush before had, a few times at most. A flush of
    /// one was not shared, so the next goes at once; it also does when items were left over.
    async fn gather(&mut self, shared: usize) {
        for _ in 0..STEPS_ASIDE {
            if shared < 2 || !self.taken.is_empty() || self.receiver.len() >= shared {
                return;
            }
            step_aside().await;
        }
    }
}

/// How often the driver lets others go first.
const STEPS_ASIDE: u32 = 8;

/// Lets everything else that is ready run first, on any runtime.
async fn step_aside() {
    let mut has_stepped = false;
    std::future::poll_fn(|context| {
        if has_stepped {
            return Poll::Ready(());
        }
        has_stepped = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
