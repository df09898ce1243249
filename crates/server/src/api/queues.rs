//! Queues: what they hold, what they hand out, what keeps their jobs, and defining and pausing them.

mod binds;
mod definition;
mod view;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::Name;
use windlass_core::queue::Removed;
use windlass_worker::{KeyBacklog, Pausing};

pub(crate) use self::definition::Definition;
pub(crate) use self::view::QueueView;
use crate::access::Caller;
use crate::app::App;
use crate::extract::{At, Body, MaybeBody, Query};
use crate::problem::{Answer, Code, Problem};
use crate::wire::{Instant, Page, Span, limit};

/// Queues of one page where each is looked at closely.
const LOOKED_MAX: u32 = 100;

/// Which queues, and how closely.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// The name after which the page begins.
    after: Option<String>,
    /// How many queues at most; larger ones than 1,000 are lowered to it, and than 100 with `backlog`.
    #[param(default = 50)]
    limit: Option<u64>,
    /// Also what waits in each and which workers serve it, which costs store calls for each queue.
    backlog: Option<bool>,
}

/// What is paused, and why.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseForm {
    /// Only jobs of these kinds.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 1000)]
    kinds: Vec<Name>,
    /// Only jobs of these keys.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 1000)]
    keys: Vec<Name>,
    /// Why, for those who find it paused.
    #[serde(default)]
    why: String,
    /// It ends by itself after this long.
    #[serde(rename = "for")]
    time: Option<Span>,
    /// It ends by itself at this instant.
    until: Option<Instant>,
}

/// What is resumed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeForm {
    /// Only jobs of these kinds.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 1000)]
    kinds: Vec<Name>,
    /// Only jobs of these keys.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 1000)]
    keys: Vec<Name>,
}

/// A queue that was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RemovedQueue {
    /// Its name.
    #[schema(value_type = String)]
    name: Name,
    /// Always true.
    removed: bool,
}

/// The jobs of a key, among the newest of its queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyView {
    /// The key.
    #[schema(value_type = String)]
    key: Name,
    /// Jobs that are ready.
    ready: u64,
    /// Jobs that run.
    running: u64,
    /// Since when the oldest ready one waits.
    oldest_due_at: Option<Instant>,
}

/// Queues that were defined or hold jobs, by name, with how many jobs are in each state.
#[utoipa::path(get, path = "/api/v1/queues", tag = "queues", params(ListParams), responses((status = 200, description = "A page of queues.", body = Page<QueueView>)))]
pub(crate) async fn list_queues(
    State(app): State<App>,
    caller: Caller,
    Query(params): Query<ListParams>,
) -> Answer<Page<QueueView>> {
    let is_close = params.backlog.unwrap_or_default();
    let limit = if is_close { limit(params.limit).min(LOOKED_MAX) } else { limit(params.limit) };
    let after = params.after.map(Name::new).transpose().map_err(|error| Problem::invalid("after", error))?;
    let found = app.client().queues(after.as_ref(), limit).await?;
    let next =
        (found.len() >= limit as usize).then(|| found.last().map(|queue| queue.name.to_string())).flatten();
    let looked = found.len() as u64;
    let leases = if is_close { app.client().workers(view::LEASES_MAX).await? } else { Vec::new() };
    let mut items = Vec::with_capacity(found.len());
    for queue in found.iter().filter(|queue| caller.may_touch(&queue.name)) {
        items.push(match is_close {
            true => QueueView::seen(&app, queue, &leases).await?,
            false => QueueView::of(queue),
        });
    }
    Ok(Json(Page::new(items, next).looked(looked)))
}

/// A queue: what it holds, what waits in it, which workers serve it, and what binds its jobs now.
#[utoipa::path(get, path = "/api/v1/queues/{queue}", tag = "queues", params(("queue" = String, Path, description = "The name.")), responses((status = 200, description = "The queue.", body = QueueView)))]
pub(crate) async fn get_queue(
    State(app): State<App>,
    caller: Caller,
    At(queue): At<Name>,
) -> Answer<QueueView> {
    caller.on(&queue)?;
    shown(&app, &queue).await.map(Json)
}

async fn shown(app: &App, queue: &Name) -> Result<QueueView, Problem> {
    let record = app.client().queue(queue)?.record().await?.ok_or_else(|| missing(queue))?;
    let leases = app.client().workers(view::LEASES_MAX).await?;
    QueueView::seen(app, &record, &leases).await
}

fn missing(queue: &Name) -> Problem {
    Problem::missing(format!("there is no queue {queue}"))
        .remedy("it comes with its first job, or by defining it")
}

