//! Whether queues take the jobs of a call as far as their definitions say: keys, and how many may wait.

use std::collections::HashSet;

use windlass_core::job::NewJob;
use windlass_core::{Name, StoreError};

use super::Checked;
use super::plan::Chunk;
use crate::Tools;
use crate::definitions::Definition;
use crate::error::Fault;
use crate::session::Session;

/// The first queue that a job with a key is for and that takes none. What this process remembers of a queue may be old: one
/// that would be refused is read again.
pub(super) async fn without_keys(
    tools: &Tools,
    session: &Session,
    jobs: &[NewJob],
) -> Result<Option<Name>, Fault> {
    let mut seen = HashSet::new();
    let queues = jobs.iter().filter(|job| job.key.is_some()).map(|job| &job.queue);
    for queue in queues.filter(|queue| seen.insert(*queue)) {
        if tools.definitions.of(session, &tools.keys, queue).await?.takes_keys() {
            continue;
        }
        tools.definitions.forget(queue);
        if !tools.definitions.of(session, &tools.keys, queue).await?.takes_keys() {
            return Ok(Some(queue.clone()));
        }
    }
    Ok(None)
}

/// Fails when a job has a key and its queue takes none by now.
pub(super) fn check_keys(
    definition: &Definition,
    chunk: &Chunk<'_>,
    jobs: &[NewJob],
) -> Result<(), StoreError> {
    if definition.takes_keys() || chunk.jobs(jobs).all(|job| job.key.is_none()) {
        return Ok(());
    }
    Err(StoreError::NoKeys { queue: chunk.queue.clone() })
}

/// Fails when a queue has no room for the new jobs of a call, by what a look at each has found.
pub(super) fn check(chunks: &[Chunk<'_>], checked: &[Checked]) -> Result<(), StoreError> {
    let new = |chunk: &Chunk<'_>, checked: &Checked| {
        checked.said.iter().take(chunk.places.len()).filter(|said| **said == b'n').count() as u64
    };
    let mut full: Option<(usize, StoreError)> = None;
    for (chunk, found) in chunks.iter().zip(checked) {
        let mut of_queue = chunks.iter().zip(checked).filter(|(other, _)| other.queue == chunk.queue);
        let more = of_queue.clone().map(|(chunk, checked)| new(chunk, checked)).sum();
        let first = of_queue.find_map(|(chunk, checked)| {
            let place = checked.said.iter().position(|said| *said == b'n')?;
            chunk.places.get(place).copied()
        });
        let Some(first) = first else { continue };
        let refused = found.definition.config.check_room(chunk.queue, found.waiting, more);
        if let Err(refused) = refused
            && full.as_ref().is_none_or(|(place, _)| first < *place)
        {
            full = Some((first, refused));
        }
    }
    full.map_or(Ok(()), |(_, refused)| Err(refused))
}

/// A script refused jobs that the definition has room for.
pub(super) fn refused_in_vain() -> Fault {
    Fault::Corrupt("jobs were refused by a queue that has room".to_owned())
}
