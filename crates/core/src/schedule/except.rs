//! Days without slots.

use jiff::civil::{Date, Weekday};

use super::invalid::ScheduleInvalid;

/// The most exceptions of a schedule, those of its calendars included.
const COUNT_MAX: usize = 1_000;

/// Days on which a schedule rests.
#[derive(Debug, Clone, Default)]
pub(super) struct Except(Vec<Day>);

#[derive(Debug, Clone, Copy)]
enum Day {
    /// These, both included.
    Dates(Date, Date),
    /// This one of every year.
    Yearly { month: i8, day: i8 },
    /// This one of every week.
    Weekly(Weekday),
}

impl Except {
    pub(super) fn parse<'a>(texts: impl Iterator<Item = &'a String>) -> Result<Self, ScheduleInvalid> {
        let days: Vec<Day> = texts.map(|text| day(text.trim())).collect::<Result<_, _>>()?;
        if days.len() > COUNT_MAX {
            let why =
                format!("{} exceptions with those of calendars, at most {COUNT_MAX} are kept", days.len());
            return Err(ScheduleInvalid::field("except", why));
        }
        let weekdays =
            |weekday: Weekday| days.iter().any(|day| matches!(day, Day::Weekly(other) if *other == weekday));
        if Weekday::Sunday.cycle_forward().take(7).all(weekdays) {
            return Err(ScheduleInvalid::field("except", "all seven days of the week: nothing is left"));
        }
        Ok(Self(days))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, date: Date) -> bool {
        self.0.iter().any(|day| match *day {
            Day::Dates(first, last) => first <= date && date <= last,
            Day::Yearly { month, day } => (date.month(), date.day()) == (month, day),
            Day::Weekly(weekday) => date.weekday() == weekday,
        })
    }
}

fn day(text: &str) -> Result<Day, ScheduleInvalid> {
    let bad = || {
        let shown: String = text.chars().take(40).collect();
        let forms = "2026-12-25, 12-25, 2026-12-24..2027-01-06 or a weekday such as sat";
        ScheduleInvalid::field("except", format!("{shown:?} is not a day: use {forms}"))
    };
    let date = |text: &str| text.trim().parse::<Date>().map_err(|_other| bad());
    if let Some((first, last)) = text.split_once("..") {
        let (first, last) = (date(first)?, date(last)?);
        return if first <= last { Ok(Day::Dates(first, last)) } else { Err(bad()) };
    }
    if let Some(weekday) = weekday(text) {
        return Ok(Day::Weekly(weekday));
    }
    if text.len() == 5 {
        // A leap year knows all days.
        let any = date(&format!("2024-{text}"))?;
        return Ok(Day::Yearly { month: any.month(), day: any.day() });
    }
    let only = date(text)?;
    Ok(Day::Dates(only, only))
}

fn weekday(text: &str) -> Option<Weekday> {
    Some(match text.to_ascii_lowercase().as_str() {
        "mon" | "monday" => Weekday::Monday,
        "tue" | "tuesday" => Weekday::Tuesday,
        "wed" | "wednesday" => Weekday::Wednesday,
        "thu" | "thursday" => Weekday::Thursday,
        "fri" | "friday" => Weekday::Friday,
        "sat" | "saturday" => Weekday::Saturday,
        "sun" | "sunday" => Weekday::Sunday,
        _ => return None,
    })
}
