//! Flushes that are under way, so that one that hangs shows in the health, however many others come and go.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::health::Part;
use crate::supervise::Board;

/// A flush that takes longer than three times this shows in the health.
const FLUSH_EXPECTED: Duration = Duration::from_secs(5);

pub(super) struct InFlight {
    board: Arc<Board>,
    begun: Mutex<Begun>,
}

#[derive(Default)]
struct Begun {
    /// When each began, in no order.
    flushes: Vec<Instant>,
    /// The one that the board waits for.
    oldest: Option<Instant>,
}

/// A flush that is under way until this is dropped.
pub(super) struct FlushInFlight<'a> {
    all: &'a InFlight,
    begun: Instant,
}

impl InFlight {
    pub(super) fn new(board: Arc<Board>) -> Self {
        Self { board, begun: Mutex::default() }
    }

    pub(super) fn begin(&self) -> FlushInFlight<'_> {
        self.begin_at(Instant::now())
    }

    fn begin_at(&self, begun: Instant) -> FlushInFlight<'_> {
        self.change(|flushes| flushes.push(begun));
        FlushInFlight { all: self, begun }
    }

    /// The board waits for the oldest; it is told only of another one, or it would wait anew.
    fn change(&self, change: impl FnOnce(&mut Vec<Instant>)) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut begun.flushes);
        let oldest = begun.flushes.iter().min().copied();
        if begun.oldest != oldest {
            begun.oldest = oldest;
            let left = oldest.map(|oldest| FLUSH_EXPECTED.saturating_sub(oldest.elapsed() / 3));
            self.board.expect_within(Part::Settler, left);
        }
    }
}

impl Drop for FlushInFlight<'_> {
    fn drop(&mut self) {
        self.all.change(|flushes| {
            if let Some(place) = flushes.iter().position(|begun| *begun == self.begun) {
                flushes.swap_remove(place);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_that_come_and_go_do_not_hide_one_that_hangs() {
        let board = Arc::<Board>::default();
        let in_flight = InFlight::new(Arc::clone(&board));
        let hung = in_flight.begin_at(Instant::now());
        let oldest = || in_flight.begun.lock().unwrap().oldest;
        for _ in 0..3 {
            let quick = in_flight.begin_at(Instant::now() + FLUSH_EXPECTED);
            assert_eq!(oldest(), Some(hung.begun), "and the board is not told again");
            drop(quick);
        }
        let next = in_flight.begin_at(Instant::now() + FLUSH_EXPECTED);
        drop(hung);
        assert_eq!(oldest(), Some(next.begun));
        drop(next);
        assert_eq!(oldest(), None);
        assert!(board.read().iter().all(|part| !part.is_overdue));
    }
}
