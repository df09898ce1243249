//! Waiting: for a condition of the queue, or for a place in it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::Error;
use crate::machine::Failure;
use crate::machine::watch::Condition;
use crate::queue::Queue;
use crate::shared::Shared;
use crate::work::Work;

/// Waits for a condition of a queue. Dropping it is fine.
#[must_use = "futures do nothing unless awaited"]
pub struct Until<'queue, W: Work> {
    shared: &'queue Arc<Shared<W>>,
    condition: Condition,
    number: Option<u64>,
}

/// These hold at once if they hold already, and count even if they held for a moment only.
impl<W: Work> Queue<W> {
    /// Waits until nothing waits: the last has started, or gone.
    pub fn until_empty(&self) -> Until<'_, W> {
        self.until(Condition::Empty)
    }

    /// Waits until nothing waits and nothing runs: all that was added is done.
    pub fn until_idle(&self) -> Until<'_, W> {
        self.until(Condition::Idle)
    }

    /// Waits until nothing runs. More may wait, as after a pause.
    pub fn until_none_running(&self) -> Until<'_, W> {
        self.until(Condition::NoneRunning)
    }

    /// Waits until fewer than so many wait.
    pub fn until_size_below(&self, size: usize) -> Until<'_, W> {
        self.until(Condition::SizeBelow(size))
    }

    /// Waits until the rate holds work back that has a free slot, or the queue is closed and everything in it is done.
    pub fn until_rate_limited(&self) -> Until<'_, W> {
        self.until(Condition::RateLimited)
    }

    /// Waits until the rate holds nothing back.
    pub fn until_rate_cleared(&self) -> Until<'_, W> {
        self.until(Condition::RateCleared)
    }

    /// Waits, from the high watermark on, until the low one is reached; see
    /// [`watermarks`](crate::Builder::watermarks).
    pub fn until_open(&self) -> Until<'_, W> {
        self.until(Condition::Open)
    }

    /// Waits for the first failure from now on: a panic, a timeout, a cancellation, an `Err` of work that was added
    /// as fallible. `None` when the queue is closed and everything in it is done without one.
    pub async fn until_failure(&self) -> Option<Failure> {
        let mut until = self.until(Condition::Failure);
        std::future::poll_fn(|context| until.poll_failure(context)).await
    }

    fn until(&self, condition: Condition) -> Until<'_, W> {
        Until { shared: &self.shared, condition, number: None }
    }
}

impl<W: Work> Until<'_, W> {
    fn poll_failure(&mut self, context: &Context<'_>) -> Poll<Option<Failure>> {
        let mut stale = None;
        self.shared.lock().poll_condition(self.condition, &mut self.number, context, &mut stale)
    }
}

impl<W: Work> Future for Until<'_, W> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.poll_failure(context).map(drop)
    }
}

impl<W: Work> Drop for Until<'_, W> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let stale = self.shared.lock().unwatch(number);
            drop(stale);
        }
    }
}

impl<W: Work> fmt::Debug for Until<'_, W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Until").field("condition", &self.condition).finish_non_exhaustive()
    }
}

/// A place in a queue, promised and not used yet. Dropping it gives it to the next who waits.
pub(crate) struct Place<'queue, W: Work> {
    shared: &'queue Arc<Shared<W>>,
    hold: Hold,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// There is room for any number.
    Unbounded,
    Promised,
    /// In the line, until the ticket is called.
    Ticket(u64),
    Used,
}

impl<'queue, W: Work> Place<'queue, W> {
    /// A place, if there is one and no caller waits for it.
    #[inline]
    pub(crate) fn find(shared: &'queue Arc<Shared<W>>) -> Result<Self, Error> {
        let hold = if shared.find_room()? { Hold::Promised } else { Hold::Unbounded };
        Ok(Self { shared, hold })
    }

    /// A place, when there is one and all who came before have theirs.
    pub(crate) async fn wait(shared: &'queue Arc<Shared<W>>) -> Result<Self, Error> {
        match Self::find(shared) {
            Err(Error::Full) => {}
            found => return found,
        }
        let mut place = Self::join(shared);
        std::future::poll_fn(|context| place.poll_promised(context)).await?;
        Ok(place)
    }

    /// Joins the line.
    pub(crate) fn join(shared: &'queue Arc<Shared<W>>) -> Self {
        let ticket = {
            let mut machine = shared.lock();
            let is_full = machine.is_full() && !machine.is_closed();
            // It may have become free since.
            if is_full {
                Some(machine.room.join())
            } else {
                machine.room.promise();
                None
            }
        };
        Self { shared, hold: ticket.map_or(Hold::Promised, Hold::Ticket) }
    }

    /// Waits for the ticket to be called.
    pub(crate) fn poll_promised(&mut self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        if let Hold::Ticket(ticket) = self.hold {
            let mut stale = None;
            if !self.shared.lock().room.is_promised(ticket, context.waker(), &mut stale) {
                return Poll::Pending;
            }
            self.hold = Hold::Promised;
        }
        Poll::Ready(if self.shared.is_closed() { Err(Error::Closed) } else { Ok(()) })
    }

    /// Uses the place up; whether it was promised.
    #[inline]
    pub(crate) fn use_up(mut self) -> bool {
        std::mem::replace(&mut self.hold, Hold::Used) == Hold::Promised
    }
}

impl<W: Work> Drop for Place<'_, W> {
    #[inline]
    fn drop(&mut self) {
        let ticket = match self.hold {
            Hold::Unbounded | Hold::Used => return,
            Hold::Promised => None,
            Hold::Ticket(ticket) => Some(ticket),
        };
        let stale = self.shared.act(|machine, effects| machine.give_up(ticket, effects));
        drop(stale);
    }
}
