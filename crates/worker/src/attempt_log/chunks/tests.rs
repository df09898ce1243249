//! What is kept of many lines, and in which pieces.

use std::collections::BTreeMap;

use super::super::{LOG_BYTES, LOG_LINE_MAX};
use super::*;

/// What a store would have.
#[derive(Default)]
struct Kept(BTreeMap<u32, Vec<Line>>);

impl Kept {
    fn write(&mut self, taken: Taken) {
        self.0.extend(taken.puts);
        for index in taken.removed {
            self.0.remove(&index);
        }
    }

    fn numbers(&self) -> Vec<u64> {
        self.0.values().flatten().map(|line| line.number).collect()
    }

    fn bytes(&self) -> usize {
        self.0.values().flatten().map(|line| line.text.len() + LINE_OVERHEAD).sum()
    }
}

fn say(chunks: &mut Chunks, size: usize) {
    chunks.push(SystemTime::UNIX_EPOCH, LogLevel::Info, "x".repeat(size));
}

#[test]
fn a_chunk_is_written_again_while_it_grows_and_then_no_more() {
    let (mut chunks, mut kept) = (Chunks::new(LOG_BYTES), Kept::default());
    assert!(!chunks.is_due() && chunks.take().is_none());
    for said in 1..=3 {
        say(&mut chunks, 100);
        let taken = chunks.take().unwrap();
        assert_eq!(taken.puts.len(), 1);
        assert_eq!(taken.puts[0].1.len(), said);
        kept.write(taken);
        chunks.written();
        assert!(!chunks.is_due());
    }
    // Lines that come while a write is on its way go with the next.
    say(&mut chunks, 100);
    let taken = chunks.take().unwrap();
    say(&mut chunks, 100);
    kept.write(taken);
    chunks.written();
    assert!(chunks.is_due());
    kept.write(chunks.take().unwrap());
    chunks.written();
    say(&mut chunks, LOG_LINE_MAX);
    say(&mut chunks, LOG_LINE_MAX);
    let taken = chunks.take().unwrap();
    assert_eq!(taken.puts.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1]);
    kept.write(taken);
    chunks.written();
    say(&mut chunks, 1);
    assert_eq!(chunks.take().unwrap().puts[0].0, 1, "the first is full and stored");
    assert_eq!(kept.numbers(), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn what_was_not_written_goes_with_the_next_write() {
    let (mut chunks, mut kept) = (Chunks::new(LOG_BYTES), Kept::default());
    for round in 0..40 {
        say(&mut chunks, 1_000);
        let taken = chunks.take().unwrap();
        if round % 3 == 2 {
            kept.write(taken);
            chunks.written();
        } else {
            // The store may have it all the same.
            if round % 3 == 1 {
                kept.write(taken);
            }
            chunks.failed();
        }
    }
    kept.write(chunks.take().unwrap());
    chunks.written();
    assert_eq!(kept.numbers(), (1..=40).collect::<Vec<_>>());
}

#[test]
fn the_first_lines_and_the_newest_are_kept() {
    for (every, size) in [(1, 10), (7, 1_000), (400, 100), (u64::MAX, 3_000)] {
        let (mut chunks, mut kept) = (Chunks::new(64 << 10), Kept::default());
        let said = 5_000;
        for number in 1..=said {
            say(&mut chunks, size);
            if number % every == 0 {
                while let Some(taken) = chunks.take() {
                    kept.write(taken);
                    chunks.written();
                }
                assert!(!chunks.is_due());
                assert!(kept.bytes() <= (64 << 10), "{}", kept.bytes());
            }
        }
        let held: usize =
            chunks.chunks.iter().flat_map(|chunk| &chunk.lines).map(|line| line.text.len()).sum();
        assert!(held <= 64 << 10, "{held}");
        while let Some(taken) = chunks.take() {
            kept.write(taken);
            chunks.written();
        }
        let numbers = kept.numbers();
        assert!(numbers.is_sorted());
        assert_eq!((numbers[0], *numbers.last().unwrap()), (1, said), "every {every}");
        let gaps = numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        assert_eq!(gaps, 1, "what was dropped lies together");
        assert!(kept.bytes() <= 64 << 10 && kept.bytes() > 40 << 10, "{}", kept.bytes());
        assert!(chunks.is_past_head());
    }
}

#[test]
fn one_write_takes_a_bounded_part() {
    let mut chunks = Chunks::new(1 << 20);
    (0..400).for_each(|_| say(&mut chunks, 2_000));
    let mut writes = 0;
    while let Some(taken) = chunks.take() {
        let bytes: usize = taken.puts.iter().flat_map(|(_, lines)| lines).map(|line| line.text.len()).sum();
        assert!(bytes <= TAKEN_MAX);
        chunks.written();
        writes += 1;
    }
    assert!((6..=9).contains(&writes), "{writes}");
}

#[test]
fn what_is_on_its_way_counts_as_lacking() {
    let mut chunks = Chunks::new(LOG_BYTES);
    say(&mut chunks, 10);
    assert_eq!(chunks.lacking().len(), 1);
    chunks.take().unwrap();
    assert_eq!(chunks.lacking()[0].1.len(), 1);
    chunks.written();
    assert!(chunks.lacking().is_empty());
}
