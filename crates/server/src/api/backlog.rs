//! What there is to do in a queue, as autoscalers read it: plain numbers at the top of the answer.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::clock::Timestamp;
use windlass_core::tally::{Count, Tally};
use windlass_core::{Name, State as JobState};
use windlass_worker::{Backlog, Client, Error};

use crate::access::Caller;
use crate::app::App;
use crate::extract::At;
use crate::problem::{Answer, Problem};

/// How far back the rates look.
const RATED: Duration = Duration::from_secs(300);

/// What there is to do in a queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueueBacklog {
    /// The queue.
    #[schema(value_type = String)]
    queue: Name,
    /// Whether it is paused.
    paused: bool,
    /// Jobs that are ready.
    ready: u64,
    /// Scheduled jobs whose time has come, among those that were looked at.
    overdue: u64,
    /// Jobs that run.
    running: u64,
    /// What there is to do now: ready, overdue and running ones together.
    open: u64,
    /// For how long the job that waits longest could have started, in seconds, among those that were looked at; 0 where none waits.
    oldest_age_seconds: f64,
    /// There are more jobs than were looked at: `overdue` and `oldest_age_seconds` are at least so much.
    partial: bool,
    /// How many jobs came in a second, in the last five minutes or since the first one in them. Nothing where the store does not
    /// count, or nothing happened.
    accepted_per_second: Option<f64>,
    /// How many jobs ended in a second, in that time.
    ended_per_second: Option<f64>,
    /// How long what is open takes at the rate at which jobs ended, in seconds; what comes meanwhile is not in it. Nothing where no
    /// rate is known.
    drain_seconds: Option<f64>,
}

/// How many jobs came and ended in a second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    accepted: f64,
    ended: f64,
}

impl Rates {
    fn of(tally: &Tally, time: Duration) -> Self {
        let seconds = time.as_secs_f64().max(1.0);
        let counted = |counts: &[Count]| counts.iter().map(|count| tally.of(*count)).sum::<u64>();
        let ended = counted(&[Count::Completed, Count::Cancelled, Count::Deleted]) + tally.dead();
        let accepted = counted(&[Count::Accepted, Count::SentBack]);
        Self { accepted: accepted as f64 / seconds, ended: ended as f64 / seconds }
    }

    /// How long this many jobs take.
    fn drain(self, open: u64) -> Option<f64> {
        match open {
            0 => Some(0.0),
            open if self.ended > 0.0 => Some(open as f64 / self.ended),
            _ => None,
        }
    }
}

/// What there is to do in a queue, for autoscalers: plain numbers, as the scaler `metrics-api` of KEDA reads them with
/// `valueLocation: open`. A queue that does not exist has nothing to do.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/backlog", tag = "queues",
    params(("queue" = String, Path, description = "The queue.")),
    responses((status = 200, description = "The backlog.", body = QueueBacklog)))]
pub(crate) async fn get_backlog(
    State(app): State<App>,
    caller: Caller,
    At(queue): At<Name>,
) -> Answer<QueueBacklog> {
    caller.on(&queue)?;
    let client = app.client();
    let handle = client.queue(&queue)?;
    let now = client.store().now().await.map_err(Error::from)?;
    let record = handle.record().await?;
    let counts = record.as_ref().map(|record| record.counts).unwrap_or_default();
    let paused = record.and_then(|record| record.config.pauses.queue).is_some_and(|pause| pause.holds(now));
    let (ready, running) = (counts.of(JobState::Ready), counts.of(JobState::Running));
    let backlog = match ready + counts.of(JobState::Scheduled) {
        0 => Backlog::default(),
        _ => handle.backlog(now).await?,
    };
    let open = ready + backlog.overdue + running;
    let rates = rates(client, &queue).await?;
    Ok(Json(QueueBacklog {
        queue,
        paused,
        ready,
        overdue: backlog.overdue,
        running,
        open,
        oldest_age_seconds: age(backlog.oldest, now),
        partial: backlog.has_more_ready || backlog.has_more_scheduled,
        accepted_per_second: rates.map(|rates| rates.accepted),
        ended_per_second: rates.map(|rates| rates.ended),
        drain_seconds: rates.and_then(|rates| rates.drain(open)),
    }))
}

fn age(oldest: Option<Timestamp>, now: Timestamp) -> f64 {
    oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64())
}

/// The rates of the last minutes. A queue that was at rest is rated from the minute on in which it was not: else a burst would
/// look slow for as long as the rest before it is in the average.
async fn rates(client: &Client, queue: &Name) -> Result<Option<Rates>, Problem> {
    if client.store().tallies().is_none() {
        return Ok(None);
    }
    let report = client.tallies([queue])?.since(RATED).await?;
    let first = report.rows.iter().map(|row| row.at).min();
    Ok(first.map(|first| Rates::of(&report.total(), report.until.since(first.max(report.from)))))
}
