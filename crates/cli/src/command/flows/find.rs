//! Finds the flow that an id means: the flow itself, or the one that a job belongs to.

use windlass::flow::{FlowHandle, FlowView};
use windlass::{Client, Error};
use windlass_core::flow::Member;
use windlass_core::{JobId, Name};

use crate::args::FlowArgs;
use crate::exit::Fault;

/// Queues of one store call.
const QUEUES: u32 = 200;

/// Every queue that has flows, or had.
pub(super) async fn queues(client: &Client) -> anyhow::Result<Vec<Name>> {
    let (mut queues, mut after) = (Vec::new(), None);
    loop {
        let (page, next) = client.flow_queues(after.as_ref(), QUEUES).await?;
        queues.extend(page);
        if next.is_none() {
            return Ok(queues);
        }
        after = next;
    }
}

/// The flow, or an error that it is not there.
pub(super) async fn flow(client: &Client, args: &FlowArgs) -> anyhow::Result<(FlowHandle, FlowView)> {
    let id = args.id;
    if let Some(member) = client.job(id).await?.and_then(|job| Member::of(&job.spec)) {
        let found = at(client, &member.home, member.flow).await?;
        let Member { flow, home, .. } = member;
        return found.ok_or_else(|| {
            Fault::not_found(format!(
                "job {id} belongs to flow {flow} of queue {home}, which is no longer remembered"
            ))
            .into()
        });
    }
    let queues = match &args.queue {
        Some(queue) => vec![queue.clone()],
        None => queues(client).await?,
    };
    for queue in &queues {
        if let Some(found) = at(client, queue, id).await? {
            return Ok(found);
        }
    }
    let place = args.queue.as_ref().map(|queue| format!(" in queue {queue}")).unwrap_or_default();
    Err(Fault::not_found(format!(
        "there is no flow {id}{place}, and no job of a flow: see windlass flows list, also with --ended"
    ))
    .into())
}

/// The flow that a queue keeps under this id.
async fn at(client: &Client, queue: &Name, id: JobId) -> anyhow::Result<Option<(FlowHandle, FlowView)>> {
    let handle = client.flow_handle(queue, id)?;
    match handle.view().await {
        Ok(view) => Ok(Some((handle, view))),
        Err(Error::NoFlow { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
