//! Flushes that are under way, so that one that hangs shows in the health, however many others come and go.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::supervise::{Board, Part};

/// A flush that takes longer than three times this shows in the health.
const FLUSH_EXPECTED: Duration = Duration::from_secs(5);

pub(super) struct Flights {
    board: Arc<Board>,
    begun: Mutex<Begun>,
}

#[derive(Default)]
struct Begun {
    /// When each began, in no order.
    flights: Vec<Instant>,
    /// The one that the board waits for.
    oldest: Option<Instant>,
}

/// A flush that is under way until this is dropped.
pub(super) struct Flight<'a> {
    flights: &'a Flights,
    begun: Instant,
}

impl Flights {
    pub(super) fn new(board: Arc<Board>) -> Self {
        Self { board, begun: Mutex::default() }
    }

    pub(super) fn begin(&self) -> Flight<'_> {
        self.begin_at(Instant::now())
    }

    fn begin_at(&self, begun: Instant) -> Flight<'_> {
        self.change(|flights| flights.push(begun));
        Flight { flights: self, begun }
    }

    /// The board waits for the oldest; it is told only of another one, or it would wait anew.
    fn change(&self, change: impl FnOnce(&mut Vec<Instant>)) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut begun.flights);
        let oldest = begun.flights.iter().min().copied();
        if begun.oldest != oldest {
            begun.oldest = oldest;
            let left = oldest.map(|oldest| FLUSH_EXPECTED.saturating_sub(oldest.elapsed() / 3));
            self.board.expect_within(Part::Settler, left);
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.flights.change(|flights| {
            if let Some(place) = flights.iter().position(|begun| *begun == self.begun) {
                flights.swap_remove(place);
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
        let flights = Flights::new(Arc::clone(&board));
        let hung = flights.begin_at(Instant::now());
        let oldest = || flights.begun.lock().unwrap().oldest;
        for _ in 0..3 {
            let quick = flights.begin_at(Instant::now() + FLUSH_EXPECTED);
            assert_eq!(oldest(), Some(hung.begun), "and the board is not told again");
            drop(quick);
        }
        let next = flights.begin_at(Instant::now() + FLUSH_EXPECTED);
        drop(hung);
        assert_eq!(oldest(), Some(next.begun));
        drop(next);
        assert_eq!(oldest(), None);
        assert!(board.read().iter().all(|part| !part.is_overdue));
    }
}
