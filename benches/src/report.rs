//! Collects figures and prints them as one table with ratios.

use std::time::Duration;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};

use crate::server::ServerCpu;
use crate::subject::Subject;

/// What end to end was measured: the rate, and what it cost the server where that is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole {
    /// Jobs per second.
    pub(crate) rate: f64,
    /// The server's processor time per job, in microseconds.
    pub(crate) server_micros: Option<f64>,
}

impl Whole {
    pub(crate) fn of(rate: f64) -> Self {
        Self { rate, server_micros: None }
    }

    pub(crate) fn ended(jobs: u32, time: Duration, cpu: Option<ServerCpu>) -> Result<Self> {
        let used = cpu.map(|cpu| cpu.used()).transpose()?;
        let per_job = |used: Duration| used.as_secs_f64() * 1e6 / f64::from(jobs);
        Ok(Self { rate: f64::from(jobs) / time.as_secs_f64(), server_micros: used.map(per_job) })
    }

    /// The middle of each figure.
    pub(crate) fn median(all: &[Self]) -> Self {
        let mut rates: Vec<f64> = all.iter().map(|whole| whole.rate).collect();
        let mut micros: Vec<f64> = all.iter().filter_map(|whole| whole.server_micros).collect();
        let server_micros = (!micros.is_empty()).then(|| median(&mut micros));
        Self { rate: median(&mut rates), server_micros }
    }
}

/// The table that a run ends with.
pub(crate) struct Report {
    json: bool,
    rows: Vec<Row>,
}

struct Row {
    store: &'static str,
    work: String,
    ours: String,
    beside: String,
    other: String,
    ratio: Option<f64>,
    /// The least and the greatest ratio of a round.
    spread: Option<(f64, f64)>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, rows: Vec::new() }
    }

    /// Says what is being measured.
    pub(crate) fn progress(&self, what: &str) {
        eprintln!("… {what}");
    }

    /// A rate beside another; a ratio above 1 means ours is faster.
    pub(crate) fn rate(&mut self, subject: Subject, work: &str, ours: f64, beside: &str, other: f64) {
        self.push(
            subject,
            work,
            format!("{}/s", whole(ours)),
            beside,
            format!("{}/s", whole(other)),
            Some(ours / other),
        );
    }

    /// Rounds in which either was run: the middle of each, and the middle of the ratios of the rounds. Then the same of what a
    /// job cost the server, which says more on a busy machine.
    pub(crate) fn in_turns(
        &mut self,
        subject: Subject,
        work: &str,
        ours: &[Whole],
        beside: &str,
        other: &[Whole],
    ) {
        self.whole(subject, work, Whole::median(ours), beside, Whole::median(other));
        let ratios = |of: fn(&Whole) -> Option<f64>| {
            let pairs = ours.iter().zip(other).filter_map(|(ours, other)| Some(of(ours)? / of(other)?));
            let mut ratios: Vec<f64> = pairs.collect();
            ratios.sort_unstable_by(f64::total_cmp);
            ratios
        };
        let found = [ratios(|whole| Some(whole.rate)), ratios(|whole| whole.server_micros)];
        let found: Vec<_> = found.into_iter().filter(|ratios| !ratios.is_empty()).collect();
        let first = self.rows.len() - found.len();
        for (row, ratios) in self.rows[first..].iter_mut().zip(&found) {
            row.ratio = Some(ratios[ratios.len() / 2]);
            row.spread = ratios.first().copied().zip(ratios.last().copied());
        }
    }

    /// A rate end to end beside another, and below it what either cost the server.
    pub(crate) fn whole(&mut self, subject: Subject, work: &str, ours: Whole, beside: &str, other: Whole) {
        self.rate(subject, work, ours.rate, beside, other.rate);
        if let (Some(ours), Some(other)) = (ours.server_micros, other.server_micros) {
            let shown = |micros: f64| format!("{micros:.1} µs");
            let work = "server's processor time per job, of that";
            self.push(subject, work, shown(ours), beside, shown(other), Some(ours / other));
        }
    }

    /// A latency beside the raw one; a ratio above 1 means ours is slower.
    pub(crate) fn latency(&mut self, subject: Subject, work: &str, ours: Duration, raw: Duration) {
        self.latency_beside(subject, work, ours, "raw insert + claim", raw);
    }

    /// A latency beside another; a ratio above 1 means the first is slower.
    pub(crate) fn latency_beside(
        &mut self,
        subject: Subject,
        work: &str,
        ours: Duration,
        beside: &str,
        other: Duration,
    ) {
        let shown = |time: Duration| match time.as_secs_f64() {
            seconds if seconds < 1e-4 => format!("{:.1} µs", seconds * 1e6),
            seconds => format!("{:.2} ms", seconds * 1e3),
        };
        let ratio = ours.as_secs_f64() / other.as_secs_f64();
        self.push(subject, work, shown(ours), beside, shown(other), Some(ratio));
    }

    /// A figure with nothing beside it.
    pub(crate) fn figure(&mut self, subject: Subject, work: &str, ours: String) {
        self.push(subject, work, ours, "", String::new(), None);
    }

    fn push(
        &mut self,
        subject: Subject,
        work: &str,
        ours: String,
        beside: &str,
        other: String,
        ratio: Option<f64>,
    ) {
        self.rows.push(Row {
            store: subject.name(),
            work: work.into(),
            ours,
            beside: beside.into(),
            other,
            ratio,
            spread: None,
        });
    }

    pub(crate) fn print(&self) {
        if self.json {
            for row in &self.rows {
                let line = serde_json::json!({
                    "store": row.store, "work": row.work, "windlass": row.ours,
                    "beside": row.beside, "other": row.other, "ratio": row.ratio, "spread": row.spread,
                });
                println!("{line}");
            }
            return;
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["store", "work", "windlass", "beside", "", "ratio"]);
        for row in &self.rows {
            let spread = |(least, most)| format!(" ({least:.2} to {most:.2})");
            let spread = row.spread.map_or_else(String::new, spread);
            let ratio = row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}{spread}"));
            table.add_row([row.store, &row.work, &row.ours, &row.beside, &row.other, &ratio]);
        }
        for column in [2, 4, 5] {
            table.column_mut(column).expect("six columns").set_cell_alignment(CellAlignment::Right);
        }
        println!("{table}");
    }
}

/// The middle of several figures.
pub(crate) fn median(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The duration that `percent` of the sorted samples do not pass.
pub(crate) fn percentile(samples: &[Duration], percent: usize) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// A number with thousands apart.
pub(crate) fn whole(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
