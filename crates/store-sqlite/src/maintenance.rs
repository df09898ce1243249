//! Work that no job asks for: moving what is due, removing what is no longer kept. Claims move what is due in
//! their own queues through the same functions.

use std::sync::PoisonError;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::outcome::Reason;
use windlass_core::queue::{Keep, Retention};
use windlass_core::store::{Cause, Maintenance, Promotion, StoreResult};
use windlass_core::{Name, State};

use crate::error::Fault;
use crate::gates::sweep::{self, Found};
use crate::key_rates;
use crate::keys;
use crate::moves::{self, Standing};
use crate::records;
use crate::row::definition::Definition;
use crate::session::Session;
use crate::tallies::{self, KindPlace};
use crate::transaction::at_once;
use crate::{SqliteStore, row};

const DUE: &str = include_str!("../queries/maintenance/due.sql");
const NEXT_DUE: &str = include_str!("../queries/maintenance/next_due.sql");
const EXPIRED: &str = include_str!("../queries/maintenance/expired.sql");
const DUE_QUEUES: &str = include_str!("../queries/maintenance/due_queues.sql");
const FINISHED_QUEUES: &str = include_str!("../queries/maintenance/finished_queues.sql");
const OLDEST: &str = include_str!("../queries/maintenance/oldest.sql");

/// Rows that one transaction takes away: others get a turn in between.
pub(crate) const CHUNK: u32 = 500;

#[async_trait]
impl Maintenance for SqliteStore {
    async fn promote(&self, limit: u32) -> StoreResult<Promotion> {
        self.write(limit as usize, move |session| promote(session, limit)).await
    }

    async fn prune(&self, limit: u32) -> StoreResult<u32> {
        self.in_chunks(limit, prune).await
    }

    /// Looks first: nearly always there is nothing to forget or to mend, and a look needs no turn at the write lock.
    async fn tidy(&self, limit: u32) -> StoreResult<u32> {
        if limit == 0 {
            return Ok(0);
        }
        let swept = || self.inner.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let after = swept().clone();
        let look = move |connection: &Connection, now| {
            let is_any = keys::is_any_over(connection, now)?
                || key_rates::is_any_back(connection, now)?
                || records::is_any_over(connection, now)?
                || tallies::is_any_over(connection, now)?;
            Ok((is_any, sweep::look(connection, now, &after, limit)?))
        };
        let (is_any, Found { damaged, next }) = self.read(look).await?;
        *swept() = next;
        let mended = match damaged.is_empty() {
            true => 0,
            false => self.write(damaged.len(), move |session| sweep::mend(session, &damaged)).await?,
        };
        Ok(mended + if is_any { self.in_chunks(limit, forget_over).await? } else { 0 })
    }
}

impl SqliteStore {
    /// Takes away rows, at most so many, in transactions of [`CHUNK`].
    async fn in_chunks(
        &self,
        limit: u32,
        take_away: fn(&Session<'_>, u32) -> Result<u32, Fault>,
    ) -> StoreResult<u32> {
        let store = self.clone();
        finished(async move {
            let mut gone = 0;
            loop {
                let chunk = CHUNK.min(limit - gone);
                let more = store.write(chunk as usize, move |session| take_away(session, chunk)).await?;
                gone += more;
                if more < chunk || gone == limit {
                    return Ok(gone);
                }
            }
        })
        .await
    }
}

/// Forgets unique keys, permits of keys and records whose time is over, and folds tallies, at most so many. Answers how many.
fn forget_over(session: &Session<'_>, limit: u32) -> Result<u32, Fault> {
    let keys = keys::forget_over(session, limit)?;
    let gone = keys + key_rates::forget_back(session, limit - keys)?;
    let gone = gone + records::forget_over(session, limit - gone)?;
    Ok(gone + tallies::tidy(session, limit - gone)?)
}

/// Several transactions of one call, spawned so that a caller that goes away does not leave it half-way.
pub(crate) async fn finished<T: Send + 'static>(
    call: impl Future<Output = StoreResult<T>> + Send + 'static,
) -> StoreResult<T> {
    tokio::spawn(call).await.unwrap_or_else(|error| Err(Fault::Defect(error.to_string()).into()))
}

