//! The order of a queue with aged priority: merged from the levels of its lines, which stand in the documented order. Levels are
//! found one after the other by the index, and each is read in pieces from the last place that was seen, so that what a claim
//! has taken and not yet written is not seen again.

use std::collections::VecDeque;

use rusqlite::{OptionalExtension, Row, params};
use windlass_core::Name;
use windlass_core::queue::{Aged, LEVELS_LOOKED_MAX, PASSED_MAX};

use crate::error::Fault;
use crate::row;
use crate::session::Session;

const LEVEL_OF_KIND: &str = include_str!("../queries/aged/level_of_kind.sql");
const LEVEL_OF_KEY: &str = include_str!("../queries/aged/level_of_key.sql");
const JOBS_OF_KIND: &str = include_str!("../queries/aged/jobs_of_kind.sql");
const JOBS_OF_KEY: &str = include_str!("../queries/aged/jobs_of_key.sql");

/// The row of one ready job, with the columns that claims read.
pub(crate) const ONE: &str = include_str!("../queries/aged/one.sql");

/// The fewest jobs to look at per level.
const GLANCE_MIN: usize = 4;

/// Ready jobs in their turn.
pub(crate) struct Order<'a> {
    session: &'a Session<'a>,
    queue: &'a Name,
    aged: Aged,
    levels: Vec<Level<'a>>,
    /// How many jobs of a level to look at.
    glance: usize,
    /// Whether a line has more levels than are looked at.
    has_more_levels: bool,
}

/// A line: of a kind, or of a key.
#[derive(Clone, Copy)]
enum Line<'a> {
    Kind { name: &'a Name, place: usize },
    Key(&'a Name),
}

struct Level<'a> {
    line: Line<'a>,
    priority: i16,
    seen: VecDeque<Seen>,
    /// The last that was seen.
    last: (i64, i64),
    is_end_seen: bool,
}

#[derive(Clone, Copy)]
struct Seen {
    due_at: i64,
    seq: i64,
    /// The place of its kind among those that are asked for; nothing in the line of a key, where any may stand.
    kind: Option<usize>,
}

impl<'a> Order<'a> {
    /// The order of jobs without a key, of these kinds, for a claim of so many.
    pub(crate) fn of_kinds(
        session: &'a Session<'a>,
        queue: &'a Name,
        kinds: &'a [Name],
        aged: Aged,
        wanted: u32,
    ) -> Result<Self, Fault> {
        let mut order = Self::new(session, queue, aged);
        for (place, name) in kinds.iter().enumerate() {
            if !kinds[..place].contains(name) {
                order.add(Line::Kind { name, place })?;
            }
        }
        order.glance_for(wanted as usize);
        Ok(order)
    }

