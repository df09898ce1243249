//! The queue as its users hold it: to control it, to ask it, to wait for it. Adding work is in [`add`].

pub(crate) mod add;
pub(crate) mod builder;
pub(crate) mod events;
pub(crate) mod map;
pub(crate) mod scope;
pub(crate) mod until;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{ConfigError, Why};
use crate::machine::rate::Rate;
use crate::machine::{Counts, Id, Machine, Running, Waiting};
use crate::shared::Shared;
use crate::work::{Closure, Work};
use builder::Builder;

/// A queue of work that runs in this process, at most so many pieces at once.
///
/// `Queue` alone takes futures of any type; [`Builder::handle`] makes a queue of items for one handler. Clones are
/// the same queue. When the last clone is dropped, the queue takes nothing in any more, what waits is still run,
/// and every [`Handle`](crate::Handle) settles.
///
/// ```
/// # use windlass_local::Queue;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let queue = Queue::new(2);                               // two at once
/// let a = queue.add(async { 1 });
/// let b = queue.with().priority(5).add(async { 2 });       // before others that wait
/// assert_eq!((a.await, b.await), (Ok(1), Ok(2)));
/// # }
/// ```
pub struct Queue<W: Work = Closure> {
    pub(crate) shared: Arc<Shared<W>>,
    owner: Arc<Owner<W>>,
}

/// Counts the clones of a queue, apart from handles and runners.
struct Owner<W: Work>(Arc<Shared<W>>);

impl<W: Work> Drop for Owner<W> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Queue {
    /// A queue that runs at most so many pieces of work at once, on the runtime that this is called in.
    ///
    /// # Panics
    /// If the concurrency is 0, or if this is not called in a tokio runtime. [`Builder::build`] answers an error.
    pub fn new(concurrency: usize) -> Self {
        match Self::builder().concurrency(concurrency).build() {
            Ok(queue) => queue,
            Err(error) => panic!("{error}"),
        }
    }

    /// All settings of a queue.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl<W: Work> Queue<W> {
    pub(crate) fn of(shared: Arc<Shared<W>>) -> Self {
        let owner = Arc::new(Owner(Arc::clone(&shared)));
        Self { shared, owner }
    }

    /// Starts nothing any more. What runs goes on.
    pub fn pause(&self) {
        self.shared.act(Machine::pause);
    }

    /// Goes on after a pause, or starts a queue that was built paused.
    pub fn start(&self) {
        self.shared.act(Machine::start_again);
    }

    /// Whether the queue is paused.
    pub fn is_paused(&self) -> bool {
        self.shared.lock().is_paused()
    }

    /// Drops everything that waits; their handles settle with [`Error::Cleared`](crate::Error::Cleared). What runs
    /// goes on. Answers how many it dropped.
    pub fn clear(&self) -> usize {
        self.shared.act(|machine, effects| machine.clear(Why::Cleared, effects))
    }

    /// Drops everything that waits or runs; their handles settle with [`Error::Aborted`](crate::Error::Aborted).
    /// The queue stays open. Answers how many it dropped.
    pub fn abort(&self) -> usize {
        self.shared.act(Machine::abort)
    }

    /// Takes nothing in any more. What waits is still run; `until_idle` tells when all is done.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Whether the queue takes nothing in any more.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().is_closed()
    }

    /// Cancels work by its id, whether it waits or runs. Answers whether it did either.
    pub fn cancel(&self, id: Id) -> bool {
        self.shared.cancel(id)
    }

    /// Moves work behind all others of another priority. Answers whether it still waited.
    pub fn set_priority(&self, id: Id, priority: i16) -> bool {
        self.shared.lock().set_priority(id, priority)
    }

    /// How many may run at once.
    pub fn concurrency(&self) -> usize {
        self.shared.lock().settings().concurrency
    }

    /// Changes how many may run at once. More start at once; if it is fewer, what runs goes on and is not replaced.
    pub fn set_concurrency(&self, concurrency: usize) -> Result<(), ConfigError> {
        if concurrency == 0 {
            return Err(ConfigError::NoConcurrency);
        }
        self.shared.act(|machine, effects| machine.set_concurrency(concurrency, effects));
        Ok(())
    }

    /// How many may wait; `None` if any number may.
    pub fn capacity(&self) -> Option<usize> {
        Some(self.shared.lock().settings().capacity).filter(|capacity| *capacity != usize::MAX)
    }

    /// How long work may run that has no timeout of its own.
    pub fn timeout(&self) -> Option<Duration> {
        self.shared.lock().settings().timeout
    }

    /// Changes how long work may run, for what starts from now on.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.shared.lock().set_timeout(timeout);
    }

    /// How many may start per interval.
    pub fn rate(&self) -> Option<Rate> {
        self.shared.lock().settings().rate
    }

    /// Changes how many may start per interval. What has started in the window that is open counts on, unless the
    /// kind of window changes.
    pub fn set_rate(&self, rate: Option<Rate>) -> Result<(), ConfigError> {
        rate.as_ref().map_or(Ok(()), Rate::check)?;
        self.shared.act(|machine, effects| machine.set_rate(rate, effects));
        Ok(())
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.counts().waiting
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.counts().running
    }

    /// How many wait and run, and how many there were.
    pub fn counts(&self) -> Counts {
        self.shared.lock().counts()
    }

    /// How many wait for which this holds.
    pub fn waiting_by(&self, filter: impl FnMut(&Waiting) -> bool) -> usize {
        let mut filter = filter;
        self.list_waiting().iter().filter(|waiting| filter(waiting)).count()
    }

    /// Everything that waits, the next to start first.
    pub fn list_waiting(&self) -> Vec<Waiting> {
        self.shared.lock().list_waiting()
    }

    /// Everything that runs, the one that started first in front.
    pub fn list_running(&self) -> Vec<Running> {
        self.shared.lock().list_running()
    }

    /// Whether nothing waits and nothing runs.
    pub fn is_idle(&self) -> bool {
        let counts = self.counts();
        counts.waiting + counts.running == 0
    }

    /// Whether work waits because all slots are taken, or because of the rate.
    pub fn is_saturated(&self) -> bool {
        self.shared.lock().is_saturated()
    }

    /// Whether the rate holds work back that has a free slot.
    pub fn is_rate_limited(&self) -> bool {
        self.shared.lock().is_rate_limited()
    }

    /// Whether producers may go on: false from the high watermark down to the low one.
    pub fn is_open(&self) -> bool {
        !self.shared.lock().is_flooded()
    }
}

impl<W: Work> Clone for Queue<W> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), owner: Arc::clone(&self.owner) }
    }
}

impl<W: Work> fmt::Debug for Queue<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Queue").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
