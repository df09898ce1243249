//! Batching lanes by queue: a queue whose calls fail holds up only itself.
//!
//! Where one queue's fault cannot reach another's jobs ([`Sharing::Store`]), all items go through one shared lane, so
//! that many small queues batch well. Elsewhere each queue has a lane of its own. A flush of the shared lane may move
//! items to the lanes of their queues; while such a lane lives, everything about its queue goes through it.
//!
//! A queue's lane is made when it is first needed, and ends a while after its last use.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use windlass_core::Name;
use windlass_core::batch::{Closed, Lane, Limits, lane};
use windlass_core::store::Sharing;

/// What is done with the items of a lane.
pub(crate) trait Flush: Send + Sync + Sized + 'static {
    /// What callers put in.
    type Item: Send + 'static;
    /// What they get.
    type Answer: Send + 'static;
    /// The limits of each lane.
    const LIMITS: Limits;

    /// What an item weighs, in bytes.
    fn weight(item: &Self::Item) -> usize;

    /// One answer per item, in the same order.
    fn flush(
        self: &Arc<Self>,
        origin: Origin<Self>,
        items: Vec<Self::Item>,
    ) -> impl Future<Output = Vec<Self::Answer>> + Send;
}

/// The lane that items come from.
pub(crate) enum Origin<F: Flush> {
    /// The one for all queues. Items may be moved to these.
    Shared(Arc<QueueLanes<F>>),
    /// The lane of their queue.
    Queue,
}

/// All lanes for one purpose. They end when this is gone and they are empty.
pub(crate) struct Lanes<F: Flush> {
    shared: Option<Lane<F::Item, F::Answer>>,
    queues: Arc<QueueLanes<F>>,
}

/// The lanes of single queues.
pub(crate) struct QueueLanes<F: Flush> {
    flush: Arc<F>,
    runtime: Handle,
    open: Mutex<Open<F>>,
    /// How many are open, to be read without the lock.
    count: AtomicUsize,
}

struct Open<F: Flush> {
    lanes: HashMap<Name, QueueLane<F>>,
    is_swept: bool,
}

struct QueueLane<F: Flush> {
    lane: Lane<F::Item, F::Answer>,
    /// Since the last sweep.
    is_used: bool,
    /// Held by this, by the driver, and by a flush while it runs.
    flushing: Arc<()>,
}

/// Lanes of queues that are open at the same time. Items of further queues are flushed one by one.
const LANES_MAX: usize = 1_024;
/// How often lanes that were not used meanwhile are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

impl<F: Flush> Lanes<F> {
    /// Lanes for a store that shares calls so, flushed on this runtime.
    pub(crate) fn new(sharing: Sharing, runtime: Handle, flush: Arc<F>) -> Self {
        let queues = Arc::new(QueueLanes {
            flush: Arc::clone(&flush),
            runtime: runtime.clone(),
            open: Mutex::new(Open { lanes: HashMap::new(), is_swept: false }),
            count: AtomicUsize::new(0),
        });
        let shared = (sharing == Sharing::Store).then(|| {
            let (lane, driver) = lane(F::LIMITS, F::weight);
            let queues = Arc::clone(&queues);
            runtime.spawn(driver.run(move |items| {
                let (flush, queues) = (Arc::clone(&flush), Arc::clone(&queues));
                async move { flush.flush(Origin::Shared(queues), items).await }
            }));
            lane
        });
        Self { shared, queues }
    }

    /// Puts in an item about a queue, and waits for its answer.
    pub(crate) async fn submit(&self, queue: &Name, item: F::Item) -> Result<F::Answer, Closed> {
        if let Some(shared) = self.shared(queue) {
            return shared.submit(item).await;
        }
        match self.queues.lane(queue) {
            Some(lane) => Box::pin(async move { lane.submit(item).await }).await,
            None => Box::pin(self.queues.flush_alone(item)).await,
        }
    }

    /// Puts in an item without waiting for its answer, if there is room for it.
    ///
    /// # Errors
    /// The item, when there is none.
    pub(crate) fn try_post(&self, queue: &Name, item: F::Item) -> Result<(), F::Item> {
        match self.shared(queue) {
            Some(shared) => shared.try_post(item),
            None => self.queues.take(queue, item),
        }
    }

