//! Slots of cron fields in a zone: which instants match, where the clock of the zone leaves times out or has them twice.
//!
//! Time is walked in segments of one offset. Within one, civil time and real time go together and every match is a slot; what
//! is special happens where two segments meet.

use super::cron::Cron;
use super::zone::{Segment, Zone};
use super::{Fold, Gap};

/// Segments that one search walks: some centuries, for zones that change their clock four times a year.
const SEGMENTS_MAX: usize = 2_000;

/// Cron fields in a zone.
#[derive(Debug, Clone)]
pub(super) struct CronSlots {
    pub(super) cron: Cron,
    pub(super) zone: Zone,
    pub(super) gap: Gap,
    pub(super) fold: Fold,
}

impl CronSlots {
    /// The first slot at or after this second.
    pub(super) fn next(&self, from: i64) -> Option<i64> {
        // What was found ahead is found again by the next segments, and need not be searched again; but civil time may go back.
        let mut ahead = None::<(i64, i64)>;
        let mut search = |civil: i64| match ahead {
            Some((searched, found)) if searched <= civil && civil <= found => Some(found),
            _ => {
                ahead = self.cron.next_civil(civil).map(|found| (civil, found));
                ahead.map(|(_, found)| found)
            }
        };
        for segment in self.zone.segments(from).take(SEGMENTS_MAX) {
            if let Some(start) = segment.start.filter(|start| *start >= from)
                && self.is_made_up_at(&segment, start, &mut search)
            {
                return Some(start);
            }
            let (first, end) = self.span(&segment, from);
            let found = search(first)?;
            if end.is_none_or(|end| found < end) {
                return Some(found - segment.offset);
            }
        }
        None
    }

    fn is_fixed(&self) -> bool {
        !self.cron.is_cadence()
    }

    /// Whether a fixed time lies in the gap that this segment begins with. The search runs ahead of the segment then, so what it
    /// found in the gap must not be kept for later.
    fn is_made_up_at(
        &self,
        segment: &Segment,
        start: i64,
        search: &mut impl FnMut(i64) -> Option<i64>,
    ) -> bool {
        let (left, came) = (start + segment.before, start + segment.offset);
        let is_gap = self.is_fixed() && self.gap == Gap::Shift && came > left;
        is_gap && search(left).is_some_and(|found| found < came)
    }

    /// The civil times of a segment that count: from, and before which.
    fn span(&self, segment: &Segment, from: i64) -> (i64, Option<i64>) {
        let begin = segment.start.map_or(from, |start| start.max(from));
        let mut first = begin + segment.offset;
        let mut end = segment.end.map(|end| end + segment.offset);
        if self.is_fixed() {
            match self.fold {
                // The segment before had them.
                Fold::First => {
                    if let Some(start) = segment.start {
                        first = first.max(start + segment.before);
                    }
                }
                // The segment after has them.
                Fold::Last => {
                    let again = segment.end.map(|end| end + segment.after);
                    end = end.zip(again).map(|(end, again)| end.min(again));
                }
                Fold::Both => {}
            }
        }
        (first, end)
    }
}
