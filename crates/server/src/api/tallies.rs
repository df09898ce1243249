//! What happened in a queue over time, from the store's tallies. Rows are of all kinds together, or of one, so an answer is
//! bounded by the time that is asked for, not by how many kinds there are.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::tally::{Count, Interval, Quantile, Spread, Tally};
use windlass_worker::TallyReport;

use crate::access::Caller;
use crate::app::App;
use crate::extract::{At, Query};
use crate::problem::{Answer, Code, Problem};
use crate::wire::{Instant, Span};

/// Which tallies.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TallyParams {
    /// From so long ago until now, at most ninety days; an hour if it is left out.
    since: Option<Span>,
    /// How long rows are: `1m`, `10m` or `1h`, which are kept for six hours, two days and ninety days; the shortest that are kept
    /// for all of that time if it is left out. Older rows may be longer.
    step: Option<String>,
    /// Only of this kind.
    kind: Option<String>,
}

/// What was counted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Counted {
    /// How often what happened: `accepted`, `started`, `completed`, `retried` and so on. What did not happen is left out.
    counts: BTreeMap<&'static str, u64>,
    /// How many jobs died, of whatever.
    dead: u64,
    /// How long jobs waited that started.
    wait_ms: Times,
    /// How long attempts ran.
    run_ms: Times,
}

/// Bounds in milliseconds that this part of all did not pass; the true values lie between a bound and half of it. Nothing where
/// there are no times, or they are longer than six days.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TallyTimes)]
pub(crate) struct Times {
    p50: Option<u64>,
    p95: Option<u64>,
    p99: Option<u64>,
}

/// What happened from an instant on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TallyRow {
    /// When it begins.
    at: Instant,
    /// How long it is.
    minutes: i64,
    /// What was counted in it.
    tally: Counted,
}

/// What happened to a kind.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TallyOfKind {
    /// The kind; nothing for all that are not counted on their own.
    #[schema(value_type = Option<String>)]
    kind: Option<Name>,
    /// What was counted of it in all of the time.
    tally: Counted,
}

/// What happened in a queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueueTallies {
    /// From when on, by the store's clock.
    from: Instant,
    /// Until when.
    until: Instant,
    /// All of it together.
    total: Counted,
    /// By kind, over all of the time.
    kinds: Vec<TallyOfKind>,
    /// By time, of all kinds together; nothing where nothing happened.
    rows: Vec<TallyRow>,
}

impl Counted {
    fn of(tally: &Tally) -> Self {
        let counts = Count::ALL.into_iter().map(|count| (count.as_str(), tally.of(count)));
        Self {
            counts: counts.filter(|(_, times)| *times > 0).collect(),
            dead: tally.dead(),
            wait_ms: Times::of(&tally.waits()),
            run_ms: Times::of(&tally.runs()),
        }
    }
}

impl Times {
    fn of(spread: &Spread) -> Self {
        let bound = |part| {
            let most = spread.quantile(part).and_then(Quantile::at_most)?;
            u64::try_from(most.as_millis()).ok()
        };
        Self { p50: bound(0.5), p95: bound(0.95), p99: bound(0.99) }
    }
}

impl QueueTallies {
    fn of(report: &TallyReport) -> Self {
        let mut times = BTreeMap::<(Timestamp, i64), Tally>::new();
        let mut kinds = BTreeMap::<Option<Name>, Tally>::new();
        for row in &report.rows {
            times.entry((row.at, row.interval.minutes())).or_default().merge(&row.tally);
            kinds.entry(row.kind.clone()).or_default().merge(&row.tally);
        }
        let rows = times.into_iter().map(|((at, minutes), tally)| TallyRow {
            at: at.into(),
            minutes,
            tally: Counted::of(&tally),
        });
        let kinds = kinds.into_iter().map(|(kind, tally)| TallyOfKind { kind, tally: Counted::of(&tally) });
        Self {
            from: report.from.into(),
            until: report.until.into(),
            total: Counted::of(&report.total()),
            kinds: kinds.collect(),
            rows: rows.collect(),
        }
    }
}

/// What happened in a queue over time: how many jobs came, started and ended, how they ended, how long they waited and ran.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/tallies", tag = "queues",
    params(("queue" = String, Path, description = "The queue."), TallyParams),
    responses((status = 200, description = "What happened.", body = QueueTallies), (status = 501, description = "The store does not count.", body = Problem)))]
pub(crate) async fn get_tallies(
    State(app): State<App>,
    caller: Caller,
    At(queue): At<Name>,
    Query(params): Query<TallyParams>,
) -> Answer<QueueTallies> {
    caller.on(&queue)?;
    let client = app.client();
    if client.store().tallies().is_none() {
        let scheme = client.about().scheme;
        return Err(Code::Unsupported
            .because(format!("the {scheme} store does not count what happens to jobs"))
            .remedy("GET /metrics of the workers counts the same for as long as they run"));
    }
    let mut asked = client.tallies([&queue])?;
    if let Some(Span(since)) = params.since {
        if since > Interval::Hour.kept() {
            let most = "tallies are kept for ninety days: ask for 90d at most";
            return Err(Problem::invalid("since", most));
        }
        asked = asked.since(since);
    }
    if let Some(step) = &params.step {
        asked = asked.step(interval(step)?);
    }
    if let Some(kind) = &params.kind {
        asked = asked.kind(kind).map_err(|error| Problem::invalid("kind", error))?;
    }
    Ok(Json(QueueTallies::of(&asked.await?)))
}

fn interval(text: &str) -> Result<Interval, Problem> {
    match text {
        "1m" => Ok(Interval::Minute),
        "10m" => Ok(Interval::TenMinutes),
        "1h" => Ok(Interval::Hour),
        _ => Err(Problem::invalid("step", format!("{text:?} is not a step: use 1m, 10m or 1h"))),
    }
}
