//! Changes that a person asks for: cancel, retry and delete.
//!
//! A job may be locked by a transaction of unknown length, such as that of a handler which completes it. The
//! others of the call are changed at once; for the locked ones the call looks again until they are free, though not longer
//! than it would wait for a lock.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use windlass_core::bell::{Rings, Topic};
use windlass_core::store::Amended;
use windlass_core::{JobId, State};

use crate::Tools;
use crate::error::{Away, Fault};
use crate::functions::AMEND;
use crate::row;
use crate::session::Session;

/// Pauses between two looks at locked jobs: most are locked for as long as a claim takes.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Cancel,
    Retry,
    Delete,
}

impl Verb {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Delete => "delete",
        }
    }

    /// What is owed when it was done to this job, which is now in this state.
    fn rings(self, id: JobId, state: State) -> Rings {
        match (self, state) {
            (Self::Cancel, State::Running) => Rings::cancel(id),
            // A caller that waits for its end should hear that it is gone.
            (Self::Delete, _) => Rings::about(Topic::Finish),
            // Its queue is not known here.
            (_, State::Ready | State::Scheduled) => Rings::about(Topic::Work),
            _ if state.is_terminal() => Rings::about(Topic::Finish),
            _ => Rings::NONE,
        }
    }
}

/// Changes jobs, and waits so long for those that are locked.
pub(super) async fn amend(
    tools: &Tools,
    session: &Session,
    verb: Verb,
    ids: &[JobId],
    wait: Duration,
) -> Result<Vec<Amended>, Fault> {
    let until = Instant::now() + wait;
    let mut answers = vec![None; ids.len()];
    let mut pause = PAUSE.0;
    loop {
        let open: Vec<usize> = (0..ids.len()).filter(|&place| answers[place].is_none()).collect();
        if open.is_empty() {
            return Ok(answers.into_iter().flatten().collect());
        }
        if let Err(fault) = look(tools, session, verb, ids, &open, &mut answers).await {
            return Err(half(&answers, fault));
        }
        let Some(&locked) = open.iter().find(|&&place| answers[place].is_none()) else { continue };
        if Instant::now() >= until {
            let what = format!("job {} is locked by an open transaction", ids[locked]);
            return Err(half(&answers, Away::passing(what).into()));
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// What was changed is changed: to say that nothing was would be wrong.
fn half(answers: &[Option<Amended>], fault: Fault) -> Fault {
    let is_half = answers.iter().flatten().any(|answer| matches!(answer, Amended::Done(_)));
    if is_half { Fault::Half(Box::new(fault)) } else { fault }
}

/// Changes those of the open ones that are not locked.
async fn look(
    tools: &Tools,
    session: &Session,
    verb: Verb,
    ids: &[JobId],
    open: &[usize],
    answers: &mut [Option<Amended>],
) -> Result<(), Fault> {
    let asked: Vec<_> = open.iter().map(|&place| row::uuid(ids[place])).collect();
    let rows = tools.statements.run(session, &AMEND, &[&verb.as_str(), &asked]).await?;
    if rows.len() != open.len() {
        return Err(Fault::Corrupt(format!("{} answers for {} jobs", rows.len(), open.len())));
    }
    let mut rings = Rings::NONE;
    for (&place, found) in open.iter().zip(&rows) {
        let state = || row::at(found, 1).and_then(row::state);
        answers[place] = match row::at::<&str>(found, 0)? {
            "done" => {
                rings = rings.and(verb.rings(ids[place], state()?));
                Some(Amended::Done(state()?))
            }
            "refused" => Some(Amended::Refused(state()?)),
            "locked" => None,
            _ => Some(Amended::Missing),
        };
    }
    tools.ring(rings);
    Ok(())
}
