//! The audit: who changed what by the API.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::record::RecordKey;

use crate::access::Role;
use crate::app::App;
use crate::audit::AuditEntry;
use crate::extract::Query;
use crate::problem::{Answer, Problem};
use crate::wire::{Instant, Page, Paging};

/// A change that came by the API.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditItem {
    /// When.
    at: Instant,
    /// The name of the token.
    actor: String,
    /// What it permitted.
    role: Role,
    /// How the caller had shown who it is: `open`, `token` or `session`.
    means: String,
    /// What was asked for, by its name in this document.
    action: String,
    /// The method and the path.
    request: String,
    /// The HTTP status of the answer; nothing where the server did not come to one.
    status: Option<u16>,
    /// What else is worth to know.
    detail: Option<String>,
}

impl From<AuditEntry> for AuditItem {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { at, actor, role, means, action, request, status, detail, .. } = entry;
        Self { at: Instant(at), actor, role, means, action, request, status, detail }
    }
}

/// Changes that came by the API, the newest first. Kept for 90 days.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(Paging), responses((status = 200, description = "A page of changes.", body = Page<AuditItem>)))]
pub(crate) async fn list_audit(
    State(app): State<App>,
    Query(paging): Query<Paging>,
) -> Answer<Page<AuditItem>> {
    let after = paging.after.as_deref().map(RecordKey::new).transpose();
    let after = after.map_err(|error| Problem::invalid("after", error))?;
    let page = app.audit().page(after.as_ref(), paging.limit()).await?;
    let next = page.next.map(|key| key.as_str().to_owned());
    Ok(Json(Page::new(page.entries.into_iter().map(AuditItem::from).collect(), next)))
}
