//! The lines of one attempt until the store has them, in chunks: the newest is written again while it grows, the others once.
//!
//! Above the most bytes, chunks make room that are neither among the first nor the newest. One that the store may have is
//! removed from it with the next write.

use std::collections::VecDeque;
use std::mem;
use std::time::SystemTime;

use super::LogLevel;
use super::stored::Line;

/// A chunk is full above this. Lines may be half of it, so chunks are at least half full.
pub(crate) const CHUNK_BYTES: usize = 8 << 10;
/// What a line costs beside its text.
const LINE_OVERHEAD: usize = 48;
/// The most bytes that one write takes.
const TAKEN_MAX: usize = 128 << 10;
/// The most chunks that one write removes.
const REMOVED_MAX: usize = 50;

/// What an attempt has said, and what of it the store has.
#[derive(Debug)]
pub(crate) struct Chunks {
    bytes_max: usize,
    bytes: usize,
    /// Lines so far.
    lines: u64,
    /// Chunks so far.
    begun: u32,
    chunks: VecDeque<Chunk>,
    /// Chunks that made room, and that the store may have.
    removed: Vec<u32>,
    in_flight: Taken,
}

#[derive(Debug)]
struct Chunk {
    index: u32,
    bytes: usize,
    /// Empty once the store has them and no more will come.
    lines: Vec<Line>,
    /// The store does not have all of it, and no write is on its way.
    is_due: bool,
    /// A write of it has begun.
    is_known: bool,
}

/// What one write is about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Chunks with all of their lines.
    pub(crate) puts: Vec<(u32, Vec<Line>)>,
    /// Chunks that go.
    pub(crate) removed: Vec<u32>,
}

impl Chunks {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            lines: 0,
            begun: 0,
            chunks: VecDeque::new(),
            removed: Vec::new(),
            in_flight: Taken::default(),
        }
    }

    pub(crate) fn push(&mut self, at: SystemTime, level: LogLevel, text: String) {
        self.lines += 1;
        let (line, bytes) =
            (Line { number: self.lines, at, level, text: String::new() }, text.len() + LINE_OVERHEAD);
        let has_room = |open: &Chunk| open.bytes + bytes <= CHUNK_BYTES;
        if !self.chunks.back().is_some_and(has_room) {
            self.close();
            let index = self.begun;
            self.begun = self.begun.saturating_add(1);
            self.chunks.push_back(Chunk {
                index,
                bytes: 0,
                lines: Vec::new(),
                is_due: false,
                is_known: false,
            });
        }
        if let Some(open) = self.chunks.back_mut() {
            open.bytes += bytes;
            open.is_due = true;
            open.lines.push(Line { text, ..line });
        }
        self.bytes += bytes;
        self.make_room();
    }

    /// No more lines come into the newest chunk.
    fn close(&mut self) {
        if let Some(last) = self.chunks.back_mut().filter(|last| last.is_known && !last.is_due) {
            let is_in_flight = self.in_flight.puts.iter().any(|(index, _)| *index == last.index);
            if !is_in_flight {
                last.lines = Vec::new();
            }
        }
    }

    fn make_room(&mut self) {
        while self.bytes > self.bytes_max {
            let head = self.head();
            let oldest = self.chunks.iter().position(|chunk| chunk.index >= head);
            let Some(place) = oldest.filter(|place| place + 1 < self.chunks.len()) else { return };
            let Some(gone) = self.chunks.remove(place) else { return };
            self.bytes -= gone.bytes;
            if gone.is_known {
                self.removed.push(gone.index);
            }
        }
    }

    /// How many of the first chunks never make room: a quarter of all.
    fn head(&self) -> u32 {
        u32::try_from(self.bytes_max / CHUNK_BYTES / 4).unwrap_or(u32::MAX).max(1)
    }

    /// Whether the store lacks something that no write on its way brings.
    pub(crate) fn is_due(&self) -> bool {
        !self.removed.is_empty() || self.chunks.iter().any(|chunk| chunk.is_due)
    }

    /// Whether the attempt says so much that its newest lines make each other room.
    pub(crate) fn is_past_head(&self) -> bool {
        self.begun > self.head()
    }

    /// What the next write brings, oldest first. It is on its way until it was [written](Self::written) or has
    /// [failed](Self::failed).
    pub(crate) fn take(&mut self) -> Option<Taken> {
        let mut room = TAKEN_MAX;
        let mut puts = Vec::new();
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.is_due) {
            let Some(left) = room.checked_sub(chunk.bytes) else { break };
            room = left;
            (chunk.is_due, chunk.is_known) = (false, true);
            puts.push((chunk.index, chunk.lines.clone()));
        }
        let rest = self.removed.split_off(self.removed.len().min(REMOVED_MAX));
        let removed = mem::replace(&mut self.removed, rest);
        let taken = Taken { puts, removed };
        if taken == Taken::default() {
            return None;
        }
        let marks = taken.puts.iter().map(|(index, _)| (*index, Vec::new())).collect();
        self.in_flight = Taken { puts: marks, removed: taken.removed.clone() };
        Some(taken)
    }

    /// The store has what was taken.
    pub(crate) fn written(&mut self) {
        self.in_flight = Taken::default();
        let open = self.chunks.back().map(|chunk| chunk.index);
        for chunk in self.chunks.iter_mut().filter(|chunk| !chunk.is_due && Some(chunk.index) != open) {
            chunk.lines = Vec::new();
        }
    }

    /// Whether the store has what was taken is not known: it is to be written again.
    pub(crate) fn failed(&mut self) {
        let Taken { puts, removed } = mem::take(&mut self.in_flight);
        self.removed.extend(removed);
        for (index, _) in puts {
            if let Some(chunk) = self.chunks.iter_mut().find(|chunk| chunk.index == index) {
                chunk.is_due = true;
            }
        }
    }

    /// All that the store may lack, as far as one write takes it, without any note that it was taken.
    pub(crate) fn lacking(&self) -> Vec<(u32, Vec<Line>)> {
        let is_in_flight = |index: u32| self.in_flight.puts.iter().any(|(other, _)| *other == index);
        let mut room = TAKEN_MAX;
        let mut lacking = Vec::new();
        for chunk in self.chunks.iter().filter(|chunk| chunk.is_due || is_in_flight(chunk.index)) {
            let Some(left) = room.checked_sub(chunk.bytes) else { break };
            room = left;
            lacking.push((chunk.index, chunk.lines.clone()));
        }
        lacking
    }
}

#[cfg(test)]
mod tests;
