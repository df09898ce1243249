//! What is tested and bounded before a store is asked: a request may come from any program, and the contract takes for given
//! what `NewJob::new` and the judge have seen to.

use std::sync::Arc;

use windlass_core::store::{
    AttemptWrite, Checkup, ClaimRequest, Cursor, Filter, JobPage, NewLease, PAGE_MAX, Records, Right,
    Settlement, StoreResult, Tallies,
};
use windlass_core::{Bytes, JobId, JobRecord, NewJob, State, Store, StoreError};

use super::answers::{Claimed, Written};
use crate::wire::{ANSWER_BYTES, Each, NAMED_MAX, Touch};

/// How many jobs are read before it is looked how large they are.
const LOOK: usize = 50;

fn refused(why: impl ToString) -> StoreError {
    StoreError::Refused(why.to_string())
}

/// Bounds how many things a call names.
pub(super) fn few<T>(items: &[T]) -> StoreResult<()> {
    if items.len() <= NAMED_MAX {
        return Ok(());
    }
    Err(refused(format_args!("{} in one call: at most {NAMED_MAX}; make several calls", items.len())))
}

/// Tests jobs that some program has put together.
pub(super) fn checked(jobs: &[NewJob]) -> StoreResult<()> {
    few(jobs)?;
    jobs.iter()
        .try_for_each(|job| job.check().map_err(|error| refused(format_args!("job {}: {error}", job.id))))
}

/// Tests that attempts end as attempts can.
pub(super) fn ends(settlements: &[Settlement]) -> StoreResult<()> {
    few(settlements)?;
    settlements.iter().try_for_each(|end| possible(end.id, end.transition.state))
}

fn possible(id: JobId, state: State) -> StoreResult<()> {
    if State::Running.may_become(state) {
        return Ok(());
    }
    Err(refused(format_args!("job {id}: an attempt does not end as {state}")))
}

pub(super) fn opened(lease: &NewLease) -> StoreResult<()> {
    few(&lease.queues)?;
    few(&lease.kinds)
}

/// The queues that writes of attempts touch.
pub(super) fn written(items: &[AttemptWrite]) -> Touch<'_> {
    let jobs = items.iter().flat_map(|item| item.then.jobs.iter().map(|job| &job.queue));
    Touch::Queues(items.iter().map(|item| &item.queue).chain(jobs).collect())
}

pub(super) async fn ask_claim(store: &dyn Store, mut request: ClaimRequest) -> StoreResult<Claimed> {
    few(&request.queues)?;
    few(&request.kinds)?;
    request.bytes = request.bytes.min(ANSWER_BYTES);
    Ok(store.claim(request).await?.into())
}

pub(super) async fn ask_write(
    store: &dyn Store,
    right: Right,
    items: Arc<[AttemptWrite]>,
) -> StoreResult<Vec<Written>> {
    few(&items)?;
    for item in &*items {
        checked(&item.then.jobs)?;
        if let Some(transition) = &item.transition {
            possible(item.id, transition.state)?;
        }
    }
    let written = records(store)?.write_fenced(right, items).await?;
    Ok(written.into_iter().map(Written::from).collect())
}

/// About how large a job is on the wire.
fn weight(job: &JobRecord) -> usize {
    let bytes = [&job.output, &job.progress].into_iter().flatten().map(Bytes::len);
    let errors = job.attempts.iter().filter_map(|attempt| attempt.error.as_ref().map(String::len));
    job.payload.len() + bytes.sum::<usize>() + errors.sum::<usize>()
}

/// Reads jobs in parts until the answer is large. It may then be shorter than the call, and the rest is asked for again.
pub(super) async fn ask_get(store: &dyn Store, ids: Arc<[JobId]>) -> StoreResult<Each<Option<JobRecord>>> {
    few(&ids)?;
    let (mut jobs, mut bytes) = (Vec::with_capacity(ids.len()), 0);
    for part in ids.chunks(LOOK) {
        let found = store.get(part.into()).await?;
        bytes += found.iter().flatten().map(weight).sum::<usize>();
        jobs.extend(found);
        if bytes > ANSWER_BYTES {
            break;
        }
    }
    Ok(Each(jobs))
}

/// A page that ends early where its jobs are large: it is asked for again, and shorter.
pub(super) async fn ask_list(
    store: &dyn Store,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: u32,
) -> StoreResult<JobPage> {
    let mut limit = limit.min(PAGE_MAX);
    loop {
        let page = store.list(filter, after, limit).await?;
        let bytes: usize = page.jobs.iter().map(weight).sum();
        if bytes <= ANSWER_BYTES || limit <= 1 {
            return Ok(page);
        }
        limit /= 2;
    }
}

/// The part of a store that keeps records.
pub(super) fn records(store: &dyn Store) -> StoreResult<&dyn Records> {
    store.records().ok_or_else(|| refused("the store of the server keeps no records"))
}

/// The part of a store that counts.
pub(super) fn tallies(store: &dyn Store) -> StoreResult<&dyn Tallies> {
    store.tallies().ok_or_else(|| refused("the store of the server counts nothing"))
}

/// The part of a store that examines it.
pub(super) fn checkup(store: &dyn Store) -> StoreResult<&dyn Checkup> {
    store.checkup().ok_or_else(|| refused("the store of the server has nothing to examine"))
}