/// Sets the definition of a queue: what is not said has its default. Pauses stay as they are.
#[utoipa::path(put, path = "/api/v1/queues/{queue}", tag = "queues", params(("queue" = String, Path, description = "The name.")), request_body = Definition, responses((status = 200, description = "The queue.", body = QueueView)))]
pub(crate) async fn define_queue(
    State(app): State<App>,
    caller: Caller,
    At(queue): At<Name>,
    Body(form): Body<Definition>,
) -> Answer<QueueView> {
    caller.on(&queue)?;
    let wanted = form.config()?;
    wanted.check().map_err(|error| Code::Invalid.because(error.to_string()))?;
    let handle = app.client().queue(&queue)?;
    let change = |config: &mut windlass_core::queue::QueueConfig| {
        let pauses = std::mem::take(&mut config.pauses);
        *config = windlass_core::queue::QueueConfig { pauses, ..wanted.clone() };
    };
    let record = handle.record().await?;
    if record.as_ref().is_some_and(|record| record.unreadable.is_some()) {
        handle.define(&wanted).await?;
    } else {
        let config = handle.change(change).await?;
        if record.is_none() {
            // One that is as the default is there from now on, too.
            app.client().store().redefine(&queue, &config, &config).await?;
        }
    }
    app.masks().forget(&queue);
    shown(&app, &queue).await.map(Json)
}

/// Removes a queue that holds no jobs, and its definition.
#[utoipa::path(delete, path = "/api/v1/queues/{queue}", tag = "queues", params(("queue" = String, Path, description = "The name.")), responses((status = 200, description = "It is gone.", body = RemovedQueue)))]
pub(crate) async fn remove_queue(
    State(app): State<App>,
    caller: Caller,
    At(queue): At<Name>,
) -> Answer<RemovedQueue> {
    caller.on(&queue)?;
    match app.client().queue(&queue)?.remove().await? {
        Removed::Done => {
            app.masks().forget(&queue);
            Ok(Json(RemovedQueue { name: queue, removed: true }))
        }
        Removed::Missing => Err(missing(&queue)),
        Removed::NotEmpty(counts) => Err(Code::Refused
            .because(format!("queue {queue} still holds {} jobs", counts.total()))
            .remedy("finished jobs count too: wait until they are pruned, or delete them")),
    }
}

/// Hands out no job of a queue, or of some of its kinds or keys. Jobs that run go on to their end.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/pause", tag = "queues", params(("queue" = String, Path, description = "The name.")), request_body = Option<PauseForm>, responses((status = 200, description = "The queue.", body = QueueView)))]
pub(crate) async fn pause_queue(
    State(app): State<App>,
    caller: Caller,
    At(queue): At<Name>,
    MaybeBody(form): MaybeBody<PauseForm>,
) -> Answer<QueueView> {
    caller.on(&queue)?;
    check_few(form.kinds.len() + form.keys.len())?;
    let handle = app.client().queue(&queue)?;
    let mut pausing = Pausing::new().by(caller.name.to_string()).why(form.why);
    match (form.time, form.until) {
        (Some(_), Some(_)) => return Err(Problem::invalid("until", "say for or until, not both")),
        (Some(time), None) => pausing = pausing.for_time(time.0),
        (None, Some(until)) => {
            let now = app.client().store().now().await?;
            pausing = pausing.for_time(until.0.since(now));
        }
        (None, None) => {}
    }
    if form.kinds.is_empty() && form.keys.is_empty() {
        handle.pause(pausing.clone()).await?;
    }
    for kind in &form.kinds {
        handle.pause_kind(kind, pausing.clone()).await?;
    }
    for key in &form.keys {
        handle.pause_key(key, pausing.clone()).await?;
    }
    shown(&app, &queue).await.map(Json)
}

/// Each is a write of its own.
fn check_few(names: usize) -> Result<(), Problem> {
    match names {
        0..=100 => Ok(()),
        _ => Err(Code::Invalid.because(format!("{names} kinds and keys: send 100 at most"))),
    }
}

/// Hands out jobs again: of the queue, or of the kinds or keys that are named.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/resume", tag = "queues", params(("queue" = String, Path, description = "The name.")), request_body = Option<ResumeForm>, responses((status = 200, description = "The queue.", body = QueueView)))]
pub(crate) async fn resume_queue(
    State(app): State<App>,
    caller: Caller,
    At(queue): At<Name>,
    MaybeBody(form): MaybeBody<ResumeForm>,
) -> Answer<QueueView> {
    caller.on(&queue)?;
    check_few(form.kinds.len() + form.keys.len())?;
    let handle = app.client().queue(&queue)?;
    if handle.record().await?.is_none() {
        return Err(missing(&queue));
    }
    if form.kinds.is_empty() && form.keys.is_empty() {
        handle.resume().await?;
    }
    for kind in &form.kinds {
        handle.resume_kind(kind).await?;
    }
    for key in &form.keys {
        handle.resume_key(key).await?;
    }
    shown(&app, &queue).await.map(Json)
}

/// How many jobs of each key are ready and run, among the newest of the queue.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/keys", tag = "queues", params(("queue" = String, Path, description = "The name.")), responses((status = 200, description = "The keys.", body = Page<KeyView>)))]
pub(crate) async fn list_keys(
    State(app): State<App>,
    caller: Caller,
    At(queue): At<Name>,
) -> Answer<Page<KeyView>> {
    caller.on(&queue)?;
    let found = app.client().queue(&queue)?.by_key().await?;
    let is_whole = !found.has_more_ready && !found.has_more_running;
    let view = |KeyBacklog { key, ready, running, oldest, .. }| KeyView {
        key,
        ready,
        running,
        oldest_due_at: oldest.map(Instant),
    };
    let items = found.keys.into_iter().map(view).collect();
    Ok(Json(Page { complete: is_whole, ..Page::new(items, None).looked(None) }))
}
