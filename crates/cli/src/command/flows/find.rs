//! Finds the flow that an id means: the flow itself, or the one that a job belongs to.

use windlass::Client;
use windlass::flow::{FlowHandle, FlowView};
use windlass_core::flow::Member;

use crate::args::FlowArgs;
use crate::exit::Fault;

/// The flow, or an error that it is not there.
pub(super) async fn flow(client: &Client, args: &FlowArgs) -> anyhow::Result<(FlowHandle, FlowView)> {
    let id = args.id;
    if let Some(found) = client.find_flow(id, args.queue.as_ref()).await? {
        return Ok(found);
    }
    if let Some(Member { flow, home, .. }) = client.job(id).await?.and_then(|job| Member::of(&job.spec)) {
        let why = format!("job {id} belongs to flow {flow} of queue {home}, which is no longer remembered");
        return Err(Fault::not_found(why).into());
    }
    let place = args.queue.as_ref().map(|queue| format!(" in queue {queue}")).unwrap_or_default();
    Err(Fault::not_found(format!(
        "there is no flow {id}{place}, and no job of a flow: see windlass flows list, also with --ended"
    ))
    .into())
}
