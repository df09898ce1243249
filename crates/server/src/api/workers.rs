//! The leases of workers.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::store::LeaseRecord;
use windlass_core::{LeaseId, Name};

use crate::access::Caller;
use crate::app::App;
use crate::extract::Query;
use crate::problem::Answer;
use crate::wire::{Instant, Page, limit};

/// How many leases.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// How many at most; larger ones than 1,000 are lowered to it.
    #[param(default = 50)]
    limit: Option<u64>,
}

/// The lease of a worker.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Worker)]
pub(crate) struct WorkerView {
    /// The id of the lease.
    #[schema(value_type = String, format = Uuid)]
    id: LeaseId,
    /// The label of the worker.
    worker: String,
    /// The queues that it serves.
    #[schema(value_type = Vec<String>)]
    queues: Vec<Name>,
    /// The kinds that it runs; all if there are none.
    #[schema(value_type = Vec<String>)]
    kinds: Vec<Name>,
    /// Since when.
    opened_at: Instant,
    /// When it runs out unless it is renewed.
    expires_at: Instant,
    /// Whether it has run out: its worker died or has lost the store.
    lost: bool,
    /// Jobs that run under it.
    running: u64,
}

impl WorkerView {
    fn of(lease: LeaseRecord) -> Self {
        let LeaseRecord { id, worker, queues, mut kinds, opened_at, expires_at, is_lost, running, .. } =
            lease;
        // Those that every worker runs for the engine.
        kinds.retain(|kind| !kind.is_internal());
        Self {
            id,
            worker,
            queues,
            kinds,
            opened_at: opened_at.into(),
            expires_at: expires_at.into(),
            lost: is_lost,
            running,
        }
    }
}

/// The leases of workers, the newest first. A page has no next one: there are at most so many as were asked for.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers", params(ListParams), responses((status = 200, description = "The leases.", body = Page<WorkerView>)))]
pub(crate) async fn list_workers(
    State(app): State<App>,
    caller: Caller,
    Query(params): Query<ListParams>,
) -> Answer<Page<WorkerView>> {
    let most = limit(params.limit);
    let leases = app.client().workers(most).await?;
    let looked = leases.len();
    let own = leases.into_iter().filter(|lease| lease.queues.iter().any(|queue| caller.may_touch(queue)));
    let page = Page::new(own.map(WorkerView::of).collect(), None).looked(looked as u64);
    Ok(Json(Page { complete: looked < most as usize, ..page }))
}
