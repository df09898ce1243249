//! Content: what was handed in of a job and never changes, as a part of its record.
//!
//! Kind with its length (u8); the payload, if it is at most [`INLINE_MAX`] bytes; a byte that says what of the rest is
//! there: 1 the options that no store decides by, as a text with its length (u16); 2 tags, each with a comma after it and
//! one before all, so that a script finds one without reading them. A job with defaults has neither. Keys, of which its record
//! says whether there are any, are at the end: the one that it takes turns by, then the length of that (u8), and its unique
//! key ([`UNIQUE`]).

use bytes::{BufMut, Bytes, BytesMut};
use std::time::Duration;

use windlass_core::job::{NewJob, Spec, Unreadable};
use windlass_core::unique::{Digest, Lifetime, UniqueKey};
use windlass_core::{Name, stored};

use super::{INLINE_MAX, Reader, broken};
use crate::error::Fault;
use crate::format::UNIQUE;

const SPEC: u8 = 1;
const TAGS: u8 = 2;

/// What was handed in of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Content {
    pub(crate) kind: Name,
    /// Nothing where it stands apart.
    pub(crate) payload: Option<Bytes>,
    pub(crate) spec: Spec,
    pub(crate) tags: Vec<Name>,
    pub(crate) key: Option<Name>,
    pub(crate) unique: Option<UniqueKey>,
}

/// Which keys a job has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Keys {
    pub(super) unique: bool,
    /// One that it takes turns by.
    pub(super) gate: bool,
}

/// The content of a job.
pub(crate) fn pack(job: &NewJob) -> Result<Bytes, Fault> {
    let inline = if job.payload.len() <= INLINE_MAX { &job.payload[..] } else { &[] };
    let mut packed = BytesMut::with_capacity(160 + inline.len());
    packed.put_u8(u8::try_from(job.kind.as_str().len()).expect("a name is at most 128 bytes long"));
    packed.put_slice(job.kind.as_str().as_bytes());
    packed.put_slice(inline);
    let spec = job.spec.text();
    let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
    packed.put_u8(flag(spec.is_some(), SPEC) | flag(!job.tags.is_empty(), TAGS));
    if let Some(spec) = spec {
        let length =
            u16::try_from(spec.len()).map_err(|_| Fault::Defect("options are too long".to_owned()))?;
        packed.put_u16(length);
        packed.put_slice(spec.as_bytes());
    }
    if !job.tags.is_empty() {
        packed.put_u8(b',');
        for tag in &job.tags {
            packed.put_slice(tag.as_str().as_bytes());
            packed.put_u8(b',');
        }
    }
    if let Some(key) = &job.key {
        packed.put_slice(key.as_str().as_bytes());
        packed.put_u8(u8::try_from(key.as_str().len()).expect("a name is at most 128 bytes long"));
    }
    if let Some(key) = &job.unique {
        put_key(&mut packed, key)?;
    }
    Ok(packed.freeze())
}

fn put_key(packed: &mut BytesMut, key: &UniqueKey) -> Result<(), Fault> {
    let micros = |span: Duration| stored::micros(span).max(1).unsigned_abs();
    let (lifetime, micros) = match key.lifetime {
        Lifetime::Start => (b's', 0),
        Lifetime::End => (b'e', 0),
        Lifetime::Window(span) => (b'w', micros(span)),
        Lifetime::Slot(span) => (b'l', micros(span)),
        _ => return Err(Fault::Defect("a unique key has a lifetime without a letter".to_owned())),
    };
    packed.put_slice(&key.digest.0);
    packed.put_u8(lifetime);
    packed.put_u64(micros);
    Ok(())
}

fn read_key(mut from: Reader) -> Option<UniqueKey> {
    let (digest, lifetime) = (Digest(from.array()?), from.u8()?);
    let span = Duration::from_micros(from.u64()?);
    let lifetime = match lifetime {
        b's' => Lifetime::Start,
        b'e' => Lifetime::End,
        b'w' => Lifetime::Window(span),
        b'l' => Lifetime::Slot(span),
        _ => return None,
    };
    Some(UniqueKey { digest, lifetime })
}

