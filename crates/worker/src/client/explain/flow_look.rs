//! What a store says about the flow of a job: the one that holds it, or the one that it has added and waits for.

use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::flow::{Member, Tally};
use windlass_core::outcome::Ending;
use windlass_core::{JobId, JobRecord, State};

use super::blocked::{AWAITED_MAX, FlowLook, FlowSeen, Found, awaited};
use crate::client::{Client, Records};
use crate::error::{Error, Result};
use crate::flows::{OPEN, Stored, load};

/// A job that gathers others comes back in a century unless they end; no other job is due so late.
const GATHERS_MIN: Duration = Duration::from_secs(50 * 365 * 24 * 3600);
/// Flows among which that of a job that gathers is looked for.
const FLOWS_MAX: u32 = 100;

/// The flow that holds a job; nothing for a job that names none.
pub(super) async fn holding(client: &Client, job: &JobRecord) -> Result<Option<FlowLook>> {
    let Some(member) = Member::of(&job.spec) else { return Ok(None) };
    let found = match load(client, &member.home, &[member.flow]).await?.pop().flatten() {
        None => Found::Gone,
        Some(Err(Error::Store(error))) => return Err(error.into()),
        Some(Err(error)) => Found::Unreadable(error.to_string()),
        Some(Ok(Stored { graph, progress, .. })) => {
            let named = awaited(&graph, &progress, member.node).into_iter().take(AWAITED_MAX);
            let ids: Vec<JobId> = named.map(|place| graph.nodes[place as usize].place.id).collect();
            let states = client.store().states(ids.as_slice().into()).await?;
            let states = ids.into_iter().zip(states).filter_map(|(id, state)| Some((id, state?))).collect();
            Found::Flow { graph, progress, states }
        }
    };
    Ok(Some(FlowLook { member, found }))
}

/// The flow that a job has added and waits for, with how far it is. Its id follows from a name that only the handler knows, so
/// it is looked for among the first that its queue keeps.
pub(super) async fn gathered(
    client: &Client,
    job: &JobRecord,
    now: Timestamp,
) -> Result<Option<(FlowSeen, Tally)>> {
    let is_snoozed = job.attempts.last().is_some_and(|last| last.ending == Some(Ending::Snoozed));
    let waits = job.state == State::Scheduled && is_snoozed && job.due_at.since(now) > GATHERS_MIN;
    if !waits || client.store().records().is_none() {
        return Ok(None);
    }
    let page = Records::of(client.clone(), job.queue.clone()).list(OPEN, None, FLOWS_MAX).await?;
    let ids = page.records.iter().filter_map(|record| record.key.as_str().strip_prefix(OPEN)?.parse().ok());
    let ids: Vec<JobId> = ids.collect();
    let flows = load(client, &job.queue, &ids).await?.into_iter().flatten().flatten();
    let mut own = flows.filter(|flow| flow.graph.wakes.is_some_and(|waiting| waiting.id == job.id));
    Ok(own.next().map(|Stored { id, home, graph, progress, .. }| {
        (FlowSeen { id, name: Some(graph.name.clone()), home }, progress.tally(&graph))
    }))
}
