//! The record of an attempt that ended in any way but completed.
//!
//! Which attempt it was (u32), when it ended, when it was claimed (u64 each) and the worker's label with its length
//! (u16) come from the job's record, put here by the script; then how it ended as a letter, and `+` with the error text
//! or `-` without one.
//!
//! An attempt that was reaped and came to its end all the same has two: before how it was lost stand an `L`, the length
//! (u32), and how it ended after all: which attempt it was, when it ended, the letter and the error text.

use bytes::{BufMut, Bytes, BytesMut};
use windlass_core::job::AttemptRecord;
use windlass_core::outcome::Ending;

use super::Reader;

/// What the client says of an attempt that ended.
pub(crate) fn pack(ending: Ending, error: Option<&str>) -> Bytes {
    let mut packed = BytesMut::with_capacity(2 + error.map_or(0, str::len));
    packed.put_u8(code(ending));
    packed.put_u8(if error.is_some() { b'+' } else { b'-' });
    packed.put_slice(error.unwrap_or_default().as_bytes());
    packed.freeze()
}

/// Reads what is recorded of the attempt with this fence number: mostly one record.
pub(crate) fn unpack(fence: u64, record: Bytes) -> Option<Vec<AttemptRecord>> {
    let mut from = Reader(record);
    let (number, ended_at, started_at, worker) = (from.u32()?, from.time()?, from.time()?, from.text()?);
    let read = |number, ended_at, from: Reader| {
        let (ending, error) = read_ending(from)?;
        let (ended_at, ending, worker) = (Some(ended_at), Some(ending), worker.clone());
        Some(AttemptRecord { fence, number, worker, started_at, ended_at, ending, error })
    };
    if from.0.first() != Some(&LATE) {
        return Some(vec![read(number, ended_at, from)?]);
    }
    from.u8()?;
    let length = from.u32()?;
    let mut late = Reader(from.take(length as usize)?);
    let lost = read(number, ended_at, from)?;
    let (number, ended_at) = (late.u32()?, late.time()?);
    Some(vec![lost, read(number, ended_at, late)?])
}

fn read_ending(mut from: Reader) -> Option<(Ending, Option<String>)> {
    let letter = from.u8()?;
    let ending = Ending::ALL.into_iter().find(|ending| code(*ending) == letter)?;
    let error = match from.u8()? {
        b'+' => Some(String::from_utf8(from.0.into()).ok()?),
        _ => None,
    };
    Some((ending, error))
}

/// Before the end of an attempt that was reaped before; no ending has this letter.
const LATE: u8 = b'L';

/// The letter of an ending. They are stored and never change their meaning.
const fn code(ending: Ending) -> u8 {
    match ending {
        Ending::Completed => b'c',
        Ending::Failed => b'f',
        Ending::FailedForGood => b'g',
        Ending::Ambiguous => b'm',
        Ending::Panicked => b'p',
        Ending::TimedOut => b't',
        Ending::Undecodable => b'u',
        Ending::Snoozed => b'z',
        Ending::Discarded => b'd',
        Ending::Cancelled => b'x',
        Ending::Returned => b'r',
        Ending::Stalled => b's',
        Ending::Unreadable => b'n',
    }
}
