//! Whether all is well, in one line with the reasons. A pure function of what was seen.

use std::time::Duration;

use serde::Serialize;
use windlass_core::Timestamp;
use windlass_core::store::Level;

use super::look::{JobLine, QueueLine, WorkerLine};

/// Jobs that died in this time are a reason to look.
const FRESH: Duration = Duration::from_secs(60);
/// Names that one reason has at most.
const NAMED_MAX: usize = 3;

/// How a store is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Assessment {
    /// `ok`, `warning` or `problem`.
    #[serde(serialize_with = "word")]
    pub(super) level: Level,
    /// Why, the worst first.
    pub(super) reasons: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn word<S: serde::Serializer>(level: &Level, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(level.as_str())
}

impl Assessment {
    pub(super) fn of(
        at: Timestamp,
        queues: &[QueueLine],
        workers: &[WorkerLine],
        failures: &[JobLine],
    ) -> Self {
        let mut found: Vec<(Level, String)> = Vec::new();
        let names = |wanted: fn(&QueueLine) -> bool| {
            let all: Vec<&str> =
                queues.iter().filter(|row| wanted(row)).map(|row| row.name.as_str()).collect();
            named(&all)
        };
        if let Some(queues) = names(|row| row.lacks_workers && !row.is_paused) {
            found.push((Level::Problem, format!("no worker serves {queues}, where jobs wait")));
        }
        match workers.iter().filter(|worker| worker.is_lost && worker.running > 0).count() {
            0 => {}
            1 => found.push((Level::Problem, "a worker that is lost has jobs".to_owned())),
            count => found.push((Level::Problem, format!("{count} workers that are lost have jobs"))),
        }
        match failures.iter().filter(|failure| at.since(failure.at) < FRESH).count() {
            0 => {}
            1 => found.push((Level::Warning, "a job died in the last minute".to_owned())),
            count => found.push((Level::Warning, format!("{count} jobs died in the last minute"))),
        }
        if let Some(queues) = names(|row| row.overdue > 0 && row.workers > 0 && !row.is_paused) {
            found.push((Level::Warning, format!("jobs of {queues} are overdue")));
        }
        if let Some(queues) = names(|row| row.is_paused) {
            found.push((Level::Warning, format!("{queues} paused")));
        }
        let level = found.iter().map(|(level, _)| *level).max().unwrap_or(Level::Ok);
        found.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
        Self { level, reasons: found.into_iter().map(|(_, reason)| reason).collect() }
    }

    /// The line.
    pub(super) fn text(&self) -> String {
        if self.reasons.is_empty() { "all is well".to_owned() } else { self.reasons.join("; ") }
    }
}

fn named(names: &[&str]) -> Option<String> {
    let more = names.len().saturating_sub(NAMED_MAX);
    let listed = names[..names.len() - more].join(", ");
    match (names.len(), more) {
        (0, _) => None,
        (_, 0) => Some(listed),
        _ => Some(format!("{listed} and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> QueueLine {
        QueueLine { name: name.to_owned(), workers: 1, ..QueueLine::default() }
    }

    #[test]
    fn the_worst_comes_first_and_nothing_is_well() {
        let at = Timestamp::from_micros(1_000_000_000);
        assert_eq!(Assessment::of(at, &[row("a")], &[], &[]).text(), "all is well");
        let lacking = |name: &str| QueueLine { lacks_workers: true, workers: 0, ..row(name) };
        let queues = [
            QueueLine { is_paused: true, lacks_workers: true, ..row("p") },
            lacking("a"),
            lacking("b"),
            lacking("c"),
            lacking("d"),
        ];
        let verdict = Assessment::of(at, &queues, &[], &[]);
        assert_eq!(verdict.level, Level::Problem);
        assert_eq!(verdict.text(), "no worker serves a, b, c and 1 more, where jobs wait; p paused");
        assert_eq!(Assessment::of(at, &queues[..1], &[], &[]).level, Level::Warning);
    }

    #[test]
    fn lost_workers_count_while_they_have_jobs() {
        let at = Timestamp::from_micros(0);
        let lost = |running| WorkerLine {
            name: "w".into(),
            is_lost: true,
            running,
            queues: Vec::new(),
            opened_at: at,
        };
        assert_eq!(Assessment::of(at, &[], &[lost(0)], &[]).level, Level::Ok);
        assert_eq!(Assessment::of(at, &[], &[lost(2)], &[]).text(), "a worker that is lost has jobs");
    }
}
