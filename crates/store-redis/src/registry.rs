//! Which queues there are. Keys of different queues may live on different servers, and no call scans for keys, so
//! every queue is entered under its name before something is written to it; calls about all queues go by these names.
//!
//! A queue that was entered and holds nothing is not shown. Its name stays until the queue is [removed](Registry::end_leaving);
//! scripts that write to a queue without any keys ask for it to be entered first, so a program that entered it long ago
//! enters it anew.
//!
//! With the first name the namespace gets the number of its [layout](crate::layout).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redis::Value;
use tokio::time::timeout;
use windlass_core::Name;
use windlass_core::store::Duty;

use crate::answer;
use crate::error::Fault;
use crate::keys::Keys;
use crate::layout::{LAYOUT, Layout};
use crate::scripts::{ENTER, LEAVE};
use crate::session::Session;

/// How long a queue counts as entered. A registry that lost its newest names with a server has them again after this.
const ENTERED_FOR: Duration = Duration::from_secs(60);

/// How long until it is tried again, when a queue that was entered before cannot be entered once more.
const ENTERED_AGAIN: Duration = Duration::from_secs(5);

/// The most queues that are remembered as entered.
const REMEMBERED_MAX: usize = 10_000;

/// How many names are read at once.
const PAGE: u32 = 500;

/// How long entering a queue once more may hold up the call that does it.
const HEALING: Duration = Duration::from_millis(500);

/// What this process knows of the queues' names.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) layout: Layout,
    entered: Mutex<HashMap<Name, Instant>>,
    /// All names, as they were read last.
    seen: Mutex<Vec<Name>>,
}

