//! Ready jobs of one queue in their turn, merged over kinds.
//!
//! They stand in an index by queue, kind and turn. A claim looks at the first few of each kind that it wants,
//! so jobs of other kinds cost nothing. A kind is looked at again only when all that was seen of it has been
//! taken, and by then those have left the index.

use std::cmp::Reverse;
use std::collections::VecDeque;

use rusqlite::{Row, params};
use windlass_core::clock::Timestamp;
use windlass_core::job::{ClaimedJob, LostJob};
use windlass_core::outcome::Reason;
use windlass_core::size::Caps;
use windlass_core::store::Cause;
use windlass_core::{Fence, Name, State};

use crate::aged;
use crate::error::Fault;
use crate::moves::{self, Standing};
use crate::row;
use crate::session::Session;
use crate::tallies::KindPlace;
use crate::transaction::at_once;

const READY: &str = include_str!("../../../queries/jobs/ready.sql");

/// The fewest jobs to look at per kind when there are many kinds.
const GLANCE_MIN: usize = 8;

pub(super) struct Line<'a> {
    queue: &'a Name,
    kinds: Vec<Kind<'a>>,
    caps: Caps,
    /// How many jobs of a kind to look at, and at how many bytes of payload to stop.
    glance: usize,
    glance_bytes: usize,
}

/// What is known of a ready job before its row is read.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) queue: &'a Name,
    pub(super) kind: &'a Name,
    pub(super) key: Option<&'a Name>,
    pub(super) caps: Caps,
}

/// A ready job, as it stands in the store.
pub(super) struct Candidate {
    pub(super) seq: i64,
    priority: i64,
    pub(super) due_at: Timestamp,
    pub(super) has_key: bool,
    /// What can be read of it where it does not read as a whole.
    pub(super) job: Result<ClaimedJob, Box<LostJob>>,
}

struct Kind<'a> {
    name: &'a Name,
    seen: VecDeque<Candidate>,
    /// Whether nothing waits behind what was seen.
    is_end_seen: bool,
}

impl<'a> Line<'a> {
    pub(super) fn new(queue: &'a Name, kinds: &'a [Name], caps: Caps, wanted: usize, bytes: usize) -> Self {
        let mut names: Vec<_> = kinds.iter().collect();
        names.sort_unstable();
        names.dedup();
        let count = names.len().max(1);
        let glance = if count == 1 { wanted } else { (2 * wanted / count).max(GLANCE_MIN).min(wanted) };
        let kinds = names.into_iter().map(|name| Kind { name, seen: VecDeque::new(), is_end_seen: false });
        Self { queue, kinds: kinds.collect(), caps, glance, glance_bytes: bytes / count }
    }

    /// Whether the next in turn may be one that has not been seen.
    pub(super) fn must_look(&self) -> bool {
        self.kinds.iter().any(Kind::must_look)
    }

    /// Looks at each kind of which nothing is left. All that [`Line::next`] gave must be written by now.
    pub(super) fn look(&mut self, session: &Session<'_>) -> Result<(), Fault> {
        for kind in self.kinds.iter_mut().filter(|kind| kind.must_look()) {
            let mut ready = session.prepare(READY)?;
            let glance = i64::try_from(self.glance).unwrap_or(i64::MAX);
            let mut rows = ready.query(params![self.queue.as_str(), kind.name.as_str(), glance])?;
            let mut bytes = 0;
            let mut nameless = Vec::new();
            kind.is_end_seen = true;
            while let Some(row) = rows.next()? {
                let of = Of { queue: self.queue, kind: kind.name, key: None, caps: self.caps };
                let Some(candidate) = Candidate::read(row, of)? else {
                    nameless.push(row.get(0)?);
                    continue;
                };
                bytes += candidate.job.as_ref().map_or(0, |job| job.payload.len());
                kind.seen.push_back(candidate);
                if kind.seen.len() == self.glance || bytes > self.glance_bytes {
                    kind.is_end_seen = false;
                    break;
                }
            }
            drop(rows);
            kind.is_end_seen &= nameless.is_empty();
            bury(session, self.queue, session.kind(kind.name.as_str()), &nameless)?;
        }
        Ok(())
    }

