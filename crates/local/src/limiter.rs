//! Limiters by themselves, for work that is started elsewhere: wait for the permission, then do it.
//!
//! Who waits gets its turn in the order of coming, whatever it asks for, and gives it up by going away. Waiting is
//! until a point in time that is computed and not measured, so that late timers do not add up.

mod bucket;
mod window;

use std::time::Duration;

use thiserror::Error;
use tokio::sync::Mutex as Turnstile;
use tokio::time::{Instant, sleep_until};

use crate::sync::{Mutex, lock};
pub use bucket::TokenBucket;
pub use window::SlidingWindow;

/// Why there is no permission now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LimitError {
    /// Not yet: there may be after so long, if no other caller is quicker.
    #[error("the limit is reached: try again after {0:?}")]
    Later(Duration),
    /// Never: more was asked for than there can be at once.
    #[error("{asked} were asked for, and at most {most} can be had at once")]
    Never {
        /// How many were asked for.
        asked: u32,
        /// How many there can be at once.
        most: u32,
    },
}

/// The arithmetic of a limiter.
trait Meter {
    /// How many there can be at once.
    fn most(&self) -> u32;

    /// When so many can be had; a time that is past means now.
    fn when(&mut self, count: u32, now: Instant) -> Instant;

    /// Takes so many now. Who had to wait for them says when they were due.
    fn take(&mut self, count: u32, due: Option<Instant>, now: Instant);
}

/// Lets callers through one after the other.
#[derive(Debug)]
struct Gate<M> {
    state: Mutex<State<M>>,
    /// Fair: first come, first served. Only callers that have to wait go through it.
    turnstile: Turnstile<()>,
}

#[derive(Debug)]
struct State<M> {
    meter: M,
    /// How many callers wait. While one does, all take their turn.
    waiters: usize,
}

impl<M: Meter> State<M> {
    /// Takes so many if they are there and no caller waits; if not, answers when they will be.
    fn take_now(&mut self, count: u32) -> Result<(), Duration> {
        let now = Instant::now();
        let due = self.meter.when(count, now);
        if self.waiters > 0 || due > now {
            return Err(due.saturating_duration_since(now));
        }
        self.meter.take(count, None, now);
        Ok(())
    }
}

/// A caller that waits, until it goes away.
struct Waiter<'gate, M>(&'gate Mutex<State<M>>);

impl<M> Drop for Waiter<'_, M> {
    fn drop(&mut self) {
        lock(self.0).waiters -= 1;
    }
}

impl<M: Meter> Gate<M> {
    fn new(meter: M) -> Self {
        Self { state: Mutex::new(State { meter, waiters: 0 }), turnstile: Turnstile::new(()) }
    }

    async fn acquire(&self, count: u32) -> Result<(), LimitError> {
        self.check(count)?;
        let _waiter = {
            let mut state = lock(&self.state);
            if state.take_now(count).is_ok() {
                return Ok(());
            }
            state.waiters += 1;
            Waiter(&self.state)
        };
        let _turn = self.turnstile.lock().await;
        // No other caller takes anything before this turn is over, so one look is enough.
        let due = {
            let (mut state, now) = (lock(&self.state), Instant::now());
            let due = state.meter.when(count, now);
            if due <= now {
                state.meter.take(count, None, now);
                return Ok(());
            }
            due
        };
        sleep_until(due).await;
        lock(&self.state).meter.take(count, Some(due), Instant::now());
        Ok(())
    }

    fn try_acquire(&self, count: u32) -> Result<(), LimitError> {
        self.check(count)?;
        lock(&self.state).take_now(count).map_err(LimitError::Later)
    }

    fn check(&self, asked: u32) -> Result<(), LimitError> {
        let most = lock(&self.state).meter.most();
        if asked > most { Err(LimitError::Never { asked, most }) } else { Ok(()) }
    }
}
