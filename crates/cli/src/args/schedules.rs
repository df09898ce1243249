//! The arguments of `schedules`.

use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand, ValueEnum};
use windlass_core::schedule::{CatchUp, Fold, Gap, Overlap, Schedule};

use super::examples::schedules as examples;
use super::parse;

#[derive(Debug, Subcommand)]
pub(crate) enum SchedulesCommand {
    /// List schedules by id, with when each comes next
    #[command(after_help = examples::LIST)]
    List(SchedulesListArgs),
    /// Show a schedule: what it says, how far it is, and its next slots
    #[command(after_help = examples::SHOW)]
    Show(ScheduleIdArgs),
    /// Set a schedule: make it, or change the one that has this id
    ///
    /// What it says again changes nothing. A change moves its next slot; jobs that it made stay.
    #[command(after_help = examples::SET)]
    Set(Box<ScheduleSetArgs>),
    /// Print the next slots of a schedule, or of one that is not stored
    #[command(after_help = examples::PREVIEW)]
    Preview(Box<SchedulePreviewArgs>),
    /// Play a schedule through: clock changes, jobs that take long, and a time without workers
    #[command(after_help = examples::SIMULATE)]
    Simulate(Box<ScheduleSimulateArgs>),
    /// Make no jobs until it is resumed
    #[command(after_help = examples::PAUSE)]
    Pause(ScheduleIdArgs),
    /// Go on with the next slot from now
    #[command(after_help = examples::RESUME)]
    Resume(ScheduleIdArgs),
    /// Make a job now, beside those of the slots
    #[command(after_help = examples::RUN)]
    Run(ScheduleIdArgs),
    /// Remove a schedule; jobs that it made stay
    #[command(after_help = examples::DELETE)]
    Delete(ScheduleIdArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SchedulesListArgs {
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
    /// Begin after this id
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleIdArgs {
    /// The id of the schedule
    pub(crate) id: String,
}

/// When jobs come.
#[derive(Debug, Args)]
#[group(id = "slots", multiple = false)]
pub(crate) struct SlotArgs {
    /// By cron fields: minute hour day month weekday, seconds before them if there are six, or an alias as @daily
    #[arg(long, value_name = "FIELDS")]
    pub(crate) cron: Option<String>,
    /// Every so often, on a grid that begins in 1970
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    pub(crate) every: Option<Duration>,
    /// At this instant, as 2030-01-01T00:00:00Z; can be given several times
    #[arg(long, value_name = "INSTANT", value_parser = parse::instant)]
    pub(crate) at: Vec<SystemTime>,
}

/// What is said about slots and the jobs in them.
#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// The time zone of cron fields and exceptions, as Europe/Madrid [default: UTC]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Fixed times that the clock leaves out in spring come right after, or not at all
    #[arg(long, value_enum, default_value_t = GapArg::Shift)]
    gap: GapArg,
    /// Of fixed times that come twice in autumn, which counts
    #[arg(long, value_enum, default_value_t = FoldArg::First)]
    fold: FoldArg,
    /// Moves the grid of --every
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, requires = "every")]
    offset: Option<Duration>,
    /// No slot before this instant
    #[arg(long, value_name = "INSTANT", value_parser = parse::instant)]
    from: Option<SystemTime>,
    /// No slot after this instant
    #[arg(long, value_name = "INSTANT", value_parser = parse::instant)]
    until: Option<SystemTime>,
    /// At most so many jobs in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// A day without slots, as 2026-12-25, 12-25, 2026-12-24..2027-01-06 or sat; can be given several times
    #[arg(long = "except", value_name = "DAY")]
    except: Vec<String>,
    /// No slots on the days of this calendar, see windlass calendars; can be given several times
    #[arg(long = "calendar", value_name = "NAME")]
    pub(crate) calendars: Vec<String>,
    /// Slots that came while no worker was there: skip, once, or all:N for the newest N
    #[arg(long, value_name = "skip|once|all:N", value_parser = parse::catch_up, default_value = "once")]
    catch_up: CatchUp,
    /// Slots that are later than this are not made up
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    max_late: Option<Duration>,
    /// What happens when a slot comes and an earlier job has not ended
    #[arg(long, value_enum, default_value_t = OverlapArg::Allow)]
    overlap: OverlapArg,
    /// Jobs start up to this long after their slot, always as long for one schedule
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    spread: Option<Duration>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum GapArg {
    Shift,
    Skip,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FoldArg {
    First,
    Last,
    Both,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OverlapArg {
    Allow,
    Skip,
    WaitOne,
    WaitAll,
    CancelRunning,
}

impl SlotArgs {
    /// Whether something was said.
    pub(crate) fn is_given(&self) -> bool {
        self.cron.is_some() || self.every.is_some() || !self.at.is_empty()
    }
}

impl RuleArgs {
    /// The schedule that was typed, not yet checked.
    pub(crate) fn schedule(&self, slots: &SlotArgs) -> Schedule {
        let mut schedule = match (&slots.cron, slots.every) {
            (Some(fields), _) => Schedule::cron(fields),
            (None, Some(period)) => Schedule::every(period),
            (None, None) => Schedule::at(slots.at.iter().copied()),
        };
        if let Some(zone) = &self.tz {
            schedule = schedule.tz(zone);
        }
        if let Some(offset) = self.offset {
            schedule = schedule.offset(offset);
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
            schedule = schedule.max_late(late);
        }
        if let Some(window) = self.spread {
            schedule = schedule.spread(window);
        }
        for name in &self.calendars {
            schedule = schedule.calendar(name);
        }
        schedule
            .gap(match self.gap {
                GapArg::Shift => Gap::Shift,
                GapArg::Skip => Gap::Skip,
            })
            .fold(match self.fold {
                FoldArg::First => Fold::First,
                FoldArg::Last => Fold::Last,
                FoldArg::Both => Fold::Both,
            })
            .overlap(match self.overlap {
                OverlapArg::Allow => Overlap::Allow,
                OverlapArg::Skip => Overlap::Skip,
                OverlapArg::WaitOne => Overlap::WaitOne,
                OverlapArg::WaitAll => Overlap::WaitAll,
                OverlapArg::CancelRunning => Overlap::CancelRunning,
            })
            .catch_up(self.catch_up)
            .except(self.except.iter().cloned())
    }
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleSetArgs {
    /// The id of the schedule
    pub(crate) id: String,
    /// The kind of its jobs, as their handler calls it
    pub(crate) kind: String,
    /// Their payload: JSON, - for standard input, or @FILE [default: null]
    #[arg(value_name = "PAYLOAD|-|@FILE", allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    #[command(flatten)]
    pub(crate) slots: SlotArgs,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// Their queue [default: default]
    #[arg(long, value_name = "NAME", help_heading = "Options of the jobs")]
    pub(crate) queue: Option<String>,
    /// Higher is claimed first [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Options of the jobs")]
    pub(crate) priority: Option<i16>,
    /// Attempts in all, the first included [default: 25]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Options of the jobs")]
    pub(crate) attempts: Option<u32>,
    /// How long one attempt may take [default: the worker's]
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, help_heading = "Options of the jobs")]
    pub(crate) timeout: Option<Duration>,
    /// The key that they take turns by
    #[arg(long, value_name = "KEY", help_heading = "Options of the jobs")]
    pub(crate) key: Option<String>,
    /// A value that the handler can read, as tenant=acme; can be given several times
    #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = parse::pair, help_heading = "Options of the jobs")]
    pub(crate) meta: Vec<(String, String)>,
    /// A word to find them by; can be given several times
    #[arg(long = "tag", value_name = "TAG", help_heading = "Options of the jobs")]
    pub(crate) tags: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SchedulePreviewArgs {
    /// The id of a stored schedule; without it, --cron, --every or --at say one
    #[arg(conflicts_with = "slots")]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) slots: SlotArgs,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// How many slots
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
    /// Slots after this instant instead of from now on
    #[arg(long, value_name = "INSTANT", value_parser = parse::instant)]
    pub(crate) after: Option<SystemTime>,
}

#[derive(Debug, Args)]
pub(crate) struct ScheduleSimulateArgs {
    /// The id of a stored schedule; without it, --cron, --every or --at say one
    #[arg(conflicts_with = "slots")]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) slots: SlotArgs,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// Slots from this instant on, also in the past [default: now]
    #[arg(long, value_name = "INSTANT", value_parser = parse::instant)]
    pub(crate) begin: Option<SystemTime>,
    /// For how long
    #[arg(long = "for", value_name = "DURATION", value_parser = parse::duration, default_value = "7d")]
    pub(crate) span: Duration,
    /// How long each job takes
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    pub(crate) takes: Option<Duration>,
    /// No worker is there from this instant on
    #[arg(long, value_name = "INSTANT", value_parser = parse::instant, requires = "down_for")]
    pub(crate) down: Option<SystemTime>,
    /// For how long no worker is there
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, requires = "down")]
    pub(crate) down_for: Option<Duration>,
    /// How many slots at most
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}
