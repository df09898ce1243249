//! A schedule as it is written and answered, with the names of the command line.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::forms;
use windlass_core::schedule::{Fold, Gap, Overlap, Schedule, When};

use crate::api::enqueue::JobForm;
use crate::problem::Problem;
use crate::wire::{Instant, Span};

/// Instants that a schedule may name.
const AT_MAX: usize = 1_000;

/// A schedule: when, and which job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSchedule)]
pub(crate) struct ScheduleForm {
    /// When its jobs come.
    pub(super) rules: Rules,
    /// The job: kind, payload and options. An id, a delay and an instant are not for jobs of a schedule.
    pub(super) job: JobForm,
}

/// When jobs come: by cron fields, every so often, or at some instants.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = ScheduleRules)]
pub(crate) struct Rules {
    /// Cron fields, as `0 3 * * *`, with seconds before them if there are six, or `@daily`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    /// Every so often, on a grid that begins in 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<Span>,
    /// By how much the grid is moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<Span>,
    /// At these instants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    at: Vec<Instant>,
    /// The time zone of cron fields and exceptions, as `Europe/Madrid`; UTC if nothing is said.
    tz: Option<String>,
    /// Fixed times that the clock leaves out: `shift` to after the gap, or `skip`.
    #[schema(value_type = Option<String>)]
    gap: Gap,
    /// Fixed times that come twice: `first`, `last` or `both`.
    #[schema(value_type = Option<String>)]
    fold: Fold,
    /// No slot before this instant.
    from: Option<Instant>,
    /// No slot after this instant.
    until: Option<Instant>,
    /// At most so many jobs in all.
    count: Option<u64>,
    /// Days without slots: `2026-12-25`, `12-25`, `2026-12-24..2027-01-06` or `sat`.
    except: Vec<String>,
    /// Calendars whose days are without slots as well, by name.
    pub(super) calendars: Vec<String>,
    /// Slots that came while no worker was there: `skip`, `once` or `all:N`.
    catch_up: Option<String>,
    /// Slots that are later than this are not made up.
    max_late: Option<Span>,
    /// When an earlier job has not ended: `allow`, `skip`, `wait_one`, `wait_all` or `cancel_running`.
    #[schema(value_type = Option<String>)]
    overlap: Overlap,
    /// Jobs start up to this long after their slot.
    spread: Option<Span>,
}

impl Rules {
    pub(super) fn of(schedule: &Schedule) -> Self {
        let span = |micros: &u64| Span(Duration::from_micros(*micros));
        let (mut cron, mut every, mut offset, mut at) = (None, None, None, Vec::new());
        match &schedule.when {
            When::Cron(fields) => cron = Some(fields.clone()),
            When::Every { period, offset: by } => {
                every = Some(span(period));
                offset = (*by > 0).then(|| span(by));
            }
            When::At(instants) => at = instants.iter().copied().map(Instant).collect(),
            _ => {}
        }
        Self {
            cron,
            every,
            offset,
            at,
            tz: schedule.tz.clone(),
            gap: schedule.gap,
            fold: schedule.fold,
            from: schedule.from.map(Instant),
            until: schedule.until.map(Instant),
            count: schedule.count,
            except: schedule.except.clone(),
            calendars: schedule.calendars.clone(),
            catch_up: Some(forms::catch_up_text(schedule.catch_up)),
            max_late: schedule.max_late.map(Span),
            overlap: schedule.overlap,
            spread: schedule.spread.map(Span),
        }
    }

    /// The schedule, checked. `path` is where the rules stand.
    pub(super) fn schedule(self, path: &str) -> Result<Schedule, Problem> {
        let path = |field: &str| format!("{path}{field}");
        if self.at.len() > AT_MAX {
            return Err(Problem::invalid(
                path("at"),
                format!("{} instants: send {AT_MAX} at most", self.at.len()),
            ));
        }
        let mut schedule = match (self.cron, self.every, self.at.is_empty()) {
            (Some(fields), None, true) => Schedule::cron(fields),
            (None, Some(period), true) => Schedule::every(period.0),
            (None, None, false) => Schedule::at(self.at),
            _ => return Err(Problem::invalid(path("cron"), "say one of cron, every and at")),
        };
        if let Some(zone) = self.tz {
            schedule = schedule.tz(zone);
        }
        if let Some(offset) = self.offset {
            schedule = schedule.offset(offset.0);
        }
        if let Some(from) = self.from {
            schedule = schedule.from(from);
        }
        if let Some(until) = self.until {
            schedule = schedule.until(until);
        }
        if let Some(count) = self.count {
            schedule = schedule.count(count);
        }
        if let Some(late) = self.max_late {
            schedule = schedule.max_late(late.0);
        }
        if let Some(window) = self.spread {
            schedule = schedule.spread(window.0);
        }
        if let Some(catch_up) = &self.catch_up {
            let catch_up = forms::catch_up(catch_up);
            schedule = schedule.catch_up(catch_up.map_err(|why| Problem::invalid(path("catch_up"), why))?);
        }
        schedule = self.calendars.into_iter().fold(schedule, Schedule::calendar);
        let schedule = schedule.gap(self.gap).fold(self.fold).overlap(self.overlap).except(self.except);
        schedule
            .recurrence()
            .map_err(|error| Problem::invalid(path(""), error).at(path("").trim_end_matches('.')))?;
        Ok(schedule)
    }
}
