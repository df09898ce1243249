//! Records and their changes: bytes to types and back.

use bytes::{BufMut, Bytes, BytesMut};
use windlass_core::clock::Timestamp;
use windlass_core::record::{Change, Expect, Record, RecordKey, RecordWrite, Version};

use crate::agenda::Needs;
use crate::error::Fault;
use crate::format::{CHANGE, INLINE_MAX};
use crate::row::{self, Reader};

/// A key as scripts take it.
pub(super) fn key(key: &RecordKey) -> Bytes {
    Bytes::copy_from_slice(key.as_str().as_bytes())
}

/// A key as it is stored.
pub(super) fn key_of(stored: &Bytes) -> Result<RecordKey, Fault> {
    let text = std::str::from_utf8(stored).ok();
    let key = text.and_then(|text| RecordKey::new(text).ok());
    key.ok_or_else(|| {
        Fault::Corrupt(format!("{:?} is not a key of a record", String::from_utf8_lossy(stored)))
    })
}

/// Reads a record ([`KEPT`](crate::format::KEPT)), and its value if that stands apart.
pub(super) fn read(key: RecordKey, stored: &Bytes, apart: &Bytes) -> Result<Record, Fault> {
    let mut from = Reader(stored.clone());
    let mut read = || {
        let (version, written_at, expires) = (from.u64()?, from.time()?, from.time()?);
        let length = from.u32()? as usize;
        let value = if length > INLINE_MAX { apart.clone() } else { from.0.clone() };
        let expires_at = (expires != Timestamp::from_micros(0)).then_some(expires);
        (value.len() == length).then_some((Version(version), written_at, expires_at, value))
    };
    match read() {
        Some((version, written_at, expires_at, value)) => {
            Ok(Record { key, version, value, written_at, expires_at })
        }
        None => Err(Fault::Corrupt(format!("the record {key:?} does not read"))),
    }
}

/// A version that is there, as scripts answer it; nothing for no record.
pub(super) fn version(said: &[u8]) -> Option<Version> {
    said.try_into().ok().map(|bytes| Version(u64::from_be_bytes(bytes)))
}

/// The arguments of changes, three each.
pub(super) fn push_changes<'w>(
    arguments: &mut Vec<Bytes>,
    writes: impl IntoIterator<Item = &'w RecordWrite>,
) {
    for write in writes {
        let value = match &write.change {
            Change::Put { value, .. } => value.clone(),
            Change::Remove => Bytes::new(),
        };
        arguments.extend([change(write), key(&write.key), value]);
    }
}

/// As a script takes it, [`CHANGE`].
fn change(write: &RecordWrite) -> Bytes {
    let mut packed = BytesMut::with_capacity(CHANGE.width());
    let (expect, expected) = match write.expect {
        Expect::Any => (b'a', 0),
        Expect::Absent => (b'n', 0),
        Expect::Version(Version(version)) => (b'v', version),
    };
    packed.put_u8(expect);
    packed.put_u64(expected);
    let (change, version, ttl) = match &write.change {
        Change::Put { version: Version(version), ttl, .. } => (b'p', *version, *ttl),
        Change::Remove => (b'r', 0, None),
    };
    packed.put_u8(change);
    packed.put_u64(version);
    packed.put_u8(if ttl.is_some() { b'e' } else { b'-' });
    packed.put_u64(ttl.map_or(0, row::micros));
    packed.freeze()
}

/// What maintenance has to look for where these are written: records that are gone some day.
pub(super) fn needs(writes: &[RecordWrite]) -> Needs {
    let is_timed = |write: &RecordWrite| matches!(&write.change, Change::Put { ttl: Some(_), .. });
    Needs { promote: writes.iter().any(is_timed), prune: false }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_record_reads_back_and_no_part_of_it_does() {
        let key = RecordKey::new("k").unwrap();
        let stored = |length: u32, value: &[u8]| {
            let mut stored = BytesMut::new();
            stored.put_u64(u64::MAX);
            stored.put_u64(5);
            stored.put_u64(0);
            stored.put_u32(length);
            stored.put_slice(value);
            stored.freeze()
        };
        let short = stored(3, b"abc");
        let record = read(key.clone(), &short, &Bytes::new()).unwrap();
        assert_eq!(
            (record.version, &record.value[..], record.expires_at),
            (Version(u64::MAX), &b"abc"[..], None)
        );
        for length in 0..short.len() {
            assert!(read(key.clone(), &short.slice(..length), &Bytes::new()).is_err(), "{length} bytes");
        }
        let (long, value) = (stored(INLINE_MAX as u32 + 1, b""), Bytes::from(vec![7; INLINE_MAX + 1]));
        assert_eq!(read(key.clone(), &long, &value).unwrap().value, value);
        assert!(read(key, &long, &value.slice(1..)).is_err());
    }

    #[test]
    fn a_change_has_the_width_that_is_stated() {
        let put = RecordWrite::put(RecordKey::new("k").unwrap(), "v").ttl(Duration::from_micros(7));
        let packed = change(&put);
        assert_eq!(packed.len(), CHANGE.width());
        assert_eq!(
            (packed[0], packed[CHANGE.before("change")], packed[CHANGE.before("expires")]),
            (b'a', b'p', b'e')
        );
        assert_eq!(
            (needs(std::slice::from_ref(&put)).promote, needs(&[RecordWrite::remove(put.key)]).promote),
            (true, false)
        );
    }
}
