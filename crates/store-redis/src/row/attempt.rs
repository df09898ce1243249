//! The record of an attempt that ended in any way but completed.
//!
//! Which attempt it was (u32), when it ended, when it was claimed (u64 each) and the worker's label with its length
//! (u16) come from the job's record, put here by the script; then how it ended as a letter, and `+` with the error text
//! or `-` without one.

use bytes::{BufMut, Bytes, BytesMut};
use windlass_core::job::AttemptRecord;
use windlass_core::outcome::Ending;

use super::Reader;
use crate::error::Fault;

/// What the client says of an attempt that ended.
pub(crate) fn pack(ending: Ending, error: Option<&str>) -> Bytes {
    let mut packed = BytesMut::with_capacity(2 + error.map_or(0, str::len));
    packed.put_u8(code(ending));
    packed.put_u8(if error.is_some() { b'+' } else { b'-' });
    packed.put_slice(error.unwrap_or_default().as_bytes());
    packed.freeze()
}

/// Reads the record of the attempt with this fence number.
pub(crate) fn unpack(fence: u64, record: Bytes) -> Result<AttemptRecord, Fault> {
    read(fence, Reader(record))
        .ok_or_else(|| Fault::Corrupt("the record of an attempt does not read back".to_owned()))
}

fn read(fence: u64, mut from: Reader) -> Option<AttemptRecord> {
    let (number, ended_at, started_at, worker) = (from.u32()?, from.time()?, from.time()?, from.text()?);
    let letter = from.u8()?;
    let ending = Ending::ALL.into_iter().find(|ending| code(*ending) == letter)?;
    let error = match from.u8()? {
        b'+' => Some(String::from_utf8(from.0.into()).ok()?),
        _ => None,
    };
    Some(AttemptRecord {
        fence,
        number,
        worker,
        started_at,
        ended_at: Some(ended_at),
        ending: Some(ending),
        error,
    })
}

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
    }
}
