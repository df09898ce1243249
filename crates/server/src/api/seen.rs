//! What monitoring looks at: metrics, and whether jobs can move. Both by one look at the store a second, however many ask.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::Name;
use windlass_worker::Metrics;

use crate::app::App;

/// Metrics of this server and of its store, as Prometheus reads them. The store is asked at most once a second.
#[utoipa::path(get, path = "/metrics", tag = "store",
    responses((status = 200, description = "The text format of Prometheus, version 0.0.4.", body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    ([(CONTENT_TYPE, Metrics::CONTENT_TYPE)], app.metrics().scrape(app.client()).await)
}

/// Whether jobs can move.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Working {
    /// Whether nothing is in the way.
    working: bool,
    /// Whether the store answers.
    store_answers: bool,
    /// Queues that are not paused and have ready jobs that no living worker serves.
    #[schema(value_type = Vec<String>)]
    unserved: Vec<Name>,
}

/// Whether jobs can move: the store answers, and each queue with ready jobs is served or paused. Looks at most once a second.
#[utoipa::path(get, path = "/workz", tag = "store",
    responses((status = 200, description = "They can.", body = Working), (status = 503, description = "They cannot.", body = Working)))]
pub(crate) async fn working(State(app): State<App>) -> (StatusCode, Json<Working>) {
    let work = app.metrics().work(app.client()).await;
    let working = work.is_ok();
    let status = if working { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Working { working, store_answers: work.store_answers, unserved: work.unserved }))
}
