//! Flows: jobs that wait for other jobs.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::flow::{Role as NodeRole, Status};
use windlass_core::{JobId, Name};
use windlass_worker::{FlowHandle, FlowPlace, FlowView, FlowsListed, NodeView};

use crate::access::Caller;
use crate::app::App;
use crate::extract::{At, Query};
use crate::problem::{Answer, Code, Problem};
use crate::wire::{Instant, Page, limit};

/// Which flows.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Only flows that this queue keeps.
    #[param(value_type = Option<String>)]
    queue: Option<Name>,
    /// Flows that are over and still remembered, in place of those that are under way.
    ended: Option<bool>,
    /// What the page before has named as `next`.
    after: Option<String>,
    /// How many at most; larger ones than 1,000 are lowered to it.
    #[param(default = 50)]
    limit: Option<u64>,
}

/// Where a flow is looked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FlowParams {
    /// The queue that keeps it; without it all queues with flows are asked.
    #[param(value_type = Option<String>)]
    queue: Option<Name>,
}

/// A flow, and how far it is. Callbacks are not counted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Flow)]
pub(crate) struct FlowItem {
    /// The id.
    #[schema(value_type = String, format = Uuid)]
    id: JobId,
    /// Its name.
    name: String,
    /// The queue that keeps it.
    #[schema(value_type = String)]
    queue: Name,
    /// `running`, `cancelled`, `succeeded` or `failed`.
    state: &'static str,
    /// All jobs.
    jobs: u32,
    /// Those that have ended.
    ended: u32,
    /// Those that wait for others.
    waiting: u32,
    /// Those that are ready, run, or wait for a retry.
    open: u32,
    /// Those that are completed.
    completed: u32,
    /// Those that are dead.
    dead: u32,
    /// Those that were cancelled.
    cancelled: u32,
    /// Those that did not run, because of one before them.
    failed: u32,
    /// Those that were not needed.
    skipped: u32,
    /// When it last changed.
    changed_at: Instant,
}

/// A flow with its jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FlowGraph {
    /// The flow.
    flow: FlowItem,
    /// Its jobs; each stands behind those that it waits for.
    nodes: Vec<NodeItem>,
}

/// A job of a flow.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowNode)]
pub(crate) struct NodeItem {
    /// The id of the job.
    #[schema(value_type = String, format = Uuid)]
    id: JobId,
    /// Its kind.
    #[schema(value_type = String)]
    kind: Name,
    /// Its queue.
    #[schema(value_type = String)]
    queue: Name,
    /// `waiting`, `open`, `completed`, `dead`, `cancelled`, `failed` or `skipped`.
    status: &'static str,
    /// `job`, or which callback it is.
    #[schema(value_type = String)]
    role: NodeRole,
    /// The places of those that it waits for.
    parents: Vec<u32>,
}

/// Where a flow is, in a word.
fn state(view: &FlowView) -> &'static str {
    match (view.is_over, view.is_cancelled) {
        (_, true) => "cancelled",
        (false, false) => "running",
        (true, false) if view.tally.is_success() => "succeeded",
        (true, false) => "failed",
    }
}

impl FlowItem {
    fn of(view: &FlowView) -> Self {
        let tally = &view.tally;
        Self {
            id: view.id,
            name: view.name.clone(),
            queue: view.home.clone(),
            state: state(view),
            jobs: tally.jobs,
            ended: tally.ended(),
            waiting: tally.waiting,
            open: tally.open,
            completed: tally.completed,
            dead: tally.dead,
            cancelled: tally.cancelled,
            failed: tally.failed,
            skipped: tally.skipped,
            changed_at: Instant(view.changed_at),
        }
    }
}

impl FlowGraph {
    fn of(view: FlowView) -> Self {
        let flow = FlowItem::of(&view);
        let node = |NodeView { id, kind, queue, status, role, parents, .. }| NodeItem {
            id,
            kind,
            queue,
            status: status.as_str(),
            role,
            parents,
        };
        Self { flow, nodes: view.nodes.into_iter().map(node).collect() }
    }
}

/// `ID@QUEUE`, as on the command line.
fn place(text: &str) -> Result<FlowPlace, Problem> {
    let parts = text.split_once('@').and_then(|(id, queue)| Some((id.parse().ok()?, Name::new(queue).ok()?)));
    let (id, queue) =
        parts.ok_or_else(|| Problem::invalid("after", "pass what the page before has named as next"))?;
    Ok(FlowPlace { id, queue })
}

