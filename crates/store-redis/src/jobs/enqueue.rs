//! Enqueue: all of a call's jobs or none.
//!
//! Jobs of one queue that fit into one script are accepted by it. A call that is larger, or about several queues, is
//! checked first, then handed in as transfers in the stream of its first queue, in one script: from then on it is accepted,
//! and delivered whatever becomes of this process. See [`crate::transfers`]. It is answered when all of its jobs can be read.
//!
//! The call is remembered by the script that accepts it, so a repeat is known there, whatever became of the jobs.

mod plan;
mod room;

use std::sync::Arc;

use bytes::Bytes;
use redis::Value;
use windlass_core::bell::Rings;
use windlass_core::job::NewJob;
use windlass_core::options::Due;
use windlass_core::store::{CALL_MEMORY, Enqueued};
use windlass_core::{CallId, JobId, Name, State, StoreError};

use super::packed::{Bodies, Packed};
use crate::agenda::{Needs, Notes};
use crate::definitions::{Definition, ROUNDS, never_stands_still};
use crate::error::Fault;
use crate::script::{Script, flag};
use crate::scripts::{CHECK, ENQUEUE, WRITE_REMEMBERED};
use crate::session::Session;
use crate::transfers::{self, Transfer};
use crate::{Tools, answer, spread};
use plan::{Chunk, Plan};

pub(super) async fn enqueue(
    tools: &Tools,
    session: &Session,
    call: CallId,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, Fault> {
    let plan = Plan::of(jobs);
    let Some(first) = plan.chunks.first() else {
        return plan.conflict.map_or(Ok(Vec::new()), |id| Err(StoreError::IdTaken { id }.into()));
    };
    let queues = plan.chunks.iter().map(|chunk| chunk.queue);
    let is_entered = tools.registry.enter(session, &tools.keys, queues).await?;
    let call = pack_call(call);
    if let Some(queue) = room::without_keys(tools, session, jobs).await? {
        match (transfers::knows(tools, session, first.queue, &call).await?, plan.chunks.len()) {
            (None, _) => return Err(StoreError::NoKeys { queue }.into()),
            (Some(_), 1) => return Ok(vec![Enqueued::Repeated; jobs.len()]),
            // It was accepted before: it is answered when its jobs are where they belong.
            _ => {}
        }
    }
    let said = match (&plan.chunks[..], plan.conflict) {
        ([chunk], None) => {
            accept(tools, session, &call, jobs, chunk, is_entered, None).await?.map(|said| vec![said])
        }
        (chunks, conflict) => transfer(tools, session, &call, jobs, chunks, conflict, first.queue).await?,
    };
    for chunk in &plan.chunks {
        tools.queue_cache.note(chunk.queue, chunk.places.iter().map(|&place| jobs[place].id));
    }
    let Some(said) = said else { return Ok(vec![Enqueued::Repeated; jobs.len()]) };
    // They are stored: an answer that does not read leaves it unknown which.
    let answers = plan.answers(jobs, &said).map_err(Fault::partial)?;
    if plan.chunks.len() > 1 && answers.iter().all(Enqueued::is_duplicate) {
        // It has stored nothing. One that is still remembered is found out by the call that repeats it.
        drop(transfers::forget(tools, session, first.queue, &call).await);
    }
    tools.ring(rings(jobs, &answers));
    Ok(answers)
}

/// What is owed when jobs were answered like this.
fn rings(jobs: &[NewJob], answers: &[Enqueued]) -> Rings {
    let is_work = |(job, answer): &(&NewJob, &Enqueued)| match answer {
        Enqueued::New => job.due != Due::Held,
        // The holder may be due earlier now.
        Enqueued::Replaced(_) => true,
        _ => false,
    };
    Rings::accepted(jobs.iter().zip(answers).filter(is_work).map(|(job, _)| job))
}

/// What one script writes beside jobs that it accepts.
pub(crate) struct Beside<'a> {
    /// Its arguments, before those of the jobs.
    pub(crate) arguments: Vec<Bytes>,
    /// What it leaves to maintenance.
    pub(crate) needs: Needs,
    /// What a script that refuses it says.
    pub(crate) refusal: &'a (dyn Fn(std::vec::IntoIter<Value>) -> Result<StoreError, Fault> + Sync),
}

