//! What attempts write: the end of each with the jobs and the records that it carries, or these alone.
//!
//! Items take effect one after the other, but statements are opened for many of them at once: ends and jobs gather until an
//! item comes whose outcome could depend on them. Records and outputs are tested before their item is written. Whether a job
//! is refused shows only when it is accepted, so all but a lone item without jobs run in a savepoint; after a refusal they are
//! undone, and run one by one.

use std::collections::HashSet;

use rusqlite::CachedStatement;
use windlass_core::job::NewJob;
use windlass_core::store::{AttemptWrite, AttemptWritten, Right, Settled};
use windlass_core::unique::OnConflict;
use windlass_core::{JobId, StoreError};

use super::{change, check};
use crate::accept::{self, Capacity};
use crate::error::Fault;
use crate::jobs::settle::{Attempt, Ends, statement};
use crate::session::Session;
use crate::transaction::at_once;

pub(super) fn write(
    session: &Session<'_>,
    right: Right,
    items: &[AttemptWrite],
) -> Result<Vec<AttemptWritten>, Fault> {
    if let [item] = items
        && item.then.jobs.is_empty()
    {
        // All that may be refused of it is tested first.
        return together(session, right, items);
    }
    whole_or_nothing(session, right, items)
}

fn whole_or_nothing(
    session: &Session<'_>,
    right: Right,
    items: &[AttemptWrite],
) -> Result<Vec<AttemptWritten>, Fault> {
    let fault = match session.undoable(|| together(session, right, items)) {
        Err(fault) if fault.leaves_others() => fault,
        done => return done,
    };
    if items.len() == 1 {
        return Ok(vec![AttemptWritten::Refused(fault.into())]);
    }
    let mut answers = Vec::with_capacity(items.len());
    for item in items {
        answers.extend(whole_or_nothing(session, right, std::slice::from_ref(item))?);
    }
    Ok(answers)
}

/// Writes items of which no job is refused.
fn together(
    session: &Session<'_>,
    right: Right,
    items: &[AttemptWrite],
) -> Result<Vec<AttemptWritten>, Fault> {
    let mut writing = Writing::new(session, right, has_job_of_attempt(items))?;
    let answers = items.iter().map(|item| writing.write(item)).collect::<Result<Vec<_>, _>>()?;
    writing.flush()?;
    Ok(answers)
}

/// Whether an item carries a job under the id of another one's attempt.
fn has_job_of_attempt(items: &[AttemptWrite]) -> bool {
    if items.len() == 1 {
        return false;
    }
    let attempts: HashSet<JobId> = items.iter().map(|item| item.id).collect();
    items.iter().flat_map(|item| &item.then.jobs).any(|job| attempts.contains(&job.id))
}

/// A call on its way, with what has gathered.
struct Writing<'s, 'i> {
    session: &'s Session<'s>,
    right: Right,
    find: CachedStatement<'s>,
    ends: Ends<'i>,
    jobs: Vec<&'i [NewJob]>,
    has_unique: bool,
    /// Whether any job may be under the id of an attempt.
    has_job_of_attempt: bool,
}

impl<'s, 'i> Writing<'s, 'i> {
    fn new(session: &'s Session<'s>, right: Right, has_job_of_attempt: bool) -> Result<Self, Fault> {
        let (find, ends) = (session.prepare(statement(right))?, Ends::default());
        Ok(Self { session, right, find, ends, jobs: Vec::new(), has_unique: false, has_job_of_attempt })
    }

    fn write(&mut self, item: &'i AttemptWrite) -> Result<AttemptWritten, Fault> {
        if let Err(refusal) = item.check() {
            return Ok(AttemptWritten::Refused(refusal));
        }
        if self.has_job_of_attempt && self.has_job(item.id) {
            self.flush()?;
        }
        let Some(attempt) = self.find(item)? else { return Ok(AttemptWritten::Fenced) };
        if attempt.has_key && self.has_unique {
            // A job before this end meets the holder of its key, one after it does not.
            self.flush()?;
        }
        let is_followed = item.is_followed(attempt.cancel_requested);
        let records = if is_followed { &item.then.records[..] } else { &[] };
        if let Err(conflict) = at_once(check(&mut self.session.tx(), &item.queue, records)) {
            return refused(conflict);
        }
        let mut state = attempt.state;
        if let Some(transition) = &item.transition {
            state = match attempt.settle(self.session, transition, self.right, &mut self.ends)? {
                Settled::Applied(state) => state,
                Settled::Fenced => return Ok(AttemptWritten::Fenced),
                Settled::Refused(error) => {
                    return refused(StoreError::TooLarge { id: item.id, error }.into());
                }
            };
        }
        at_once(change(&mut self.session.tx(), &item.queue, records))?;
        if is_followed && !item.then.jobs.is_empty() {
            self.gather(&item.then.jobs)?;
        }
        Ok(AttemptWritten::Applied(state))
    }

    /// The attempt of an item, if its right holds.
    fn find(&mut self, item: &'i AttemptWrite) -> Result<Option<Attempt<'i>>, Fault> {
        if self.ends.ids.contains(&item.id) {
            // An item before has ended it, which is not written yet.
            return Ok(None);
        }
        let Some(attempt) = Attempt::find(self.session, &mut self.find, &item.queue, item.id, item.fence)?
        else {
            return Ok(None);
        };
        let holds = match &item.transition {
            Some(transition) => attempt.may_be_settled(self.session, self.right, transition)?,
            None => self.right == Right::Fence,
        };
        Ok(holds.then_some(attempt))
    }

    fn has_job(&self, id: JobId) -> bool {
        self.jobs.iter().any(|jobs| jobs.iter().any(|job| job.id == id))
    }

    fn gather(&mut self, jobs: &'i [NewJob]) -> Result<(), Fault> {
        self.jobs.push(jobs);
        self.has_unique |= jobs.iter().any(|job| job.unique.is_some());
        // A holder takes over what such a job says when all others were accepted.
        match jobs.iter().any(|job| job.on_conflict != OnConflict::Keep) {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes what has gathered: ends first, for they free unique keys.
    fn flush(&mut self) -> Result<(), Fault> {
        std::mem::take(&mut self.ends).write(self.session)?;
        self.has_unique = false;
        let accept = |jobs: &[NewJob]| at_once(accept::accept(&mut self.session.tx(), jobs, Capacity::Open));
        match std::mem::take(&mut self.jobs)[..] {
            [] => {}
            [jobs] => drop(accept(jobs)?),
            ref many => drop(accept(&many.concat())?),
        }
        Ok(())
    }
}

fn refused(fault: Fault) -> Result<AttemptWritten, Fault> {
    match fault {
        Fault::Refused(error) => Ok(AttemptWritten::Refused(error)),
        other => Err(other),
    }
}
