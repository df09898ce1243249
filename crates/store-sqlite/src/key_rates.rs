//! What was spent of the rate of each key. Entries of a key are removed when it spends again; those of keys that do not come
//! back, in bounded steps by maintenance.

use rusqlite::{Connection, params};
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

/// What the rate permits a key now.
pub(crate) fn permits(session: &Session<'_>, of: OfKey<'_>, rate: Rate) -> Result<Permits, Fault> {
    Ok(rate.permits(spent(session, of)?, session.now))
}

/// Spends permits for jobs that were taken.
pub(crate) fn spend(session: &Session<'_>, of: OfKey<'_>, rate: Rate, jobs: u64) -> Result<(), Fault> {
    let Spent { back_at, jobs } = rate.spend(jobs, spent(session, of)?, session.now);
    let (queue, key, jobs) = (of.queue.as_str(), of.key.as_str(), row::to_stored(jobs));
    let now = session.now.as_micros();
    session.prepare(COME_BACK)?.execute(params![queue, key, now, jobs, of.since])?;
    session.prepare(SPEND)?.execute(params![queue, key, back_at.as_micros(), jobs, of.since])?;
    Ok(())
}

fn spent(session: &Session<'_>, of: OfKey<'_>) -> Result<Vec<Spent>, Fault> {
    let mut statement = session.prepare(SPENT)?;
    let read = |found: &rusqlite::Row<'_>| {
        Ok(Spent { back_at: row::time(found.get(0)?), jobs: row::number(found.get(1)?) })
    };
    let rows = statement.query_map(params![of.queue.as_str(), of.key.as_str(), of.since], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
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
