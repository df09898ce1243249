//! Sessions of browsers: begun with a token, held by a cookie that no script reads.

use axum::extract::State;
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::Name;

use crate::access::{Caller, Means, Peer, Role, SESSION_TTL};
use crate::app::App;
use crate::extract::Body;
use crate::problem::{Answer, Code, Problem};

/// The cookie.
const NAME: &str = "windlass_session";

/// A login.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginForm {
    /// The text of a token.
    #[schema(format = Password)]
    token: String,
}

/// Who asks, and what its writes carry.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionView {
    /// The name of the token.
    name: String,
    /// What it permits.
    role: Role,
    /// The queues that it is limited to; nothing for all.
    #[schema(value_type = Option<Vec<String>>)]
    queues: Option<Vec<Name>>,
    /// What requests of a session that change something send as `X-CSRF-Token`; nothing without a session.
    csrf: Option<String>,
}

impl SessionView {
    fn of(caller: Caller) -> Self {
        let csrf = match caller.means {
            Means::Session { csrf } => Some(csrf.to_string()),
            Means::Open | Means::Bearer => None,
        };
        let queues = caller.queues.map(|queues| queues.to_vec());
        Self { name: caller.name.to_string(), role: caller.role, queues, csrf }
    }
}

/// The text of the session's cookie.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(';')).find_map(|pair| pair.trim().strip_prefix(NAME)?.strip_prefix('='))
}

/// Begins a session: sets a cookie, and answers what its writes carry. Needs no token in the header. An address that has failed
/// ten times in a minute waits.
#[utoipa::path(post, path = "/api/v1/session", tag = "session", request_body = LoginForm, responses((status = 200, description = "The session.", body = SessionView)))]
pub(crate) async fn begin_session(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    Body(form): Body<LoginForm>,
) -> Result<([(axum::http::HeaderName, HeaderValue); 1], Json<SessionView>), Problem> {
    let peer = peer.map(|Extension(peer)| peer);
    app.logins().check(peer)?;
    let Some((caller, text)) = app.known().begin_session(&form.token).await? else {
        app.logins().failed(peer);
        return Err(Code::Unauthorized.because("the token is not known, or no longer holds"));
    };
    let set = set_cookie(&app, &text, SESSION_TTL.as_secs());
    Ok(([(SET_COOKIE, set)], Json(SessionView::of(caller))))
}

/// Who asks.
#[utoipa::path(get, path = "/api/v1/session", tag = "session", responses((status = 200, description = "The caller.", body = SessionView)))]
pub(crate) async fn get_session(caller: Caller) -> Answer<SessionView> {
    Ok(Json(SessionView::of(caller)))
}

/// Ends the session.
#[utoipa::path(delete, path = "/api/v1/session", tag = "session", responses((status = 200, description = "It has ended.", body = SessionView)))]
pub(crate) async fn end_session(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<([(axum::http::HeaderName, HeaderValue); 1], Json<SessionView>), Problem> {
    if let Some(text) = cookie(&headers) {
        app.known().end_session(text).await?;
    }
    let view = SessionView { csrf: None, ..SessionView::of(caller) };
    Ok(([(SET_COOKIE, set_cookie(&app, "", 0))], Json(view)))
}

fn set_cookie(app: &App, text: &str, seconds: u64) -> HeaderValue {
    let secure = if app.is_secure() { "; Secure" } else { "" };
    let cookie = format!("{NAME}={text}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    // Letters, digits and a few signs.
    HeaderValue::try_from(cookie).unwrap_or_else(|_| HeaderValue::from_static(""))
}
