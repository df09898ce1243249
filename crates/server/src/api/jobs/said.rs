//! What attempts of a job have said and how they ended: attempts, log lines, and events as they come.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::{JobId, Name};
use windlass_worker::{JobEvent, LogLine, LogReader, percent_of};

use super::{AttemptView, JobView, Shown, found};
use crate::access::Caller;
use crate::app::App;
use crate::extract::{At, Query};
use crate::problem::{Answer, Problem};
use crate::wire::{Content, Encoding, Instant, Page, limit};

/// How often an idle stream says that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which lines.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogParams {
    /// Only of this attempt.
    attempt: Option<u32>,
    /// The queue of a job that is no longer there.
    #[param(value_type = Option<String>)]
    queue: Option<Name>,
    /// What the page before has named as `next`.
    after: Option<String>,
    /// How many at most; larger ones than 1,000 are lowered to it.
    #[param(default = 50)]
    limit: Option<u64>,
}

/// A line that an attempt has said.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LogLine)]
pub(crate) struct LineView {
    /// Which attempt.
    attempt: u32,
    /// The fence of it.
    fence: u64,
    /// Which line of the attempt, from 1.
    number: u64,
    /// Lines before it that were not kept.
    dropped: u64,
    /// When.
    at: Instant,
    /// How grave it is.
    level: &'static str,
    /// What.
    text: String,
}

impl LineView {
    fn of(line: LogLine, shown: Shown) -> Self {
        let LogLine { attempt, fence, number, dropped, at, level, text, .. } = line;
        let text = if shown == Shown::All { text } else { "(masked)".to_owned() };
        Self { attempt, fence, number, dropped, at: Instant(at.into()), level: level.as_str(), text }
    }
}

/// The attempts of a job, oldest first.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/attempts", tag = "jobs", params(("id" = String, Path, format = Uuid, description = "The id.")), responses((status = 200, description = "A page that has all.", body = Page<AttemptView>)))]
pub(crate) async fn list_attempts(
    State(app): State<App>,
    caller: Caller,
    At(id): At<JobId>,
) -> Answer<Page<AttemptView>> {
    let job = found(&app, &caller, id).await?;
    let shown = Shown::of_queue(&app, &job.queue).await?;
    let attempts = job.attempts.iter().map(|attempt| AttemptView::of(attempt, shown));
    Ok(Json(Page::new(attempts.collect(), None)))
}

/// The lines that attempts of a job have logged, oldest first. They are kept for a while after the job has ended, also when
/// its queue has removed it: then name the queue.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/logs", tag = "jobs", params(("id" = String, Path, format = Uuid, description = "The id."), LogParams), responses((status = 200, description = "A page of lines.", body = Page<LineView>)))]
pub(crate) async fn list_logs(
    State(app): State<App>,
    caller: Caller,
    At(id): At<JobId>,
    Query(params): Query<LogParams>,
) -> Answer<Page<LineView>> {
    let after = params.after.as_deref().map(place).transpose()?;
    let (queue, mut reader) = reader(&app, &caller, id, params.queue).await?;
    let shown = Shown::of_queue(&app, &queue).await?;
    if let Some(attempt) = params.attempt {
        reader = reader.attempt(attempt);
    }
    let (limit, mut items, mut looked, mut is_whole) = (limit(params.limit) as usize, Vec::new(), 0, false);
    while items.len() < limit && !is_whole {
        let lines = reader.next().await?;
        (looked, is_whole) = (looked + lines.len() as u64, lines.is_empty());
        let fresh =
            lines.into_iter().filter(|line| after.is_none_or(|after| (line.fence, line.number) > after));
        items.extend(fresh.map(|line| LineView::of(line, shown)));
    }
    is_whole &= items.len() <= limit;
    items.truncate(limit);
    let next = items.last().filter(|_| !is_whole).map(|line| format!("{}-{}", line.fence, line.number));
    Ok(Json(Page::new(items, next).looked(looked)))
}

/// A fence and a number.
fn place(text: &str) -> Result<(u64, u64), Problem> {
    let parts =
        text.split_once('-').and_then(|(fence, number)| Some((fence.parse().ok()?, number.parse().ok()?)));
    parts.ok_or_else(|| Problem::invalid("after", "pass what the page before has named as next"))
}

async fn reader(
    app: &App,
    caller: &Caller,
    id: JobId,
    queue: Option<Name>,
) -> Result<(Name, LogReader), Problem> {
    match queue {
        Some(queue) => {
            caller.on(&queue)?;
            let reader = app.client().logs_in(&queue, id)?;
            Ok((queue, reader))
        }
        None => {
            let job = found(app, caller, id).await?;
            let gone = || Problem::missing(format!("job {id} is gone: name its queue"));
            Ok((job.queue, app.client().logs(id).await?.ok_or_else(gone)?))
        }
    }
}

/// What happens to a job, as server-sent events until its end: `state`, `attempt`, `progress`, `line`, and at last `ended` or
/// `gone`. Log lines that are kept come first. Connect again to begin anew; a stream takes one of the places that a server has.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/events", tag = "jobs", params(("id" = String, Path, format = Uuid, description = "The id.")), responses((status = 200, description = "The events.", content_type = "text/event-stream", body = String)))]
pub(crate) async fn job_events(
    State(app): State<App>,
    caller: Caller,
    At(id): At<JobId>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let job = found(&app, &caller, id).await?;
    let (shown, place) = (Shown::of_queue(&app, &job.queue).await?, app.stream()?);
    let events = app.client().events(id);
    let stream =
        futures_util::stream::unfold((events, app, place), move |(mut events, app, place)| async move {
            let next = tokio::select! {
                next = events.next() => next,
                () = app.stopping() => return None,
            };
            let event = match next {
                Ok(Some(event)) => told(&event, shown),
                Ok(None) => return None,
                Err(error) => {
                    tracing::warn!(%error, "a stream of events ends: the store did not answer");
                    return None;
                }
            };
            Some((Ok(event), (events, app, place)))
        });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// The report of a handler.
#[derive(Serialize)]
struct ProgressView {
    progress: Option<Box<serde_json::value::RawValue>>,
    progress_encoding: Encoding,
    percent: Option<f64>,
}

fn told(event: &JobEvent, shown: Shown) -> Event {
    let json = |name: &str, value: serde_json::Result<String>| {
        Event::default().event(name).data(value.unwrap_or_else(|_| "null".to_owned()))
    };
    match event {
        JobEvent::State(state) => json("state", Ok(format!("{{\"state\":\"{state}\"}}"))),
        JobEvent::Attempt(attempt) => {
            json("attempt", serde_json::to_string(&AttemptView::of(attempt, shown)))
        }
        JobEvent::Progress(report) => {
            let content = match shown {
                Shown::All => Content::of(report),
                Shown::Masked => Content::without(Encoding::Masked),
            };
            let Content { value: progress, encoding: progress_encoding } = content;
            let percent = percent_of(report);
            json("progress", serde_json::to_string(&ProgressView { progress, progress_encoding, percent }))
        }
        JobEvent::Line(line) => json("line", serde_json::to_string(&LineView::of(line.clone(), shown))),
        JobEvent::Ended(job) => json("ended", serde_json::to_string(&JobView::shown(job, shown))),
        JobEvent::Gone => json("gone", Ok("{}".to_owned())),
        // What a later version tells.
        _ => Event::default().comment("another event"),
    }
}