fn promote(session: &Session<'_>, limit: u32) -> Result<Promotion, Fault> {
    session.write_counters()?;
    let mut moved = Promotion::default();
    for queue in due_queues(session, limit)? {
        let more = promote_queue(session, &queue, limit - moved.expired, limit - moved.promoted)?;
        moved.expired += more.expired;
        moved.promoted += more.promoted;
        session.ring(more.rings(&queue));
    }
    Ok(moved)
}

/// Moves what has expired in one queue to `dead`, then what is due to `ready`, at most so many of each.
pub(crate) fn promote_queue(
    session: &Session<'_>,
    queue: &Name,
    expired_max: u32,
    due_max: u32,
) -> Result<Promotion, Fault> {
    let tx = &mut session.tx();
    let expired = expired(session, queue, expired_max)?;
    for job in &expired {
        at_once(moves::end(tx, *job, State::Dead, (Reason::Expired, Cause::Expired)))?;
    }
    let due = due(session, queue, due_max)?;
    if !due.is_empty() {
        at_once(moves::promote(tx, &due))?;
    }
    Ok(Promotion { promoted: due.len() as u32, expired: expired.len() as u32 })
}

fn due<'q>(session: &Session<'_>, queue: &'q Name, limit: u32) -> Result<Vec<Standing<'q>>, Fault> {
    let mut statement = session.prepare(DUE)?;
    let fields = params![queue.as_str(), session.now.as_micros(), limit];
    let (state, kind) = (State::Scheduled, KindPlace::default());
    let standing =
        |seq, has_gate| Standing { seq, queue, state, has_key: false, has_gate, kind, since: None };
    let rows = statement.query_map(fields, |row| Ok(standing(row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Whether a queue still holds a job whose expiry has passed.
pub(crate) fn has_expired(session: &Session<'_>, queue: &Name) -> Result<bool, Fault> {
    Ok(!expired(session, queue, 1)?.is_empty())
}

fn expired<'q>(session: &Session<'_>, queue: &'q Name, limit: u32) -> Result<Vec<Standing<'q>>, Fault> {
    let mut statement = session.prepare(EXPIRED)?;
    let mut rows = statement.query(params![queue.as_str(), session.now.as_micros(), limit])?;
    let mut jobs = Vec::new();
    while let Some(found) = rows.next()? {
        if let Some(state) = row::readable(row::state(found, 1))? {
            let kind = session.kind(found.get_ref(3)?.as_str().unwrap_or_default());
            let (seq, has_key) = (found.get(0)?, found.get(2)?);
            jobs.push(Standing { seq, queue, state, has_key, has_gate: false, kind, since: None });
        }
    }
    Ok(jobs)
}

/// How long until the next scheduled job of a queue is due.
pub(crate) fn next_due(session: &Session<'_>, queue: &Name) -> Result<Option<Duration>, Fault> {
    let due_at: Option<i64> =
        session.prepare(NEXT_DUE)?.query_row([queue.as_str()], |row| row.get(0)).optional()?;
    Ok(due_at.map(|due_at| row::time(due_at).since(session.now)))
}

fn prune(session: &Session<'_>, limit: u32) -> Result<u32, Fault> {
    session.write_counters()?;
    let mut pruned = 0;
    for Finished { queue, retention, counts } in finished_queues(session)? {
        for (state, count) in State::TERMINAL.into_iter().zip(counts) {
            let Some(keep) = retention.of(state) else { continue };
            let old = not_kept(session, &queue, state, keep, count, limit - pruned)?;
            if !old.is_empty() {
                let kind = KindPlace::default();
                let standing = |seq| Standing {
                    seq,
                    queue: &queue,
                    state,
                    has_key: false,
                    has_gate: false,
                    kind,
                    since: None,
                };
                let old: Vec<_> = old.into_iter().map(standing).collect();
                at_once(moves::remove(&mut session.tx(), &old, Cause::NotKept))?;
                pruned += old.len() as u32;
            }
        }
        if pruned == limit {
            break;
        }
    }
    Ok(pruned)
}

/// Finished jobs of a queue that its retention no longer keeps, the oldest first.
fn not_kept(
    session: &Session<'_>,
    queue: &Name,
    state: State,
    keep: Keep,
    count: u64,
    limit: u32,
) -> Result<Vec<i64>, Fault> {
    let excess = keep.excess(count, session.now);
    let mut old = Vec::new();
    if limit == 0 || count == 0 || excess.is_nothing() {
        return Ok(old);
    }
    let mut statement = session.prepare(OLDEST)?;
    let mut rows = statement.query(params![queue.as_str(), state.code(), limit])?;
    while let Some(found) = rows.next()? {
        let finished_at = row::time(found.get::<_, Option<i64>>(1)?.unwrap_or_default());
        if !excess.takes(old.len() as u64, finished_at) {
            break;
        }
        old.push(found.get(0)?);
    }
    Ok(old)
}

/// Queues in which something is due or has expired: enough of them to move so many of each. All queues are
/// looked at, but only these are written to.
fn due_queues(session: &Session<'_>, limit: u32) -> Result<Vec<Name>, Fault> {
    let mut statement = session.prepare(DUE_QUEUES)?;
    let mut rows = statement.query(params![session.now.as_micros(), 2 * i64::from(limit)])?;
    let mut names = Vec::new();
    while let Some(found) = rows.next()? {
        names.extend(row::readable(row::name(found, 0))?);
    }
    Ok(names)
}

/// A queue with finished jobs.
struct Finished {
    queue: Name,
    retention: Retention,
    /// How many are completed, dead and cancelled.
    counts: [u64; 3],
}

fn finished_queues(session: &Session<'_>) -> Result<Vec<Finished>, Fault> {
    let mut statement = session.prepare(FINISHED_QUEUES)?;
    let mut rows = statement.query([])?;
    let mut queues = Vec::new();
    while let Some(found) = rows.next()? {
        let count = |column: usize| Ok::<_, rusqlite::Error>(found.get::<_, i64>(column)?.unsigned_abs());
        let config: Option<String> = found.get(1)?;
        let Some(queue) = row::readable(row::name(found, 0))? else { continue };
        let Definition { config, unreadable, .. } = Definition::read(config.as_deref());
        if let Some(why) = unreadable {
            tracing::warn!(%queue, why, "a queue's definition does not read: nothing of the queue is removed");
        }
        queues.push(Finished {
            queue,
            retention: config.retention,
            counts: [count(2)?, count(3)?, count(4)?],
        });
    }
    Ok(queues)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use windlass_core::clock::Timestamp;

    use super::*;
    use crate::migrate;

    #[test]
    fn only_queues_with_something_to_move_are_looked_into() {
        let connection = Connection::open_in_memory().unwrap();
        migrate::run(&connection).unwrap();
        let insert = "
            INSERT INTO windlass_jobs (
                id, queue, kind, state, priority, due_at, enqueued_at, fence, attempt, stalls, ambiguous, cancel,
                backoff, expires_at, payload
            )
            VALUES (randomblob(16), ?1, 'k', ?2, 0, ?3, 0, 0, ?4, 0, 0, 0, 0, ?5, x'')";
        let calls = RefCell::default();
        let session = Session::new(&connection, Timestamp::from_micros(100), &calls);
        for (queue, state, due_at, attempt, expires_at) in [
            ("due", State::Scheduled, 100, 0, None),
            ("expired", State::Ready, 0, 0, Some(100)),
            ("held", State::Blocked, 0, 0, None),
            ("lapsed", State::Blocked, 0, 0, Some(100)),
            ("later", State::Scheduled, 101, 0, Some(101)),
            ("ready", State::Ready, 0, 0, None),
            ("started", State::Ready, 0, 1, Some(1)),
            ("unstarted", State::Scheduled, 500, 0, Some(1)),
        ] {
            connection.execute(insert, params![queue, state.code(), due_at, attempt, expires_at]).unwrap();
            session.moves.borrow_mut().counts.add(&Name::new(queue).unwrap(), state, 1);
        }
        session.write_counters().unwrap();
        let found =
            |limit| due_queues(&session, limit).unwrap().iter().map(Name::to_string).collect::<Vec<_>>();
        assert_eq!(found(9), ["due", "expired", "lapsed", "unstarted"]);
        assert_eq!(found(1), ["due", "expired"]);
        assert_eq!(found(0), [""; 0]);
        assert_eq!(promote(&session, 9).unwrap(), Promotion { promoted: 1, expired: 3 });
        assert_eq!(found(9), [""; 0]);
    }
}
