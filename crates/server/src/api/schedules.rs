//! Schedules: jobs that come with the clock.

mod form;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::clock::Timestamp;
use windlass_core::schedule::{Recurrence, Schedule};
use windlass_core::{JobId, Name};
use windlass_worker::{Error, ScheduleSet, ScheduleView};

use self::form::{Rules, ScheduleForm};
use crate::access::Caller;
use crate::app::App;
use crate::extract::{At, Body, Query};
use crate::problem::{Answer, Problem};
use crate::wire::{Instant, Page, Paging, limit};

/// Calendars that a preview reads.
const CALENDARS_MAX: usize = 100;

/// A schedule, and how far it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Schedule)]
pub(crate) struct ScheduleItem {
    /// Its id.
    id: String,
    /// The queue of its jobs.
    #[schema(value_type = String)]
    queue: Name,
    /// Their kind.
    #[schema(value_type = String)]
    kind: Name,
    /// When they come, as it was set.
    rules: Rules,
    /// Whether it makes no jobs until it is resumed.
    paused: bool,
    /// The program that declared it in its code.
    owner: Option<String>,
    /// The next slot.
    next_at: Option<Instant>,
    /// When its job starts.
    starts_at: Option<Instant>,
    /// The newest slot that had a job.
    last_at: Option<Instant>,
    /// The newest job that it made.
    #[schema(value_type = Option<String>, format = Uuid)]
    last_job: Option<JobId>,
    /// Jobs that it made.
    made: u64,
    /// Slots without a job.
    skipped: u64,
    /// Slots that came while no worker was there, and had none.
    missed: u64,
    /// Slots that wait for an earlier job.
    waiting: usize,
    /// The job that moves it on.
    #[schema(value_type = Option<String>, format = Uuid)]
    tick: Option<JobId>,
}

/// A schedule that was set.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SetSchedule {
    /// `created`, `changed` or `unchanged`.
    set: &'static str,
    /// The schedule.
    schedule: ScheduleItem,
}

/// A job that was made beside the slots.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RanSchedule {
    /// The id of the schedule.
    id: String,
    /// The job.
    #[schema(value_type = String, format = Uuid)]
    job: JobId,
}

/// A schedule that was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeletedSchedule {
    /// Its id.
    id: String,
    /// Always true.
    deleted: bool,
}

/// An instant at which a schedule makes a job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Slot)]
pub(crate) struct SlotItem {
    /// When.
    at: Instant,
    /// The same in the zone of the schedule.
    local: String,
}

/// A schedule to be looked at that is not stored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewForm {
    /// When its jobs would come.
    rules: Rules,
    /// Slots after this instant; after now if nothing is said.
    after: Option<Instant>,
    /// How many at most; larger ones than 1,000 are lowered to it.
    limit: Option<u64>,
}

/// How many slots.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PreviewParams {
    /// How many at most; larger ones than 1,000 are lowered to it.
    #[param(default = 50)]
    limit: Option<u64>,
}

impl ScheduleItem {
    fn of(view: ScheduleView) -> Self {
        let record = view.record;
        let next = record.state.next.filter(|_| !record.is_paused);
        Self {
            id: view.id,
            queue: view.queue,
            kind: record.job.kind().clone(),
            rules: Rules::of(&record.schedule),
            paused: record.is_paused,
            owner: record.owner,
            next_at: next.map(Instant),
            starts_at: view.next_start.map(Instant),
            last_at: record.state.last.map(Instant),
            last_job: record.state.last_job,
            made: record.state.made,
            skipped: record.state.skipped,
            missed: record.state.missed,
            waiting: record.state.waiting.len(),
            tick: record.tick,
        }
    }
}

fn missing(id: &str) -> Problem {
    Problem::missing(format!("there is no schedule {id:?}")).remedy("GET /api/v1/schedules lists them")
}

async fn found(app: &App, caller: &Caller, id: &str) -> Result<ScheduleView, Problem> {
    let view = app.client().schedule(id).get().await?.ok_or_else(|| missing(id))?;
    caller.on(&view.queue)?;
    Ok(view)
}

/// Schedules by id.
#[utoipa::path(get, path = "/api/v1/schedules", tag = "schedules", params(Paging), responses((status = 200, description = "A page of schedules.", body = Page<ScheduleItem>)))]
pub(crate) async fn list_schedules(
    State(app): State<App>,
    caller: Caller,
    Query(paging): Query<Paging>,
) -> Answer<Page<ScheduleItem>> {
    let page = app.client().schedules(paging.after.as_deref(), paging.limit()).await?;
    let looked = page.schedules.len() as u64;
    let own = page.schedules.into_iter().filter(|view| caller.may_touch(&view.queue));
    Ok(Json(Page::new(own.map(ScheduleItem::of).collect(), page.next).looked(looked)))
}

