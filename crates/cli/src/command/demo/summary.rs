//! The end of a demo: what became of every job, compared with what its kind says must become of it.

use std::time::Duration;

use serde::Serialize;
use windlass_core::outcome::Ending;
use windlass_core::{JobId, JobRecord};

use super::kinds::{KINDS, Kind};
use super::watch::{End, Watched};
use crate::exit::Exit;
use crate::output::{cell, number, text};
use crate::session::Session;

/// The summary, which is also its JSON.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    jobs: u64,
    completed: u64,
    dead: u64,
    cancelled: u64,
    /// Accepted, and now neither in the store nor at an end.
    lost: u64,
    /// At an end that is not the one its kind says.
    unexpected: u64,
    retries: u64,
    timeouts: u64,
    snoozes: u64,
    stalls: u64,
    crashes: u32,
    elapsed_seconds: f64,
    interrupted: bool,
    kinds: Vec<Line>,
}

#[derive(Debug, Default, Serialize)]
struct Line {
    kind: &'static str,
    shows: &'static str,
    jobs: u64,
    as_expected: u64,
    attempts: u64,
    expected: String,
}

impl Summary {
    pub(super) fn of(
        watched: &Watched,
        jobs: &[(JobId, &'static Kind)],
        crashes: u32,
        elapsed: Duration,
    ) -> Self {
        let mut summary = Self {
            jobs: 0,
            completed: 0,
            dead: 0,
            cancelled: 0,
            lost: 0,
            unexpected: 0,
            retries: 0,
            timeouts: 0,
            snoozes: 0,
            stalls: 0,
            crashes,
            elapsed_seconds: elapsed.as_secs_f64(),
            interrupted: watched.end == End::Interrupted,
            kinds: Vec::new(),
        };
        for kind in &KINDS {
            let (state, reason) = kind.ends;
            let expected = reason.map_or_else(|| state.to_string(), |reason| format!("{state}: {reason}"));
            let mut line = Line { kind: kind.name, shows: kind.shows, expected, ..Line::default() };
            for (id, _) in jobs.iter().filter(|(_, of)| of.name == kind.name) {
                summary.count(kind, watched.jobs.get(id), &mut line);
            }
            summary.kinds.push(line);
        }
        summary
    }

    fn count(&mut self, kind: &Kind, job: Option<&JobRecord>, line: &mut Line) {
        self.jobs += 1;
        line.jobs += 1;
        let Some(job) = job.filter(|job| job.state.is_terminal()) else {
            self.lost += 1;
            return;
        };
        match job.state {
            windlass_core::State::Completed => self.completed += 1,
            windlass_core::State::Dead => self.dead += 1,
            _ => self.cancelled += 1,
        }
        if (job.state, job.reason) == kind.ends {
            line.as_expected += 1;
        } else {
            self.unexpected += 1;
        }
        line.attempts += job.fence;
        for ending in job.attempts.iter().filter_map(|attempt| attempt.ending) {
            match ending {
                Ending::Failed => self.retries += 1,
                Ending::TimedOut => self.timeouts += 1,
                Ending::Snoozed => self.snoozes += 1,
                Ending::Stalled => self.stalls += 1,
                _ => {}
            }
        }
    }

    /// Zero only if every job ended as its kind says.
    pub(super) fn exit(&self) -> Exit {
        match (self.interrupted, self.lost + self.unexpected) {
            (true, _) => Exit::Interrupted,
            (false, 0) => Exit::Done,
            (false, _) => Exit::Failed,
        }
    }

    pub(super) fn print(&self, session: &mut Session) -> anyhow::Result<()> {
        if session.output.is_json() {
            return Ok(session.output.json(self)?);
        }
        let mut table =
            session.output.new_table(&["KIND", "JOBS", "STARTS", "ENDED", "AS EXPECTED", "SHOWS"]);
        for line in &self.kinds {
            table.add_row([
                cell(line.kind),
                number(line.jobs),
                number(line.attempts),
                cell(&line.expected),
                number(line.as_expected),
                cell(line.shows),
            ]);
        }
        session.output.line("")?;
        session.output.table(table)?;
        let Self { completed, dead, cancelled, retries, timeouts, snoozes, stalls, crashes, .. } = self;
        let elapsed = text::duration(Duration::from_secs_f64(self.elapsed_seconds));
        session.output.line("")?;
        session.output.line(format_args!(
            "{} jobs in {elapsed}: {completed} completed, {dead} dead, {cancelled} cancelled",
            self.jobs
        ))?;
        session.output.line(format_args!(
            "retries {retries}, timeouts {timeouts}, snoozes {snoozes}, crashes survived {crashes}, \
             attempts lost in them and taken back {stalls}"
        ))?;
        session.output.line(self.verdict())?;
        Ok(())
    }

    fn verdict(&self) -> String {
        match (self.interrupted, self.lost, self.unexpected) {
            (true, open, _) => format!("interrupted: {open} jobs had not come to their end"),
            (false, 0, 0) => "no job was lost, every job ended as its kind says".to_owned(),
            (false, lost, unexpected) => {
                format!("{lost} jobs were lost, {unexpected} ended otherwise than their kind says")
            }
        }
    }
}
