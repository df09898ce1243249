//! Errors as `application/problem+json`: a stable code, what is wrong, what would be right, and where in the request.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::{StoreError, StoreErrorKind};
use windlass_worker::Error;

/// What handlers answer.
pub(crate) type Answer<T> = Result<Json<T>, Problem>;

/// What went wrong. Codes are stable: programs may decide by them. New ones may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Code {
    /// The request makes no sense; `path` says where.
    Invalid,
    /// The body is not JSON.
    NotJson,
    /// The body is nested too deep.
    TooDeep,
    /// The body, or one of its parts, is too large.
    TooLarge,
    /// The body is not declared as JSON.
    MediaType,
    /// The body took too long to come.
    Timeout,
    /// No token, or none that is known and still holds.
    Unauthorized,
    /// The token does not permit this.
    Forbidden,
    /// The request comes from the page of another site.
    CrossSite,
    /// What the request names is not there.
    NotFound,
    /// There is a route, and not by this method.
    Method,
    /// What was to be changed is not in a state in which it can be.
    Refused,
    /// It is not as the request expects it: another caller wrote first.
    Conflict,
    /// Another number of things matches than the request expects.
    Unexpected,
    /// The id or the idempotency key stands for another job already.
    Taken,
    /// The attempt has lost its job: stop working on it.
    Fenced,
    /// The host name of the request is not one of this server's.
    WrongHost,
    /// The queue takes no more jobs at present.
    QueueFull,
    /// Too many requests of this kind: wait.
    TooMany,
    /// This store cannot do that.
    Unsupported,
    /// The store is away; nothing was changed. Try again.
    Unavailable,
    /// The store's answer was lost: it may have happened. Repeat the request.
    Unknown,
    /// The server holds as many requests, streams or bytes as it may. Try again.
    Busy,
    /// A defect.
    Internal,
}

impl Code {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Invalid | Self::NotJson | Self::TooDeep => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::CrossSite => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Refused | Self::Conflict | Self::Unexpected | Self::Taken | Self::Fenced => {
                StatusCode::CONFLICT
            }
            Self::WrongHost => StatusCode::MISDIRECTED_REQUEST,
            Self::QueueFull | Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Unsupported => StatusCode::NOT_IMPLEMENTED,
            Self::Unavailable | Self::Unknown | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// A problem with this code.
    pub(crate) fn because(self, detail: impl Into<String>) -> Problem {
        let status = self.status();
        Problem {
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            code: self,
            detail: detail.into(),
            remedy: None,
            path: None,
        }
    }
}

/// An error of the API, as RFC 9457 has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What the status means.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong, for programs.
    pub code: Code,
    /// What went wrong, for people.
    pub detail: String,
    /// What would be right, or what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Where in the body or the query, as `retry.attempts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl Problem {
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    pub(crate) fn at(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into()).filter(|path: &String| !path.is_empty() && path != ".");
        self
    }

    /// Something that the request names and that is not there.
    pub(crate) fn missing(what: impl Into<String>) -> Self {
        Code::NotFound.because(what)
    }

    /// A value of the request that makes no sense.
    pub(crate) fn invalid(path: impl Into<String>, detail: impl ToString) -> Self {
        Code::Invalid.because(detail.to_string()).at(path)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let mut response = (status, Json(&self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.code {
            Code::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Code::Unavailable | Code::Unknown | Code::Busy | Code::QueueFull | Code::TooMany => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Store(error) => error.into(),
            Error::Job(_)
            | Error::RecordKey(_)
            | Error::Schedule(_)
            | Error::Flow(_)
            | Error::Config(_)
            | Error::Encode { .. } => Code::Invalid.because(text),
            Error::BatchTooLarge { .. } => Code::TooLarge.because(text),
            Error::NoSchedule { .. } | Error::NoFlow { .. } => Code::NotFound.because(text),
            Error::Fenced => Code::Fenced.because(text),
            Error::Busy { .. } | Error::Definition { .. } => Code::Conflict.because(text),
            Error::Closed => Code::Unavailable.because(text),
            _ => Code::Internal.because(text),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        let code = match &error {
            StoreError::TooLarge { .. } => Code::TooLarge,
            StoreError::IdTaken { .. } => Code::Taken,
            StoreError::QueueFull { .. } => Code::QueueFull,
            StoreError::Conflict { .. } | StoreError::UnknownRules { .. } => Code::Conflict,
            error => match error.kind() {
                StoreErrorKind::Refused => Code::Invalid,
                StoreErrorKind::Unavailable => Code::Unavailable,
                StoreErrorKind::Unknown => Code::Unknown,
                _ => Code::Internal,
            },
        };
        if code.status().is_server_error() {
            // What a driver says may have an address or a statement in it; it is for the log of the server.
            tracing::warn!(error = %text, "the store did not answer a request");
        }
        match code {
            Code::Unavailable => code.because("the store is away; nothing was changed").remedy("try again"),
            Code::Unknown => code
                .because("the answer of the store was lost: it may have happened")
                .remedy("repeat the request; with an idempotency key it takes effect once"),
            Code::Internal => code.because("this is a defect").remedy("see the log of the server"),
            _ => code.because(text),
        }
    }
}
