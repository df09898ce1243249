//! Tallies: how many jobs of a queue and kind were accepted, started and ended in a minute, how they ended, and how long they
//! waited and ran. Stores move them in the writes that they count; charts, metrics and alerts read them.
//!
//! A tally is a list of *cells*. What was counted and how long it took are one number, the cell, so a store adds one to
//! one counter for each thing that happens, and the sums of cells are the counts. Times are kept by powers of two.

mod count;
mod gather;
mod interval;
mod spread;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

pub use count::{Count, counted};
pub use gather::{Gather, KINDS_MAX, Row, WINDOWS_MAX, Window, WindowInvalid};
pub use interval::Interval;
pub use spread::{BUCKETS, Bucket, Quantile, Spread, TIMED};

/// What was counted, and how long it took: 32 × the code of the [`Count`] + the number of the [`Bucket`]. The number is
/// stored and never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell(u16);

impl Cell {
    /// That of a count and a bucket.
    pub const fn new(count: Count, bucket: Bucket) -> Self {
        Self(count.code() as u16 * BUCKETS as u16 + bucket.number() as u16)
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// That of a stored number. A later program may count what this one does not know.
    pub const fn from_number(number: u16) -> Self {
        Self(number)
    }

    /// What was counted; nothing if this program does not know it.
    pub const fn count(self) -> Option<Count> {
        Count::from_code((self.0 / BUCKETS as u16) as u8)
    }

    /// How long it took.
    pub const fn bucket(self) -> Bucket {
        Bucket::from_number((self.0 % BUCKETS as u16) as u8)
    }
}

/// The version of the encoding, its first byte.
pub const VERSION: u8 = 1;
/// Bytes of a cell: its number and its count, as big-endian numbers.
pub const CELL_BYTES: usize = 10;

/// Counts by cell.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::tally::{Bucket, Cell, Count, Tally};
///
/// let mut tally = Tally::default();
/// tally.add(Cell::new(Count::Completed, Bucket::of(Duration::from_millis(900))), 98);
/// tally.add(Cell::new(Count::Completed, Bucket::of(Duration::from_secs(70))), 2);
/// assert_eq!(tally.of(Count::Completed), 100);
/// assert_eq!(tally.runs().quantile(0.95).map(|most| most.to_string()), Some("<= 1.02 s".into()));
/// assert_eq!(Tally::from_bytes(&tally.to_bytes()), Ok(tally));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    cells: BTreeMap<Cell, u64>,
}

impl Tally {
    /// Counts something so often.
    pub fn add(&mut self, cell: Cell, times: u64) {
        if times > 0 {
            let count = self.cells.entry(cell).or_default();
            *count = count.saturating_add(times);
        }
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        other.cells.iter().for_each(|(&cell, &times)| self.add(cell, times));
    }

    /// How often something was counted, however long it took.
    pub fn of(&self, count: Count) -> u64 {
        self.sum(|cell| cell.count() == Some(count))
    }

    /// How many jobs died.
    pub fn dead(&self) -> u64 {
        self.sum(|cell| cell.count().is_some_and(Count::is_death))
    }

    /// How many attempts ended, in whatever way. The late end of an attempt that was taken back is counted a second time.
    pub fn attempts_ended(&self) -> u64 {
        self.sum(|cell| cell.count().is_some_and(Count::ends_attempt) && cell.bucket() != Bucket::UNTIMED)
    }

    /// How long jobs waited that started: from the instant when they were due until their claim.
    pub fn waits(&self) -> Spread {
        self.spread(|count| count == Count::Started)
    }

    /// How long attempts ran, whatever came of them: from the claim until the end was written.
    pub fn runs(&self) -> Spread {
        self.spread(Count::ends_attempt)
    }

    /// How long it took, for what is chosen. What has no time is left out.
    pub fn spread(&self, chosen: impl Fn(Count) -> bool) -> Spread {
        let mut spread = Spread::default();
        for (cell, &times) in &self.cells {
            if cell.count().is_some_and(&chosen) {
                spread.add(cell.bucket(), times);
            }
        }
        spread
    }

    /// The cells, in order, and how often each was counted.
    pub fn cells(&self) -> impl Iterator<Item = (Cell, u64)> {
        self.cells.iter().map(|(&cell, &times)| (cell, times))
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// As stores keep it that keep bytes: the version, then each cell as its number and its count, in order.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(1 + CELL_BYTES * self.cells.len());
        bytes.push(VERSION);
        for (cell, times) in self.cells() {
            bytes.extend(cell.number().to_be_bytes());
            bytes.extend(times.to_be_bytes());
        }
        bytes
    }

