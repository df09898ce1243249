//! The bell: a hint that something happened, within one process.
//!
//! Each store owns a [`Bell`] and rings it for its own writes; stores that hear of other processes' writes
//! ring it for those too. A ring between two waits is not lost. A bell may still be silent when it should
//! ring (another process died before it could), so whoever waits for it polls as well.

use tokio::sync::watch;

/// What a ring is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Topic {
    /// Jobs may have become ready or scheduled.
    Work = 0,
    /// A running job is asked to stop.
    Cancel = 1,
    /// Jobs have come to their end.
    Finish = 2,
}

const TOPICS: usize = 3;

/// Rings for every listener of this process. Cheap to clone.
///
/// One channel per topic: a busy store rings about ends thousands of times a second, and must not wake those
/// who wait for something else.
#[derive(Debug, Clone, Default)]
pub struct Bell {
    topics: [watch::Sender<()>; TOPICS],
}

impl Bell {
    /// A bell that nobody listens to yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rings about one topic.
    pub fn ring(&self, topic: Topic) {
        self.topics[topic as usize].send_replace(());
    }

    /// Rings about everything, for a hint that does not say what it is about.
    pub fn ring_all(&self) {
        for topic in &self.topics {
            topic.send_replace(());
        }
    }

    /// Begins to listen for a topic; every ring from now on is heard.
    pub fn listen(&self, topic: Topic) -> Listener {
        Listener { rings: self.topics[topic as usize].subscribe() }
    }
}

/// Hears the rings of one topic.
#[derive(Debug)]
pub struct Listener {
    rings: watch::Receiver<()>,
}

impl Listener {
    /// Waits until the bell has rung since the last time this returned. Many rings count as one. Never
    /// returns once the bell is gone.
    pub async fn rung(&mut self) {
        if self.rings.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_ring_between_two_waits_is_kept() {
        let bell = Bell::new();
        let mut listener = bell.listen(Topic::Work);
        assert!(!is_ready(listener.rung()));
        bell.ring(Topic::Work);
        bell.ring(Topic::Work);
        assert!(is_ready(listener.rung()));
        assert!(!is_ready(listener.rung()), "two rings count as one");
    }

    #[test]
    fn a_wait_can_move_between_threads() {
        fn assert_send(_: impl Send) {}
        assert_send(Bell::new().listen(Topic::Work).rung());
    }

    #[test]
    fn topics_are_apart() {
        let bell = Bell::new();
        let mut cancel = bell.listen(Topic::Cancel);
        bell.ring(Topic::Work);
        assert!(!is_ready(cancel.rung()));
        bell.ring_all();
        assert!(is_ready(cancel.rung()));
    }
}