/// Accepts jobs of one queue together with what is beside them, by one script: as [`enqueue`], or not at all.
pub(crate) async fn enqueue_with(
    tools: &Tools,
    session: &Session,
    call: CallId,
    queue: &Name,
    jobs: &[NewJob],
    beside: &Beside<'_>,
) -> Result<Vec<Enqueued>, Fault> {
    let plan = Plan::whole(jobs);
    let call = pack_call(call);
    let is_entered = tools.registry.enter(session, &tools.keys, [queue]).await?;
    let refused = match plan.conflict {
        Some(id) => Some(StoreError::IdTaken { id }),
        None => room::without_keys(tools, session, jobs).await?.map(|queue| StoreError::NoKeys { queue }),
    };
    let said = match (refused, plan.chunks.first()) {
        (None, Some(chunk)) => accept(tools, session, &call, jobs, chunk, is_entered, Some(beside)).await?,
        // A repeat is one also where its jobs would be refused by now.
        (refused, _) => match (transfers::knows(tools, session, queue, &call).await?, refused) {
            (None, Some(refused)) => return Err(refused.into()),
            _ => None,
        },
    };
    tools.queue_cache.note(queue, jobs.iter().map(|job| job.id));
    let Some(said) = said else { return Ok(vec![Enqueued::Repeated; jobs.len()]) };
    let answers = plan.answers(jobs, &[said]).map_err(Fault::partial)?;
    tools.ring(rings(jobs, &answers));
    Ok(answers)
}

/// The arguments of a script that may accept jobs, where there are none.
pub(crate) fn push_no_jobs(arguments: &mut Vec<Bytes>) {
    Packed::default().push_to(arguments, Bodies::Given);
}