    /// From such bytes.
    ///
    /// # Errors
    /// When they are of another version, or cut.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TallyUnreadable> {
        let Some((&VERSION, cells)) = bytes.split_first() else {
            return Err(TallyUnreadable::Version { found: bytes.first().copied() });
        };
        let (cells, rest) = cells.as_chunks::<CELL_BYTES>();
        if !rest.is_empty() {
            return Err(TallyUnreadable::Length { length: bytes.len() });
        }
        let mut tally = Self::default();
        for &[high, low, ref times @ ..] in cells {
            tally.add(Cell(u16::from_be_bytes([high, low])), u64::from_be_bytes(*times));
        }
        Ok(tally)
    }

    fn sum(&self, chosen: impl Fn(Cell) -> bool) -> u64 {
        let chosen = self.cells().filter(|(cell, _)| chosen(*cell));
        chosen.fold(0, |sum: u64, (_, times)| sum.saturating_add(times))
    }
}

impl FromIterator<(Cell, u64)> for Tally {
    fn from_iter<I: IntoIterator<Item = (Cell, u64)>>(cells: I) -> Self {
        let mut tally = Self::default();
        cells.into_iter().for_each(|(cell, times)| tally.add(cell, times));
        tally
    }
}

/// As pairs of a cell's number and its count.
impl Serialize for Tally {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.cells().map(|(cell, times)| (cell.number(), times)))
    }
}

impl<'de> Deserialize<'de> for Tally {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let cells = Vec::<(u16, u64)>::deserialize(from)?;
        Ok(cells.into_iter().map(|(number, times)| (Cell::from_number(number), times)).collect())
    }
}

/// Why bytes are not a tally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TallyUnreadable {
    /// They begin with another version.
    #[error("a tally has version {found:?}, this program knows {VERSION}: upgrade the program")]
    Version {
        /// The version; nothing where there are no bytes.
        found: Option<u8>,
    },
    /// They end within a cell.
    #[error("a tally has {length} bytes, which is not one and a multiple of {CELL_BYTES}")]
    Length {
        /// How many there are.
        length: usize,
    },
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn cell(count: Count, micros: u64) -> Cell {
        Cell::new(count, Bucket::of(Duration::from_micros(micros)))
    }

    #[test]
    fn a_cell_says_what_was_counted_and_how_long_it_took() {
        for count in Count::ALL {
            for number in 0..BUCKETS as u8 {
                let bucket = Bucket::from_number(number);
                let cell = Cell::new(count, bucket);
                assert_eq!((cell.count(), cell.bucket()), (Some(count), bucket));
                assert_eq!(Cell::from_number(cell.number()), cell);
            }
        }
        assert_eq!(Cell::from_number(u16::MAX).count(), None);
        assert_eq!(cell(Count::Completed, 1_001).number(), 65);
    }

    #[test]
    fn sums_of_cells_are_counts() {
        let mut tally = Tally::default();
        tally.add(Cell::new(Count::Accepted, Bucket::UNTIMED), 5);
        tally.add(cell(Count::Started, 3_000), 3);
        tally.add(cell(Count::Started, 900), 1);
        tally.add(cell(Count::Exhausted, 900), 1);
        tally.add(Cell::new(Count::Expired, Bucket::UNTIMED), 1);
        tally.add(Cell::new(Count::Cancelled, Bucket::UNTIMED), 1);
        tally.add(Cell::from_number(u16::MAX), 9);
        assert_eq!((tally.of(Count::Accepted), tally.of(Count::Started), tally.dead()), (5, 4, 2));
        assert_eq!(tally.attempts_ended(), 1, "what expired or was cancelled did not run");
        assert_eq!((tally.waits().total(), tally.runs().total()), (4, 1));
        let mut twice = tally.clone();
        twice.merge(&tally);
        assert_eq!((twice.of(Count::Started), twice.dead()), (8, 4));
        tally.add(cell(Count::Started, 900), u64::MAX);
        assert_eq!(tally.of(Count::Started), u64::MAX, "a count stays at its end");
    }

    #[test]
    fn bytes_read_back_also_what_is_not_known() {
        let mut tally = Tally::default();
        assert_eq!(Tally::from_bytes(&tally.to_bytes()), Ok(tally.clone()));
        tally.add(Cell::from_number(u16::MAX), u64::MAX);
        tally.add(cell(Count::Started, 1), 1);
        let bytes = tally.to_bytes();
        assert_eq!(bytes[..11], [1, 0, 32, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(Tally::from_bytes(&bytes), Ok(tally));
        assert_eq!(Tally::from_bytes(&[]), Err(TallyUnreadable::Version { found: None }));
        assert_eq!(Tally::from_bytes(&[2]), Err(TallyUnreadable::Version { found: Some(2) }));
        assert_eq!(Tally::from_bytes(&bytes[..20]), Err(TallyUnreadable::Length { length: 20 }));
    }
}
