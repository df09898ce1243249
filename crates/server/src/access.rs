//! Who may do what. A caller has a role, and may be limited to some queues; the table of routes (`routes`) says which role
//! each needs, and handlers ask [`Caller::on`] where they read or write a queue.

mod known;
mod logins;
mod secret;
mod sessions;
mod tokens;

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::Name;

pub(crate) use known::Known;
pub(crate) use logins::{Logins, Peer};
pub(crate) use secret::{Secret, digest};
pub(crate) use sessions::SESSION_TTL;
pub use tokens::{NewToken, TokenView, Tokens};

use crate::problem::{Code, Problem};

/// The queue whose records are the server's own: tokens, sessions, audit. Routes for records do not open it.
pub(crate) const HOME: &str = "windlass.server";

/// Whether requests need a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Each needs one.
    Tokens,
    /// None does: each is one of an administrator. For a server that only this machine reaches.
    Open,
}

/// What a token permits. Each role may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Looks at everything but masked payloads.
    Viewer,
    /// Enqueues, and changes jobs, queues, flows, schedules and dead letters.
    Operator,
    /// Also tokens, records and whatever removes definitions.
    Admin,
}

impl Role {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let role = [Self::Viewer, Self::Operator, Self::Admin].into_iter().find(|role| role.as_str() == text);
        role.ok_or_else(|| format!("{text:?} is not a role: use viewer, operator or admin"))
    }
}

/// How a caller has shown who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Means {
    /// Not at all: the server is open.
    Open,
    /// By a token in the header.
    Bearer,
    /// By the cookie of a session, whose writes also carry this.
    Session { csrf: Arc<str> },
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name of the token.
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    /// Only these queues; all with nothing.
    pub(crate) queues: Option<Arc<[Name]>>,
    pub(crate) means: Means,
}

impl Caller {
    /// Every request to an open server.
    pub(crate) fn local() -> Self {
        Self { name: "local".into(), role: Role::Admin, queues: None, means: Means::Open }
    }

    /// Refuses a queue that the caller may not touch. Those of the engine and of the server itself are closed to all: whatever
    /// is written there could make a token.
    pub(crate) fn on(&self, queue: &Name) -> Result<(), Problem> {
        if queue.is_internal() {
            return Err(Code::Forbidden
                .because(format!("queue {queue} is the engine's own"))
                .remedy("use the routes of what it is about"));
        }
        if self.may_touch(queue) {
            return Ok(());
        }
        Err(Code::Forbidden
            .because(format!("the token {:?} does not reach queue {queue}", self.name))
            .remedy("use a token that is not limited to other queues"))
    }

    /// Whether the queue is one of the caller's.
    pub(crate) fn may_touch(&self, queue: &Name) -> bool {
        self.queues.as_ref().is_none_or(|queues| queues.contains(queue))
    }

    /// Refuses a caller whose role is below this one.
    pub(crate) fn needs(&self, role: Role) -> Result<(), Problem> {
        if self.role >= role {
            return Ok(());
        }
        Err(Code::Forbidden
            .because(format!(
                "this needs the role {}, and the token is a {}",
                role.as_str(),
                self.role.as_str()
            ))
            .remedy(format!("use a token of role {}", role.as_str())))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Code::Unauthorized.because("no token was sent"))
    }
}
