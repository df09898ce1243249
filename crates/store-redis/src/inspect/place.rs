//! Where a page begins.

use windlass_core::store::{Cursor, StoreResult};
use windlass_core::{Name, StoreError};

/// A place in the order of acceptance over all queues: by number, and jobs of one number by queue. A page holds what
/// comes before it, or also what stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    seq: u64,
    /// Nothing stands for the end of the order, after all queues.
    queue: Option<Name>,
    is_included: bool,
}

/// Numbers are exact below this.
const SEQ_MAX: u64 = 1 << 53;

impl Place {
    /// After every job.
    pub(super) const NEWEST: Self = Self { seq: SEQ_MAX, queue: None, is_included: false };

    /// What was accepted before a job.
    pub(super) fn before(seq: u64, queue: Name) -> Self {
        Self { seq, queue: Some(queue), is_included: false }
    }

    /// What was accepted up to a number of a queue, that one included.
    pub(super) fn up_to(seq: u64, queue: Name) -> Self {
        Self { seq, queue: Some(queue), is_included: true }
    }

    /// The number in one queue before which the page begins there.
    pub(super) fn start_in(&self, queue: &Name) -> u64 {
        let Some(at) = &self.queue else { return self.seq };
        let has_number = queue < at || (queue == at && self.is_included);
        if has_number { self.seq + 1 } else { self.seq }
    }

    pub(super) fn cursor(&self) -> Cursor {
        let queue = self.queue.as_ref().map_or("", Name::as_str);
        Cursor(format!("{}{}{queue}", self.seq, if self.is_included { '+' } else { '-' }))
    }

    /// The place that [`cursor`](Self::cursor) wrote; others are refused.
    pub(super) fn parse(cursor: &Cursor) -> StoreResult<Self> {
        let read = || {
            let sign = cursor.0.find(['+', '-'])?;
            let (number, rest) = cursor.0.split_at(sign);
            let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
            let seq = number.parse().ok().filter(|seq| is_number && *seq < SEQ_MAX)?;
            let (sign, queue) = rest.split_at(1);
            Some(Self { seq, queue: Some(Name::new(queue).ok()?), is_included: sign == "+" })
        };
        read().ok_or_else(|| StoreError::Cursor { cursor: cursor.0.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn cursors_read_back() {
        for place in [Place::before(0, name("a-b:c")), Place::up_to(1_700_000_000_000_000, name("q"))] {
            assert_eq!(Place::parse(&place.cursor()).unwrap(), place);
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in ["", "7", "-q", "+7-q", "7-", "7 -q", "9007199254740992-q", "7-{q}", "7.5-q", "7-q\n"] {
            let error = Place::parse(&Cursor(text.to_owned())).unwrap_err();
            assert!(matches!(error, StoreError::Cursor { cursor } if cursor == text), "{text}");
        }
    }

    #[test]
    fn jobs_of_one_number_are_ordered_by_queue() {
        let (a, b, c) = (name("a"), name("b"), name("c"));
        let starts = |place: Place| [&a, &b, &c].map(|queue| place.start_in(queue));
        assert_eq!(starts(Place::before(7, b.clone())), [8, 7, 7]);
        assert_eq!(starts(Place::up_to(7, b.clone())), [8, 8, 7]);
        assert_eq!(starts(Place::NEWEST), [SEQ_MAX; 3]);
    }
}
