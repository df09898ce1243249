//! How a running attempt is told to stop, and why. Shared by the attempt, its handler and the parts that may stop it;
//! the strongest reason wins.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

/// Why an attempt should stop, weakest first: a later reason only counts if it is stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Stop {
    /// It should go on.
    No = 0,
    /// It took longer than its timeout.
    Timeout = 1,
    /// The job was asked to be cancelled.
    Requested = 2,
    /// The worker shuts down.
    Shutdown = 3,
    /// The worker shuts down and waits no longer.
    Now = 4,
    /// The lease is lost. The job may be another worker's by now; work that was done is told, and the fence decides.
    Lost = 5,
    /// The attempt has ended without its handler, or the worker as if it had crashed: nothing more is told of it.
    Gone = 6,
}

impl Stop {
    const ALL: [Self; 7] =
        [Self::No, Self::Timeout, Self::Requested, Self::Shutdown, Self::Now, Self::Lost, Self::Gone];
}

/// The stop signal of one attempt.
#[derive(Debug, Default)]
pub(crate) struct Control {
    stop: AtomicU8,
    changed: Notify,
}

impl Control {
    /// The strongest reason so far.
    pub(crate) fn reason(&self) -> Stop {
        Stop::ALL[usize::from(self.stop.load(Ordering::Acquire))]
    }

    /// Tells the attempt to stop, and wakes the waiters.
    pub(crate) fn stop(&self, reason: Stop) {
        let before = self.stop.fetch_max(reason as u8, Ordering::AcqRel);
        if before < reason as u8 {
            self.changed.notify_waiters();
        }
    }

    /// Waits for a reason that is stronger than the one already heard.
    pub(crate) async fn stronger_than(&self, heard: Stop) -> Stop {
        loop {
            // Registered before the reason is read, so that a change between the two is not missed.
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let reason = self.reason();
            if reason > heard {
                return reason;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_strongest_reason_wins_and_is_heard() {
        let control = Control::default();
        control.stop(Stop::Shutdown);
        control.stop(Stop::Requested);
        assert_eq!(control.reason(), Stop::Shutdown);
        assert_eq!(control.stronger_than(Stop::No).await, Stop::Shutdown);
        let (heard, ()) = tokio::join!(control.stronger_than(Stop::Shutdown), async {
            control.stop(Stop::Lost);
        });
        assert_eq!(heard, Stop::Lost);
    }
}
