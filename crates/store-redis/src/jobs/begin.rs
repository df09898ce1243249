//! Begin: that the handlers of attempts have begun, each noted only if its fence holds.

use bytes::Bytes;
use windlass_core::State;
use windlass_core::store::{Begin, Settled};

use super::settle::{by_queue, steps};
use crate::error::Fault;
use crate::row;
use crate::scripts::BEGIN;
use crate::session::Session;
use crate::{Tools, answer, spread};

pub(super) async fn begin(
    tools: &Tools,
    session: &Session,
    attempts: &[Begin],
) -> Result<Vec<Settled>, Fault> {
    let queues = by_queue(attempts.iter().map(|attempt| &attempt.queue));
    let noted = spread::each(queues, |(queue, places)| async move {
        let mut answers = Vec::with_capacity(places.len());
        for places in steps(&places, |place| (attempts[place].id, 0)) {
            let each = || places.iter().map(|&place| &attempts[place]);
            let mut arguments = vec![tools.clock(), places.len().to_string().into()];
            arguments.extend(each().map(|attempt| Bytes::copy_from_slice(attempt.id.as_bytes())));
            arguments.extend(each().map(|attempt| row::fence(attempt.fence)));
            let said = answer::bytes(session.run(&BEGIN, tools.keys.queue(queue).all(), arguments).await?)?;
            if said.len() != places.len() {
                return Err(Fault::Corrupt("a beginning was not answered".to_owned()));
            }
            answers.extend(places.iter().copied().zip(said));
        }
        Ok(answers)
    });
    // To note it once more changes nothing, so a fault is told as it is, whatever others were noted.
    let mut answers = vec![Settled::Fenced; attempts.len()];
    for (place, said) in noted.await?.into_iter().flatten() {
        if said == b'a' {
            answers[place] = Settled::Applied(State::Running);
        }
    }
    Ok(answers)
}
