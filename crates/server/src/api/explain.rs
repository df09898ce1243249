//! Why jobs are where they are, and whether the store is sound.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass_core::{JobId, Name, State as JobState};
use windlass_worker::Cause;

use super::jobs::{Shown, found};
use crate::access::Caller;
use crate::app::App;
use crate::extract::At;
use crate::problem::{Answer, Problem};
use crate::wire::Instant;

/// Why a job is where it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(crate) struct ExplanationView {
    /// The job.
    #[schema(value_type = String, format = Uuid)]
    id: JobId,
    /// Its queue.
    #[schema(value_type = String)]
    queue: Name,
    /// Its kind.
    #[schema(value_type = String)]
    kind: Name,
    /// Its state.
    #[schema(value_type = String)]
    state: JobState,
    /// When it was looked at, by the store's clock.
    now: Instant,
    /// The causes, the first ones first.
    causes: Vec<CauseView>,
}

/// A cause that a job is where it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cause)]
pub(crate) struct CauseView {
    /// Which one, as `not_due`, `paused` or `no_worker`.
    cause: String,
    /// The same for people.
    sentence: String,
    /// What to do about it.
    remedy: Option<String>,
    /// What it is about: instants as text, spans in seconds.
    #[schema(value_type = Value)]
    facts: Value,
}

impl CauseView {
    fn of(cause: &Cause, shown: Shown) -> Self {
        let mut facts = serde_json::to_value(&cause.why).unwrap_or_default();
        let name = facts.as_object_mut().and_then(|facts| facts.remove("cause"));
        let cause_name = name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
        let (mut sentence, mut is_masked) = (cause.sentence.clone(), false);
        if shown == Shown::Masked {
            // What a handler has said of its job.
            for said in ["error", "progress"] {
                is_masked |= facts.get(said).is_some_and(|said| !said.is_null());
                if let Some(said) = facts.get_mut(said) {
                    *said = Value::Null;
                }
            }
        }
        if is_masked {
            sentence = format!("{cause_name} (what its handler said is masked)");
        }
        Self { cause: cause_name, sentence, remedy: cause.remedy.clone(), facts }
    }
}

/// Why a job is where it is, and what to do about it: what keeps it from starting, which worker has it, or how it ended.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/explain", tag = "jobs", params(("id" = String, Path, format = Uuid, description = "The id.")), responses((status = 200, description = "The causes.", body = ExplanationView)))]
pub(crate) async fn explain_job(
    State(app): State<App>,
    caller: Caller,
    At(id): At<JobId>,
) -> Answer<ExplanationView> {
    let job = found(&app, &caller, id).await?;
    let shown = Shown::of_queue(&app, &job.queue).await?;
    let gone = || Problem::missing(format!("job {id} is gone"));
    let explanation = app.client().explain(id).await?.ok_or_else(gone)?;
    Ok(Json(ExplanationView {
        id,
        queue: explanation.job.queue.clone(),
        kind: explanation.job.kind.clone(),
        state: explanation.job.state,
        now: Instant(explanation.now),
        causes: explanation.causes.iter().map(|cause| CauseView::of(cause, shown)).collect(),
    }))
}
