//! The server's side of a stream of rings: hears the store's bell for a client, and gathers what rings until the client takes
//! it. What a client is slow to take is gathered in few words, so a stream holds little, however much rings.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use windlass_core::bell::{Bell, Cancels, Enrolled, Fresh, Listener, Named, Rings, Topic, Waiter};
use windlass_core::{JobId, Name, Store};

use super::Grant;
use crate::wire::{Hear, Notice, Pass};

/// The most workers that one stream hears for.
const WORKERS_MAX: usize = 100;
/// The most queues and kinds that one of them names.
const NAMES_MAX: usize = 10_000;

/// What is heard for one client.
pub struct Ringing {
    pending: Arc<Pending>,
    _enrolled: Vec<Enrolled>,
    work: Option<Listener>,
    cancels: Option<Cancels>,
    ends: Option<Listener>,
}

/// What rang and was not taken.
#[derive(Default)]
struct Pending {
    rings: Mutex<Rings>,
    more: Notify,
}

impl Pending {
    fn add(&self, rings: Rings) {
        let mut pending = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *pending);
        *pending = before.and(rings);
        drop(pending);
        self.more.notify_one();
    }

    fn take(&self) -> Rings {
        std::mem::take(&mut *self.rings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A worker of the client, in the roster of the bell here. How much room it has is known there only: it passes on what it has
/// none for.
impl Waiter for Pending {
    fn room(&self, _queue: &Name) -> u32 {
        1
    }

    fn wake(&self, queue: Option<&Name>) {
        self.add(match queue {
            Some(queue) => Rings::fresh(Fresh { queue: queue.clone(), kind: None, jobs: 1 }),
            None => Rings::about(Topic::Work),
        });
    }
}

impl Ringing {
    /// Begins to hear what a client asks for, of what the caller reaches; every ring from now on is heard.
    ///
    /// # Errors
    /// A text for people, when it asks for more than may be.
    pub fn new(store: &dyn Store, caller: &Grant, listen: &Hear) -> Result<Self, String> {
        let heard = &listen.heard;
        let is_too_much = |names: &[Name]| names.len() > NAMES_MAX;
        if heard.workers.len() > WORKERS_MAX
            || heard.workers.iter().any(|served| is_too_much(&served.queues) || is_too_much(&served.kinds))
        {
            return Err(format!("at most {WORKERS_MAX} workers with {NAMES_MAX} queues and kinds each"));
        }
        let (bell, pending) = (store.bell(), Arc::new(Pending::default()));
        let enroll = |served: &windlass_core::bell::Served| {
            let queues: Vec<Name> =
                served.queues.iter().filter(|queue| caller.reaches(queue)).cloned().collect();
            bell.enroll(&queues, &served.kinds, Arc::clone(&pending) as _)
        };
        let listens = |is_wanted: bool, topic: Topic| is_wanted.then(|| bell.listen(topic));
        Ok(Self {
            _enrolled: heard.workers.iter().map(enroll).collect(),
            work: listens(heard.work, Topic::Work),
            cancels: heard.cancels.then(|| bell.listen_for_cancels()),
            ends: listens(heard.ends, Topic::Finish),
            pending,
        })
    }

    /// The next line for the client, with its line feed; an empty one when nothing has rung for so long.
    pub async fn next(&mut self, quiet: Duration) -> Vec<u8> {
        // An error means that it was quiet.
        let _ = timeout(quiet, self.rung()).await;
        let rings = self.pending.take();
        let mut line = Vec::new();
        if !rings.is_empty() {
            line = serde_json::to_vec(&Notice { rings }).unwrap_or_default();
        }
        line.push(b'\n');
        line
    }

    async fn rung(&mut self) {
        let Self { pending, work, cancels, ends, .. } = self;
        let rings = tokio::select! {
            () = pending.more.notified() => return,
            () = rung(work.as_mut()) => Rings::about(Topic::Work),
            () = rung(ends.as_mut()) => Rings::about(Topic::Finish),
            ids = asked(cancels.as_mut()) => cancelled(ids),
        };
        pending.add(rings);
    }
}

async fn rung(listener: Option<&mut Listener>) {
    match listener {
        Some(listener) => listener.rung().await,
        None => std::future::pending().await,
    }
}

async fn asked(cancels: Option<&mut Cancels>) -> Named<JobId> {
    match cancels {
        Some(cancels) => cancels.rung().await,
        None => std::future::pending().await,
    }
}

fn cancelled(ids: Named<JobId>) -> Rings {
    match ids {
        Named::None => Rings::NONE,
        Named::Any => Rings::about(Topic::Cancel),
        Named::These(ids) => ids.into_iter().map(Rings::cancel).fold(Rings::NONE, Rings::and),
    }
}

/// Offers work to others that a client had no room for.
pub fn pass(bell: &Bell, caller: &Grant, pass: &Pass) {
    if caller.reaches(&pass.fresh.queue) {
        bell.call(&pass.fresh);
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::bell::{Heard, Served};
    use windlass_core::store::{Jobs, Wakeup};
    use windlass_core::{NewJob, Options};
    use windlass_store_memory::MemoryStore;

    use super::super::Allowed;
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn caller() -> Grant {
        Grant { may: Allowed::Look, queues: None, closed: name("own") }
    }

    async fn heard(ringing: &mut Ringing) -> Option<Rings> {
        let line = ringing.next(Duration::from_millis(20)).await;
        let text = str::from_utf8(&line).unwrap().strip_suffix('\n').unwrap();
        (!text.is_empty()).then(|| serde_json::from_str::<Notice>(text).unwrap().rings)
    }

    async fn add(store: &MemoryStore, queue: &str) {
        let job = NewJob::new("k", "", Options::new().queue(queue)).unwrap();
        Jobs::enqueue(store, [job].into()).await.unwrap();
    }

    #[tokio::test]
    async fn a_client_hears_of_its_queues_and_in_few_words() {
        let store = MemoryStore::new();
        let served = Served { queues: vec![name("a"), name("b")], kinds: vec![name("k")] };
        let listen = Hear { heard: Heard { workers: vec![served], ..Heard::default() } };
        let mut ringing = Ringing::new(&store, &caller(), &listen).unwrap();
        assert_eq!(heard(&mut ringing).await, None);
        add(&store, "elsewhere").await;
        assert_eq!(heard(&mut ringing).await, None);
        for _ in 0..3 {
            add(&store, "a").await;
        }
        let fresh = Fresh { queue: name("a"), kind: None, jobs: 3 };
        assert_eq!(heard(&mut ringing).await, Some(Rings::fresh(fresh)));
        drop(ringing);
        assert!(!store_hears(&store));
    }

    fn store_hears(store: &MemoryStore) -> bool {
        !store.bell().heard().is_nothing()
    }

    #[tokio::test]
    async fn a_client_hears_ends_and_requests_to_stop_only_if_it_wants_to() {
        let store = MemoryStore::new();
        let heard_of = |ends, cancels| Hear { heard: Heard { ends, cancels, ..Heard::default() } };
        let mut ends = Ringing::new(&store, &caller(), &heard_of(true, false)).unwrap();
        let mut cancels = Ringing::new(&store, &caller(), &heard_of(false, true)).unwrap();
        let id = JobId::new();
        store.bell().cancel(&[id]);
        assert_eq!(heard(&mut cancels).await, Some(Rings::cancel(id)));
        assert_eq!(heard(&mut ends).await, None);
        store.bell().ring(Topic::Finish);
        assert_eq!(heard(&mut ends).await, Some(Rings::about(Topic::Finish)));
        assert_eq!(heard(&mut cancels).await, None);
    }

    #[test]
    fn a_client_does_not_hear_of_queues_that_it_does_not_reach() {
        let store = MemoryStore::new();
        let served = Served { queues: vec![name("a"), name("own")], kinds: vec![name("k")] };
        let listen = Hear { heard: Heard { workers: vec![served], ..Heard::default() } };
        let _ringing = Ringing::new(&store, &caller(), &listen).unwrap();
        assert_eq!(store.bell().heard().workers[0].queues, [name("a")]);
        let many = Hear { heard: Heard { workers: vec![Served::default(); 101], ..Heard::default() } };
        assert!(Ringing::new(&store, &caller(), &many).is_err());
    }
}