impl Registry {
    /// Enters queues, unless this process did a short while ago. It comes before the first write to them; later ones only
    /// heal a registry that was lost, and may fail: the server of the names need not be there for a queue that lives on
    /// another. No other call waits for that. Answers whether all of them were entered now.
    pub(crate) async fn enter<'a>(
        &self,
        session: &Session,
        keys: &Keys,
        queues: impl IntoIterator<Item = &'a Name>,
    ) -> Result<bool, Fault> {
        let mut asked = 0;
        let (missing, known) = self.missing(queues.into_iter().inspect(|_| asked += 1));
        let is_now = missing.len() == asked;
        if missing.is_empty() && known.is_empty() {
            return Ok(is_now);
        }
        let soon = Instant::now().checked_sub(ENTERED_FOR.saturating_sub(ENTERED_AGAIN));
        soon.into_iter().for_each(|soon| self.note(&known, soon));
        if !missing.is_empty() {
            self.write(session, keys, &missing).await?;
            self.note(&missing, Instant::now());
        }
        let hasty = session.hasty();
        match timeout(HEALING, self.write(&hasty, keys, &known)).await {
            Ok(Ok(())) => self.note(&known, Instant::now()),
            // The namespace has another layout by now.
            Ok(Err(fault @ Fault::Refused(_))) => return Err(fault),
            Ok(Err(fault)) => tracing::debug!(?fault, "queues were not entered once more"),
            Err(_) => tracing::debug!("queues were not entered once more in time"),
        }
        Ok(is_now)
    }

    /// Enters a queue whose keys are not there, whatever this process remembers: it may have been removed since.
    pub(crate) async fn enter_anew(&self, session: &Session, keys: &Keys, queue: &Name) -> Result<(), Fault> {
        self.entered().remove(queue);
        self.enter(session, keys, [queue]).await.map(drop)
    }

    /// Enters a queue once more that a write has just made: it may have been removed after it was entered for that write. A
    /// removal that begins from now on finds what was written. What fails here is done by a write after the next minute.
    pub(crate) async fn confirm(&self, session: &Session, keys: &Keys, queue: &Name) {
        let session = session.apart();
        // It stays entered for this process whatever comes of it: the server of the names may have gone since.
        match timeout(HEALING, self.write(&session, keys, std::slice::from_ref(queue))).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => tracing::debug!(%queue, ?fault, "a new queue was not entered once more"),
            Err(_) => tracing::debug!(%queue, "a new queue was not entered once more in time"),
        }
    }

    /// Begins to take the name of a queue off the list; its keys are removed before the [end](Self::end_leaving).
    pub(crate) async fn begin_leaving(
        &self,
        session: &Session,
        keys: &Keys,
        queue: &Name,
        removal: &Bytes,
    ) -> Result<(), Fault> {
        self.leave(session, keys, [queue.as_str().as_bytes(), removal, b"begin"]).await
    }

    /// Takes the name of a queue off the list, unless the queue was entered since the beginning of this removal.
    pub(crate) async fn end_leaving(
        &self,
        session: &Session,
        keys: &Keys,
        queue: &Name,
        removal: &Bytes,
    ) -> Result<(), Fault> {
        self.entered().remove(queue);
        self.leave(session, keys, [queue.as_str().as_bytes(), removal, b"end"]).await
    }

    /// Ends a removal that has not removed the queue: its name stays.
    pub(crate) async fn stay(
        &self,
        session: &Session,
        keys: &Keys,
        queue: &Name,
        removal: &Bytes,
    ) -> Result<(), Fault> {
        self.leave(session, keys, [queue.as_str().as_bytes(), removal, b"stay"]).await
    }

    async fn leave(&self, session: &Session, keys: &Keys, arguments: [&[u8]; 3]) -> Result<(), Fault> {
        let arguments = arguments.map(Bytes::copy_from_slice).to_vec();
        let keys = [keys.queues(), keys.leaving()].into_iter().chain(Duty::ALL.map(|duty| keys.agenda(duty)));
        session.run(&LEAVE, keys.collect(), arguments).await.map(drop)
    }

    async fn write(&self, session: &Session, keys: &Keys, names: &[Name]) -> Result<(), Fault> {
        for names in names.chunks(PAGE as usize) {
            let names = names.iter().map(|name| Bytes::copy_from_slice(name.as_str().as_bytes()));
            let arguments = std::iter::once(Bytes::from(LAYOUT.to_string())).chain(names).collect();
            let keys = vec![keys.queues(), keys.layout(), keys.leaving()];
            let found = session.run(&ENTER, keys, arguments).await?;
            self.layout.note(answer::integer(found)?)?;
        }
        Ok(())
    }

    fn note(&self, names: &[Name], at: Instant) {
        let mut entered = self.entered();
        if entered.len() + names.len() > REMEMBERED_MAX {
            entered.clear();
        }
        entered.extend(names.iter().map(|name| (name.clone(), at)));
    }

    /// The names after one, in byte order, at most so many, and whether there are no more.
    pub(crate) async fn page(
        session: &Session,
        keys: &Keys,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<(Vec<Name>, bool), Fault> {
        let mut range = redis::cmd("ZRANGEBYLEX");
        range.arg(&keys.queues()[..]);
        match after {
            Some(name) => range.arg(format!("({name}")),
            None => range.arg("-"),
        };
        range.arg("+").arg("LIMIT").arg(0).arg(limit);
        let found = answer::array(session.command(range).await?)?;
        let is_last = found.len() < limit as usize;
        let mut names = Vec::with_capacity(found.len());
        for value in found {
            match name(value) {
                Ok(name) => names.push(name),
                // It hides no other.
                Err(fault) => tracing::warn!(?fault, "an entry among the names of queues is left out"),
            }
        }
        Ok((names, is_last))
    }

    /// All names, in byte order. While their server is away, those that this process has seen.
    pub(crate) async fn all(&self, session: &Session, keys: &Keys) -> Result<Vec<Name>, Fault> {
        match Self::read_all(&session.hasty(), keys).await {
            Ok(names) => {
                self.seen().clone_from(&names);
                Ok(names)
            }
            Err(fault) => {
                let names = self.known();
                if names.is_empty() {
                    return Err(fault);
                }
                tracing::debug!(?fault, "the names of queues are those that were seen before");
                Ok(names)
            }
        }
    }

    /// The names that this process has seen, in byte order.
    pub(crate) fn known(&self) -> Vec<Name> {
        let mut names = self.seen().clone();
        names.extend(self.entered().keys().cloned());
        names.sort_unstable();
        names.dedup();
        names
    }

    async fn read_all(session: &Session, keys: &Keys) -> Result<Vec<Name>, Fault> {
        let mut names: Vec<Name> = Vec::new();
        loop {
            let (page, is_last) = Self::page(session, keys, names.last(), PAGE).await?;
            let is_stuck = page.is_empty();
            names.extend(page);
            if is_last || is_stuck {
                return Ok(names);
            }
        }
    }

    /// Those of some queues that were not entered yet, and those that were and have to be once more.
    fn missing<'a>(&self, queues: impl IntoIterator<Item = &'a Name>) -> (Vec<Name>, Vec<Name>) {
        let entered = self.entered();
        let (mut missing, mut known) = (Vec::new(), Vec::new());
        for name in queues {
            match entered.get(name) {
                None => missing.push(name.clone()),
                Some(at) if at.elapsed() > ENTERED_FOR => known.push(name.clone()),
                Some(_) => {}
            }
        }
        for names in [&mut missing, &mut known] {
            names.sort_unstable();
            names.dedup();
        }
        (missing, known)
    }

    fn entered(&self) -> MutexGuard<'_, HashMap<Name, Instant>> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Name>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name as a server has it.
