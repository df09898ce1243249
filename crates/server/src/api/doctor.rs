//! Whether the store is sound, what waits in it and who serves it.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::store::{Depth, Finding, Level};

use super::about::durability;
use crate::app::App;
use crate::extract::Query;
use crate::problem::Answer;

/// How far it is looked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DoctorParams {
    /// Also what reads all there is, as a check of every page of an SQLite file.
    deep: Option<bool>,
}

/// What an examination has found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Report {
    /// What kind of store.
    store: &'static str,
    /// Where it is.
    place: String,
    /// What an accepted job survives.
    durability: &'static str,
    /// How many problems there are.
    problems: usize,
    /// How many warnings.
    warnings: usize,
    /// One for each look.
    findings: Vec<FindingView>,
}

/// What a look has found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Finding)]
pub(crate) struct FindingView {
    /// What was looked at.
    subject: String,
    /// `ok`, `warning` or `problem`.
    level: &'static str,
    /// What was found.
    what: String,
    /// What to do about it.
    remedy: Option<String>,
}

impl FindingView {
    fn of(finding: Finding) -> Self {
        let Finding { subject, level, what, remedy, .. } = finding;
        Self { subject, level: level.as_str(), what, remedy }
    }
}

/// Examines the store: its settings, its clock, lost leases, and of each queue its workers and what waits. Changes nothing.
#[utoipa::path(get, path = "/api/v1/doctor", tag = "store", params(DoctorParams), responses((status = 200, description = "What was found.", body = Report)))]
pub(crate) async fn examine(State(app): State<App>, Query(params): Query<DoctorParams>) -> Answer<Report> {
    let depth = if params.deep.unwrap_or_default() { Depth::Deep } else { Depth::Quick };
    let findings = app.client().examine(depth).await?;
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (problems, warnings, about) = (count(Level::Problem), count(Level::Warning), app.client().about());
    Ok(Json(Report {
        store: about.scheme,
        place: about.place,
        durability: durability(about.durability),
        problems,
        warnings,
        findings: findings.into_iter().map(FindingView::of).collect(),
    }))
}