    /// Shows the first jobs of a key, as many as a gate looks at that may give so many, until it is enough. Answers whether it
    /// has more levels than were looked at.
    pub(crate) fn behind(
        session: &'a Session<'a>,
        queue: &'a Name,
        (key, aged): (&'a Name, Aged),
        most: u32,
        mut is_enough: impl FnMut(&Row<'_>) -> Result<bool, Fault>,
    ) -> Result<bool, Fault> {
        let mut order = Self::new(session, queue, aged);
        order.add(Line::Key(key))?;
        order.glance_for(most as usize + 1);
        let mut one = session.prepare(ONE)?;
        for _ in 0..most as usize + PASSED_MAX {
            let Some((seq, _)) = order.next()? else { break };
            let mut rows = one.query([seq])?;
            if let Some(found) = rows.next()?
                && is_enough(found)?
            {
                break;
            }
        }
        Ok(order.has_more_levels)
    }

    fn new(session: &'a Session<'a>, queue: &'a Name, aged: Aged) -> Self {
        Self { session, queue, aged, levels: Vec::new(), glance: GLANCE_MIN, has_more_levels: false }
    }

    /// Few jobs of each level have their turn in one claim.
    fn glance_for(&mut self, wanted: usize) {
        self.glance = (2 * wanted / self.levels.len().max(1)).max(GLANCE_MIN).min(wanted.max(1));
    }

    /// The row of the next job, and the place of its kind among those that are asked for.
    pub(crate) fn next(&mut self) -> Result<Option<(i64, Option<usize>)>, Fault> {
        for level in self.levels.iter_mut().filter(|level| level.must_look()) {
            level.look(self.session, self.queue, self.glance)?;
        }
        let aged = self.aged;
        let waiting = self.levels.iter_mut().filter(|level| !level.seen.is_empty());
        let next = waiting.min_by_key(|level| {
            let Seen { due_at, seq, .. } = level.seen[0];
            aged.place(level.priority, row::time(due_at), seq)
        });
        Ok(next.and_then(|level| level.seen.pop_front()).map(|seen| (seen.seq, seen.kind)))
    }

    /// Adds the levels of a line that a claim looks at.
    fn add(&mut self, line: Line<'a>) -> Result<(), Fault> {
        let mut found = self.down_from(line, i16::MAX.into(), i16::MIN.into(), LEVELS_LOOKED_MAX + 1)?;
        if found.len() > LEVELS_LOOKED_MAX {
            self.has_more_levels = true;
            let start = self.aged.start(found[0]);
            found = self.down_from(line, start, i16::MIN.into(), LEVELS_LOOKED_MAX)?;
            let left = LEVELS_LOOKED_MAX - found.len();
            found.extend(self.down_from(line, i16::MAX.into(), start + 1, left)?);
        }
        let (last, is_end_seen) = ((i64::MIN, i64::MIN), false);
        let level = |priority| Level { line, priority, seen: VecDeque::new(), last, is_end_seen };
        self.levels.extend(found.into_iter().map(level));
        Ok(())
    }

    /// The levels of a line from one to another, at most so many.
    fn down_from(&self, line: Line<'_>, from: i32, to: i32, most: usize) -> Result<Vec<i16>, Fault> {
        let (mut found, mut from) = (Vec::new(), from);
        let (sql, name) = match line {
            Line::Kind { name, .. } => (LEVEL_OF_KIND, name),
            Line::Key(name) => (LEVEL_OF_KEY, name),
        };
        let mut statement = self.session.prepare(sql)?;
        while found.len() < most {
            let parameters = params![self.queue.as_str(), name.as_str(), from];
            let level: Option<i16> = statement.query_row(parameters, |row| row.get(0)).optional()?;
            let Some(level) = level.filter(|&level| i32::from(level) >= to) else { break };
            found.push(level);
            from = i32::from(level) - 1;
        }
        Ok(found)
    }
}

impl Level<'_> {
    fn must_look(&self) -> bool {
        self.seen.is_empty() && !self.is_end_seen
    }

    fn look(&mut self, session: &Session<'_>, queue: &Name, glance: usize) -> Result<(), Fault> {
        let (sql, name) = match self.line {
            Line::Kind { name, .. } => (JOBS_OF_KIND, name),
            Line::Key(name) => (JOBS_OF_KEY, name),
        };
        let mut statement = session.prepare(sql)?;
        let (due_at, seq) = self.last;
        let most = i64::try_from(glance).unwrap_or(i64::MAX);
        let mut rows =
            statement.query(params![queue.as_str(), name.as_str(), self.priority, due_at, seq, most])?;
        while let Some(found) = rows.next()? {
            let kind = match self.line {
                Line::Kind { place, .. } => Some(place),
                Line::Key(_) => None,
            };
            let seen = Seen { due_at: found.get(1)?, seq: found.get(0)?, kind };
            self.last = (seen.due_at, seen.seq);
            self.seen.push_back(seen);
        }
        self.is_end_seen = self.seen.len() < glance;
        Ok(())
    }
}
