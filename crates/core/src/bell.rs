//! The bell: a hint that something happened, within one process.
//!
//! Each store owns a [`Bell`] and rings it for its own writes; stores that hear of other processes' writes
//! ring it for those too. A ring about work names queues and says how many jobs there are, and the bell wakes about as
//! many of the workers that wait for them (decision 16). A ring between two waits is not lost. A bell may still be silent
//! when it should ring (another process died before it could), so waiters poll as well.

mod note;
mod peers;
mod rings;
mod roster;
mod wake;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, broadcast, watch};

pub use note::{Note, Word};
pub use peers::{Address, Choice, Peer, Peers};
pub use rings::{Fresh, Named, Rings};
pub use roster::{Claiming, Enrolled, Waiter};
pub use wake::{WakeMode, WakeModeCell};

use crate::id::JobId;
use crate::name::Name;
use roster::Roster;

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

/// Requests to stop that a slow listener may fall behind with. One that missed some takes all of its jobs for meant.
const CANCELS_KEPT: usize = 64;

impl Topic {
    /// All topics, each at the place that is its number.
    pub const ALL: [Self; TOPICS] = [Self::Work, Self::Cancel, Self::Finish];
}

/// Rings for every listener of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bell(Arc<Inner>);

/// One channel per topic: a busy store rings about ends thousands of times a second, and must not wake those
/// who wait for something else.
#[derive(Debug)]
struct Inner {
    topics: [watch::Sender<()>; TOPICS],
    cancels: broadcast::Sender<Named<JobId>>,
    roster: Roster,
    /// The number of this process, and those that it knows of.
    peers: Mutex<(u64, Arc<Peers>)>,
    /// A caller has begun to wait for ends.
    ends_wanted: Notify,
    /// A caller has begun to wait for anything.
    wanted: Notify,
}

impl Default for Bell {
    fn default() -> Self {
        Self(Arc::new(Inner {
            topics: Default::default(),
            cancels: broadcast::Sender::new(CANCELS_KEPT),
            roster: Roster::default(),
            peers: Mutex::default(),
            ends_wanted: Notify::new(),
            wanted: Notify::new(),
        }))
    }
}

impl Bell {
    /// A bell without listeners.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rings about one topic, without a name of any queue or job.
    pub fn ring(&self, topic: Topic) {
        match topic {
            Topic::Work => self.0.roster.wake_all(),
            Topic::Cancel => self.tell_cancels(Named::Any),
            Topic::Finish => {}
        }
        self.0.topics[topic as usize].send_replace(());
    }

    /// Rings about everything, for a hint that does not say what it is about.
    pub fn ring_all(&self) {
        Topic::ALL.into_iter().for_each(|topic| self.ring(topic));
    }

    /// Rings about fresh work: wakes about as many of the workers that wait for it as there are jobs. Answers for how many
    /// of them no waiter here has room.
    pub fn call(&self, fresh: &Fresh) -> u32 {
        let left = self.0.roster.call(fresh);
        self.0.topics[Topic::Work as usize].send_replace(());
        left
    }

    /// The claim that a worker here makes for fresh work at once, and for how many of the jobs it has room.
    fn claim(&self, fresh: &Fresh) -> Option<(Box<dyn Claiming>, u32)> {
        let claim = self.0.roster.claim(fresh)?;
        self.0.topics[Topic::Work as usize].send_replace(());
        Some(claim)
    }

    /// Rings about jobs that are asked to stop.
    pub fn cancel(&self, ids: &[JobId]) {
        self.tell_cancels(Named::These(ids.to_vec()));
        self.0.topics[Topic::Cancel as usize].send_replace(());
    }

    fn tell_cancels(&self, cancels: Named<JobId>) {
        // An error means that no task listens.
        let _ = self.0.cancels.send(cancels);
    }

    /// Whether a topic has a listener.
    pub fn is_heard(&self, topic: Topic) -> bool {
        let has_worker = match topic {
            Topic::Work => !self.0.roster.is_empty(),
            Topic::Cancel => self.0.cancels.receiver_count() > 0,
            Topic::Finish => false,
        };
        has_worker || self.0.topics[topic as usize].receiver_count() > 0
    }

    /// Begins to listen for a topic; every ring from now on is heard.
    pub fn listen(&self, topic: Topic) -> Listener {
        let rings = self.0.topics[topic as usize].subscribe();
        if topic == Topic::Finish {
            self.0.ends_wanted.notify_one();
        }
        self.0.wanted.notify_one();
        Listener { rings }
    }

    /// Begins to listen for requests to stop.
    pub fn listen_for_cancels(&self) -> Cancels {
        let rings = self.0.cancels.subscribe();
        self.0.wanted.notify_one();
        Cancels { rings }
    }

    /// Waits until a caller has begun to wait for ends since the last time this returned.
    pub async fn ends_wanted(&self) {
        self.0.ends_wanted.notified().await;
    }

