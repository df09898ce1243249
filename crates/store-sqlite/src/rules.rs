//! What the rules of a queue leave to a claim: pauses, its concurrency and its rate. The claim runs in the one transaction
//! that writes, so what is counted here holds until its jobs are taken.

use std::borrow::Cow;
use std::time::Duration;

use rusqlite::{CachedStatement, OptionalExtension, params};
use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Aged, Permits, QueueConfig, RULE_OF_KEYS, Rate, Spent, within};
use windlass_core::size::Caps;

use crate::error::Fault;
use crate::gates::Gates;
use crate::row;
use crate::row::definition::Definition;
use crate::session::Session;
use crate::transaction::Transaction;

pub(crate) const RUNNING: &str = include_str!("../queries/rules/running.sql");
pub(crate) const SPENT: &str = include_str!("../queries/rules/spent.sql");
const WAITING: &str = include_str!("../queries/rules/waiting.sql");
const SPEND: &str = include_str!("../queries/rules/spend.sql");
const COME_BACK: &str = include_str!("../queries/rules/come_back.sql");
const FORGET: &str = include_str!("../queries/rules/forget.sql");

/// The rules of one queue, as a claim meets them.
pub(crate) struct Rules<'a> {
    session: &'a Session<'a>,
    queue: &'a Name,
    config: &'a QueueConfig,
    definition: &'a Definition,
}

impl<'a> Rules<'a> {
    pub(crate) fn of(session: &'a Session<'a>, queue: &'a Name, definition: &'a Definition) -> Self {
        Self { session, queue, config: &definition.config, definition }
    }

    /// How many more jobs its limits leave; nothing for any number.
    pub(crate) fn room(&self) -> Result<Option<u64>, Fault> {
        let is_counted = self.config.concurrency.is_some();
        let running = if is_counted { running(self.session, self.queue)? } else { 0 };
        Ok(self.config.room(running, self.permits()?))
    }

    /// How many jobs are left of those that are wanted, of which so many can begin at once, where there is so much room.
    pub(crate) fn leave(&self, wanted: u32, at_once: u32, room: Option<u64>) -> u32 {
        let at_once = if self.config.limits() { at_once } else { wanted };
        within(wanted.min(at_once), room)
    }

    fn has_any(&self) -> bool {
        self.definition.rules > 0
    }

    /// The gates of its keys, if it has keys.
    pub(crate) fn gates(&self) -> Option<Gates<'a>> {
        (self.definition.rules >= RULE_OF_KEYS).then(|| Gates::of(self.session, self.queue, self.definition))
    }

    pub(crate) fn caps(&self) -> Caps {
        self.config.caps
    }

    /// The order of a claim with this nonce, where priority is aged.
    pub(crate) fn aged(&self, nonce: u64) -> Option<Aged> {
        self.config.aged(nonce)
    }

    /// The kinds that are not paused.
    pub(crate) fn kinds<'k>(&self, all: &'k [Name]) -> Cow<'k, [Name]> {
        if self.config.pauses.is_empty() {
            return Cow::Borrowed(all);
        }
        let permitted = all.iter().filter(|kind| self.config.pauses.permit(kind, self.session.now));
        Cow::Owned(permitted.cloned().collect())
    }

    /// Spends permits for jobs that were taken.
    pub(crate) fn spend(&self, jobs: u32) -> Result<(), Fault> {
        let (Some(rate), true) = (self.config.rate, jobs > 0) else { return Ok(()) };
        let now = self.session.now;
        let Spent { back_at, jobs } = rate.spend(jobs.into(), self.spent()?, now);
        let (queue, jobs) = (self.queue.as_str(), row::to_stored(jobs));
        self.session.prepare(COME_BACK)?.execute(params![queue, now.as_micros(), jobs])?;
        self.session.prepare(SPEND)?.execute(params![queue, back_at.as_micros(), jobs])?;
        Ok(())
    }

    /// How long until they may leave more, where that is a matter of time.
    pub(crate) fn next(&self) -> Result<Option<Duration>, Fault> {
        if !self.has_any() {
            return Ok(None);
        }
        let now = self.session.now;
        let permit_at =
            self.permits()?.filter(|permits| permits.jobs == 0).and_then(|permits| permits.more_at);
        let next = [permit_at, self.config.pauses.next_end(now)].into_iter().flatten().min();
        let gate = self.gates().map(|gates| gates.next()).transpose()?.flatten();
        Ok([next.map(|next| next.since(now)), gate].into_iter().flatten().min())
    }

    fn permits(&self) -> Result<Option<Permits>, Fault> {
        permits(self.queue, self.config.rate, self.session.now, || self.session.prepare(SPENT))
    }

    fn spent(&self) -> Result<Vec<Spent>, Fault> {
        spent(self.queue, self.session.prepare(SPENT)?)
    }
}

/// Jobs of a queue that run, with those that operations before this one in the same transaction have moved.
pub(crate) fn running(session: &Session<'_>, queue: &Name) -> Result<u64, Fault> {
    session.write_counters()?;
    let running = session.prepare(RUNNING)?.query_row([queue.as_str()], |row| row.get(0));
    Ok(row::number(running.optional()?.unwrap_or(0)))
}

/// What a rate permits a queue now; nothing for none. The statement is [`SPENT`].
pub(crate) fn permits<'c>(
    queue: &Name,
    rate: Option<Rate>,
    now: Timestamp,
    prepare: impl FnOnce() -> Result<CachedStatement<'c>, Fault>,
) -> Result<Option<Permits>, Fault> {
    let Some(rate) = rate else { return Ok(None) };
    Ok(Some(rate.permits(spent(queue, prepare()?)?, now)))
}

fn spent(queue: &Name, mut statement: CachedStatement<'_>) -> Result<Vec<Spent>, Fault> {
    let read = |found: &rusqlite::Row<'_>| {
        Ok(Spent { back_at: row::time(found.get(0)?), jobs: row::number(found.get(1)?) })
    };
    let rows = statement.query_map([queue.as_str()], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Jobs of a queue that wait, with those that operations before this one in the same transaction have moved.
pub(crate) async fn waiting<T: Transaction>(tx: &mut T, queue: &Name) -> Result<u64, T::Error> {
    tx.write_counters().await?;
    let found = tx.find(WAITING, &[queue.as_str().into()]).await?;
    let waiting = found.map(|found| found.int(0)).transpose();
    Ok(row::number(waiting.map_err(|error| Fault::Corrupt(error.to_string()))?.unwrap_or(0)))
}

/// Forgets what was spent of the rate of a queue that is removed.
pub(crate) fn forget(session: &Session<'_>, queue: &Name) -> Result<(), Fault> {
    session.prepare(FORGET)?.execute([queue.as_str()])?;
    Ok(())
}
