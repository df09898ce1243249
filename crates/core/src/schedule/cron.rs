//! Cron texts: parsed by a crate, with errors that name the field, and searched in civil time. What clock changes do to it is
//! decided in `slots`.

use croner::Cron as Pattern;
use croner::parser::{CronParser, Seconds, Year};

use super::invalid::ScheduleInvalid;
use super::zone;

/// The longest text.
const TEXT_MAX: usize = 256;
/// After so many days every date of a calendar has met every weekday, leap days included.
const CYCLE_DAYS: i64 = 28 * 366;
/// The first day that is looked at: 2028-01-01, the first of a leap year.
const CYCLE_START: i64 = 1_830_297_600;
const DAY: i64 = 86_400;

const FIELDS: [&str; 6] = ["second", "minute", "hour", "day of month", "month", "day of week"];

/// Each alias and what it stands for.
const ALIASES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Cron fields, parsed.
#[derive(Debug, Clone)]
pub(super) struct Cron {
    pattern: Pattern,
    is_cadence: bool,
}

impl Cron {
    pub(super) fn parse(text: &str) -> Result<Self, ScheduleInvalid> {
        let whole = |why: String| ScheduleInvalid::Cron { text: text.chars().take(64).collect(), why };
        if text.len() > TEXT_MAX {
            return Err(whole(format!("it has {} bytes, at most {TEXT_MAX} are read", text.len())));
        }
        let fields = fields_of(text).map_err(whole)?;
        let skipped = FIELDS.len() - fields.len();
        let bad = |index: usize, why: String| ScheduleInvalid::CronField {
            text: text.to_owned(),
            field: FIELDS[index + skipped],
            position: index + 1,
            given: fields[index].to_owned(),
            why,
        };
        for (index, field) in fields.iter().enumerate() {
            check_steps(field).map_err(|why| bad(index, why))?;
        }
        let pattern = match parser().parse(&fields.join(" ")) {
            Ok(pattern) => pattern,
            // Which field it is tells a parse of each alone.
            Err(error) => {
                for (index, field) in fields.iter().enumerate() {
                    check_field(index + skipped, field).map_err(|why| bad(index, why))?;
                }
                return Err(whole(error.to_string()));
            }
        };
        if !has_a_date(&fields[fields.len() - 3..]) {
            return Err(whole("no year has such a date: look at day of month and month".to_owned()));
        }
        let hour = fields[2 - skipped];
        let is_cadence = hour.starts_with('*') || hour == "0-23";
        Ok(Self { pattern, is_cadence })
    }

    /// Whether it follows real time. Otherwise it names fixed times.
    pub(super) fn is_cadence(&self) -> bool {
        self.is_cadence
    }

    /// The first match at or after this civil second, if there is one.
    pub(super) fn next_civil(&self, from: i64) -> Option<i64> {
        let from = zone::civil(from)?;
        let found = self.pattern.find_next_occurrence(&from, true).ok()?;
        zone::seconds(found)
    }
}

fn parser() -> CronParser {
    CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build()
}

/// The five or six fields of a text, aliases spelled out.
fn fields_of(text: &str) -> Result<Vec<&str>, String> {
    let text = text.trim();
    if text.starts_with('@') {
        let known = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(text));
        let names: Vec<_> = ALIASES.iter().map(|(alias, _)| *alias).collect();
        return known
            .map(|(_, fields)| fields.split(' ').collect())
            .ok_or_else(|| format!("there is no such alias: use one of {}", names.join(" ")));
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    match fields.len() {
        5 | 6 => Ok(fields),
        count => Err(format!(
            "it has {count} fields: use 5 (minute, hour, day of month, month, day of week), or 6 with seconds first"
        )),
    }
}

/// Tests what the parser takes and makes no sense of.
fn check_steps(field: &str) -> Result<(), String> {
    if field.split(',').any(|part| part.split_once('/').is_some_and(|(_, step)| is_zero(step))) {
        return Err("a step of 0 never comes to an end: use 1 or more".to_owned());
    }
    if field.split(',').any(str::is_empty) {
        return Err("a value is missing between commas".to_owned());
    }
    Ok(())
}

/// Tests one field as if it stood alone.
fn check_field(index: usize, field: &str) -> Result<(), String> {
    let mut alone = ["0", "*", "*", "*", "*", "*"];
    alone[index] = field;
    let ranges = ["0-59", "0-59", "0-23", "1-31, L or W", "1-12 or JAN-DEC", "0-7 or SUN-SAT, # or L"];
    match parser().parse(&alone.join(" ")) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("use {}, with * , - and / ({error})", ranges[index])),
    }
}

fn is_zero(step: &str) -> bool {
    !step.is_empty() && step.bytes().all(|digit| digit == b'0')
}

/// Whether some day has this day of month, month and weekday. The parser's own search goes on for thousands of years.
fn has_a_date(date: &[&str]) -> bool {
    if date[0] == "*" {
        return true;
    }
    let Ok(days) = parser().parse(&format!("0 0 0 {}", date.join(" "))) else { return false };
    let matches = |day: i64| {
        zone::civil(CYCLE_START + day * DAY)
            .is_some_and(|midnight| days.is_time_matching(&midnight).unwrap_or(false))
    };
    (0..CYCLE_DAYS).any(matches)
}