pub(crate) fn name(value: Value) -> Result<Name, Fault> {
    let bytes = answer::bytes(value)?;
    let text = std::str::from_utf8(&bytes).ok();
    let name = text.and_then(|text| Name::new(text).ok());
    name.ok_or_else(|| {
        Fault::Corrupt(format!("{:?} is not a name of a queue", String::from_utf8_lossy(&bytes)))
    })
}

#[cfg(test)]
mod tests {
    use windlass_core::store::{ClaimRequest, Jobs, Leases, NewLease, QueueShare};
    use windlass_core::{Fence, LeaseId, NewJob, Options, StoreError};
    use windlass_store_testkit::servers::RedisServer;

    use super::*;
    use crate::connect::Call;
    use crate::{RedisOptions, RedisStore};

    fn options() -> RedisOptions {
        let options = RedisOptions::parse(RedisServer::shared().url()).unwrap();
        options.namespace(&format!("registry-{:x}", fastrand::u64(..))).unwrap()
    }

    fn job(queue: &str) -> NewJob {
        NewJob::new("k", "", Options::new().queue(queue)).unwrap()
    }

    /// Everything was entered long ago.
    fn expire(registry: &Registry) {
        let long_ago = Instant::now().checked_sub(2 * ENTERED_FOR).unwrap();
        registry.entered().values_mut().for_each(|at| *at = long_ago);
    }

    /// As another program does, whatever this one thinks of the layout.
    async fn overwrite_from_outside(store: &RedisStore, key: fn(&Keys) -> Bytes, value: impl Into<String>) {
        let (key, value) =
            (String::from_utf8(key(&store.remote.tools().keys).to_vec()).unwrap(), value.into());
        let other = RedisStore::open(RedisServer::shared().url()).await.unwrap();
        let overwrite = other.remote.call(Call::WRITE, async move |_, session| {
            let mut set = redis::cmd("SET");
            set.arg(key).arg(value);
            session.command(set).await
        });
        overwrite.await.unwrap();
    }

    async fn overwrite(store: &RedisStore, key: fn(&Keys) -> Bytes, value: impl Into<String>) {
        let value = value.into();
        let overwrite = store.remote.call(Call::WRITE, async move |tools, session| {
            let mut set = redis::cmd("SET");
            set.arg(&key(&tools.keys)[..]).arg(value);
            session.command(set).await
        });
        overwrite.await.unwrap();
    }

    #[tokio::test]
    async fn a_namespace_of_a_layout_that_nobody_here_knows_is_left_alone() {
        let options = options();
        let store = RedisStore::open_with(options.clone()).await.unwrap();
        store.enqueue([job("q")].into()).await.unwrap();
        overwrite(&store, Keys::layout, (LAYOUT + 1).to_string()).await;
        let too_new = |error: StoreError| matches!(error, StoreError::SchemaTooNew { found, known: LAYOUT } if found > LAYOUT);
        assert!(RedisStore::open_with(options.clone()).await.is_err_and(too_new), "nobody new comes in");
        assert!(
            store.enqueue([job("other")].into()).await.is_err_and(too_new),
            "who is in begins nothing new"
        );
        let old = |error: StoreError| error.to_string().contains("another namespace");
        let before = RedisOptions::clone(&options);
        overwrite_from_outside(&store, Keys::layout, "1").await;
        assert!(RedisStore::open_with(before).await.is_err_and(old), "what is older is not misread either");
    }