/// A schedule.
#[utoipa::path(get, path = "/api/v1/schedules/{id}", tag = "schedules", params(("id" = String, Path, description = "The id.")), responses((status = 200, description = "The schedule.", body = ScheduleItem)))]
pub(crate) async fn get_schedule(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Answer<ScheduleItem> {
    Ok(Json(ScheduleItem::of(found(&app, &caller, &id).await?)))
}

/// Sets a schedule: makes it, or changes the one that has this id. What it says again changes nothing.
#[utoipa::path(put, path = "/api/v1/schedules/{id}", tag = "schedules", params(("id" = String, Path, description = "The id.")), request_body = ScheduleForm, responses((status = 200, description = "It is set.", body = SetSchedule), (status = 201, description = "It is made.", body = SetSchedule)))]
pub(crate) async fn set_schedule(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Body(form): Body<ScheduleForm>,
) -> Result<(StatusCode, Json<SetSchedule>), Problem> {
    let ScheduleForm { rules, job } = form;
    let schedule = rules.schedule("rules.")?;
    if let Some(before) = app.client().schedule(&id).get().await? {
        caller.on(&before.queue)?;
    }
    let (kind, payload, options) = job.read_template("job.")?;
    let queue = options.queue_name().map_err(|error| Problem::invalid("job.queue", error))?;
    caller.on(&queue)?;
    let answer = app.client().schedule(&id).when(schedule).enqueue_raw(&kind, payload, options).await?;
    let (status, set) = match answer.set {
        ScheduleSet::Created => (StatusCode::CREATED, "created"),
        ScheduleSet::Changed => (StatusCode::OK, "changed"),
        ScheduleSet::Unchanged => (StatusCode::OK, "unchanged"),
    };
    Ok((status, Json(SetSchedule { set, schedule: ScheduleItem::of(answer.schedule) })))
}

/// Removes a schedule; jobs that it made stay.
#[utoipa::path(delete, path = "/api/v1/schedules/{id}", tag = "schedules", params(("id" = String, Path, description = "The id.")), responses((status = 200, description = "It is gone.", body = DeletedSchedule)))]
pub(crate) async fn delete_schedule(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Answer<DeletedSchedule> {
    found(&app, &caller, &id).await?;
    if !app.client().schedule(&id).delete().await? {
        return Err(missing(&id));
    }
    Ok(Json(DeletedSchedule { id, deleted: true }))
}

fn moved(id: &str, changed: Result<ScheduleView, Error>) -> Answer<ScheduleItem> {
    match changed {
        Err(Error::NoSchedule { .. }) => Err(missing(id)),
        changed => Ok(Json(ScheduleItem::of(changed?))),
    }
}

/// Makes no jobs until it is resumed.
#[utoipa::path(post, path = "/api/v1/schedules/{id}/pause", tag = "schedules", params(("id" = String, Path, description = "The id.")), responses((status = 200, description = "The schedule.", body = ScheduleItem)))]
pub(crate) async fn pause_schedule(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Answer<ScheduleItem> {
    found(&app, &caller, &id).await?;
    moved(&id, app.client().schedule(&id).pause().await)
}

/// Goes on with the next slot from now.
#[utoipa::path(post, path = "/api/v1/schedules/{id}/resume", tag = "schedules", params(("id" = String, Path, description = "The id.")), responses((status = 200, description = "The schedule.", body = ScheduleItem)))]
pub(crate) async fn resume_schedule(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Answer<ScheduleItem> {
    found(&app, &caller, &id).await?;
    moved(&id, app.client().schedule(&id).resume().await)
}

/// Makes a job now, beside those of the slots.
#[utoipa::path(post, path = "/api/v1/schedules/{id}/run", tag = "schedules", params(("id" = String, Path, description = "The id.")), responses((status = 200, description = "The job.", body = RanSchedule)))]
pub(crate) async fn run_schedule(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Answer<RanSchedule> {
    found(&app, &caller, &id).await?;
    let job = app.client().schedule(&id).run_now().await?;
    Ok(Json(RanSchedule { id, job }))
}

/// The next slots of a schedule.
#[utoipa::path(get, path = "/api/v1/schedules/{id}/slots", tag = "schedules", params(("id" = String, Path, description = "The id."), PreviewParams), responses((status = 200, description = "The slots.", body = Page<SlotItem>)))]
pub(crate) async fn list_slots(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Query(params): Query<PreviewParams>,
) -> Answer<Page<SlotItem>> {
    let view = found(&app, &caller, &id).await?;
    let recurrence = view.record.recurrence().map_err(Error::from)?;
    let slots = app.client().schedule(&id).preview(limit(params.limit) as usize).await?;
    let items = slots.into_iter().map(|at| slot(&recurrence, at.into())).collect();
    Ok(Json(Page::new(items, None)))
}

/// The slots of a schedule that is not stored.
#[utoipa::path(post, path = "/api/v1/preview/schedule", tag = "schedules", request_body = PreviewForm, responses((status = 200, description = "The slots.", body = Page<SlotItem>)))]
pub(crate) async fn preview_schedule(
    State(app): State<App>,
    Body(form): Body<PreviewForm>,
) -> Answer<Page<SlotItem>> {
    let schedule: Schedule = form.rules.schedule("rules.")?;
    if schedule.calendars.len() > CALENDARS_MAX {
        return Err(Problem::invalid("rules.calendars", format!("name {CALENDARS_MAX} calendars at most")));
    }
    let mut days = Vec::new();
    for name in &schedule.calendars {
        let missing = || Problem::missing(format!("there is no calendar {name:?}")).at("rules.calendars");
        days.extend(app.client().calendar(name).get().await?.ok_or_else(missing)?.days);
    }
    let recurrence = schedule.recurrence_beside(&days).map_err(Error::from)?;
    let after = match form.after {
        Some(after) => after.0,
        None => app.client().store().now().await?,
    };
    let most = limit(form.limit) as usize;
    // The years in which a rare slot is looked for are walked on another thread.
    let walk = move || {
        let (mut items, mut at) = (Vec::new(), recurrence.next_after(after));
        while let Some(next) = at.filter(|_| items.len() < most) {
            items.push(slot(&recurrence, next));
            at = recurrence.next_after(next);
        }
        items
    };
    let items = tokio::task::spawn_blocking(walk).await.unwrap_or_default();
    Ok(Json(Page::new(items, None)))
}

fn slot(recurrence: &Recurrence, at: Timestamp) -> SlotItem {
    SlotItem { at: Instant(at), local: recurrence.civil(at) }
}
