//! Tallies: `moves` notes what happens to jobs, the transaction adds it to a row per queue, kind and minute just before it
//! commits, and maintenance folds minutes that are over into the rows of each interval.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::store::{StoreResult, Tallies};
use windlass_core::tally::{Cell, Gather, Interval, KINDS_MAX, Row, Tally, TallyUnreadable, Window};

use crate::error::Fault;
use crate::session::Session;
use crate::transaction::Transaction;
use crate::{SqliteStore, row};

const FIND: &str = include_str!("../queries/tallies/find.sql");
const PUT: &str = include_str!("../queries/tallies/put.sql");
const ROWS: &str = include_str!("../queries/tallies/rows.sql");
const KINDS: &str = include_str!("../queries/tallies/kinds.sql");
const FRESH: &str = include_str!("../queries/tallies/fresh.sql");
const REMOVE: &str = include_str!("../queries/tallies/remove.sql");
const OLD: &str = include_str!("../queries/tallies/old.sql");
const IS_ANY_OVER: &str = include_str!("../queries/tallies/is_any_over.sql");

/// The step of minutes that are not folded yet.
const UNFOLDED: i64 = 0;
/// The kind of what is counted together.
const OTHERS: &str = "";

/// What the operations of one transaction have to count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counted {
    /// A transaction meets few kinds, so a list is searched faster than a map. Never cleared, for places point into it.
    kinds: Vec<Name>,
    counted: Vec<(Name, KindPlace, Tally)>,
}

/// A kind that a transaction has met, or one that is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KindPlace(Option<u16>);

impl Counted {
    /// The place of a kind. Of more kinds than are ever named, and of texts that are not names, it is not known.
    pub(crate) fn kind(&mut self, kind: &str) -> KindPlace {
        let place = self.kinds.iter().position(|known| known.as_str() == kind).or_else(|| {
            let name = Name::new(kind).ok().filter(|_| self.kinds.len() < 4 * KINDS_MAX)?;
            self.kinds.push(name);
            Some(self.kinds.len() - 1)
        });
        KindPlace(place.and_then(|place| u16::try_from(place).ok()))
    }

    /// Counts something of a job.
    pub(crate) fn add(&mut self, queue: &Name, kind: KindPlace, cell: Cell) {
        let is_same =
            |(other, of_kind, _): &&mut (Name, KindPlace, Tally)| *of_kind == kind && other == queue;
        match self.counted.iter_mut().find(is_same) {
            Some((_, _, tally)) => tally.add(cell, 1),
            None => self.counted.push((queue.clone(), kind, [(cell, 1)].into_iter().collect())),
        }
    }

    /// Takes out what was counted.
    fn take(&mut self) -> Vec<(Name, KindPlace, Tally)> {
        std::mem::take(&mut self.counted)
    }

    fn name(&self, KindPlace(place): KindPlace) -> Option<Name> {
        self.kinds.get(usize::from(place?)).cloned()
    }
}

/// Writes what was noted and starts over.
pub(crate) async fn write<T: Transaction>(tx: &mut T) -> Result<(), T::Error> {
    let minute = Interval::Minute.floor(tx.now());
    let mut counted = Vec::new();
    tx.note(|moves| {
        for (queue, kind, tally) in moves.tallies.take() {
            counted.push((queue, moves.tallies.name(kind), tally));
        }
    });
    for (queue, kind, tally) in counted {
        let kind = kind.as_ref().map_or(OTHERS, Name::as_str);
        add(tx, (UNFOLDED, &queue, minute, kind), tally).await?;
    }
    Ok(())
}

/// Adds to a row, which is made if it is not there.
async fn add<T: Transaction>(
    tx: &mut T,
    (step, queue, at, kind): (i64, &Name, Timestamp, &str),
    mut tally: Tally,
) -> Result<(), T::Error> {
    let at = at.as_micros().into();
    let place = [step.into(), queue.as_str().into(), at, kind.into()];
    if let Some(found) = tx.find(FIND, &place).await? {
        let cells = found.bytes(0).map_err(|error| Fault::Corrupt(error.to_string()))?;
        tally.merge(&read(cells).map_err(|error| Fault::Corrupt(error.to_string()))?);
    }
    let bytes = tally.to_bytes();
    let [step, queue, at, kind] = place;
    tx.run(PUT, &[step, queue, at, kind, crate::transaction::Field::Slice(&bytes)]).await
}

fn read(cells: &[u8]) -> Result<Tally, TallyUnreadable> {
    Tally::from_bytes(cells)
}

#[async_trait]
impl Tallies for SqliteStore {
    async fn tallies(&self, window: &Window) -> StoreResult<Vec<Row>> {
        window.check()?;
        let window = window.clone();
        self.read(move |connection, now| rows(connection, &window, now)).await
    }
}

