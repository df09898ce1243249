//! Events. Each subscriber has a bounded buffer of its own, so a slow one loses events and
//! is told how many, and never holds the queue up.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use super::Id;
use crate::error::Why;

/// Something that happened in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Work was taken in.
    Added(Id),
    /// Work has started.
    Started(Id),
    /// Work ended with its own result.
    Completed(Id),
    /// Work ended otherwise: every piece of work that was taken in ends with this or with `Completed`.
    Failed(Id, Why),
    /// For the first time since nothing waited, work has to wait for a slot.
    Saturated,
    /// The last that waited has started, or gone.
    Empty,
    /// The last that ran has ended. More may wait.
    NoneRunning,
    /// The last that ran has ended and nothing waits.
    Idle,
    /// The rate holds work back that has a free slot.
    RateLimited,
    /// The rate holds nothing back any more.
    RateCleared,
    /// So many wait that producers should stop.
    HighWater,
    /// So few wait that producers should go on.
    LowWater,
    /// The queue was paused.
    Paused,
    /// The queue was started again.
    Resumed,
    /// The queue takes nothing in any more.
    Closed,
    /// This subscriber was too slow, and so many events before the next one are lost to it.
    Lost(u64),
}

/// All subscribers.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    subscribers: Vec<Subscriber>,
    numbers: u64,
}

#[derive(Debug)]
struct Subscriber {
    number: u64,
    buffer: VecDeque<Event>,
    capacity: usize,
    lost: u64,
    waker: Option<Waker>,
}

impl Feed {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.subscribers.is_empty()
    }

    pub(crate) fn subscribe(&mut self, capacity: usize) -> u64 {
        let number = self.numbers;
        self.numbers += 1;
        self.subscribers.push(Subscriber { number, buffer: VecDeque::new(), capacity, lost: 0, waker: None });
        number
    }

    /// Forgets a subscriber, and answers whom it would have had woken, to be dropped without the lock.
    pub(crate) fn unsubscribe(&mut self, number: u64) -> Option<Waker> {
        let position = self.subscribers.iter().position(|subscriber| subscriber.number == number)?;
        self.subscribers.remove(position).waker
    }

    /// The next event of a subscriber; `None` after the last one of a queue that is no more. Who was to be woken
    /// before is answered in `stale`, to be dropped without the lock.
    pub(crate) fn poll(
        &mut self,
        number: u64,
        is_over: bool,
        waker: &Waker,
        stale: &mut Option<Waker>,
    ) -> Poll<Option<Event>> {
        let Some(subscriber) = self.subscribers.iter_mut().find(|subscriber| subscriber.number == number)
        else {
            return Poll::Ready(None);
        };
        if subscriber.lost > 0 {
            return Poll::Ready(Some(Event::Lost(std::mem::take(&mut subscriber.lost))));
        }
        match subscriber.buffer.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if is_over => Poll::Ready(None),
            None => {
                *stale = subscriber.waker.replace(waker.clone());
                Poll::Pending
            }
        }
    }

    /// Hands an event to all, and out whom to wake.
    pub(crate) fn emit(&mut self, event: Event, mut wake: impl FnMut(Waker)) {
        for subscriber in &mut self.subscribers {
            if subscriber.buffer.len() == subscriber.capacity {
                subscriber.buffer.pop_front();
                subscriber.lost += 1;
            }
            subscriber.buffer.push_back(event);
            if let Some(waker) = subscriber.waker.take() {
                wake(waker);
            }
        }
    }

    /// Wakes all, because the queue is over.
    pub(crate) fn end(&mut self, wake: impl FnMut(Waker)) {
        self.subscribers.iter_mut().filter_map(|subscriber| subscriber.waker.take()).for_each(wake);
    }
}
