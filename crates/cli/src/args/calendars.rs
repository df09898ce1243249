//! The arguments of `calendars`.

use clap::{Args, Subcommand};

use super::examples::calendars as examples;

#[derive(Debug, Subcommand)]
pub(crate) enum CalendarsCommand {
    /// List calendars by name
    #[command(after_help = examples::LIST)]
    List(CalendarsListArgs),
    /// Show the days of a calendar
    #[command(after_help = examples::SHOW)]
    Show(CalendarNameArgs),
    /// Set the days of a calendar: make it, or change it and move the schedules that name it
    #[command(after_help = examples::SET)]
    Set(CalendarSetArgs),
    /// Remove a calendar that no schedule names
    #[command(after_help = examples::DELETE)]
    Delete(CalendarNameArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CalendarsListArgs {
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
    /// Begin after this name
    #[arg(long, value_name = "NAME")]
    pub(crate) after: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CalendarNameArgs {
    /// The name of the calendar
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct CalendarSetArgs {
    /// The name of the calendar
    pub(crate) name: String,
    /// Its days: 2026-12-25, 12-25 for every year, 2026-12-24..2027-01-06, or a weekday as sat
    #[arg(value_name = "DAY", required = true)]
    pub(crate) days: Vec<String>,
}
