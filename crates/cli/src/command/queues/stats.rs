//! `queues stats`: what happened in queues, from tallies: how many jobs came and ended, how long they waited and ran, and a line
//! of how many ended over time.

use std::collections::BTreeMap;

use serde::Serialize;
use windlass::worker::TallyReport;
use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::tally::{Count, Quantile, Row, Spread, Tally};

use crate::args::StatsArgs;
use crate::command::known;
use crate::exit::Exit;
use crate::output::{cell, json, keep_whole, number};
use crate::session::{Access, Session};

/// How many columns a line over time has.
const LINE: usize = 24;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Debug, Serialize)]
struct Page<'a> {
    from: String,
    until: String,
    rows: Vec<RowJson<'a>>,
}

#[derive(Debug, Serialize)]
struct RowJson<'a> {
    queue: &'a Name,
    kind: Option<&'a Name>,
    at: String,
    minutes: i64,
    counts: BTreeMap<&'static str, u64>,
    wait_ms: Times,
    run_ms: Times,
}

/// Upper bounds in milliseconds; nothing where there are no times, or none is known.
#[derive(Debug, Serialize)]
struct Times {
    p50: Option<u128>,
    p95: Option<u128>,
    p99: Option<u128>,
}

impl Times {
    fn of(spread: &Spread) -> Self {
        let bound = |part| spread.quantile(part).and_then(Quantile::at_most).map(|most| most.as_millis());
        Self { p50: bound(0.5), p95: bound(0.95), p99: bound(0.99) }
    }
}

impl<'a> RowJson<'a> {
    fn of(row: &'a Row) -> Self {
        let counts = Count::ALL.into_iter().map(|count| (count.as_str(), row.tally.of(count)));
        Self {
            queue: &row.queue,
            kind: row.kind.as_ref(),
            at: json::instant(row.at),
            minutes: row.interval.minutes(),
            counts: counts.filter(|(_, times)| *times > 0).collect(),
            wait_ms: Times::of(&row.tally.waits()),
            run_ms: Times::of(&row.tally.runs()),
        }
    }
}

pub(crate) async fn run(session: &mut Session, args: &StatsArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let queues = match &args.queue {
        Some(queue) => vec![queue.clone()],
        None => known::queues(&client).await?.into_iter().map(|queue| queue.name).collect(),
    };
    let mut asked = client.tallies(&queues)?.since(args.since);
    if let Some(step) = args.step {
        asked = asked.step(step);
    }
    let report = asked.await?;
    if session.output.is_json() {
        let rows = report.rows.iter().map(RowJson::of).collect();
        let page = Page { from: json::instant(report.from), until: json::instant(report.until), rows };
        session.output.json(&page)?;
    } else if report.rows.is_empty() {
        session.note("nothing happened in that time");
    } else {
        print(session, &report)?;
    }
    Ok(Exit::Done)
}

fn print(session: &mut Session, report: &TallyReport) -> anyhow::Result<()> {
    let header = [
        "QUEUE",
        "KIND",
        "ACCEPTED",
        "STARTED",
        "COMPLETED",
        "RETRIED",
        "DEAD",
        "WAIT P95",
        "RUN P95",
        "ENDED",
    ];
    let mut table = session.output.new_table(&header);
    let mut lines: BTreeMap<(&Name, Option<&Name>), ()> = BTreeMap::new();
    lines.extend(report.rows.iter().map(|row| ((&row.queue, row.kind.as_ref()), ())));
    for (queue, kind) in lines.into_keys() {
        let is_same = |row: &Row| row.queue == *queue && row.kind.as_ref() == kind;
        let sum = report.sum(is_same);
        let mut row = vec![cell(queue), cell(kind.map_or("(others)", Name::as_str))];
        row.extend(
            [Count::Accepted, Count::Started, Count::Completed, Count::Retried]
                .map(|count| number(sum.of(count))),
        );
        row.push(number(sum.dead()));
        row.extend([sum.waits(), sum.runs()].map(|spread| cell(bound(&spread))));
        row.push(cell(over_time(report, is_same)));
        table.add_row(row);
    }
    keep_whole(&mut table, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    Ok(session.output.table(table)?)
}

fn bound(spread: &Spread) -> String {
    spread.quantile(0.95).map_or_else(String::new, |most| most.to_string())
}

/// A bar for each part of the time, as high as ends of attempts were many in it.
fn over_time(report: &TallyReport, chosen: impl Fn(&Row) -> bool) -> String {
    let mut sums = [0; LINE];
    for row in report.rows.iter().filter(|row| chosen(row)) {
        sums[column(report, row.at)] += ended(&row.tally);
    }
    let most = sums.iter().copied().max().unwrap_or(0);
    let bar = |sum: u64| match (sum, most) {
        (0, _) => ' ',
        (sum, most) => BARS[usize::try_from((sum * 8).div_ceil(most)).unwrap_or(8).clamp(1, 8) - 1],
    };
    sums.into_iter().map(bar).collect()
}

fn column(report: &TallyReport, at: Timestamp) -> usize {
    let all = report.until.since(report.from).as_micros().max(1);
    let place = at.since(report.from).as_micros() * LINE as u128 / all;
    usize::try_from(place).unwrap_or(LINE).min(LINE - 1)
}

fn ended(tally: &Tally) -> u64 {
    tally.of(Count::Completed) + tally.dead() + tally.of(Count::Cancelled)
}
