//! Dead letters: searched, grouped, sent back, removed, and the rules that send them back by themselves.

pub(crate) mod bulk;
mod filter;
pub(crate) mod rules;

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::JobId;
use windlass_core::store::Cursor;
use windlass_worker::{DeadGroup, DeadLetter, DeadLetters, DeadPage};

use self::filter::DeadParams;
use super::jobs::{JobView, Shown};
use crate::access::Caller;
use crate::app::App;
use crate::extract::Query;
use crate::problem::{Answer, Problem};
use crate::wire::{Instant, Page, limit};

/// Dead jobs that one store call reads.
const PAGE: u32 = 500;
/// Jobs of one store call.
const CHUNK: usize = 500;

/// A dead job, with the error that it died of.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub(crate) struct DeadView {
    /// Stands for the error; the same for errors that differ in numbers and names only.
    fingerprint: String,
    /// What it died of.
    cause: String,
    /// The job.
    job: JobView,
}

/// Dead jobs of one error.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadGroup)]
pub(crate) struct GroupView {
    /// Stands for the error.
    fingerprint: String,
    /// The kind of the jobs.
    kind: String,
    /// What their errors share.
    pattern: String,
    /// One of the errors.
    error: String,
    /// How many.
    count: u64,
    /// When the first died.
    first_at: Instant,
    /// When the last died.
    last_at: Instant,
    /// Some of them.
    #[schema(value_type = Vec<String>)]
    ids: Vec<JobId>,
}

/// Groups of dead jobs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadGroups)]
pub(crate) struct GroupsView {
    /// The groups, the largest first.
    items: Vec<GroupView>,
    /// How many dead jobs were looked at.
    looked_at: u64,
    /// Whether these were all.
    complete: bool,
    /// Jobs of errors that were too many to keep apart.
    others: u64,
}

impl DeadView {
    async fn of(app: &App, letter: &DeadLetter) -> Result<Self, Problem> {
        let shown = Shown::of_queue(app, &letter.job.queue).await?;
        let cause = if shown == Shown::All { letter.cause() } else { "(masked)".to_owned() };
        let job = JobView::listed(&letter.job, shown);
        Ok(Self { fingerprint: letter.fingerprint.to_string(), cause, job })
    }
}

async fn views(app: &App, letters: &[DeadLetter]) -> Result<Vec<DeadView>, Problem> {
    let mut views = Vec::with_capacity(letters.len());
    for letter in letters {
        views.push(DeadView::of(app, letter).await?);
    }
    Ok(views)
}

/// Dead jobs that match, the newest accepted first, each with the error that it died of.
#[utoipa::path(get, path = "/api/v1/dead", tag = "dead", params(DeadParams), responses((status = 200, description = "A page of dead jobs.", body = Page<DeadView>)))]
pub(crate) async fn list_dead(
    State(app): State<App>,
    caller: Caller,
    Query(params): Query<DeadParams>,
) -> Answer<Page<DeadView>> {
    let (limit, look, after) =
        (limit(params.limit) as usize, params.look(), params.after.clone().map(Cursor));
    let letters = params.letters(&app, &caller)?;
    let found = find(&letters, after, limit, look).await?;
    let next = found.next.map(|cursor| cursor.0);
    Ok(Json(Page::new(views(&app, &found.letters).await?, next).looked(found.looked)))
}

/// Looks until so many are found, or at so many. The size of a page follows what is found, so that no page brings more than are
/// wanted: its cursor would pass over the surplus.
async fn find(
    letters: &DeadLetters,
    after: Option<Cursor>,
    limit: usize,
    look: u64,
) -> Result<DeadPage, Problem> {
    let (mut found, mut size) = (DeadPage::default(), u32::try_from(limit).unwrap_or(PAGE).clamp(1, PAGE));
    found.next = after;
    loop {
        let page = match found.next.as_ref().is_none_or(DeadLetters::is_indexed_cursor) {
            true => match letters.indexed(found.next.as_ref(), size).await? {
                Some(page) => page,
                None => letters.page(found.next.as_ref(), size).await?,
            },
            false => letters.page(found.next.as_ref(), size).await?,
        };
        if page.letters.len() > limit - found.letters.len() && size > 1 {
            size /= 2;
            continue;
        }
        found.letters.extend(page.letters);
        found.looked += page.looked;
        found.next = page.next;
        if found.next.is_none() || found.letters.len() >= limit || found.looked >= look {
            return Ok(found);
        }
        size = (size * 2).min(PAGE);
    }
}

/// How many jobs died of which error.
#[utoipa::path(get, path = "/api/v1/dead/groups", tag = "dead", params(DeadParams), responses((status = 200, description = "The groups.", body = GroupsView)))]
pub(crate) async fn group_dead(
    State(app): State<App>,
    caller: Caller,
    Query(params): Query<DeadParams>,
) -> Answer<GroupsView> {
    let letters = params.letters(&app, &caller)?;
    let found = letters.groups(params.look()).await?;
    // A group is shown as one of its jobs is: errors of masked queues are masked.
    let firsts: Vec<JobId> = found.groups.iter().filter_map(|group| group.ids.first().copied()).collect();
    let mut queues = HashMap::new();
    for some in firsts.chunks(CHUNK) {
        let jobs = app.client().store().get(some.into()).await?.into_iter().flatten();
        queues.extend(jobs.map(|job| (job.id, job.queue)));
    }
    let mut items = Vec::with_capacity(found.groups.len());
    for group in found.groups {
        let shown = match group.ids.first().and_then(|id| queues.get(id)) {
            Some(queue) => Shown::of_queue(&app, queue).await?,
            None => Shown::Masked,
        };
        items.push(GroupView::of(group, shown));
    }
    Ok(Json(GroupsView { items, looked_at: found.looked, complete: found.is_all, others: found.others }))
}

impl GroupView {
    fn of(group: DeadGroup, shown: Shown) -> Self {
        let DeadGroup { fingerprint, kind, pattern, error, count, first, last, ids, .. } = group;
        let masked = |text: String| if shown == Shown::All { text } else { "(masked)".to_owned() };
        Self {
            fingerprint: fingerprint.to_string(),
            kind: kind.to_string(),
            pattern: masked(pattern),
            error: masked(error),
            count,
            first_at: Instant(first),
            last_at: Instant(last),
            ids,
        }
    }
}

/// A few of those that match, chosen at random, each with the same chance.
#[utoipa::path(get, path = "/api/v1/dead/sample", tag = "dead", params(DeadParams), responses((status = 200, description = "Some dead jobs.", body = Page<DeadView>)))]
pub(crate) async fn sample_dead(
    State(app): State<App>,
    caller: Caller,
    Query(params): Query<DeadParams>,
) -> Answer<Page<DeadView>> {
    let (count, look) = (limit(params.limit).min(100) as usize, params.look());
    let letters = params.letters(&app, &caller)?;
    let sample = letters.sample(count, look).await?;
    Ok(Json(Page::new(views(&app, &sample).await?, None).looked(None)))
}
