//! Finding jobs, a page at a time.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use windlass_core::store::{Cursor, Filter};
use windlass_core::{Bytes, JobRecord, Name, State as JobState};

use super::{JobView, Shown};
use crate::access::Caller;
use crate::app::App;
use crate::extract::Query;
use crate::problem::{Answer, Problem};
use crate::wire::{Page, limit};

/// Store calls of one page, each of which looks at a bounded number of jobs.
const CALLS_MAX: usize = 20;
/// Jobs of the first call. Contents come along, so the size of the next ones follows how large these are.
const FIRST: u32 = 50;
/// Bytes of contents that one call should bring, and that one page does.
const CALL_BYTES: usize = 4 << 20;
const PAGE_BYTES: usize = 16 << 20;

/// Which jobs; everything that is given must hold.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// In this queue.
    #[param(value_type = Option<String>)]
    queue: Option<Name>,
    /// Of this kind.
    #[param(value_type = Option<String>)]
    kind: Option<Name>,
    /// In this state: `blocked`, `scheduled`, `ready`, `running`, `completed`, `dead` or `cancelled`.
    #[param(value_type = Option<String>)]
    state: Option<JobState>,
    /// With this tag.
    #[param(value_type = Option<String>)]
    tag: Option<Name>,
    /// What the page before has named as `next`.
    after: Option<String>,
    /// How many jobs at most; larger ones than 1,000 are lowered to it.
    #[param(default = 50)]
    limit: Option<u64>,
}

/// Jobs, the newest accepted first, without their attempts and without large contents. A page may have fewer jobs than its
/// limit, or none, although there are more: it says where to go on. A token that is limited to queues names one.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(ListParams), responses((status = 200, description = "A page of jobs.", body = Page<JobView>)))]
pub(crate) async fn list_jobs(
    State(app): State<App>,
    caller: Caller,
    Query(params): Query<ListParams>,
) -> Answer<Page<JobView>> {
    let limit = limit(params.limit) as usize;
    let ListParams { queue, kind, state, tag, after, .. } = params;
    match &queue {
        Some(queue) => caller.on(queue)?,
        None if caller.queues.is_some() => {
            return Err(Problem::invalid("queue", "the token is limited to queues: say which one"));
        }
        None => {}
    }
    let filter = Filter { queue, kind, state, tag };
    let (mut jobs, mut next, mut size, mut held) = (Vec::new(), after.map(Cursor), FIRST, 0_usize);
    for _ in 0..CALLS_MAX {
        let wanted = size.min(u32::try_from(limit - jobs.len()).unwrap_or(u32::MAX));
        let page = app.client().list(&filter, next.as_ref(), wanted).await?;
        let bytes: usize = page.jobs.iter().map(weight).sum();
        size = next_size(page.jobs.len(), bytes, size);
        held += bytes;
        jobs.extend(page.jobs);
        next = page.next;
        if next.is_none() || jobs.len() >= limit || held >= PAGE_BYTES {
            break;
        }
    }
    let mut shown: HashMap<Name, Shown> = HashMap::new();
    let mut items = Vec::with_capacity(jobs.len());
    for job in &jobs {
        let how = match shown.get(&job.queue) {
            Some(how) => *how,
            None => Shown::of_queue(&app, &job.queue).await?,
        };
        shown.insert(job.queue.clone(), how);
        items.push(JobView::listed(job, how));
    }
    Ok(Json(Page::new(items, next.map(|cursor| cursor.0)).looked(None)))
}

fn weight(job: &JobRecord) -> usize {
    let output = job.output.as_ref().map_or(0, Bytes::len);
    job.payload.len() + output + job.progress.as_ref().map_or(0, Bytes::len)
}

/// Twice as many, unless these were large.
fn next_size(jobs: usize, bytes: usize, size: u32) -> u32 {
    let each = bytes.checked_div(jobs).unwrap_or_default().max(1);
    let fit = u32::try_from(CALL_BYTES / each).unwrap_or(u32::MAX).max(1);
    size.saturating_mul(4).min(fit)
}
