//! Natural batching: at most one flush in flight per lane, and what arrives meanwhile goes out together with
//! the next one.
//!
//! There is no timer. A lone item is flushed at once and pays one round trip; under load thousands share
//! one. Callers that were answered together usually come back together, so after a shared flush the driver
//! steps aside for a moment instead of running off with the first of them. Enqueues and settlements go
//! through lanes. The [`Driver`] is run in a task of its own, so a caller that goes away never interrupts a
//! flush.

use std::future::Future;
use std::task::Poll;

use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

/// Makes a lane and the driver that flushes it. `capacity` bounds what waits: beyond it, callers wait too.
/// `batch_max` bounds one flush.
pub fn lane<T, R>(capacity: usize, batch_max: usize) -> (Lane<T, R>, Driver<T, R>) {
    let (sender, receiver) = mpsc::channel(capacity.max(1));
    (Lane { sender }, Driver { receiver, batch_max: batch_max.max(1) })
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
    batch_max: usize,
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
        self.sender.send(Entry { item, answer: Some(answer) }).await.map_err(|_| Closed)?;
        answered.await.map_err(|_| Closed)
    }

    /// Puts an item in whose answer nobody waits for; waits only while the lane is full.
    pub async fn post(&self, item: T) -> Result<(), Closed> {
        self.sender.send(Entry { item, answer: None }).await.map_err(|_| Closed)
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
        let mut entries = Vec::new();
        while self.receiver.recv_many(&mut entries, self.batch_max).await > 0 {
            let (items, answers): (Vec<_>, Vec<_>) =
                entries.drain(..).map(|entry| (entry.item, entry.answer)).unzip();
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

    /// Steps aside until about as many items wait as the flush before had, a few times at most. A flush of
    /// one was shared with nobody, so nobody is waited for.
    async fn gather(&self, shared: usize) {
        for _ in 0..STEPS_ASIDE {
            if shared < 2 || self.receiver.len() >= shared {
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
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Records the size of each flush and answers every item doubled.
    fn doubling(
        sizes: &Arc<Mutex<Vec<usize>>>,
    ) -> impl FnMut(Vec<u32>) -> std::future::Ready<Vec<u32>> + use<> {
        let sizes = Arc::clone(sizes);
        move |items| {
            sizes.lock().unwrap().push(items.len());
            std::future::ready(items.into_iter().map(|item| item * 2).collect())
        }
    }

    #[tokio::test]
    async fn what_waits_goes_out_together_and_each_caller_gets_its_own_answer() {
        let (lane, driver) = lane(100, 100);
        let calls: Vec<_> = (0..50u32)
            .map(|item| {
                let lane = lane.clone();
                tokio::spawn(async move { (item, lane.submit(item).await.unwrap()) })
            })
            .collect();
        drop(lane);
        // On the single-threaded test runtime every call has put its item in before the driver starts.
        tokio::task::yield_now().await;
        let sizes = Arc::default();
        driver.run(doubling(&sizes)).await;
        assert_eq!(*sizes.lock().unwrap(), [50]);
        for call in calls {
            let (item, answer) = call.await.unwrap();
            assert_eq!(answer, item * 2);
        }
    }

    #[tokio::test]
    async fn callers_that_come_back_together_are_flushed_together() {
        let (lane, driver) = lane(100, 100);
        for caller in 0..10u32 {
            let lane = lane.clone();
            tokio::spawn(async move {
                for _ in 0..2 {
                    lane.submit(caller).await.unwrap();
                }
            });
        }
        tokio::task::yield_now().await;
        let (sizes, mut early) = (Arc::default(), Some(lane));
        let mut double = doubling(&sizes);
        let flush = move |items| {
            let (early, doubled) = (early.take(), double(items));
            async move {
                if let Some(lane) = early {
                    // One is quicker than the others: it waits already when the flush is over.
                    lane.post(99).await.unwrap();
                }
                doubled.await
            }
        };
        driver.run(flush).await;
        assert_eq!(*sizes.lock().unwrap(), [10, 11], "the quick one waits for the others");
    }

    #[tokio::test]
    async fn one_flush_is_bounded() {
        let (lane, driver) = lane(100, 8);
        for item in 0..20 {
            lane.post(item).await.unwrap();
        }
        drop(lane);
        let sizes = Arc::default();
        driver.run(doubling(&sizes)).await;
        assert_eq!(*sizes.lock().unwrap(), [8, 8, 4]);
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_takes_nothing_back() {
        let (lane, driver) = lane(1, 8);
        {
            let submit = lane.submit(1);
            tokio::pin!(submit);
            assert!(futures_poll_once(submit).await.is_none());
        }
        drop(lane);
        let sizes = Arc::default();
        driver.run(doubling(&sizes)).await;
        assert_eq!(*sizes.lock().unwrap(), [1]);
    }

    #[tokio::test]
    async fn a_stopped_driver_closes_the_lane() {
        let (lane, driver) = lane::<u32, u32>(1, 8);
        drop(driver);
        assert_eq!(lane.submit(1).await, Err(Closed));
    }

    async fn futures_poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match std::pin::Pin::new(&mut future).poll(context) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
