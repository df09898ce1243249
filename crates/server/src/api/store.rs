//! The store itself, call by call, for programs that use the library without access to the database: `windlass::open` with the
//! URL of this server. What each call needs, and what of its answer the caller may see, is decided in `windlass-store-http`; here
//! are the body, the audit and the stream of rings.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::time::{Instant, sleep_until};
use windlass_core::{Bytes, Name};
use windlass_store_http::serve::{self, Refusal, Ringing};
use windlass_store_http::wire::{LISTEN, PASS, QUIET, Sort};

use crate::access::{Caller, HOME, Role};
use crate::app::App;
use crate::audit::Detail;
use crate::extract::{At, Raw};
use crate::problem::{Code, Problem};

/// How long a stream lives, so that a token which no longer holds is noticed: the client comes again.
const STREAM_MAX: Duration = Duration::from_secs(600);
/// Characters of a request that its audit entry has.
const DETAIL_MAX: usize = 300;

/// A call of the store.
///
/// For the library of Windlass, whose calls these are; other programs use the routes beside this one. The body is the call's
/// own, `listen` is answered with a stream of lines. Whether a caller may depends on the call: reading needs a viewer, working
/// and changing an operator, removing a queue an admin.
#[utoipa::path(post, path = "/api/v1/store/{verb}", operation_id = "call_store", tag = "store",
    params(("verb" = String, Path, description = "The call, as `enqueue` or `claim`.")),
    request_body(content = serde_json::Value, description = "The call's own."),
    responses((status = 200, description = "The call's own answer.", body = serde_json::Value)))]
pub(crate) async fn call_store(
    State(app): State<App>,
    caller: Caller,
    At(verb): At<String>,
    Raw(body, held): Raw,
) -> Result<Response, Problem> {
    let reached = reached(&caller);
    match verb.as_str() {
        LISTEN => return listen(&app, &reached, &body),
        PASS => {
            let pass =
                serde_json::from_slice(&body).map_err(|error| Code::Invalid.because(error.to_string()))?;
            serve::pass(app.client().store().bell(), &reached, &pass);
            return Ok(answered(b"null".to_vec()));
        }
        _ => {}
    }
    let is_change = matches!(serve::sort(&verb), Some(Sort::Change | Sort::Remove));
    // A call that has begun runs to its end, whatever its caller does.
    let called = tokio::spawn(async move {
        let _held = held;
        let begun = match is_change {
            true => app.audit().begin(&caller, "call_store", &format!("POST /api/v1/store/{verb}")).await?,
            false => None,
        };
        let response = match serve::answer(&**app.client().store(), &reached, &verb, &body).await {
            Ok(answer) => answered(answer),
            Err(refusal) => refused(refusal),
        };
        if let Some(begun) = begun {
            let detail: String = String::from_utf8_lossy(&body).chars().take(DETAIL_MAX).collect();
            app.audit().end(begun, response.status().as_u16(), Some(&Detail(detail))).await;
        }
        Ok::<_, Problem>(response)
    });
    called.await.unwrap_or_else(|_panic| Err(Code::Internal.because("this is a defect")))
}

fn reached(caller: &Caller) -> serve::Grant {
    let may = match caller.role {
        Role::Viewer => serve::Allowed::Look,
        Role::Operator => serve::Allowed::Change,
        Role::Admin => serve::Allowed::Remove,
    };
    let closed = Name::new(HOME).expect("it is a name");
    serve::Grant { may, queues: caller.queues.clone(), closed }
}

fn answered(body: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// A problem as all routes have it, with the store's own error beside it.
fn refused(refusal: Refusal) -> Response {
    let store = refusal.problem();
    let problem = match refusal {
        Refusal::NoVerb => Code::NotFound.because("there is no such call: upgrade the server"),
        Refusal::Malformed(why) => Code::Invalid.because(why),
        Refusal::Forbidden(why) => Code::Forbidden.because(why),
        Refusal::Store(error) => error.into(),
    };
    let mut body = serde_json::to_value(&problem).unwrap_or_default();
    body["store"] = serde_json::to_value(store).unwrap_or_default();
    let (parts, _) = problem.into_response().into_parts();
    Response::from_parts(parts, Body::from(body.to_string()))
}

/// The stream of rings. It holds little, however slowly the client reads.
fn listen(app: &App, reached: &serve::Grant, body: &Bytes) -> Result<Response, Problem> {
    let asked = serde_json::from_slice(body).map_err(|error| Code::Invalid.because(error.to_string()))?;
    let ringing =
        Ringing::new(&**app.client().store(), reached, &asked).map_err(|why| Code::Invalid.because(why))?;
    let place = Arc::new(app.stream()?);
    let (app, end) = (app.clone(), Instant::now() + STREAM_MAX);
    let lines = stream::unfold((ringing, place, app), move |(mut ringing, place, app)| async move {
        let line = tokio::select! {
            biased;
            () = app.stopping() => return None,
            () = sleep_until(end) => return None,
            line = ringing.next(QUIET) => line,
        };
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(line)), (ringing, place, app)))
    });
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}
