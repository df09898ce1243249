//! Which queues there are. Keys of different queues may live on different servers, and no call scans for keys, so
//! every queue is entered under its name before something is written to it; calls about all queues go by these names.
//!
//! Names are only ever added. A queue that was entered and holds nothing is not shown to anybody.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redis::Value;
use windlass_core::Name;

use crate::answer;
use crate::error::Fault;
use crate::keys::Keys;
use crate::script::{Script, script};
use crate::session::Session;

static ENTER: Script = script!("queues/enter");

/// How long a queue counts as entered. A registry that lost its newest names with a server has them again after this.
const ENTERED_FOR: Duration = Duration::from_secs(60);

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
    /// Enters queues, unless this process did a short while ago. It comes before the first write to them.
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
        for names in missing.chunks(PAGE as usize) {
            let names = names.iter().map(|name| Bytes::copy_from_slice(name.as_str().as_bytes()));
            session.run(&ENTER, vec![keys.queues()], names.collect()).await?;
        }
        let now = Instant::now();
        let mut entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner);
        if entered.len() + missing.len() > REMEMBERED_MAX {
            entered.clear();
        }
        entered.extend(missing.into_iter().map(|name| (name, now)));
        Ok(())
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
        let entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner);
        let is_missing = |name: &&Name| entered.get(*name).is_none_or(|at| at.elapsed() > ENTERED_FOR);
        queues.into_iter().filter(is_missing).cloned().collect()
    }
}

fn name(value: Value) -> Result<Name, Fault> {
    let bytes = answer::bytes(value)?;
    let text = std::str::from_utf8(&bytes).ok();
    let name = text.and_then(|text| Name::new(text).ok());
    name.ok_or_else(|| Fault::Corrupt(format!("{:?} is no name of a queue", String::from_utf8_lossy(&bytes))))
}