    /// The job whose turn it is, unless the line must be looked at first.
    pub(super) fn next(&mut self) -> Option<Candidate> {
        let waiting = self.kinds.iter_mut().filter(|kind| !kind.seen.is_empty());
        waiting.min_by_key(|kind| kind.seen[0].place())?.seen.pop_front()
    }
}

impl Kind<'_> {
    fn must_look(&self) -> bool {
        self.seen.is_empty() && !self.is_end_seen
    }
}

impl Candidate {
    /// Nothing where not even the id reads: no worker could settle it.
    pub(super) fn read(row: &Row<'_>, of: Of<'_>) -> Result<Option<Self>, Fault> {
        let job = match claimed(row, of) {
            Ok(job) => Ok(job),
            Err(fault) if fault.is_unreadable() => match unreadable(row, of, &fault)? {
                Some(job) => Err(Box::new(job)),
                None => return Ok(None),
            },
            Err(fault) => return Err(fault),
        };
        let (due_at, has_key) = (row::time(row.get(3)?), row.get(13)?);
        Ok(Some(Self { seq: row.get(0)?, priority: row.get(2)?, due_at, has_key, job }))
    }

    /// By priority, then by due instant, then by acceptance.
    fn place(&self) -> (Reverse<i64>, Timestamp, i64) {
        (Reverse(self.priority), self.due_at, self.seq)
    }
}

fn claimed(row: &Row<'_>, Of { queue, kind, key, caps }: Of<'_>) -> Result<ClaimedJob, Fault> {
    let enqueued_at = row::time(row.get(4)?);
    Ok(ClaimedJob {
        id: row::job_id(row, 1)?,
        queue: queue.clone(),
        kind: kind.clone(),
        payload: row::bytes(row, 12)?,
        priority: row.get(2)?,
        key: key.cloned(),
        fence: fence(row)?,
        facts: row::facts(row, 6, 10)?,
        caps,
        tags: row::tags(row, 11)?,
        enqueued_at,
        due_at: row::time(row.get(3)?),
        claimed_at: enqueued_at,
    })
}

/// What can be said of a job that does not read, so that its worker can settle it.
fn unreadable(row: &Row<'_>, Of { queue, kind, .. }: Of<'_>, why: &Fault) -> Result<Option<LostJob>, Fault> {
    let Some(id) = row::readable(row::job_id(row, 1))? else { return Ok(None) };
    Ok(Some(LostJob {
        id,
        fence: fence(row)?,
        facts: row::some_facts(row, 6, 10)?,
        queue: queue.clone(),
        kind: kind.clone(),
        worker: String::new(),
        has_begun: false,
        unreadable: Some(why.of_row()),
    }))
}

/// As it stands before the claim.
fn fence(row: &Row<'_>) -> Result<Fence, Fault> {
    Ok(Fence { number: row::number(row.get(5)?), nonce: 0 })
}

/// The ready job of one row. Nothing if it came to its end instead, or is not there.
pub(super) fn one(session: &Session<'_>, of: Of<'_>, seq: i64) -> Result<Option<Candidate>, Fault> {
    let mut statement = session.prepare(aged::ONE)?;
    let mut rows = statement.query([seq])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let candidate = Candidate::read(row, of)?;
    drop(rows);
    if candidate.is_none() {
        bury(session, of.queue, session.kind(of.kind.as_str()), &[seq])?;
    }
    Ok(candidate)
}

/// Jobs that have no id to settle them by come to their end here.
pub(super) fn bury(session: &Session<'_>, queue: &Name, kind: KindPlace, seqs: &[i64]) -> Result<(), Fault> {
    for &seq in seqs {
        tracing::warn!(%queue, seq, "the id of a job does not read: the job is dead");
        // Its key is free when the job is no longer found by the id that the key names.
        let job =
            Standing { seq, queue, state: State::Ready, has_key: false, has_gate: false, kind, since: None };
        let why = (Reason::Unreadable, Cause::Unreadable);
        at_once(moves::end(&mut session.tx(), job, State::Dead, why))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_and_indexes_are_for_the_forms_that_are_known() {
        assert!(READY.contains("form = 1"), "those without a key");
        assert_eq!(row::FORM, 2, "those with one");
        let schema = |step: usize| crate::migrate::MIGRATIONS[step].sql;
        assert!(schema(0).contains("WHERE state = 2 AND form = 1;"));
        assert!(schema(3).contains("WHERE form = 2 AND state = 2;"));
    }
}
