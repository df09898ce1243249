//! Jobs: found, looked at, waited for, and changed one by one.

pub(crate) mod again;
pub(crate) mod list;
pub(crate) mod said;
mod view;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::store::Amended;
use windlass_core::{JobId, JobRecord, State as JobState, forms};
use windlass_worker::{Cancellation, OutputError};

pub(crate) use self::view::{AttemptView, JobView, Shown};
use crate::access::{Caller, Role};
use crate::app::App;
use crate::bounds::WAIT_MAX;
use crate::extract::{At, MaybeBody, Query};
use crate::problem::{Answer, Code, Problem};

/// How a job is looked at.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GetParams {
    /// Waits for its end, for as long as this, at most a minute; then the job is answered as it is.
    #[param(example = "30s")]
    wait: Option<String>,
    /// Shows contents that its queue masks. Needs the role operator, and is audited.
    reveal: Option<bool>,
}

/// Why a job is cancelled.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelForm {
    /// Why, for those who look at the job later.
    #[serde(default)]
    why: String,
}

/// What became of a job that was to be changed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Changed {
    /// The job.
    #[schema(value_type = String, format = Uuid)]
    id: JobId,
    /// Its state now; before, where it was deleted. One that runs and was asked to stop still is `running`.
    #[schema(value_type = String)]
    state: JobState,
}

/// A job of any kind, of which only the end matters.
#[derive(Serialize, Deserialize)]
struct Any;

impl windlass_worker::Job for Any {
    const KIND: &'static str = "any";
    type Output = ();
}

/// Everything about a job, with its attempts. With `wait`, when it has come to its end, or as it is by then.
#[utoipa::path(get, path = "/api/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path, format = Uuid, description = "The id."), GetParams), responses((status = 200, description = "The job.", body = JobView)))]
pub(crate) async fn get_job(
    State(app): State<App>,
    caller: Caller,
    At(id): At<JobId>,
    Query(params): Query<GetParams>,
) -> Answer<JobView> {
    let mut job = found(&app, &caller, id).await?;
    if let Some(wait) = &params.wait
        && !job.state.is_terminal()
    {
        let wait = forms::duration(wait).map_err(|why| Problem::invalid("wait", why))?;
        job = ended(&app, job, wait.min(WAIT_MAX)).await?;
    }
    let shown = if params.reveal.unwrap_or_default() {
        reveal(&app, &caller, &job).await?
    } else {
        Shown::of_queue(&app, &job.queue).await?
    };
    Ok(Json(JobView::shown(&job, shown)))
}

/// Permits to see what is masked, and writes that down.
async fn reveal(app: &App, caller: &Caller, job: &JobRecord) -> Result<Shown, Problem> {
    caller.needs(Role::Operator)?;
    if Shown::of_queue(app, &job.queue).await? == Shown::Masked {
        let what = format!("GET /api/v1/jobs/{}?reveal=true", job.id);
        if let Some(begun) = app.audit().begin(caller, "reveal_job", &what).await? {
            app.audit().end(begun, 200, None).await;
        }
    }
    Ok(Shown::All)
}

/// The job, if it is one of the caller's.
pub(crate) async fn found(app: &App, caller: &Caller, id: JobId) -> Result<JobRecord, Problem> {
    let job = app.client().job(id).await?.ok_or_else(|| missing(id))?;
    caller.on(&job.queue)?;
    Ok(job)
}

fn missing(id: JobId) -> Problem {
    Problem::missing(format!("there is no job {id}"))
        .remedy("it was never accepted, was deleted, or its queue no longer keeps it")
}

/// The job when it has ended, or as it is when the time is over or the server stops.
async fn ended(app: &App, job: JobRecord, wait: Duration) -> Result<JobRecord, Problem> {
    let _place = app.stream()?;
    let handle = app.client().handle::<Any>(job.id);
    tokio::select! {
        ended = handle.finished() => match ended {
            Ok(ended) => return Ok(ended),
            Err(OutputError::Call(error)) => return Err(error.into()),
            Err(_) => return Err(missing(job.id)),
        },
        () = tokio::time::sleep(wait) => {}
        () = app.stopping() => {}
    }
    app.client().job(job.id).await?.ok_or_else(|| missing(job.id))
}

/// Cancels a job: a waiting one at once, a running one by asking its handler.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/cancel", tag = "jobs", params(("id" = String, Path, format = Uuid, description = "The id.")), request_body = Option<CancelForm>, responses((status = 200, description = "It is cancelled, or asked to stop.", body = Changed)))]
pub(crate) async fn cancel_job(
    State(app): State<App>,
    caller: Caller,
    At(id): At<JobId>,
    MaybeBody(form): MaybeBody<CancelForm>,
) -> Answer<Changed> {
    found(&app, &caller, id).await?;
    let cancelled = if app.client().store().records().is_some() {
        let by = caller.name.to_string();
        app.client().cancel_because(id, &Cancellation { by, why: form.why }).await?
    } else {
        app.client().cancel(id).await?
    };
    changed(id, cancelled, "it has ended already")
}

/// Sends a dead, cancelled or scheduled job to `ready` now.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/retry", tag = "jobs", params(("id" = String, Path, format = Uuid, description = "The id.")), responses((status = 200, description = "It is ready.", body = Changed)))]
pub(crate) async fn retry_job(State(app): State<App>, caller: Caller, At(id): At<JobId>) -> Answer<Changed> {
    found(&app, &caller, id).await?;
    changed(id, app.client().retry(id).await?, "dead, cancelled and scheduled jobs can be sent back")
}

/// Removes a job that does not run, for good.
#[utoipa::path(delete, path = "/api/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path, format = Uuid, description = "The id.")), responses((status = 200, description = "It is gone.", body = Changed)))]
pub(crate) async fn delete_job(State(app): State<App>, caller: Caller, At(id): At<JobId>) -> Answer<Changed> {
    found(&app, &caller, id).await?;
    changed(id, app.client().delete(id).await?, "cancel it first, and wait until it has ended")
}

pub(crate) fn changed(id: JobId, amended: Amended, remedy: &str) -> Answer<Changed> {
    match amended {
        Amended::Done(state) => Ok(Json(Changed { id, state })),
        Amended::Refused(state) => Err(Code::Refused.because(format!("job {id} is {state}")).remedy(remedy)),
        Amended::Held(holder) => Err(Code::Refused
            .because(format!("job {holder} holds the unique key of job {id}"))
            .remedy("wait until that one has ended, or cancel it")),
        Amended::Missing => Err(missing(id)),
    }
}
