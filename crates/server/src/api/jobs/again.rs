//! Jobs that are run again or moved, as new ones.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass_core::{JobId, JobRecord, Name};
use windlass_worker::Moved;

use super::found;
use crate::access::Caller;
use crate::app::App;
use crate::extract::{At, Body};
use crate::problem::{Answer, Code, Problem};
use crate::wire::Encoding;
use crate::wire::content::bytes;

/// Another payload for a job that has ended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditForm {
    /// The payload.
    #[schema(value_type = serde_json::Value)]
    payload: Box<RawValue>,
    /// How it is written: `json`, `utf8` or `base64`.
    #[serde(default)]
    payload_encoding: Encoding,
    /// Why, for those who ask later.
    why: String,
}

/// Where a job is to go.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveForm {
    /// The queue.
    #[schema(value_type = String)]
    queue: Name,
}

/// A job that another one was made of.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgainView {
    /// The one that was there.
    #[schema(value_type = String, format = Uuid)]
    id: JobId,
    /// The new one.
    #[schema(value_type = String, format = Uuid)]
    new_id: JobId,
}

async fn ended(app: &App, caller: &Caller, id: JobId) -> Result<JobRecord, Problem> {
    let job = found(app, caller, id).await?;
    if job.state.is_terminal() {
        return Ok(job);
    }
    Err(Code::Refused
        .because(format!("job {id} is {}: only jobs that have ended can be run again", job.state)))
}

fn made(id: JobId, new: Option<JobId>) -> Answer<AgainView> {
    let changed = || Code::Refused.because(format!("job {id} was sent back or removed meanwhile"));
    Ok(Json(AgainView { id, new_id: new.ok_or_else(changed)? }))
}

/// Runs a job that has ended once more, as a new one.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/again", tag = "jobs", params(("id" = String, Path, format = Uuid, description = "The id.")), responses((status = 200, description = "The new job.", body = AgainView)))]
pub(crate) async fn run_again(
    State(app): State<App>,
    caller: Caller,
    At(id): At<JobId>,
) -> Answer<AgainView> {
    ended(&app, &caller, id).await?;
    made(id, app.client().run_again(id).await?)
}

/// Runs a job that has ended once more with another payload, as a new one. The old one stays, and remembers who edited it.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/edit", tag = "jobs", params(("id" = String, Path, format = Uuid, description = "The id.")), request_body = EditForm, responses((status = 200, description = "The new job.", body = AgainView)))]
pub(crate) async fn edit_job(
    State(app): State<App>,
    caller: Caller,
    At(id): At<JobId>,
    Body(form): Body<EditForm>,
) -> Answer<AgainView> {
    ended(&app, &caller, id).await?;
    let payload = bytes("payload", Some(&form.payload), form.payload_encoding)?;
    made(id, app.client().edit_again(id, payload, &caller.name, &form.why).await?)
}

/// Moves a job that waits, is dead or was cancelled to another queue, where it is a new one with fresh attempts.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/move", tag = "jobs", params(("id" = String, Path, format = Uuid, description = "The id.")), request_body = MoveForm, responses((status = 200, description = "The job in its new queue.", body = AgainView)))]
pub(crate) async fn move_job(
    State(app): State<App>,
    caller: Caller,
    At(id): At<JobId>,
    Body(form): Body<MoveForm>,
) -> Answer<AgainView> {
    found(&app, &caller, id).await?;
    caller.on(&form.queue)?;
    match app.client().move_job(id, &form.queue).await? {
        Moved::Done(new_id, _) => Ok(Json(AgainView { id, new_id })),
        Moved::Refused(state) => Err(Code::Refused
            .because(format!("job {id} is {state}"))
            .remedy("jobs that wait, are dead or were cancelled can be moved")),
        Moved::Held(holder) => Err(Code::Refused.because(format!("job {holder} holds its unique key there"))),
        Moved::Missing => Err(Problem::missing(format!("there is no job {id}"))),
    }
}
