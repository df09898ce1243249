//! The settings of a queue, checked before it is made.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle as Runtime;

use crate::error::ConfigError;
use crate::machine::rate::Rate;
use crate::machine::{Order, Settings};
use crate::queue::Queue;
use crate::runner::Runner;
use crate::shared::Shared;
use crate::source::RunnerSource;
use crate::work::{AsItIs, Closure, Fails, Handle, Item, Perform, Work};

/// Makes a [`Queue`]. Without any setting: no limit to concurrency, capacity, time or rate.
///
/// ```
/// # use std::time::Duration;
/// # use windlass_local::{ConfigError, Queue, Rate};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), ConfigError> {
/// let queue = Queue::builder()
///     .concurrency(10)
///     .capacity(1_000)
///     .rate(Rate::sliding(100, Duration::from_secs(1)))
///     .timeout(Duration::from_secs(30))
///     .build()?;
/// # drop(queue); Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    pub(crate) settings: Settings,
    runtime: Option<Runtime>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        let settings = Settings {
            concurrency: usize::MAX,
            capacity: usize::MAX,
            timeout: None,
            per_key: None,
            rate: None,
            watermarks: None,
            order: Order::OldestFirst,
            is_paused: false,
        };
        Self { settings, runtime: None }
    }

    /// At most so many run at once.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.settings.concurrency = concurrency;
        self
    }

    /// At most so many wait: beyond that, `push` waits and `try_push` gives back.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.settings.capacity = capacity;
        self
    }

    /// How long work may run, counted from its start, unless it has a timeout of its own. Needs the runtime's timer.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// How many may start per interval. Needs the runtime's timer.
    pub fn rate(mut self, rate: Rate) -> Self {
        self.settings.rate = Some(rate);
        self
    }

    /// At most so many run at once of those that have the same [key](crate::With::key).
    pub fn per_key(mut self, limit: usize) -> Self {
        self.settings.per_key = Some(limit);
        self
    }

    /// Tells producers to stop when `high` wait and to go on when `low` are left: see
    /// [`until_open`](Queue::until_open) and [`is_open`](Queue::is_open).
    pub fn watermarks(mut self, low: usize, high: usize) -> Self {
        self.settings.watermarks = Some((low, high));
        self
    }

    /// Which of equal priority comes first.
    pub fn order(mut self, order: Order) -> Self {
        self.settings.order = order;
        self
    }

    /// Starts nothing before [`start`](Queue::start) is called.
    pub fn paused(mut self) -> Self {
        self.settings.is_paused = true;
        self
    }

    /// Runs on this runtime, instead of the one that the queue is built in.
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// A queue of futures of any type.
    pub fn build(self) -> Result<Queue, ConfigError> {
        self.spawned::<Closure, _>(AsItIs)
    }

    /// A queue of items, each of which is handed to this handler. Cheaper than futures of their own: items and results
    /// wait as they are, and nothing is allocated for them.
    ///
    /// ```
    /// # use windlass_local::{ConfigError, Queue};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), ConfigError> {
    /// let double = Queue::builder().concurrency(8).handle(|number: u32| async move { number * 2 })?;
    /// assert_eq!(double.add(21).await, Ok(42));
    /// # Ok(()) }
    /// ```
    pub fn handle<T, F, H>(self, handler: H) -> Result<Queue<Item<T, F::Output>>, ConfigError>
    where
        T: Send + 'static,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
        H: Fn(T) -> F + Send + Sync + 'static,
    {
        self.handle_as(handler, |_| false)
    }

    /// The same, where an `Err` counts as a failure in events, counts and [`until_failure`](Queue::until_failure).
    pub fn handle_fallible<T, F, H, R, E>(self, handler: H) -> Result<Queue<Item<T, F::Output>>, ConfigError>
    where
        T: Send + 'static,
        F: Future<Output = Result<R, E>> + Send + 'static,
        R: Send + 'static,
        E: Send + 'static,
        H: Fn(T) -> F + Send + Sync + 'static,
    {
        self.handle_as(handler, Result::is_err)
    }

    fn handle_as<T, F, H>(
        self,
        handler: H,
        fails: impl Fails<F::Output> + 'static,
    ) -> Result<Queue<Item<T, F::Output>>, ConfigError>
    where
        T: Send + 'static,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
        H: Fn(T) -> F + Send + Sync + 'static,
    {
        self.spawned(Handle { handler: Arc::new(handler), fails })
    }

    fn spawned<W, P>(self, perform: P) -> Result<Queue<W>, ConfigError>
    where
        W: Work + 'static,
        P: Perform<W> + Send + Sync + 'static,
        P::Run: Send,
    {
        self.check()?;
        let here = || Runtime::try_current().map_err(|_| ConfigError::NoRuntime);
        let runtime = self.runtime.map_or_else(here, Ok)?;
        let spawn = move |shared| drop(runtime.spawn(Runner::new(shared, perform.clone())));
        Ok(Queue::of(Shared::new(self.settings, RunnerSource::spawned(spawn))))
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match &self.settings {
            Settings { concurrency: 0, .. } => Err(ConfigError::NoConcurrency),
            Settings { capacity: 0, .. } => Err(ConfigError::NoCapacity),
            Settings { per_key: Some(0), .. } => Err(ConfigError::NoKeyLimit),
            Settings { watermarks: Some((low, high)), .. } if low >= high => {
                Err(ConfigError::Watermarks { low: *low, high: *high })
            }
            Settings { watermarks: Some((_, high)), capacity, .. } if high > capacity => {
                Err(ConfigError::HighWatermark { high: *high, capacity: *capacity })
            }
            Settings { rate: Some(rate), .. } => rate.check(),
            _ => Ok(()),
        }
    }
}
