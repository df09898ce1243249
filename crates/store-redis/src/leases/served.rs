//! Which queues a reaper looks into: those that leases name, living or run out, and those in which a copy of a lease was
//! seen that has run out. A copy whose record was lost is found by its worker, or by the next promoter that passes.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use windlass_core::Name;
use windlass_core::store::{Duty, serves};

use super::holders::{OPENED_BYTES, served};
use crate::agenda::Round;
use crate::error::Fault;
use crate::session::Session;
use crate::{Tools, answer};

/// How many leases are read at once.
const PAGE: usize = 500;

/// How long records are remembered. They do not change, but an id may be used for another lease.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// For so long after records could not be read every queue is looked into: leases may have been opened without a record
/// meanwhile, and their workers lost.
const WIDE_FOR: Duration = Duration::from_secs(5 * 60);

/// The queues of leases, as this process read them last.
#[derive(Debug, Default)]
pub(crate) struct Served {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    by_lease: HashMap<Bytes, Arc<[Name]>>,
    since: Option<Duration>,
    /// When they could not be read.
    failed: Option<Duration>,
}

/// The queues that a reaper looks into.
pub(super) struct Reaping {
    pub(super) queues: Vec<Name>,
    /// Those that others have asked for.
    pub(super) agenda: Round,
    /// Whether records and agenda were read, so that every queue which a record names is among them.
    pub(super) is_whole: bool,
}

impl Reaping {
    /// Where records and agenda cannot be read, those that this process knows.
    pub(super) async fn read(tools: &Tools, session: &Session) -> Result<Self, Fault> {
        let hasty = &session.hasty();
        let (named, agenda) =
            tokio::join!(named(tools, hasty), Box::pin(Round::read(tools, session, Duty::Reap)));
        let mut queues: BTreeSet<Name> = tools.holders.queues().into_iter().collect();
        let is_whole = named.is_ok() && agenda.as_ref().is_ok_and(|round| round.began().is_some());
        if tools.served.is_wide(named.is_err(), tools.time())
            && let Ok(all) = tools.registry.all(hasty, &tools.keys).await
        {
            queues.extend(all);
        }
        let agenda = match (named, agenda) {
            (Ok(()), agenda) => agenda.unwrap_or_else(|_| Round::unread(Duty::Reap)),
            (Err(fault), agenda) => {
                queues.extend(tools.registry.known());
                let agenda = agenda.unwrap_or_else(|_| Round::unread(Duty::Reap));
                if queues.is_empty() && agenda.queues().is_empty() {
                    return Err(fault);
                }
                tracing::debug!(?fault, "lost jobs are looked for in the queues that were seen before");
                agenda
            }
        };
        queues.extend(agenda.queues());
        queues.extend(tools.served.queues());
        Ok(Self { queues: queues.into_iter().collect(), agenda, is_whole })
    }
}

impl Served {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queues that leases name.
    pub(crate) fn queues(&self) -> Vec<Name> {
        self.seen().by_lease.values().flat_map(|queues| queues.iter().cloned()).collect()
    }

    /// Whether records could not be read now, or a while ago.
    fn is_wide(&self, has_failed: bool, now: Duration) -> bool {
        let mut seen = self.seen();
        if has_failed {
            seen.failed = Some(now);
        }
        seen.failed = seen.failed.filter(|&failed| now >= failed && now - failed < WIDE_FOR);
        seen.failed.is_some()
    }

    /// What is remembered of leases; nothing when that was a while ago.
    fn remembered(&self, now: Duration) -> HashMap<Bytes, Arc<[Name]>> {
        let mut seen = self.seen();
        if seen.since.is_none_or(|since| now < since || now - since >= REMEMBERED_FOR) {
            seen.since = Some(now);
            return HashMap::new();
        }
        seen.by_lease.clone()
    }
}

/// Reads which queues the leases of the namespace name.
async fn named(tools: &Tools, session: &Session) -> Result<(), Fault> {
    let known = tools.served.remembered(tools.time());
    let (mut found, mut after) = (HashMap::new(), Bytes::from_static(b"-inf"));
    loop {
        let mut range = redis::cmd("ZRANGEBYSCORE");
        range.arg(&tools.keys.lease_order()[..]).arg(&after[..]).arg("+inf");
        range.arg("WITHSCORES").arg("LIMIT").arg(0).arg(PAGE);
        let page = answer::array(session.command(range).await?)?;
        let Some((leases, last)) = page_of(page)? else { break };
        let is_last = leases.len() < PAGE;
        let mut unknown = Vec::new();
        for lease in leases {
            match known.get(&lease) {
                Some(queues) => drop(found.insert(lease, Arc::clone(queues))),
                None => unknown.push(lease),
            }
        }
        found.extend(read_records(tools, session, unknown).await?);
        if is_last {
            break;
        }
        after = [b"(", &last[..]].concat().into();
    }
    tools.served.seen().by_lease = found;
    Ok(())
}

/// The leases of a page, and the place of the last one.
fn page_of(page: Vec<Value>) -> Result<Option<(Vec<Bytes>, Bytes)>, Fault> {
    let (mut leases, mut last) = (Vec::with_capacity(page.len() / 2), None);
    let mut page = page.into_iter();
    while let (Some(lease), Some(place)) = (page.next(), page.next()) {
        leases.push(answer::bytes(lease)?);
        last = Some(answer::bytes(place)?);
    }
    Ok(last.map(|last| (leases, last)))
}

async fn read_records(
    tools: &Tools,
    session: &Session,
    leases: Vec<Bytes>,
) -> Result<Vec<(Bytes, Arc<[Name]>)>, Fault> {
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    let mut get = redis::cmd("HMGET");
    get.arg(&tools.keys.leases()[..]);
    for lease in &leases {
        get.arg(&lease[..]);
    }
    let records = answer::array(session.command(get).await?)?;
    let mut found = Vec::with_capacity(leases.len());
    for (lease, record) in leases.into_iter().zip(records) {
        let Some(record) = answer::optional_bytes(record)? else { continue };
        match record.get(OPENED_BYTES..).and_then(served) {
            Some(served) => found.push((lease, serves::read(served).0.into())),
            None => tracing::warn!("a lease has a record that cannot be read, and is left out"),
        }
    }
    Ok(found)
}
