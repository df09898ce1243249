//! What every request passes before its route: the Host, who asks, and from which site. And what every answer carries.

use std::panic::AssertUnwindSafe;

use axum::extract::{Request, State};
use axum::http::header::{self, AUTHORIZATION, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use crate::access::{Access, Caller, Means};
use crate::api::session::cookie;
use crate::app::App;
use crate::problem::{Code, Problem};

/// Requests that need no token, by method and path.
const OPEN: [(Method, &str); 3] =
    [(Method::GET, "/healthz"), (Method::GET, "/readyz"), (Method::POST, "/api/v1/session")];

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const CSRF: HeaderName = HeaderName::from_static("x-csrf-token");

/// What answers carry unless their handler has said another thing.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];
const HSTS: &str = "max-age=31536000";

/// The outermost layer.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let answer = AssertUnwindSafe(admit(&app, request, next)).catch_unwind().await;
    let mut response = answer
        .unwrap_or_else(|_panic| {
            tracing::error!("a handler of the server panicked");
            Err(Code::Internal.because("this is a defect").remedy("see the log of the server"))
        })
        .unwrap_or_else(IntoResponse::into_response);
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if app.is_secure() {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(HSTS));
    }
    response
}

async fn admit(app: &App, request: Request, next: Next) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    app.hosts().check(&parts)?;
    let is_open = |(method, path): &(Method, &str)| {
        parts.uri.path() == *path
            && (parts.method == *method || (*method == Method::GET && parts.method == Method::HEAD))
    };
    if OPEN.iter().any(is_open) {
        check_site(&Caller::local(), &parts)?;
    } else {
        let caller = identify(app, &parts).await?;
        check_site(&caller, &parts)?;
        parts.extensions.insert(caller);
    }
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// Who asks: by the header, by the cookie of a session, or by nothing where the server is open.
async fn identify(app: &App, parts: &Parts) -> Result<Caller, Problem> {
    let unknown = || {
        Code::Unauthorized
            .because("the token is not known, or no longer holds")
            .remedy("make one with `windlass tokens create`")
    };
    if let Some(token) = bearer(&parts.headers)? {
        return app.known().caller(token).await?.ok_or_else(unknown);
    }
    if let Some(cookie) = cookie(&parts.headers)
        && let Some(caller) = app.known().caller_of_session(cookie).await?
    {
        return Ok(caller);
    }
    match app.access() {
        Access::Open => Ok(Caller::local()),
        Access::Tokens => Err(Code::Unauthorized
            .because("no token was sent")
            .remedy("send the header Authorization: Bearer TOKEN; `windlass tokens create` makes one")),
    }
}

/// The token of the header, if there is one.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let token = match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Some(token.trim()),
        _ => None,
    };
    match (token, values.next()) {
        (Some(token), None) => Ok(Some(token)),
        _ => Err(Code::Unauthorized
            .because("the header Authorization is not understood")
            .remedy("send it once, as Authorization: Bearer TOKEN")),
    }
}

/// Refuses what the page of another site makes a browser send. A token in the header is proof enough: no browser adds it by
/// itself. Elsewhere a write must come from the same site, and in a session carry its token as well.
fn check_site(caller: &Caller, parts: &Parts) -> Result<(), Problem> {
    if caller.means == Means::Bearer {
        return Ok(());
    }
    let text = |name: &HeaderName| parts.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_own = match (text(&FETCH_SITE), text(&header::ORIGIN)) {
        (Some("same-origin" | "none"), _) => true,
        (Some(_), _) => false,
        (None, Some(origin)) => origin.split_once("://").map(|(_, host)| host) == text(&header::HOST),
        // Not a browser, or one from before these headers.
        (None, None) => true,
    };
    if !is_own {
        return Err(Code::CrossSite
            .because("the request comes from the page of another site")
            .remedy("use a token in the header Authorization from there"));
    }
    match &caller.means {
        Means::Session { csrf } if !parts.method.is_safe() && text(&CSRF) != Some(csrf) => {
            Err(Code::CrossSite
                .because("the request does not carry the token of its session")
                .remedy("send the header X-CSRF-Token with what GET /api/v1/session answers"))
        }
        _ => Ok(()),
    }
}