    #[tokio::test]
    async fn a_program_that_runs_notices_another_layout_and_comes_back_when_that_is_gone() {
        let (options, lease) = (options(), LeaseId::new());
        let store = RedisStore::open_with(options.clone()).await.unwrap();
        let ttl = Duration::from_secs(60);
        let queues = vec![Name::new("q").unwrap()];
        store
            .open(&NewLease { id: lease, worker: "w".into(), ttl, queues: queues.clone(), kinds: Vec::new() })
            .await
            .unwrap();
        store.enqueue([job("q")].into()).await.unwrap();
        let request = || ClaimRequest {
            lease,
            nonce: Fence::nonce(),
            queues: vec![QueueShare { queue: queues[0].clone(), limit: 1 }],
            kinds: vec![Name::new("k").unwrap()],
            limit: 1,
            at_once: 1,
            bytes: usize::MAX,
        };
        assert!(store.claim(request()).await.is_ok());
        overwrite(&store, Keys::layout, (LAYOUT + 1).to_string()).await;
        assert!(store.claim(request()).await.is_ok(), "it looks now and then, not with each call");
        // The look goes beside the call that is due for it.
        let until = async |is_out: bool| {
            loop {
                store.remote.tools().registry.layout.expire();
                if store.claim(request()).await.is_err() == is_out {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        until(true).await;
        let too_new =
            |error: &StoreError| matches!(error, StoreError::SchemaTooNew { found, .. } if *found > LAYOUT);
        assert!(store.enqueue([job("q")].into()).await.is_err_and(|error| too_new(&error)));
        assert!(store.settle([].into()).await.is_err_and(|error| too_new(&error)));
        assert!(store.renew(lease, ttl, 9).await.is_err_and(|error| too_new(&error)));
        overwrite_from_outside(&store, Keys::layout, LAYOUT.to_string()).await;
        until(false).await;
        store.enqueue([job("q")].into()).await.unwrap();
    }

    async fn names(store: &RedisStore) -> Vec<String> {
        let names = store
            .remote
            .call(Call::READ, async |tools, session| tools.registry.all(&session, &tools.keys).await);
        names.await.unwrap().into_iter().map(String::from).collect()
    }

    #[tokio::test]
    async fn a_queue_that_is_entered_while_it_is_removed_keeps_its_name() {
        let store = RedisStore::open_with(options()).await.unwrap();
        for (is_entered, expected) in [(true, &["q"][..]), (false, &[])] {
            store.enqueue([job("q")].into()).await.unwrap();
            let leave = store.remote.call(Call::WRITE, async move |tools, session| {
                let (registry, keys, queue) = (&tools.registry, &tools.keys, Name::new("q").unwrap());
                let (this, other) = (Bytes::from_static(b"this"), Bytes::from_static(b"other"));
                registry.begin_leaving(&session, keys, &queue, &this).await?;
                registry.end_leaving(&session, keys, &queue, &other).await?;
                if is_entered {
                    registry.enter_anew(&session, keys, &queue).await?;
                }
                registry.end_leaving(&session, keys, &queue, &this).await
            });
            leave.await.unwrap();
            assert_eq!(names(&store).await, expected);
        }
    }

    #[tokio::test]
    async fn a_queue_that_was_entered_takes_jobs_while_the_names_are_away() {
        let store = RedisStore::open_with(options()).await.unwrap();
        store.enqueue([job("q")].into()).await.unwrap();
        overwrite(&store, Keys::queues, "in the way").await;
        expire(&store.remote.tools().registry);
        store.enqueue([job("q")].into()).await.unwrap();
        let name = |text| Name::new(text).unwrap();
        let (missing, known) = store.remote.tools().registry.missing([&name("q")]);
        assert!(missing.is_empty() && known.is_empty(), "not with every job");
        assert!(
            store.remote.tools().registry.entered()[&name("q")].elapsed() > ENTERED_FOR / 2,
            "but soon again"
        );
        assert!(store.enqueue([job("other")].into()).await.is_err(), "nobody would find it");
    }
}
