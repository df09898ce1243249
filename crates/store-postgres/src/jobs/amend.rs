//! Changes that a person asks for: cancel, retry and delete.
//!
//! A job may be locked by a transaction of unknown length, such as that of a handler which completes it. The
//! others of the call are changed at once; for the locked ones the call looks again until they are free, though not longer
//! than it would wait for a lock.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use windlass_core::JobId;
use windlass_core::bell::Rings;
use windlass_core::store::{Amended, Amendment, Seen};
use windlass_core::stored::to_stored;

use crate::Tools;
use crate::error::{Fault, Unreachable};
use crate::functions::AMEND;
use crate::row;
use crate::session::Session;

/// Pauses between two looks at locked jobs: most are locked for as long as a claim takes.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// Which jobs are meant.
pub(super) enum Asked<'a> {
    /// However they are.
    Any(&'a [JobId]),
    /// Those that are still as they were seen.
    Seen(&'a [Seen]),
}

impl Asked<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Any(ids) => ids.len(),
            Self::Seen(jobs) => jobs.len(),
        }
    }

    fn id(&self, place: usize) -> JobId {
        match self {
            Self::Any(ids) => ids[place],
            Self::Seen(jobs) => jobs[place].id,
        }
    }

    /// States and fences that the jobs at these places must have.
    fn expected(&self, places: &[usize]) -> (Option<Vec<i64>>, Option<Vec<i64>>) {
        match self {
            Self::Any(_) => (None, None),
            Self::Seen(jobs) => {
                let states = places.iter().map(|&place| jobs[place].state.code().into()).collect();
                let fences = places.iter().map(|&place| to_stored(jobs[place].fence)).collect();
                (Some(states), Some(fences))
            }
        }
    }
}

/// Changes jobs, and waits for those that are locked as long as for a lock.
pub(super) async fn amend(
    tools: &Tools,
    session: &Session,
    amendment: Amendment,
    jobs: &Asked<'_>,
) -> Result<Vec<Amended>, Fault> {
    let options = session.options();
    // Less than the whole call may take.
    let until = Instant::now() + options.lock_timeout.min(options.statement_timeout);
    let mut answers = vec![None; jobs.len()];
    let mut pause = PAUSE.0;
    loop {
        let open: Vec<usize> = (0..jobs.len()).filter(|&place| answers[place].is_none()).collect();
        if open.is_empty() {
            return Ok(answers.into_iter().flatten().collect());
        }
        if let Err(fault) = look(tools, session, amendment, jobs, &open, &mut answers).await {
            return Err(told(&answers, fault));
        }
        let Some(&locked) = open.iter().find(|&&place| answers[place].is_none()) else { continue };
        if Instant::now() >= until {
            let what = format!("job {} is locked by an open transaction", jobs.id(locked));
            return Err(told(&answers, Unreachable::passing(what).into()));
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// What was changed is changed: to say that nothing was would be wrong.
fn told(answers: &[Option<Amended>], fault: Fault) -> Fault {
    let is_partial = answers.iter().flatten().any(|answer| matches!(answer, Amended::Done(_)));
    if is_partial { fault.partial() } else { fault }
}

/// Changes those of the open ones that are not locked.
async fn look(
    tools: &Tools,
    session: &Session,
    amendment: Amendment,
    jobs: &Asked<'_>,
    open: &[usize],
    answers: &mut [Option<Amended>],
) -> Result<(), Fault> {
    let asked: Vec<_> = open.iter().map(|&place| row::uuid(jobs.id(place))).collect();
    let (states, fences) = jobs.expected(open);
    let rows = session.call(&AMEND, &[&amendment.as_str(), &asked, &states, &fences]).await?;
    if rows.len() != open.len() {
        return Err(Fault::Corrupt(format!("{} answers for {} jobs", rows.len(), open.len())));
    }
    let mut rings = Rings::NONE;
    for (&place, found) in open.iter().zip(&rows) {
        let state = || row::at(found, 1).and_then(row::state);
        answers[place] = match row::at::<&str>(found, 0)? {
            "done" => {
                // Its queue is not known here.
                rings = rings.and(amendment.rings(jobs.id(place), None, state()?));
                Some(Amended::Done(state()?))
            }
            "refused" => Some(Amended::Refused(state()?)),
            "held" => Some(Amended::Held(row::job_id(found, 2)?)),
            "locked" => None,
            _ => Some(Amended::Missing),
        };
    }
    tools.ring(rings);
    Ok(())
}
