//! The store, the caller, and the document of the API.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::Name;
use windlass_core::store::Durability;

use crate::access::{Caller, Role};
use crate::app::App;
use crate::document::openapi_text;
use crate::problem::Answer;
use crate::wire::Instant;

/// Which store this is, and who asks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct About {
    /// The version of the server.
    version: &'static str,
    /// What kind of store: `memory`, `sqlite`, `postgres`, `redis`.
    store: &'static str,
    /// Where it is, without secrets.
    place: String,
    /// What an accepted job survives: `process`, `server`, `delayed`, `crash` or `power_cut`.
    durability: &'static str,
    /// The store's clock.
    now: Instant,
    /// The name of the token that was sent.
    caller: String,
    /// What it permits.
    role: Role,
    /// The queues that it is limited to; nothing for all.
    #[schema(value_type = Option<Vec<String>>)]
    queues: Option<Vec<Name>>,
}

/// What an accepted job survives, as one word.
pub(crate) const fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Process => "process",
        Durability::Server => "server",
        Durability::Delayed => "delayed",
        Durability::Crash => "crash",
        Durability::PowerCut => "power_cut",
        _ => "other",
    }
}

/// The store, and who asks.
#[utoipa::path(get, path = "/api/v1", operation_id = "about", tag = "store", responses((status = 200, description = "The store.", body = About)))]
pub(crate) async fn about(State(app): State<App>, caller: Caller) -> Answer<About> {
    let about = app.client().about();
    Ok(Json(About {
        version: env!("CARGO_PKG_VERSION"),
        store: about.scheme,
        place: about.place,
        durability: durability(about.durability),
        now: app.client().store().now().await.map_err(windlass_worker::Error::from)?.into(),
        caller: caller.name.to_string(),
        role: caller.role,
        queues: caller.queues.map(|queues| queues.to_vec()),
    }))
}

/// This document.
#[utoipa::path(get, path = "/api/v1/openapi.json", operation_id = "openapi", tag = "store", responses((status = 200, description = "The OpenAPI document.", body = serde_json::Value)))]
pub(crate) async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], openapi_text())
}
