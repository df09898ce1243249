//! The bell: a hint that something happened, within one process.
//!
//! Each store owns a [`Bell`] and rings it for its own writes; stores that hear of other processes' writes
//! ring it for those too. A ring between two waits is not lost. A bell may still be silent when it should
//! ring (another process died before it could), so waiters poll as well.

mod wake;

use tokio::sync::watch;

pub use wake::{Note, Owed, WakeMode, WakeModeCell};

use crate::state::State;

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

impl Topic {
    /// All topics, each at the place that is its number.
    pub const ALL: [Self; TOPICS] = [Self::Work, Self::Cancel, Self::Finish];
}

/// What a store owes a ring about: gathered while it writes, rung when a claim sees the write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rings([bool; TOPICS]);

impl Rings {
    /// No topic.
    pub const NONE: Self = Self([false; TOPICS]);

    /// About one topic.
    pub const fn about(topic: Topic) -> Self {
        let mut rings = Self::NONE;
        rings.0[topic as usize] = true;
        rings
    }

    /// What is owed when a job comes into a state: about work when it is ready or scheduled, about finishing
    /// when it is terminal (also when its queue keeps none of that end), and otherwise nothing.
    pub const fn entered(state: State) -> Self {
        match state {
            State::Ready | State::Scheduled => Self::about(Topic::Work),
            State::Completed | State::Dead | State::Cancelled => Self::about(Topic::Finish),
            State::Blocked | State::Running => Self::NONE,
        }
    }

    /// These and those.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        Self(std::array::from_fn(|topic| self.0[topic] || more.0[topic]))
    }

    /// These, but none about a topic.
    #[must_use]
    pub fn without(mut self, topic: Topic) -> Self {
        self.0[topic as usize] = false;
        self
    }

    /// Whether a ring about this topic is owed.
    pub fn has(self, topic: Topic) -> bool {
        self.0[topic as usize]
    }

    /// Whether no ring is owed.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// The topics that a ring is owed about.
    pub fn topics(self) -> impl Iterator<Item = Topic> {
        Topic::ALL.into_iter().filter(move |&topic| self.has(topic))
    }

    /// Rings for each topic once.
    pub fn ring(self, bell: &Bell) {
        self.topics().for_each(|topic| bell.ring(topic));
    }
}

impl FromIterator<Topic> for Rings {
    fn from_iter<I: IntoIterator<Item = Topic>>(topics: I) -> Self {
        topics.into_iter().fold(Self::NONE, |rings, topic| rings.and(Self::about(topic)))
    }
}

/// Rings for every listener of this process. Cheap to clone.
///
/// One channel per topic: a busy store rings about ends thousands of times a second, and must not wake those
/// who wait for something else.
#[derive(Debug, Clone, Default)]
pub struct Bell {
    topics: [watch::Sender<()>; TOPICS],
}

impl Bell {
    /// A bell without listeners.
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

    /// Whether a topic has a listener.
    pub fn is_heard(&self, topic: Topic) -> bool {
        self.topics[topic as usize].receiver_count() > 0
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
        assert!(bell.is_heard(Topic::Work) && !bell.is_heard(Topic::Cancel));
        drop(listener);
        assert!(!bell.is_heard(Topic::Work));
    }

    #[test]
    fn a_wait_can_move_between_threads() {
        fn assert_send(_: impl Send) {}
        assert_send(Bell::new().listen(Topic::Work).rung());
    }

    #[test]
    fn only_states_of_interest_ring() {
        for state in State::ALL {
            let owed = Rings::entered(state);
            assert_eq!(owed.has(Topic::Finish), state.is_terminal());
            assert_eq!(owed.has(Topic::Work), matches!(state, State::Ready | State::Scheduled));
            assert!(!owed.has(Topic::Cancel));
        }
    }

    #[test]
    fn what_is_owed_adds_up_and_is_rung() {
        let (bell, owed) = (Bell::new(), Rings::about(Topic::Work).and(Rings::about(Topic::Finish)));
        assert_eq!(owed.topics().collect::<Vec<_>>(), [Topic::Work, Topic::Finish]);
        assert_eq!(owed.topics().collect::<Rings>(), owed);
        assert!(!owed.is_empty() && owed.without(Topic::Work).without(Topic::Finish).is_empty());
        let mut listeners = Topic::ALL.map(|topic| bell.listen(topic));
        owed.ring(&bell);
        assert_eq!(listeners.each_mut().map(|each| is_ready(each.rung())), [true, false, true]);
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