/// Flows, queue by queue and the oldest first, without their jobs.
#[utoipa::path(get, path = "/api/v1/flows", tag = "flows", params(ListParams), responses((status = 200, description = "A page of flows.", body = Page<FlowItem>)))]
pub(crate) async fn list_flows(
    State(app): State<App>,
    caller: Caller,
    Query(params): Query<ListParams>,
) -> Answer<Page<FlowItem>> {
    let after = params.after.as_deref().map(place).transpose()?;
    let mut queues = match params.queue {
        Some(queue) => {
            caller.on(&queue)?;
            vec![queue]
        }
        None => app.client().all_flow_queues().await?,
    };
    queues.retain(|queue| caller.may_touch(queue));
    let which = if params.ended.unwrap_or_default() { FlowsListed::Ended } else { FlowsListed::Open };
    let most = limit(params.limit) as usize;
    // One more than is shown tells whether there are more.
    let mut items = app.client().list_flows(which, &queues, after.as_ref(), most + 1, FlowItem::of).await?;
    let has_more = items.len() > most;
    items.truncate(most);
    let next = items.last().filter(|_| has_more).map(|flow| format!("{}@{}", flow.id, flow.queue));
    Ok(Json(Page::new(items, next)))
}

async fn found(
    app: &App,
    caller: &Caller,
    id: JobId,
    params: &FlowParams,
) -> Result<(FlowHandle, FlowView), Problem> {
    let missing = || {
        Problem::missing(format!("there is no flow {id}, and no job of a flow"))
            .remedy("it was never submitted, or was over long ago")
    };
    let (handle, view) = app.client().find_flow(id, params.queue.as_ref()).await?.ok_or_else(missing)?;
    caller.on(&view.home)?;
    Ok((handle, view))
}

/// A flow with its jobs, by its id or that of one of its jobs.
#[utoipa::path(get, path = "/api/v1/flows/{id}", tag = "flows", params(("id" = String, Path, format = Uuid, description = "The id."), FlowParams), responses((status = 200, description = "The flow.", body = FlowGraph)))]
pub(crate) async fn get_flow(
    State(app): State<App>,
    caller: Caller,
    At(id): At<JobId>,
    Query(params): Query<FlowParams>,
) -> Answer<FlowGraph> {
    let (_, view) = found(&app, &caller, id, &params).await?;
    Ok(Json(FlowGraph::of(view)))
}

/// A change of a flow changes jobs of all of its queues.
fn on_all(caller: &Caller, view: &FlowView) -> Result<(), Problem> {
    view.nodes.iter().try_for_each(|node| caller.on(&node.queue))
}

/// Cancels what has not begun, and asks what runs to stop; callbacks run as ever.
#[utoipa::path(post, path = "/api/v1/flows/{id}/cancel", tag = "flows", params(("id" = String, Path, format = Uuid, description = "The id."), FlowParams), responses((status = 200, description = "The flow.", body = FlowGraph)))]
pub(crate) async fn cancel_flow(
    State(app): State<App>,
    caller: Caller,
    At(id): At<JobId>,
    Query(params): Query<FlowParams>,
) -> Answer<FlowGraph> {
    let (handle, before) = found(&app, &caller, id, &params).await?;
    on_all(&caller, &before)?;
    if before.is_over || before.tally.ended() == before.tally.jobs {
        return Err(Code::Refused.because(format!("nothing of flow {} is left to cancel", before.id)));
    }
    Ok(Json(FlowGraph::of(handle.cancel().await?)))
}

/// Sends back what is dead or was cancelled, and lets run what did not because of that.
#[utoipa::path(post, path = "/api/v1/flows/{id}/retry", tag = "flows", params(("id" = String, Path, format = Uuid, description = "The id."), FlowParams), responses((status = 200, description = "The flow.", body = FlowGraph)))]
pub(crate) async fn retry_flow(
    State(app): State<App>,
    caller: Caller,
    At(id): At<JobId>,
    Query(params): Query<FlowParams>,
) -> Answer<FlowGraph> {
    let (handle, before) = found(&app, &caller, id, &params).await?;
    on_all(&caller, &before)?;
    let may = [Status::Dead, Status::Cancelled, Status::Failed];
    if !before.nodes.iter().any(|node| may.contains(&node.status)) {
        return Err(
            Code::Refused.because(format!("nothing of flow {} is dead, cancelled or failed", before.id))
        );
    }
    Ok(Json(FlowGraph::of(handle.retry().await?)))
}
