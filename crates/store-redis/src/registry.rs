//! Which queues there are. Keys of different queues may live on different servers, and no call scans for keys, so
//! every queue is entered under its name before something is written to it; calls about all queues go by these names.
//!
//! Names are only ever added. A queue that was entered and holds nothing is not shown to anybody.
//!
//! With the first name the namespace gets the number of its layout. A program that does not know the number it finds
//! would misread what is there, and stays out.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redis::Value;
use windlass_core::{Name, StoreError};

use crate::answer;
use crate::error::Fault;
use crate::keys::Keys;
use crate::script::{Script, script};
use crate::session::Session;

static ENTER: Script = script!("queues/enter");

/// The layout of keys and records that this program writes and reads. Whoever raises it has to convert what is there
/// and to write the new number then: it is entered by itself only where there was none.
pub(crate) const LAYOUT: i64 = 1;

/// How long a queue counts as entered. A registry that lost its newest names with a server has them again after this.
const ENTERED_FOR: Duration = Duration::from_secs(60);

/// How long until it is tried again, when a queue that was entered before cannot be entered once more.
const ENTERED_AGAIN: Duration = Duration::from_secs(5);

/// The most queues that are remembered as entered.
const REMEMBERED_MAX: usize = 10_000;

/// How many names are read at once.
const PAGE: u32 = 500;

/// What this process knows of the queues' names.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entered: Mutex<HashMap<Name, Instant>>,
}

impl Registry {
    /// Enters queues, unless this process did a short while ago. It comes before the first write to them; later ones only
    /// heal a registry that was lost, and may fail.
    pub(crate) async fn enter<'a>(
        &self,
        session: &Session,
        keys: &Keys,
        queues: impl IntoIterator<Item = &'a Name>,
    ) -> Result<(), Fault> {
        let mut missing = self.missing(queues);
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable();
        missing.dedup();
        let mut result = Ok(());
        for names in missing.chunks(PAGE as usize) {
            let names = names.iter().map(|name| Bytes::copy_from_slice(name.as_str().as_bytes()));
            let arguments = std::iter::once(Bytes::from(LAYOUT.to_string())).chain(names).collect();
            let entered = session.run(&ENTER, vec![keys.queues(), keys.layout()], arguments).await;
            if let Err(fault) = entered.and_then(answer::integer).and_then(check_layout) {
                result = Err(fault);
                break;
            }
        }
        let now = Instant::now();
        let mut entered = self.entered();
        let fresh = match result {
            Ok(()) => Some(now),
            // Somebody has begun another layout.
            Err(fault @ Fault::Refused(_)) => return Err(fault),
            // They have been entered: the server of the names need not be there for a queue that lives on another.
            Err(fault) if missing.iter().all(|name| entered.contains_key(name)) => {
                tracing::debug!(?fault, "queues were not entered once more");
                now.checked_sub(ENTERED_FOR.saturating_sub(ENTERED_AGAIN))
            }
            Err(fault) => return Err(fault),
        };
        if entered.len() + missing.len() > REMEMBERED_MAX {
            entered.clear();
        }
        entered.extend(missing.into_iter().zip(fresh.into_iter().cycle()));
        Ok(())
    }

    /// Whether this program can read what is in the namespace.
    pub(crate) async fn check(session: &Session, keys: &Keys) -> Result<(), Fault> {
        let mut get = redis::cmd("GET");
        get.arg(&keys.layout()[..]);
        match session.command(get).await? {
            Value::Nil => Ok(()),
            found => check_layout(answer::integer(found)?),
        }
    }

    /// The names after one, in byte order, at most so many.
    pub(crate) async fn page(
        session: &Session,
        keys: &Keys,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Name>, Fault> {
        let mut range = redis::cmd("ZRANGEBYLEX");
        range.arg(&keys.queues()[..]);
        match after {
            Some(name) => range.arg(format!("({name}")),
            None => range.arg("-"),
        };
        range.arg("+").arg("LIMIT").arg(0).arg(limit);
        answer::array(session.command(range).await?)?.into_iter().map(name).collect()
    }

    /// All names, in byte order.
    pub(crate) async fn all(session: &Session, keys: &Keys) -> Result<Vec<Name>, Fault> {
        let mut names: Vec<Name> = Vec::new();
        loop {
            let page = Self::page(session, keys, names.last(), PAGE).await?;
            let is_last = page.len() < PAGE as usize;
            names.extend(page);
            if is_last {
                return Ok(names);
            }
        }
    }

    fn missing<'a>(&self, queues: impl IntoIterator<Item = &'a Name>) -> Vec<Name> {
        let entered = self.entered();
        let is_missing = |name: &&Name| entered.get(*name).is_none_or(|at| at.elapsed() > ENTERED_FOR);
        queues.into_iter().filter(is_missing).cloned().collect()
    }

    fn entered(&self) -> MutexGuard<'_, HashMap<Name, Instant>> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_layout(found: i64) -> Result<(), Fault> {
    let too_new = StoreError::SchemaTooNew { found, known: LAYOUT };
    if found > LAYOUT { Err(too_new.into()) } else { Ok(()) }
}

fn name(value: Value) -> Result<Name, Fault> {
    let bytes = answer::bytes(value)?;
    let text = std::str::from_utf8(&bytes).ok();
    let name = text.and_then(|text| Name::new(text).ok());
    name.ok_or_else(|| Fault::Corrupt(format!("{:?} is no name of a queue", String::from_utf8_lossy(&bytes))))
}

#[cfg(test)]
mod tests {
    use windlass_core::store::Jobs;
    use windlass_core::{NewJob, Options};
    use windlass_store_testkit::servers::RedisServer;

    use super::*;
    use crate::connect::{Effect, Lane};
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

    async fn overwrite(store: &RedisStore, key: fn(&Keys) -> Bytes, value: &'static str) {
        let overwrite = store.call(Lane::Work, Effect::Write, move |tools, session| async move {
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
        store.enqueue(&[job("q")]).await.unwrap();
        overwrite(&store, Keys::layout, "2").await;
        let too_new =
            |error: StoreError| matches!(error, StoreError::SchemaTooNew { found: 2, known: LAYOUT });
        assert!(RedisStore::open_with(options).await.is_err_and(too_new), "nobody new comes in");
        assert!(store.enqueue(&[job("other")]).await.is_err_and(too_new), "who is in begins nothing new");
        expire(&store.tools.registry);
        assert!(store.enqueue(&[job("q")]).await.is_err_and(too_new), "and goes on with nothing for long");
    }

    #[tokio::test]
    async fn a_queue_that_was_entered_takes_jobs_while_the_names_are_away() {
        let store = RedisStore::open_with(options()).await.unwrap();
        store.enqueue(&[job("q")]).await.unwrap();
        overwrite(&store, Keys::queues, "in the way").await;
        expire(&store.tools.registry);
        store.enqueue(&[job("q")]).await.unwrap();
        let name = |text| Name::new(text).unwrap();
        assert!(store.tools.registry.missing([&name("q")]).is_empty(), "not with every job");
        assert!(store.tools.registry.entered()[&name("q")].elapsed() > ENTERED_FOR / 2, "but soon again");
        assert!(store.enqueue(&[job("other")]).await.is_err(), "nobody would find it");
    }
}
