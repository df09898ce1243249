//! Changes that a person asks for: cancel, retry and delete.

use windlass_core::bell::{Rings, Topic};
use windlass_core::store::Amended;
use windlass_core::{JobId, State};

use crate::Tools;
use crate::error::Fault;
use crate::functions::AMEND;
use crate::row;
use crate::session::Session;

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

    /// What is owed when it was done to a job that is now in this state.
    fn rings(self, state: State) -> Rings {
        match (self, state) {
            (Self::Cancel, State::Running) => Rings::about(Topic::Cancel),
            // Whoever waits for its end should hear that it is gone.
            (Self::Delete, _) => Rings::about(Topic::Finish),
            _ => Rings::entered(state),
        }
    }
}

pub(super) async fn amend(
    tools: &Tools,
    session: &Session,
    verb: Verb,
    ids: &[JobId],
) -> Result<Vec<Amended>, Fault> {
    // In the order in which rows are locked everywhere; repeats of an id stay in theirs.
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_key(|&place| ids[place]);
    let sorted: Vec<_> = order.iter().map(|&place| row::uuid(ids[place])).collect();
    let rows = tools.statements.run(session, &AMEND, &[&verb.as_str(), &sorted]).await?;
    let mut answers = vec![Amended::Missing; ids.len()];
    let mut rings = Rings::NONE;
    for (&place, found) in order.iter().zip(&rows) {
        let state = || row::at(found, 1).and_then(row::state);
        answers[place] = match row::at::<&str>(found, 0)? {
            "done" => {
                rings = rings.and(verb.rings(state()?));
                Amended::Done(state()?)
            }
            "refused" => Amended::Refused(state()?),
            _ => Amended::Missing,
        };
    }
    tools.ring(rings);
    Ok(answers)
}