    /// Waits until a caller has begun to wait for anything since the last time this returned.
    pub async fn wanted(&self) {
        self.0.wanted.notified().await;
    }

    /// Whom rings would reach now.
    pub fn heard(&self) -> Heard {
        let is_listened_to = |topic: Topic| self.0.topics[topic as usize].receiver_count() > 0;
        Heard {
            work: is_listened_to(Topic::Work),
            workers: self.0.roster.served(),
            cancels: self.0.cancels.receiver_count() > 0 || is_listened_to(Topic::Cancel),
            ends: is_listened_to(Topic::Finish),
        }
    }

    /// A worker that waits for jobs of these queues and kinds, as long as what comes back lives.
    pub fn enroll(&self, queues: &[Name], kinds: &[Name], waiter: Arc<dyn Waiter>) -> Enrolled {
        let enrolled = self.0.roster.enroll(queues, kinds, waiter);
        self.0.wanted.notify_one();
        enrolled
    }

    /// The workers that serve this store and are woken, as this one is; none where that is not known.
    pub fn peers(&self) -> Arc<Peers> {
        Arc::clone(&self.0.peers.lock().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// The store has looked which workers serve it. This process is told by this number.
    pub fn set_peers(&self, own: u64, peers: Arc<Peers>) {
        *self.0.peers.lock().unwrap_or_else(PoisonError::into_inner) = (own, peers);
    }

    /// How much later than a job of this queue is due a worker here comes for it; nothing if it leaves it to others.
    pub fn due_delay(&self, queue: &Name) -> Option<Duration> {
        let (own, peers) = self.0.peers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        peers.due_delay(own, queue, SystemTime::now())
    }
}

/// Whom rings reach: what a process tells the one that hears for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Heard {
    /// A listener waits for work, whatever its queue.
    pub work: bool,
    /// Workers wait for jobs of these queues and kinds.
    pub workers: Vec<Served>,
    /// A listener waits for requests to stop.
    pub cancels: bool,
    /// A listener waits for ends.
    pub ends: bool,
}

impl Heard {
    /// Whether rings reach none.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Which jobs a worker waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Of these queues.
    pub queues: Vec<Name>,
    /// Of these kinds.
    pub kinds: Vec<Name>,
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

/// Hears which jobs are asked to stop.
#[derive(Debug)]
pub struct Cancels {
    rings: broadcast::Receiver<Named<JobId>>,
}

impl Cancels {
    /// The jobs of the next ring; any may be meant if rings were missed. Never returns once the bell is gone.
    pub async fn rung(&mut self) -> Named<JobId> {
        match self.rings.recv().await {
            Ok(cancels) => cancels,
            Err(broadcast::error::RecvError::Lagged(_)) => Named::Any,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
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
        assert_send(Bell::new().listen_for_cancels().rung());
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

    #[tokio::test]
    async fn requests_to_stop_name_their_jobs_and_missed_ones_mean_any() {
        let bell = Bell::new();
        let (mut cancels, id) = (bell.listen_for_cancels(), JobId::new());
        assert!(bell.is_heard(Topic::Cancel));
        bell.cancel(&[id]);
        assert_eq!(cancels.rung().await, Named::These(vec![id]));
        for _ in 0..=CANCELS_KEPT {
            bell.cancel(&[id]);
        }
        assert_eq!(cancels.rung().await, Named::Any);
        assert_eq!(cancels.rung().await, Named::These(vec![id]));
    }

    #[test]
    fn who_waits_is_noticed_and_named() {
        struct Idle;
        impl Waiter for Idle {
            fn room(&self, _queue: &Name) -> u32 {
                1
            }
            fn wake(&self, _queue: Option<&Name>) {}
        }
        let (bell, name) = (Bell::new(), |text| Name::new(text).unwrap());
        assert!(bell.heard().is_nothing() && !is_ready(bell.wanted()));
        let enrolled = bell.enroll(&[name("b"), name("a")], &[name("k")], Arc::new(Idle));
        assert!(is_ready(bell.wanted()));
        let served = Served { queues: vec![name("a"), name("b")], kinds: vec![name("k")] };
        assert_eq!(bell.heard(), Heard { workers: vec![served], ..Heard::default() });
        drop(enrolled);
        let (_ends, _cancels) = (bell.listen(Topic::Finish), bell.listen_for_cancels());
        assert!(is_ready(bell.wanted()));
        assert_eq!(bell.heard(), Heard { cancels: true, ends: true, ..Heard::default() });
    }

    #[test]
    fn a_caller_that_waits_for_ends_is_noticed() {
        let bell = Bell::new();
        let _work = bell.listen(Topic::Work);
        assert!(!is_ready(bell.ends_wanted()));
        let _finish = bell.listen(Topic::Finish);
        assert!(is_ready(bell.ends_wanted()));
        assert!(!is_ready(bell.ends_wanted()));
    }
}
