//! Waits for commits of users who enqueued within their own transaction and do not tell when it is committed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::types::{ToSql, Type};
use windlass_core::bell::Rings;

use super::Ringer;
use crate::connect::{Call, Connections as _, Pools, Server};
use crate::error::{Effect, Fault};
use crate::row::at;

const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A transaction that takes longer is left to polling.
const PATIENCE: Duration = Duration::from_secs(60);

/// The oldest of more are left to polling.
const WATCHED_MAX: usize = 1_000;

const DEADLINE: Duration = Duration::from_secs(5);

const ASK: &str = "SELECT xid, pg_xact_status(xid::xid8) FROM unnest($1) AS xid";

/// Rings when a transaction has been committed.
pub(crate) struct CommitWatch {
    server: Server,
    watched: Arc<Watched>,
}

struct Watched {
    /// Does not keep the store open.
    ringer: Weak<Ringer>,
    list: Mutex<List>,
    fresh: Notify,
}

#[derive(Debug, Default)]
struct List {
    since: VecDeque<Awaited>,
    is_attended: bool,
}

/// A transaction, since when it is watched, and what is owed when it has been committed.
#[derive(Debug)]
struct Awaited {
    xid: String,
    since: Instant,
    rings: Rings,
}

impl CommitWatch {
    pub(super) fn new(server: Server, ringer: Weak<Ringer>) -> Self {
        let (list, fresh) = (Mutex::default(), Notify::new());
        Self { server, watched: Arc::new(Watched { ringer, list, fresh }) }
    }

    /// Watches one more transaction. While there are any, the server is asked about all of them at once.
    pub(crate) fn watch(&self, xid: String, rings: Rings) {
        if rings.is_empty() || xid.parse::<u64>().is_err() {
            return;
        }
        let is_attended = self.watched.list().add(xid, rings);
        if is_attended {
            self.watched.fresh.notify_one();
        } else {
            let (watched, shared) = (Arc::clone(&self.watched), Arc::clone(self.server.connections()));
            self.server.spawn_background(async move { watched.attend(&shared).await });
        }
    }

    /// Whether anything is still waited for.
    #[cfg(test)]
    pub(super) fn is_attended(&self) -> bool {
        self.watched.list().is_attended
    }
}

impl List {
    /// Whether a task attends to the list already; if not, the caller has to start one.
    fn add(&mut self, xid: String, rings: Rings) -> bool {
        match self.since.iter_mut().find(|known| known.xid == xid) {
            Some(known) => known.rings = std::mem::take(&mut known.rings).and(rings),
            None => self.since.push_back(Awaited { xid, since: Instant::now(), rings }),
        }
        if self.since.len() > WATCHED_MAX {
            self.since.pop_front();
        }
        std::mem::replace(&mut self.is_attended, true)
    }

    /// The ids to ask about; none ends the attendance.
    fn current(&mut self) -> Vec<String> {
        self.since.retain(|awaited| awaited.since.elapsed() < PATIENCE);
        self.is_attended = !self.since.is_empty();
        self.since.iter().map(|awaited| awaited.xid.clone()).collect()
    }
}

impl Watched {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn attend(&self, shared: &Arc<Pools>) {
        let (mut pause, mut took) = (PAUSE_MIN, Duration::ZERO);
        loop {
            // A fresh transaction is asked about soon. With many of them the server is still left alone for most
            // of the time.
            if timeout(pause, self.fresh.notified()).await.is_ok() {
                pause = PAUSE_MIN;
                sleep(pause.max(took * 4)).await;
            }
            let xids = self.list().current();
            if xids.is_empty() {
                return;
            }
            let began = Instant::now();
            let answer = ask(shared, xids.clone()).await;
            took = began.elapsed();
            pause = (pause * 2).min(PAUSE_MAX);
            match answer {
                Ok(answers) => self.settle(&answers),
                Err(fault) => {
                    tracing::debug!(?fault, "cannot ask for transactions");
                    // The server was changed for one that does not know them, or does not like the question.
                    if !fault.into_error(Effect::Read).is_transient() {
                        self.list().since.retain(|awaited| !xids.contains(&awaited.xid));
                    }
                }
            }
        }
    }

    /// What is still in progress stays; what the server has forgotten was long ago.
    fn settle(&self, answers: &[(String, Option<String>)]) {
        let is_decided = |(_, status): &&(String, Option<String>)| status.as_deref() != Some("in progress");
        let decided: Vec<_> = answers.iter().filter(is_decided).collect();
        let mut owed = Rings::NONE;
        self.list().since.retain_mut(|awaited| {
            let Some((_, status)) = decided.iter().find(|(known, _)| *known == awaited.xid) else {
                return true;
            };
            if status.as_deref() == Some("committed") {
                owed = std::mem::take(&mut owed).and(std::mem::take(&mut awaited.rings));
            }
            false
        });
        if let Some(ringer) = self.ringer.upgrade().filter(|_| !owed.is_empty()) {
            ringer.ring(owed);
        }
    }
}

async fn ask(shared: &Arc<Pools>, xids: Vec<String>) -> Result<Vec<(String, Option<String>)>, Fault> {
    let ask = |session: crate::session::Session| async move {
        let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&xids, Type::TEXT_ARRAY)];
        let rows = session.query(ASK, &parameters).await?;
        rows.iter().map(|row| Ok((at(row, 0)?, at(row, 1)?))).collect()
    };
    shared.run(Call::WRITE.within(DEADLINE), ask).await
}
