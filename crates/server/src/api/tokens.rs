//! Tokens: made, listed and revoked by administrators.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::Name;

use crate::access::{NewToken, Role, TokenView, Tokens};
use crate::app::App;
use crate::extract::{At, Body};
use crate::problem::{Answer, Problem};
use crate::wire::{Instant, Page, Span};

/// A token to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenForm {
    /// Whose it is; the audit shows it.
    name: String,
    /// What it permits.
    role: Role,
    /// The queues that it is limited to; all if there are none.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    queues: Vec<Name>,
    /// How long it holds; without end if nothing is said.
    ttl: Option<Span>,
}

/// A token as it is listed, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenItem {
    /// By which it is revoked.
    id: String,
    /// Whose it is.
    name: String,
    /// What it permits.
    role: Role,
    /// The queues that it is limited to; all if there are none.
    #[schema(value_type = Vec<String>)]
    queues: Vec<Name>,
    /// When it was made.
    created_at: Instant,
    /// When it ends by itself.
    expires_at: Option<Instant>,
    /// Its text, in the answer to its making and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// What was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RevokedToken {
    /// By which it was known.
    id: String,
    /// Always true.
    revoked: bool,
}

impl TokenItem {
    fn of(view: TokenView, token: Option<String>) -> Self {
        let TokenView { id, name, role, queues, created_at, expires_at } = view;
        let expires_at = expires_at.map(Instant);
        Self { id, name, role, queues, created_at: Instant(created_at), expires_at, token }
    }
}

/// The tokens that hold.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", responses((status = 200, description = "A page that has all.", body = Page<TokenItem>)))]
pub(crate) async fn list_tokens(State(app): State<App>) -> Answer<Page<TokenItem>> {
    let tokens = Tokens::new(app.client()).list().await?;
    Ok(Json(Page::new(tokens.into_iter().map(|view| TokenItem::of(view, None)).collect(), None)))
}

/// Makes a token. Its text is in this answer and is not kept.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", request_body = TokenForm, responses((status = 201, description = "The token.", body = TokenItem)))]
pub(crate) async fn create_token(
    State(app): State<App>,
    Body(form): Body<TokenForm>,
) -> Result<(StatusCode, Json<TokenItem>), Problem> {
    let mut token = NewToken::new(form.name, form.role).queues(form.queues);
    if let Some(ttl) = form.ttl {
        token = token.ttl(ttl.0);
    }
    let (view, text) = Tokens::new(app.client()).create(token).await?;
    Ok((StatusCode::CREATED, Json(TokenItem::of(view, Some(text)))))
}

/// Revokes a token. Other servers of the store heed it within seconds.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", tag = "tokens", params(("id" = String, Path, description = "The id of the token.")), responses((status = 200, description = "It no longer holds.", body = RevokedToken)))]
pub(crate) async fn revoke_token(State(app): State<App>, At(id): At<String>) -> Answer<RevokedToken> {
    let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_id || !Tokens::new(app.client()).revoke(&id).await? {
        return Err(
            Problem::missing("there is no token with this id").remedy("GET /api/v1/tokens lists them")
        );
    }
    app.known().forget(&id);
    Ok(Json(RevokedToken { id, revoked: true }))
}
