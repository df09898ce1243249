//! What was spent of the rate of each key. Entries of a key are removed when it spends again; those of keys that do not come
//! back, in bounded steps by maintenance.

use rusqlite::{CachedStatement, Connection, params};
use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Permits, Rate, Spent};

use crate::error::Fault;
use crate::row;
use crate::session::Session;

const SPENT: &str = include_str!("../queries/key_rates/spent.sql");
const SPEND: &str = include_str!("../queries/key_rates/spend.sql");
const COME_BACK: &str = include_str!("../queries/key_rates/come_back.sql");
const IS_ANY_BACK: &str = include_str!("../queries/key_rates/is_any_back.sql");
const FORGET_BACK: &str = include_str!("../queries/key_rates/forget_back.sql");
const FORGET_QUEUE: &str = include_str!("../queries/key_rates/forget_queue.sql");

/// Whose entries, and since which definition they count.
#[derive(Clone, Copy)]
pub(crate) struct OfKey<'a> {
    pub(crate) queue: &'a Name,
    pub(crate) key: &'a Name,
    pub(crate) since: i64,
}

/// The rate of the keys of one queue, as a claim meets it.
pub(crate) struct KeyRates<'a> {
    rate: Rate,
    now: Timestamp,
    spent: CachedStatement<'a>,
    come_back: CachedStatement<'a>,
    spend: CachedStatement<'a>,
}

impl<'a> KeyRates<'a> {
    pub(crate) fn of(session: &Session<'a>, rate: Rate) -> Result<Self, Fault> {
        let (spent, come_back) = (session.prepare(SPENT)?, session.prepare(COME_BACK)?);
        Ok(Self { rate, now: session.now, spent, come_back, spend: session.prepare(SPEND)? })
    }

    /// What a key has spent.
    pub(crate) fn spent(&mut self, of: OfKey<'_>) -> Result<Vec<Spent>, Fault> {
        let read = |found: &rusqlite::Row<'_>| {
            Ok(Spent { back_at: row::time(found.get(0)?), jobs: row::number(found.get(1)?) })
        };
        let rows = self.spent.query_map(params![of.queue.as_str(), of.key.as_str(), of.since], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Spends permits for jobs that were taken, where so much was spent before. Answers what is permitted then.
    pub(crate) fn spend(
        &mut self,
        of: OfKey<'_>,
        jobs: u64,
        mut before: Vec<Spent>,
    ) -> Result<Permits, Fault> {
        let spent = self.rate.spend(jobs, before.iter().copied(), self.now);
        let (queue, key, jobs) = (of.queue.as_str(), of.key.as_str(), row::to_stored(spent.jobs));
        if !before.is_empty() {
            self.come_back.execute(params![queue, key, self.now.as_micros(), jobs, of.since])?;
        }
        self.spend.execute(params![queue, key, spent.back_at.as_micros(), jobs, of.since])?;
        before.push(spent);
        Ok(self.rate.permits(before, self.now))
    }
}

/// Whether there are permits that have come back.
pub(crate) fn is_any_back(connection: &Connection, now: Timestamp) -> Result<bool, Fault> {
    Ok(connection.prepare_cached(IS_ANY_BACK)?.query_row([now.as_micros()], |row| row.get(0))?)
}

/// Forgets permits that have come back, at most so many entries. Answers how many.
pub(crate) fn forget_back(session: &Session<'_>, limit: u32) -> Result<u32, Fault> {
    Ok(session.prepare(FORGET_BACK)?.execute([session.now.as_micros(), limit.into()])? as u32)
}

/// Forgets entries of a queue that is being removed, at most so many. Answers how many.
pub(crate) fn forget_queue(session: &Session<'_>, queue: &Name, limit: u32) -> Result<u32, Fault> {
    Ok(session.prepare(FORGET_QUEUE)?.execute(params![queue.as_str(), limit])? as u32)
}