    /// Puts in an item without waiting for its answer; waits only while its lane is full.
    pub(crate) async fn post(&self, queue: &Name, item: F::Item) -> Result<(), Closed> {
        if let Some(shared) = self.shared(queue) {
            return shared.post(item).await;
        }
        match self.queues.lane(queue) {
            Some(lane) => lane.post(item).await,
            None => self.queues.flush_alone(item).await.map(drop),
        }
    }

    /// Puts an item into each open lane, and waits until all of them have been flushed.
    pub(crate) async fn mark(&self, mark: impl Fn() -> F::Item) {
        // The shared one first: it may move items to others. A lane that is closed has nothing left to flush.
        if let Some(shared) = &self.shared {
            let _ = shared.submit(mark()).await;
        }
        let lanes: Vec<_> = self.queues.open().lanes.values().map(|open| open.lane.clone()).collect();
        join_all(lanes.iter().map(|lane| lane.submit(mark()))).await;
    }

    /// The shared lane, unless the queue has one of its own.
    fn shared(&self, queue: &Name) -> Option<&Lane<F::Item, F::Answer>> {
        self.shared.as_ref().filter(|_| !self.queues.has(queue))
    }
}

impl<F: Flush> QueueLanes<F> {
    /// Moves an item to the lane of its queue.
    ///
    /// # Errors
    /// The item, when its lane is full.
    pub(crate) fn take(self: &Arc<Self>, queue: &Name, item: F::Item) -> Result<(), F::Item> {
        match self.lane(queue) {
            Some(lane) => lane.try_post(item),
            None => Err(item),
        }
    }

    fn has(&self, queue: &Name) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.open().lanes.contains_key(queue)
    }

    /// The lane of a queue, opened if it is not; nothing when too many are open.
    fn lane(self: &Arc<Self>, queue: &Name) -> Option<Lane<F::Item, F::Answer>> {
        let mut open = self.open();
        if let Some(found) = open.lanes.get_mut(queue) {
            found.is_used = true;
            return Some(found.lane.clone());
        }
        if open.lanes.len() >= LANES_MAX {
            return None;
        }
        let opened = self.start();
        let lane = opened.lane.clone();
        open.lanes.insert(queue.clone(), opened);
        self.count.store(open.lanes.len(), Ordering::Relaxed);
        if !mem::replace(&mut open.is_swept, true) {
            self.runtime.spawn(sweep(Arc::downgrade(self)));
        }
        Some(lane)
    }

    fn start(&self) -> QueueLane<F> {
        let (lane, driver) = lane(F::LIMITS, F::weight);
        let (flush, flushing) = (Arc::clone(&self.flush), Arc::new(()));
        let held = Arc::clone(&flushing);
        self.runtime.spawn(driver.run(move |items| {
            let (flush, held) = (Arc::clone(&flush), Arc::clone(&held));
            async move {
                let _held = held;
                flush.flush(Origin::Queue, items).await
            }
        }));
        QueueLane { lane, is_used: true, flushing }
    }

    /// Flushes one item by itself, to its end, whether or not its caller goes away.
    async fn flush_alone(&self, item: F::Item) -> Result<F::Answer, Closed> {
        let flush = Arc::clone(&self.flush);
        let flushed = self.runtime.spawn(async move { flush.flush(Origin::Queue, vec![item]).await.pop() });
        flushed.await.ok().flatten().ok_or(Closed)
    }

    fn open(&self) -> MutexGuard<'_, Open<F>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Flush> QueueLane<F> {
    /// Whether it was used since this was last asked, or is still at work.
    fn was_used(&mut self) -> bool {
        mem::take(&mut self.is_used) || !self.lane.is_empty() || Arc::strong_count(&self.flushing) > 2
    }
}

/// Closes lanes that are not used, until none is open. One that is closed flushes what it was given meanwhile.
async fn sweep<F: Flush>(queues: Weak<QueueLanes<F>>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(queues) = queues.upgrade() else { return };
        let mut open = queues.open();
        open.lanes.retain(|_, lane| lane.was_used());
        queues.count.store(open.lanes.len(), Ordering::Relaxed);
        if open.lanes.is_empty() {
            open.is_swept = false;
            return;
        }
    }
}

#[cfg(test)]
mod tests;
