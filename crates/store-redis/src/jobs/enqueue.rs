//! Enqueue: all of a call's jobs or none.
//!
//! Jobs of one queue that fit into one script are accepted by it. A call that is larger, or about several queues, is
//! checked first, then handed in as letters in the outbox of its first queue, in one script: from then on it is accepted,
//! and delivered whatever becomes of this process. See [`crate::outbox`].

mod plan;

use bytes::Bytes;
use redis::Value;
use windlass_core::bell::{Rings, Topic};
use windlass_core::job::NewJob;
use windlass_core::store::Enqueued;
use windlass_core::{JobId, State, StoreError};

use super::ENQUEUE;
use super::packed::Packed;
use crate::definitions::{Definition, ROUNDS, never_stands_still};
use crate::error::Fault;
use crate::outbox::{self, Letter};
use crate::script::{Script, script};
use crate::session::Session;
use crate::{Tools, answer, spread};
use plan::{Chunk, Plan};

static CHECK: Script = script!("jobs/check", "keys", "record", "accept");

pub(super) async fn enqueue(
    tools: &Tools,
    session: &Session,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, Fault> {
    let plan = Plan::of(jobs);
    let Some(first) = plan.chunks.first() else {
        return plan.conflict.map_or(Ok(Vec::new()), |id| Err(StoreError::IdTaken { id }.into()));
    };
    tools.registry.enter(session, &tools.keys, plan.chunks.iter().map(|chunk| chunk.queue)).await?;
    let said = match (&plan.chunks[..], plan.conflict) {
        ([chunk], None) => vec![accept(tools, session, jobs, chunk).await?],
        (chunks, conflict) => {
            let checked = check(tools, session, jobs, chunks).await?;
            if let Some(id) = conflict {
                return Err(StoreError::IdTaken { id }.into());
            }
            let (letters, expected): (Vec<_>, Vec<_>) = chunks
                .iter()
                .zip(checked)
                .map(|(chunk, Checked { packed, said })| {
                    (Letter::enqueue(chunk.queue, packed, &chunk.places), said)
                })
                .unzip();
            let said = outbox::send(tools, session, first.queue, letters).await?;
            // What is still under way will be as it was found by the check.
            said.into_iter().zip(expected).map(|(said, expected)| said.unwrap_or(expected)).collect()
        }
    };
    let answers = plan.answers(jobs, &said)?;
    for chunk in &plan.chunks {
        tools.whereabouts.note(chunk.queue, chunk.places.iter().map(|&place| jobs[place].id));
    }
    if answers.contains(&Enqueued::New) {
        tools.ring(Rings::about(Topic::Work));
    }
    Ok(answers)
}

/// Accepts jobs by one script. Answers a byte for each of them.
async fn accept(
    tools: &Tools,
    session: &Session,
    jobs: &[NewJob],
    chunk: &Chunk<'_>,
) -> Result<Bytes, Fault> {
    for _ in 0..ROUNDS {
        let definition = tools.definitions.of(session, &tools.keys, chunk.queue).await?;
        let packed = Packed::of(chunk.jobs(jobs), definition.config.caps.payload)?;
        let none = Bytes::new;
        let mut arguments = vec![tools.clock(), definition.version(), none(), none(), none(), none(), none()];
        packed.push_to(&mut arguments);
        let keys = tools.keys.queue(chunk.queue).all();
        let answer = answer::array(session.run_acknowledged(&ENQUEUE, keys, arguments).await?)?;
        let (word, mut rest) = word(answer)?;
        match &word[..] {
            b"stale" => tools.definitions.forget(chunk.queue),
            b"ok" => return answer::bytes(rest.next().unwrap_or(Value::Nil)),
            _ => {
                let place = answer::integer(rest.next().unwrap_or(Value::Nil))?;
                let place = usize::try_from(place - 1).ok().and_then(|place| chunk.places.get(place));
                let job = place.map(|&place| &jobs[place]);
                let job = job.ok_or_else(|| Fault::Corrupt("a job was refused that is none".to_owned()))?;
                return Err(refusal(job, &definition, word[..] == *b"taken"));
            }
        }
    }
    Err(never_stands_still())
}

/// Why a job is refused.
fn refusal(job: &NewJob, definition: &Definition, is_taken: bool) -> Fault {
    if is_taken {
        return StoreError::IdTaken { id: job.id }.into();
    }
    match job.check_payload(definition.config.caps.payload) {
        Err(error) => error.into(),
        Ok(()) => Fault::Corrupt("a payload that fits was refused as too large".to_owned()),
    }
}

/// What was found out about the jobs of a chunk.
struct Checked {
    packed: Packed,
    /// A byte for each.
    said: Bytes,
}

/// Looks whether all of these jobs would be accepted; the first of the call that would not names the refusal.
async fn check(
    tools: &Tools,
    session: &Session,
    jobs: &[NewJob],
    chunks: &[Chunk<'_>],
) -> Result<Vec<Checked>, Fault> {
    let checked = spread::each(chunks.iter().collect(), |chunk: &Chunk<'_>| async move {
        for _ in 0..ROUNDS {
            let definition = tools.definitions.of(session, &tools.keys, chunk.queue).await?;
            let packed = Packed::of(chunk.jobs(jobs), definition.config.caps.payload)?;
            let mut arguments = vec![tools.clock(), definition.version()];
            packed.push_to(&mut arguments);
            let keys = tools.keys.queue(chunk.queue).all();
            let (word, mut rest) = word(answer::array(session.run(&CHECK, keys, arguments).await?)?)?;
            if word[..] == *b"stale" {
                tools.definitions.forget(chunk.queue);
                continue;
            }
            let said = answer::bytes(rest.next().unwrap_or(Value::Nil))?;
            let wrong = said.iter().position(|said| matches!(said, b't' | b'l'));
            let refused = wrong.and_then(|wrong| Some((*chunk.places.get(wrong)?, said[wrong] == b't')));
            let refused =
                refused.map(|(place, is_taken)| (place, refusal(&jobs[place], &definition, is_taken)));
            return Ok((Checked { packed, said }, refused));
        }
        Err(never_stands_still())
    });
    let (checked, refused): (Vec<_>, Vec<_>) = checked.await?.into_iter().unzip();
    match refused.into_iter().flatten().min_by_key(|(place, _)| *place) {
        Some((_, refusal)) => Err(refusal),
        None => Ok(checked),
    }
}

/// An answer's first element, which says what the others are.
pub(super) fn word(answer: Vec<Value>) -> Result<(Bytes, std::vec::IntoIter<Value>), Fault> {
    let mut parts = answer.into_iter();
    let word = answer::bytes(parts.next().unwrap_or(Value::Nil))?;
    Ok((word, parts))
}

/// What a script said about one job.
fn enqueued(said: u8, id: JobId) -> Result<(Enqueued, State), Fault> {
    match said {
        b'r' | b'n' => Ok((Enqueued::New, State::Ready)),
        b's' => Ok((Enqueued::New, State::Scheduled)),
        b't' => Err(StoreError::IdTaken { id }.into()),
        _ => {
            let state = said.checked_sub(b'0').and_then(|code| State::from_code(code.into()));
            let state = state.ok_or_else(|| Fault::Corrupt(format!("job {id} was answered with {said}")))?;
            Ok((Enqueued::Existing(state), state))
        }
    }
}
