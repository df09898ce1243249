//! Handing jobs in: one, or many of which all are accepted or none.

mod form;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::store::Enqueued;
use windlass_core::{JobId, Name, NewJob, State as JobState};

pub(crate) use self::form::{JobForm, OnDeadForm};
use super::about::durability;
use crate::access::Caller;
use crate::app::App;
use crate::bounds::BULK_MAX;
use crate::extract::{Body, Bulk};
use crate::problem::{Code, Problem};
use crate::wire::Instant;

/// The longest idempotency key.
const KEY_MAX: usize = 200;

/// What became of a job that was handed in.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Accepted)]
pub(crate) struct AcceptedJob {
    /// The id; that of the job which holds the unique key, where one does.
    #[schema(value_type = String, format = Uuid)]
    id: JobId,
    /// Whether this call stored it.
    new: bool,
    /// Its state; nothing where only the unique key of a job is left.
    #[schema(value_type = Option<String>)]
    state: Option<JobState>,
    /// What the job that holds the unique key did: `kept` or `replaced`.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<&'static str>,
    /// Its queue.
    #[schema(value_type = String)]
    queue: Name,
    /// Its kind.
    #[schema(value_type = String)]
    kind: Name,
    /// What it survives.
    durability: &'static str,
}

/// Many jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkForm {
    /// The jobs, at most 1,000.
    jobs: Vec<JobForm>,
}

/// What became of many jobs, in their order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkAnswer {
    /// One for each.
    items: Vec<AcceptedJob>,
}

/// Enqueues a job. With the header `Idempotency-Key`, or an `id` of the caller's own, the same request may be sent again and
/// is one job, as long as the store has it.
#[utoipa::path(post, path = "/api/v1/jobs", tag = "jobs", request_body = JobForm,
    params(("Idempotency-Key" = Option<String>, Header, description = "Stands for this job within its queue: sent again, it is the same one.")),
    responses((status = 201, description = "It is stored.", body = AcceptedJob), (status = 200, description = "It was there before.", body = AcceptedJob)))]
pub(crate) async fn enqueue_job(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Body(form): Body<JobForm>,
) -> Result<(StatusCode, Json<AcceptedJob>), Problem> {
    let key = idempotency(&headers)?;
    let how = form.how();
    let job = made(&app, &caller, form, "").await?;
    let job = match key {
        Some(key) => under(job, key, 0)?,
        None => job,
    };
    let answer = app.client().enqueue_new_as(job.clone(), how).await?;
    let accepted = answered(&app, &job, answer);
    let status = if accepted.new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(accepted)))
}

/// Enqueues many jobs: all of them or none.
#[utoipa::path(post, path = "/api/v1/jobs/bulk", tag = "jobs", request_body = BulkForm,
    params(("Idempotency-Key" = Option<String>, Header, description = "Stands for these jobs, in their order: sent again, they are the same ones.")),
    responses((status = 201, description = "All are stored, or were before.", body = BulkAnswer)))]
pub(crate) async fn enqueue_jobs(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Bulk(form, _held): Bulk<BulkForm>,
) -> Result<(StatusCode, Json<BulkAnswer>), Problem> {
    let key = idempotency(&headers)?;
    if form.jobs.is_empty() || form.jobs.len() > BULK_MAX {
        return Err(Problem::invalid("jobs", format!("{} jobs: send 1 to {BULK_MAX}", form.jobs.len())));
    }
    let mut jobs = Vec::with_capacity(form.jobs.len());
    for (place, form) in form.jobs.into_iter().enumerate() {
        if form.has_own_call() {
            let why = "wait_for_room and supersede are for one job at a time";
            return Err(Problem::invalid(format!("jobs[{place}]"), why));
        }
        let job = made(&app, &caller, form, &format!("jobs[{place}].")).await?;
        jobs.push(match key {
            Some(key) => under(job, key, place)?,
            None => job,
        });
    }
    let answers = app.client().enqueue_new_all(jobs.clone()).await?;
    let items = jobs.iter().zip(answers).map(|(job, answer)| answered(&app, job, answer)).collect();
    Ok((StatusCode::CREATED, Json(BulkAnswer { items })))
}

/// The job of a form, with the defaults of its queue.
async fn made(app: &App, caller: &Caller, form: JobForm, at: &str) -> Result<NewJob, Problem> {
    let kind = form.kind.clone();
    form::check_kind(&kind, at)?;
    let id = form.id;
    let (payload, options) = form.read(at)?;
    let queue = options.queue_name().map_err(|error| Problem::invalid(format!("{at}queue"), error))?;
    caller.on(&queue)?;
    let job = app.client().new_raw_job(&kind, payload, options).await?;
    Ok(match id {
        Some(id) => job.with_id(id),
        None => job,
    })
}

fn idempotency(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(text) if !text.is_empty() && text.len() <= KEY_MAX => Ok(Some(text)),
        _ => Err(Code::Invalid
            .because(format!("the header Idempotency-Key has 1 to {KEY_MAX} printable ASCII characters"))
            .at("Idempotency-Key")),
    }
}

/// The job under the id that a key stands for in its queue.
fn under(job: NewJob, key: &str, place: usize) -> Result<NewJob, Problem> {
    let scope = format!("windlass.http/{}", job.queue);
    let id = JobId::from_key(&scope, &format!("{place}/{key}"));
    Ok(job.with_id(id))
}

fn answered(app: &App, job: &NewJob, answer: Enqueued) -> AcceptedJob {
    let now = || Instant(std::time::SystemTime::now().into());
    let (id, state, duplicate) = match answer {
        Enqueued::New | Enqueued::Repeated => (job.id, Some(job.entry(now().0).0), None),
        Enqueued::Existing(state) => (job.id, Some(state), None),
        Enqueued::Duplicate { id, state } => (id, state, Some("kept")),
        Enqueued::Replaced(id) => (id, None, Some("replaced")),
    };
    AcceptedJob {
        id,
        new: matches!(answer, Enqueued::New | Enqueued::Repeated),
        state,
        duplicate,
        queue: job.queue.clone(),
        kind: job.kind.clone(),
        durability: durability(app.client().about().durability),
    }
}