fn rows(connection: &Connection, window: &Window, now: Timestamp) -> Result<Vec<Row>, Fault> {
    let mut gather = Gather::new(window, now);
    let (first, last) = window.bounds();
    let kept = Interval::ALL.into_iter().filter(|interval| *interval >= window.interval).map(Some);
    let mut statement = connection.prepare_cached(ROWS)?;
    for step in kept.chain([None]) {
        for queue in &window.queues {
            let minutes = step.map_or(UNFOLDED, Interval::minutes);
            let mut found =
                statement.query(params![minutes, queue.as_str(), first.as_micros(), last.as_micros()])?;
            while let Some(stored) = found.next()? {
                let Ok(tally) = read(stored.get_ref(2)?.as_blob().unwrap_or_default()) else { continue };
                let at = row::time(stored.get(0)?);
                let kind = Name::new(stored.get_ref(1)?.as_str().unwrap_or_default()).ok();
                match step {
                    Some(interval) => gather.add_kept(queue, kind, interval, at, &tally),
                    None => gather.add_fresh(queue, kind, at, &tally),
                }
            }
        }
    }
    Ok(gather.rows())
}

/// Whether a minute is to be folded, or a row is no longer kept.
pub(crate) fn is_any_over(connection: &Connection, now: Timestamp) -> Result<bool, Fault> {
    let mut statement = connection.prepare_cached(IS_ANY_OVER)?;
    let mut is_any = |step: i64, before: Timestamp| {
        statement.query_row(params![step, before.as_micros()], |row| row.get::<_, bool>(0))
    };
    let mut found = is_any(UNFOLDED, Interval::Minute.floor(now))?;
    for interval in Interval::ALL {
        found = found || is_any(interval.minutes(), now.minus(interval.removed_after()))?;
    }
    Ok(found)
}

/// Folds minutes that are over and removes what is no longer kept, at most so many rows. Answers how many.
pub(crate) fn tidy(session: &Session<'_>, limit: u32) -> Result<u32, Fault> {
    let minute = Interval::Minute.floor(session.now);
    let (mut fresh, mut found) = (session.prepare(FRESH)?, Vec::new());
    let mut rows = fresh.query(params![minute.as_micros(), limit])?;
    while let Some(stored) = rows.next()? {
        let (queue, at, kind): (String, i64, String) = (stored.get(0)?, stored.get(1)?, stored.get(2)?);
        found.push((queue, row::time(at), kind, read(stored.get_ref(3)?.as_blob().unwrap_or_default())));
    }
    drop(rows);
    for (queue, at, kind, tally) in &found {
        // What a later program has written is left to it; a broken row harms no other.
        if let (Ok(name), Ok(tally)) = (Name::new(queue), tally) {
            fold(session, &name, *at, kind, tally)?;
        }
        session.prepare(REMOVE)?.execute(params![UNFOLDED, queue, at.as_micros(), kind])?;
    }
    let mut tidied = found.len() as u32;
    for interval in Interval::ALL {
        tidied += remove_old(session, interval, limit - tidied)?;
    }
    Ok(tidied)
}

/// Adds a minute to the rows of each interval.
fn fold(
    session: &Session<'_>,
    queue: &Name,
    minute: Timestamp,
    kind: &str,
    tally: &Tally,
) -> Result<(), Fault> {
    for interval in Interval::ALL {
        let (step, at) = (interval.minutes(), interval.floor(minute));
        let place = params![step, queue.as_str(), at.as_micros(), kind];
        let is_there = session.prepare(FIND)?.exists(place)?;
        let of_interval = params![step, queue.as_str(), at.as_micros()];
        let is_bound = !is_there
            && session.prepare(KINDS)?.query_row(of_interval, |row| row.get::<_, i64>(0))?
                >= KINDS_MAX as i64;
        let kind = if is_bound { OTHERS } else { kind };
        crate::transaction::at_once(add(&mut session.tx(), (step, queue, at, kind), tally.clone()))?;
    }
    Ok(())
}

fn remove_old(session: &Session<'_>, interval: Interval, limit: u32) -> Result<u32, Fault> {
    let before = session.now.minus(interval.removed_after()).as_micros();
    let mut old = session.prepare(OLD)?;
    let place = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let found = old.query_map(params![interval.minutes(), before, limit], place)?;
    let found: Vec<(String, i64, String)> = found.collect::<Result<_, _>>()?;
    for (queue, at, kind) in &found {
        session.prepare(REMOVE)?.execute(params![interval.minutes(), queue, at, kind])?;
    }
    Ok(found.len() as u32)
}
