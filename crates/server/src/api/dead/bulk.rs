//! Sending dead letters back and removing them, exactly as many as were expected.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_worker::Purged;

use super::filter::FilterForm;
use crate::access::Caller;
use crate::app::App;
use crate::extract::Body;
use crate::problem::{Answer, Code, Problem};
use crate::wire::Instant;

/// Dead jobs that one call removes or sends back.
const MOST: usize = 10_000;
/// How long a replay may take: it answers then how to go on.
const TIME: Duration = Duration::from_secs(60);

/// Which dead jobs are sent back, and how.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReplayDead)]
pub(crate) struct ReplayForm {
    /// Which.
    filter: FilterForm,
    /// Send them back if exactly this many match; without it they are only counted.
    expected: Option<u64>,
    /// How many in a second.
    #[schema(minimum = 1)]
    rate: Option<u32>,
    /// Stop when so many of those that were sent back have died again.
    #[schema(minimum = 1)]
    stop_after: Option<u64>,
    /// Send back so many at most.
    most: Option<u64>,
    /// Go on with the replay that began at this instant.
    begun_at: Option<Instant>,
}

/// What became of dead jobs that were to be sent back.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReplayedDead)]
pub(crate) struct ReplayView {
    /// How many match.
    matched: u64,
    /// When the replay began: send it as `begun_at` to go on.
    began_at: Option<Instant>,
    /// Sent back.
    replayed: u64,
    /// Changed since they were seen.
    left: u64,
    /// Sent back, and dead again.
    died_again: u64,
    /// Ended because too many died again.
    stopped: bool,
    /// Ended because it took too long: go on with `begun_at`.
    interrupted: bool,
}

/// Which dead jobs are removed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PurgeDead)]
pub(crate) struct PurgeForm {
    /// Which.
    filter: FilterForm,
    /// Remove them if exactly this many match; without it they are only counted.
    expected: Option<u64>,
}

/// What became of dead jobs that were to be removed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PurgedDead)]
pub(crate) struct PurgeView {
    /// How many match.
    matched: u64,
    /// Gone.
    removed: u64,
    /// Changed since they were seen.
    left: u64,
}

fn check_expected(matched: u64, expected: u64) -> Result<(), Problem> {
    if matched == expected {
        return Ok(());
    }
    Err(Code::Unexpected
        .because(format!("{matched} dead jobs match, {expected} were expected: nothing was changed"))
        .remedy(format!("look at them, and send expected: {matched}")))
}

fn too_many() -> Problem {
    Code::Refused
        .because(format!("more than {MOST} dead jobs match"))
        .remedy("narrow the filter by kind, fingerprint or time")
}

/// Sends dead jobs back, or counts them. Takes at most a minute, and 10,000 jobs.
#[utoipa::path(post, path = "/api/v1/dead/replay", tag = "dead", request_body = ReplayForm, responses((status = 200, description = "What became of them.", body = ReplayView)))]
pub(crate) async fn replay_dead(
    State(app): State<App>,
    caller: Caller,
    Body(form): Body<ReplayForm>,
) -> Answer<ReplayView> {
    let letters = form.filter.letters(&app, &caller)?;
    let (seen, is_all) = letters.seen(MOST).await?;
    let matched = seen.len() as u64;
    let none = ReplayView {
        matched,
        began_at: None,
        replayed: 0,
        left: 0,
        died_again: 0,
        stopped: false,
        interrupted: false,
    };
    if !is_all {
        return Err(too_many());
    }
    let Some(expected) = form.expected else { return Ok(Json(none)) };
    check_expected(matched, expected)?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut replay = letters.replay().most(form.most.unwrap_or(u64::MAX)).stop_on(Arc::clone(&stop));
    if let Some(rate) = form.rate {
        replay = replay.rate(rate.max(1));
    }
    if let Some(deaths) = form.stop_after {
        replay = replay.stop_after(deaths.max(1));
    }
    if let Some(begun) = form.begun_at {
        replay = replay.begun_at(begun);
    }
    let (app, stop) = (app.clone(), Arc::clone(&stop));
    let alarm = async move {
        tokio::select! {
            () = tokio::time::sleep(TIME) => {}
            () = app.stopping() => {}
        }
        stop.store(true, Ordering::Relaxed);
        std::future::pending::<Infallible>().await
    };
    let summary = tokio::select! {
        summary = replay.run() => summary?,
        never = alarm => match never {},
    };
    Ok(Json(ReplayView {
        began_at: Some(Instant(summary.began)),
        replayed: summary.replayed,
        left: summary.left,
        died_again: summary.died_again,
        stopped: summary.is_stopped,
        interrupted: summary.is_interrupted,
        ..none
    }))
}

/// Removes dead jobs for good, or counts them; at most 10,000.
#[utoipa::path(post, path = "/api/v1/dead/purge", tag = "dead", request_body = PurgeForm, responses((status = 200, description = "What became of them.", body = PurgeView)))]
pub(crate) async fn purge_dead(
    State(app): State<App>,
    caller: Caller,
    Body(form): Body<PurgeForm>,
) -> Answer<PurgeView> {
    let letters = form.filter.letters(&app, &caller)?;
    let (seen, is_all) = letters.seen(MOST).await?;
    if !is_all {
        return Err(too_many());
    }
    let (matched, mut purged) = (seen.len() as u64, Purged::default());
    if let Some(expected) = form.expected {
        check_expected(matched, expected)?;
        letters.purge(&seen, &mut purged).await?;
    }
    Ok(Json(PurgeView { matched, removed: purged.removed, left: purged.left }))
}
