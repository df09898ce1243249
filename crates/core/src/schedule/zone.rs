//! Time zones: which offset holds when. The one place that knows the crate behind it.

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};

use super::invalid::ScheduleInvalid;

/// A time zone.
#[derive(Debug, Clone)]
pub(super) struct Zone(TimeZone);

/// A stretch of time in which one offset holds, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// When it begins; nothing where it has always been so.
    pub(super) start: Option<i64>,
    /// When the next one begins; nothing where it stays so.
    pub(super) end: Option<i64>,
    /// What is added to UTC in it.
    pub(super) offset: i64,
    /// What was added before.
    pub(super) before: i64,
    /// What is added after.
    pub(super) after: i64,
}

impl Zone {
    /// The zone of this IANA name.
    pub(super) fn get(name: &str) -> Result<Self, ScheduleInvalid> {
        let unknown = || {
            let why = format!("there is no zone {name:?}: use an IANA name such as Europe/Madrid, or UTC");
            ScheduleInvalid::field("tz", why)
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "/_+-".contains(c);
        if name.len() > 64 || !name.chars().all(is_name) {
            return Err(unknown());
        }
        TimeZone::get(name).map(Self).map_err(|_unknown| unknown())
    }

    /// What is added to UTC at this second.
    pub(super) fn offset(&self, second: i64) -> i64 {
        instant(second).map_or(0, |at| self.0.to_offset(at).seconds().into())
    }

    /// The segment of this second, and those that follow.
    pub(super) fn segments(&self, from: i64) -> impl Iterator<Item = Segment> + '_ {
        let mut next = instant(from).map(|_| from);
        std::iter::from_fn(move || {
            let segment = self.segment(next?)?;
            next = segment.end;
            Some(segment)
        })
    }

    fn segment(&self, at: i64) -> Option<Segment> {
        let start = self.0.preceding(instant(at + 1)?).next().map(|change| change.timestamp().as_second());
        let end = self.0.following(instant(at)?).next().map(|change| change.timestamp().as_second());
        let offset = self.offset(at);
        let before = start.map_or(offset, |start| self.offset(start - 1));
        let after = end.map_or(offset, |end| self.offset(end));
        Some(Segment { start, end, offset, before, after })
    }

    /// The civil date of a second.
    pub(super) fn date(&self, second: i64) -> Option<Date> {
        Some(civil(second + self.offset(second))?.date())
    }

    /// The last second of a civil date.
    pub(super) fn end_of(&self, date: Date) -> Option<i64> {
        let tomorrow = seconds(date.tomorrow().ok()?.at(0, 0, 0, 0))?;
        // Whatever the offset is: the day ends within a day and a half of the same time in UTC.
        let (mut last, mut first_after) = (tomorrow - 129_600, tomorrow + 129_600);
        while first_after - last > 1 {
            let middle = last + (first_after - last) / 2;
            if self.date(middle)? <= date { last = middle } else { first_after = middle }
        }
        Some(last)
    }

    /// How a person there writes this second.
    pub(super) fn text(&self, second: i64) -> String {
        let offset = self.offset(second);
        let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
        let Some(civil) = civil(second + offset) else { return format!("{second} s") };
        let text = civil.strftime("%Y-%m-%d %H:%M:%S");
        format!("{text}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

fn instant(second: i64) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_second(second).ok()
}

/// The civil time that this many seconds after the beginning of 1970 on the same clock is.
pub(super) fn civil(second: i64) -> Option<DateTime> {
    Some(Offset::UTC.to_datetime(instant(second)?))
}

/// The reverse of [`civil`].
pub(super) fn seconds(civil: DateTime) -> Option<i64> {
    Some(Offset::UTC.to_timestamp(civil).ok()?.as_second())
}