/// Accepts jobs of several queues, or of one that are too many for one script. Answers what was said of each chunk, nothing
/// of a call that was accepted before.
async fn transfer(
    tools: &Tools,
    session: &Session,
    call: &Bytes,
    jobs: &[NewJob],
    chunks: &[Chunk<'_>],
    conflict: Option<JobId>,
    home: &Name,
) -> Result<Option<Vec<Bytes>>, Fault> {
    for _ in 0..ROUNDS {
        // A repeat is one also where its jobs would be refused by now.
        let (known, checked) =
            tokio::join!(transfers::knows(tools, session, home, call), check(tools, session, jobs, chunks));
        if let Some(number) = known? {
            let targets = chunks.iter().map(|chunk| chunk.queue.clone()).collect();
            transfers::settled(tools, session, home, targets).await?;
            if !has_stored_nothing(tools, session, jobs, chunks, home, number).await? {
                return Ok(None);
            }
            transfers::forget(tools, session, home, call).await?;
        }
        let checked = checked?;
        if let Some(id) = conflict {
            return Err(StoreError::IdTaken { id }.into());
        }
        room::check(chunks, &checked)?;
        let (transfers, expected): (Vec<_>, Vec<_>) = chunks
            .iter()
            .zip(checked)
            .map(|(chunk, Checked { packed, said, .. })| {
                (Transfer::enqueue(chunk.queue, packed, &chunk.places), said)
            })
            .unzip();
        // What others delivered is as it was found by the check. A call that was accepted meanwhile is known now.
        if let Some(said) = transfers::send(tools, session, home, call, transfers).await? {
            let said = said.into_iter().zip(expected).map(|(said, expected)| said.unwrap_or(expected));
            return Ok(Some(said.collect()));
        }
    }
    Err(never_stands_still())
}

/// Whether all jobs of a call that was accepted, with transfers from this number on, met the holders of their unique keys:
/// then it counts as one that was not accepted, and its sender was cut off before it could forget it.
async fn has_stored_nothing(
    tools: &Tools,
    session: &Session,
    jobs: &[NewJob],
    chunks: &[Chunk<'_>],
    home: &Name,
    first: u64,
) -> Result<bool, Fault> {
    if jobs.iter().any(|job| job.unique.is_none()) {
        return Ok(false);
    }
    for (number, chunk) in (first..).zip(chunks) {
        let said = transfers::said_of(tools, session, home, chunk.queue, number).await?;
        let has_met = |said: &Bytes| said.iter().take(chunk.places.len()).all(|said| b"dp".contains(said));
        if !said.as_ref().is_some_and(has_met) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A call as scripts take it: 22 characters, then for how many milliseconds it is remembered.
pub(crate) fn pack_call(call: CallId) -> Bytes {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let number = u128::from_be_bytes(*call.as_bytes());
    let digit = |place: u32| DIGITS[(number >> (6 * place)) as usize % 64];
    let mut packed: Vec<_> = (0..22).map(digit).collect();
    packed.extend_from_slice(CALL_MEMORY.as_millis().to_string().as_bytes());
    packed.into()
}

/// Accepts jobs by one script. Answers a byte for each of them, nothing of a call that was accepted before.
async fn accept(
    tools: &Tools,
    session: &Session,
    call: &Bytes,
    jobs: &[NewJob],
    chunk: &Chunk<'_>,
    mut is_entered: bool,
    beside: Option<&Beside<'_>>,
) -> Result<Option<Bytes>, Fault> {
    for _ in 0..ROUNDS {
        let definition = tools.definitions.of(session, &tools.keys, chunk.queue).await?;
        definition.check_rules(chunk.queue)?;
        room::check_keys(&definition, chunk, jobs)?;
        let packed = Packed::of(chunk.jobs(jobs), definition.config.caps.payload)?;
        let none = Bytes::new;
        let mut arguments = vec![tools.clock(), definition.version(), none(), none(), none()];
        let capacity = definition.config.capacity.map_or_else(none, |capacity| capacity.to_string().into());
        arguments.extend([flag(is_entered), none(), call.clone(), capacity]);
        let (script, mut needs) = (beside.map_or(&ENQUEUE, |_| &WRITE_REMEMBERED), packed.needs());
        if let Some(beside) = beside {
            arguments.extend(beside.arguments.iter().cloned());
            needs = needs.and(beside.needs);
        }
        let (word, mut rest) = run(tools, session, script, chunk.queue, arguments, &packed, needs).await?;
        match &word[..] {
            b"conflict" => {
                let refusal = beside.map(|beside| (beside.refusal)(rest)).transpose()?;
                return Err(refusal.map_or_else(room::refused_in_vain, Fault::from));
            }
            b"stale" => tools.definitions.forget(chunk.queue),
            b"unentered" => {
                tools.registry.enter_anew(session, &tools.keys, chunk.queue).await?;
                is_entered = true;
            }
            b"repeated" => return Ok(None),
            b"ok" => {
                let said = answer::bytes(rest.next().unwrap_or(Value::Nil));
                if rest.next() == Some(Value::Int(1)) {
                    tools.registry.confirm(session, &tools.keys, chunk.queue).await;
                }
                return said.map(Some);
            }
            b"full" => {
                let waiting = answer::integer(rest.next().unwrap_or(Value::Nil))?.unsigned_abs();
                let checked = definition.config.check_room(chunk.queue, waiting, u64::MAX);
                return Err(checked.err().map_or_else(room::refused_in_vain, Fault::from));
            }
            _ => {
                let place = answer::integer(rest.next().unwrap_or(Value::Nil))?;
                let place = usize::try_from(place - 1).ok().and_then(|place| chunk.places.get(place));
                let job = place.map(|&place| &jobs[place]);
                let job = job.ok_or_else(|| Fault::Corrupt("a job was refused that is none".to_owned()))?;
                let why = match &word[..] {
                    b"taken" => Refusal::Taken,
                    b"strange" => Refusal::Strange,
                    _ => Refusal::Large,
                };
                return Err(refusal(job, &definition, why));
            }
        }
    }
    Err(never_stands_still())
}

/// Runs a script that accepts jobs. Long payloads are written just before it; where a job is there already, it has to
/// see them.
pub(crate) async fn run(
    tools: &Tools,
    session: &Session,
    script: &'static Script,
    queue: &Name,
    own: Vec<Bytes>,
    packed: &Packed,
    needs: Needs,
) -> Result<(Bytes, std::vec::IntoIter<Value>), Fault> {
    let keys = tools.keys.queue(queue);
    let mut bodies = if session.may_transact() { packed.bodies_for_script() } else { Bodies::Given };
    loop {
        let before = if bodies == Bodies::Withheld { packed.writes(&keys) } else { Vec::new() };
        let mut arguments = own.clone();
        packed.push_to(&mut arguments, bodies);
        let note = Notes::note(tools, session, queue, needs);
        let write = session.run_acknowledged(&before, script, keys.all(), arguments);
        match tokio::join!(note, write).1 {
            // A server without memory takes no payload, but knows jobs that are there. The user may have no right to
            // transactions.
            Err(Fault::Server(error))
                if matches!(error.code.as_str(), "OOM" | "NOPERM") && bodies == Bodies::Withheld => {}
            result => {
                let (word, rest) = answer::word(result?)?;
                if word[..] != *b"whole" || bodies == Bodies::Given {
                    return Ok((word, rest));
                }
            }
        }
        bodies = Bodies::Given;
    }
}

/// Why a job is refused.
pub(crate) enum Refusal {
    /// Another job has its id.
    Taken,
    /// A job has its id that this program cannot read.
    Strange,
    /// Its payload is above the cap.
    Large,
}

pub(crate) fn refusal(job: &NewJob, definition: &Definition, why: Refusal) -> Fault {
    match why {
        Refusal::Taken => StoreError::IdTaken { id: job.id }.into(),
        Refusal::Strange => Fault::Corrupt(format!(
            "job {} is stored in a form that this program does not know: upgrade the program, or make a new id",
            job.id
        )),
        Refusal::Large => match job.check_payload(definition.config.caps.payload) {
            Err(error) => error.into(),
            Ok(()) => Fault::Corrupt("a payload that fits was refused as too large".to_owned()),
        },
    }
}

/// What was found out about the jobs of a chunk.
struct Checked {
    definition: Arc<Definition>,
    /// How many jobs wait in their queue.
    waiting: u64,
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
        let mut is_whole = false;
        for _ in 0..ROUNDS {
            let definition = tools.definitions.of(session, &tools.keys, chunk.queue).await?;
            definition.check_rules(chunk.queue)?;
            room::check_keys(&definition, chunk, jobs)?;
            let packed = Packed::of(chunk.jobs(jobs), definition.config.caps.payload)?;
            let mut arguments = vec![tools.clock(), definition.version()];
            packed.push_to(&mut arguments, if is_whole { Bodies::Given } else { packed.bodies_for_script() });
            let keys = tools.keys.queue(chunk.queue).all();
            let (word, mut rest) = answer::word(session.run(&CHECK, keys, arguments).await?)?;
            match &word[..] {
                b"stale" => {
                    tools.definitions.forget(chunk.queue);
                    continue;
                }
                b"whole" => {
                    is_whole = true;
                    continue;
                }
                _ => {}
            }
            let said = answer::bytes(rest.next().unwrap_or(Value::Nil))?;
            let waiting = answer::integer(rest.next().unwrap_or(Value::Nil))?.unsigned_abs();
            let refused = said.iter().zip(&chunk.places).find_map(|(said, &place)| {
                let why = match said {
                    b't' => Refusal::Taken,
                    b'u' => Refusal::Strange,
                    b'l' => Refusal::Large,
                    _ => return None,
                };
                Some((place, refusal(&jobs[place], &definition, why)))
            });
            return Ok((Checked { definition, waiting, packed, said }, refused));
        }
        Err(never_stands_still())
    });
    let (checked, refused): (Vec<_>, Vec<_>) = checked.await?.into_iter().unzip();
    match refused.into_iter().flatten().min_by_key(|(place, _)| *place) {
        Some((_, refusal)) => Err(refusal),
        None => Ok(checked),
    }
}

/// What a script said about one job.
fn enqueued(said: u8, id: JobId) -> Result<(Enqueued, State), Fault> {
    match said {
        b'r' | b'n' => Ok((Enqueued::New, State::Ready)),
        b's' => Ok((Enqueued::New, State::Scheduled)),
        b'h' => Ok((Enqueued::New, State::Blocked)),
        b't' => Err(StoreError::IdTaken { id }.into()),
        _ => {
            let state = said.checked_sub(b'0').and_then(|code| State::from_code(code.into()));
            let state = state.ok_or_else(|| Fault::Corrupt(format!("job {id} was answered with {said}")))?;
            Ok((Enqueued::Existing(state), state))
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::Options;

    use super::*;

    #[test]
    fn a_held_job_rings_only_for_the_holder_that_it_replaced() {
        let mut job = NewJob::new("k", "p", Options::new()).unwrap();
        assert!(!rings(&[job.clone()], &[Enqueued::New]).is_empty());
        job.due = Due::Held;
        assert!(rings(&[job.clone()], &[Enqueued::New]).is_empty());
        assert!(!rings(&[job.clone()], &[Enqueued::Replaced(JobId::new())]).is_empty());
    }

    #[test]
    fn calls_are_told_apart() {
        let ids =
            [[0; 16], [255; 16], [0, 1].repeat(8).try_into().unwrap(), [1, 0].repeat(8).try_into().unwrap()];
        let packed = ids.map(|id| pack_call(CallId::from_bytes(id)));
        assert!(packed.iter().all(|call| call.is_ascii() && call[22..] == *b"120000"));
        assert!((1..packed.len()).all(|place| !packed[..place].contains(&packed[place])));
    }
}