/// The digest of the unique key of a job that has one, by its content.
pub(crate) fn digest_of(content: &[u8]) -> Option<&[u8]> {
    let (_, key) = content.split_at_checked(content.len().checked_sub(UNIQUE.width())?)?;
    key.get(..UNIQUE.before("lifetime"))
}

/// Whether the key of a job that has one is held for a time, by its content.
pub(crate) fn is_timed(content: &[u8]) -> bool {
    let lifetime = (content.len() + UNIQUE.before("lifetime")).checked_sub(UNIQUE.width());
    matches!(lifetime.and_then(|at| content.get(at)), Some(b'w' | b'l'))
}

impl Content {
    /// What stands for what does not read.
    pub(super) fn unreadable(kind: Name) -> Self {
        Self { kind, payload: None, spec: Spec::default(), tags: Vec::new(), key: None, unique: None }
    }

    /// Reads all of it, and tells what is wrong with it.
    pub(super) fn read(
        mut from: Reader,
        payload_length: usize,
        keys: Keys,
        kinds: &[Name],
    ) -> (Self, Result<(), Unreadable>) {
        let length = from.u8().unwrap_or_default();
        let Some(kind) = from.name(length.into(), kinds) else {
            return (Self::unreadable(Name::unreadable()), Err(broken("its kind does not read")));
        };
        let mut content = Self::unreadable(kind);
        let read = content.read_keys(&mut from, keys);
        let read = read.and_then(|()| content.read_rest(&mut from, payload_length));
        (content, read)
    }

    /// Reads the keys at the end, and takes them off.
    fn read_keys(&mut self, from: &mut Reader, keys: Keys) -> Result<(), Unreadable> {
        if keys.unique {
            self.read_unique(from)?;
        }
        if keys.gate {
            self.key = gate(from);
            if self.key.is_none() {
                return Err(broken("its key does not read"));
            }
        }
        Ok(())
    }

    fn read_unique(&mut self, from: &mut Reader) -> Result<(), Unreadable> {
        let before = from.0.len().checked_sub(UNIQUE.width());
        self.unique = before.and_then(|before| read_key(Reader(from.0.split_off(before))));
        self.unique.map(drop).ok_or_else(|| broken("its unique key does not read"))
    }

    fn read_rest(&mut self, from: &mut Reader, payload_length: usize) -> Result<(), Unreadable> {
        let short = || broken("what was handed in is cut short");
        if payload_length <= INLINE_MAX {
            self.payload = Some(from.take(payload_length).ok_or_else(short)?);
        }
        let flags = from.u8().ok_or_else(short)?;
        if flags & !(SPEC | TAGS) != 0 {
            return Err(broken("it has parts that its form does not have"));
        }
        if flags & SPEC != 0 {
            let text = from.text_bytes().ok_or_else(short)?;
            let text = std::str::from_utf8(&text).map_err(|_| broken("its options are not a text"))?;
            self.spec = Spec::read(Some(text))?;
        }
        if flags & TAGS != 0 {
            self.tags = names(&from.0).ok_or_else(|| broken("its tags do not read"))?;
        }
        Ok(())
    }
}

/// Takes the key that a job takes turns by off the end.
fn gate(from: &mut Reader) -> Option<Name> {
    let length = from.0.last().copied()?;
    let before = from.0.len().checked_sub(usize::from(length) + 1)?;
    Reader(from.0.split_off(before)).name(length.into(), &[])
}

fn names(stored: &[u8]) -> Option<Vec<Name>> {
    let text = std::str::from_utf8(stored).ok()?;
    text.split(',').filter(|name| !name.is_empty()).map(|name| Name::new(name).ok()).collect()
}
