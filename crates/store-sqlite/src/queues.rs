//! What queues permit and what they hold.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::bell::Rings;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Counts, QueueConfig, QueueRecord, Removed};
use windlass_core::store::{Queues, StoreResult};
use windlass_core::{Name, State};

use crate::error::Fault;
use crate::gates;
use crate::key_rates;
use crate::keys;
use crate::maintenance::{CHUNK, finished};
use crate::row::definition::Definition;
use crate::session::Session;
use crate::{SqliteStore, row, rules};

const DEFINE: &str = include_str!("../queries/queues/define.sql");
const LIST: &str = include_str!("../queries/queues/list.sql");
const FIND: &str = include_str!("../queries/queues/find.sql");
const REMOVE: &str = include_str!("../queries/queues/remove.sql");

#[async_trait]
impl Queues for SqliteStore {
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()> {
        config.check()?;
        let (queue, config) = (queue.clone(), config.clone());
        self.write(1, move |session| {
            session.definition(&queue)?.check_rules(&queue)?;
            define(session, &queue, &config)
        })
        .await
    }

    async fn redefine(&self, queue: &Name, before: &QueueConfig, config: &QueueConfig) -> StoreResult<bool> {
        config.check()?;
        let (queue, before, config) = (queue.clone(), before.clone(), config.clone());
        self.write(1, move |session| {
            let definition = session.definition(&queue)?;
            definition.check_rules(&queue)?;
            if definition.config != before {
                return Ok(false);
            }
            define(session, &queue, &config).map(|()| true)
        })
        .await
    }

    async fn now(&self) -> StoreResult<Timestamp> {
        self.read(|_, now| Ok(now)).await
    }

    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>> {
        let after = after.cloned();
        self.read(move |connection, now| list(connection, after.as_ref(), limit, now)).await
    }

    async fn remove(&self, queue: &Name) -> StoreResult<Removed> {
        let (store, queue) = (self.clone(), queue.clone());
        finished(async move {
            loop {
                let queue = queue.clone();
                let removed = store.write(1, move |session| remove(session, &queue)).await?;
                if let Some(removed) = removed {
                    return Ok(removed);
                }
            }
        })
        .await
    }
}

fn define(session: &Session<'_>, queue: &Name, config: &QueueConfig) -> Result<(), Fault> {
    let before = session.definition(queue)?;
    if before.config.rate != config.rate {
        // Another rate begins anew.
        rules::forget(session, queue)?;
    }
    let closed_by = match before.unreadable {
        Some(_) => gates::closed_by(session, queue)?,
        None => None,
    };
    session.prepare(DEFINE)?.execute([queue.as_str(), &before.followed_by(config, closed_by).text()?])?;
    session.forget_definitions();
    session.ring(Rings::entered(State::Ready, queue));
    Ok(())
}

/// Nothing if the queue has more unique keys, gates or permits of keys than one transaction forgets. No job of it is left, so
/// these are keys that are held for a time, and gates that nothing stands behind.
fn remove(session: &Session<'_>, queue: &Name) -> Result<Option<Removed>, Fault> {
    session.definition(queue)?.check_rules(queue)?;
    // What operations before this one in the same transaction have moved counts as well.
    session.write_counters()?;
    let read = |found: &Row<'_>| Ok((found.get(0)?, counts(found, 1)?.0));
    let found: Option<(bool, Counts)> =
        session.prepare(FIND)?.query_row([queue.as_str()], read).optional()?;
    let Some((is_defined, counts)) = found else { return Ok(Some(Removed::Missing)) };
    let removed = Removed::of(counts, is_defined);
    if removed == Removed::Done {
        for forget in [keys::forget_queue, gates::forget_queue, key_rates::forget_queue] {
            if forget(session, queue, CHUNK)? == CHUNK {
                return Ok(None);
            }
        }
        session.prepare(REMOVE)?.execute([queue.as_str()])?;
        rules::forget(session, queue)?;
        session.forget_definitions();
    }
    Ok(Some(removed))
}

fn list(
    connection: &Connection,
    after: Option<&Name>,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<QueueRecord>, Fault> {
    let mut statement = connection.prepare_cached(LIST)?;
    // No name is empty, so all come after the empty text.
    let mut rows = statement.query(params![after.map_or("", Name::as_str), limit])?;
    let mut queues = Vec::new();
    while let Some(found) = rows.next()? {
        let config: Option<String> = found.get(1)?;
        let Definition { config, mut unreadable, .. } = Definition::read(config.as_deref());
        let (counts, below_zero) = counts(found, 2)?;
        if let Some((state, count)) = below_zero {
            unreadable.get_or_insert_with(|| format!("it counts {count} jobs that are {state}"));
        }
        let name = row::readable(row::name(found, 0))?.unwrap_or_else(Name::unreadable);
        let permits =
            rules::permits(&name, config.rate, now, || Ok(connection.prepare_cached(rules::SPENT)?))?;
        queues.push(QueueRecord { name, config, counts, permits, unreadable });
    }
    Ok(queues)
}

/// The counters from a column on, and one that is below zero.
fn counts(row: &Row<'_>, first: usize) -> rusqlite::Result<(Counts, Option<(State, i64)>)> {
    let (mut counts, mut below_zero) = (Counts::default(), None);
    for (column, state) in (first..).zip(State::ALL) {
        let count: i64 = row.get(column)?;
        if count < 0 {
            below_zero = Some((state, count));
        }
        counts.set(state, u64::try_from(count).unwrap_or_default());
    }
    Ok((counts, below_zero))
}
