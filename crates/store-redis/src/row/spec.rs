//! V: what was handed in of a job and never changes, as a part of its record.
//!
//! Kind with its length (u8); the payload, if it is at most [`INLINE_MAX`] bytes; a byte that says what of the rest is
//! there: 1 lost leases that it survives (u32), 2 timeout in micros (u64), 4 retry policy as JSON with its length (u16),
//! 8 tags, each with a comma after it and one before all, so that a script finds one without reading them. What has its
//! default, as most of it has in most jobs, costs nothing.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use windlass_core::Name;
use windlass_core::job::NewJob;
use windlass_core::options::STALLS_MAX_DEFAULT;
use windlass_core::retry::Policy;

use super::{INLINE_MAX, Reader, whole_micros};
use crate::error::Fault;

const STALLS: u8 = 1;
const TIMEOUT: u8 = 2;
const RETRY: u8 = 4;
const TAGS: u8 = 8;

/// What was handed in of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spec {
    pub(crate) kind: Name,
    /// Nothing where it stands apart.
    pub(crate) payload: Option<Bytes>,
    pub(crate) stalls_max: u32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Policy,
    pub(crate) tags: Vec<Name>,
}

/// V of a job.
pub(crate) fn pack(job: &NewJob) -> Result<Bytes, Fault> {
    let inline = if job.payload.len() <= INLINE_MAX { &job.payload[..] } else { &[] };
    let mut packed = BytesMut::with_capacity(160 + inline.len());
    packed.put_u8(u8::try_from(job.kind.as_str().len()).expect("a name is at most 128 bytes long"));
    packed.put_slice(job.kind.as_str().as_bytes());
    packed.put_slice(inline);
    let has_stalls = job.stalls_max != STALLS_MAX_DEFAULT;
    let has_retry = job.retry != Policy::default();
    let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
    packed.put_u8(
        flag(has_stalls, STALLS)
            | flag(job.timeout.is_some(), TIMEOUT)
            | flag(has_retry, RETRY)
            | flag(!job.tags.is_empty(), TAGS),
    );
    if has_stalls {
        packed.put_u32(job.stalls_max);
    }
    if let Some(timeout) = job.timeout {
        packed.put_u64(whole_micros(timeout));
    }
    if has_retry {
        let text = serde_json::to_vec(&job.retry).map_err(|error| Fault::Defect(error.to_string()))?;
        packed.put_u16(u16::try_from(text.len()).expect("a policy is a few hundred bytes long"));
        packed.put_slice(&text);
    }
    if !job.tags.is_empty() {
        packed.put_u8(b',');
        for tag in &job.tags {
            packed.put_slice(tag.as_str().as_bytes());
            packed.put_u8(b',');
        }
    }
    Ok(packed.freeze())
}

impl Spec {
    /// What stands for what does not read.
    pub(super) fn unreadable(kind: Name) -> Self {
        let (stalls_max, retry) = (STALLS_MAX_DEFAULT, Policy::default());
        Self { kind, payload: None, stalls_max, timeout: None, retry, tags: Vec::new() }
    }

    /// Reads all of V, and tells what is wrong with it.
    pub(super) fn read(
        mut from: Reader,
        payload_length: usize,
        kinds: &[Name],
    ) -> (Self, Result<(), &'static str>) {
        let length = from.u8().unwrap_or_default();
        let Some(kind) = from.name(length.into(), kinds) else {
            return (Self::unreadable(Name::unreadable()), Err("its kind does not read"));
        };
        let mut spec = Self::unreadable(kind);
        let read = spec.read_rest(&mut from, payload_length);
        (spec, read)
    }

    fn read_rest(&mut self, from: &mut Reader, payload_length: usize) -> Result<(), &'static str> {
        const SHORT: &str = "what was handed in is cut short";
        if payload_length <= INLINE_MAX {
            self.payload = Some(from.take(payload_length).ok_or(SHORT)?);
        }
        let flags = from.u8().ok_or(SHORT)?;
        if flags & !(STALLS | TIMEOUT | RETRY | TAGS) != 0 {
            return Err("it has parts that its form does not have");
        }
        if flags & STALLS != 0 {
            self.stalls_max = from.u32().ok_or(SHORT)?;
        }
        if flags & TIMEOUT != 0 {
            self.timeout = Some(Duration::from_micros(from.u64().ok_or(SHORT)?));
        }
        if flags & RETRY != 0 {
            let length = from.u16().ok_or(SHORT)?;
            let text = from.take(length.into()).ok_or(SHORT)?;
            self.retry = serde_json::from_slice(&text).map_err(|_| "its retry policy does not read")?;
        }
        if flags & TAGS != 0 {
            self.tags = names(&from.0).ok_or("its tags do not read")?;
        }
        Ok(())
    }
}

fn names(stored: &[u8]) -> Option<Vec<Name>> {
    let text = std::str::from_utf8(stored).ok()?;
    text.split(',').filter(|name| !name.is_empty()).map(|name| Name::new(name).ok()).collect()
}
