//! Takes integers, texts and names from the front of bytes, as long as there are enough.

use bytes::{Buf, Bytes};
use windlass_core::Name;
use windlass_core::clock::Timestamp;

/// What is left to be read. Integers are big-endian.
#[derive(Clone)]
pub(crate) struct Reader(pub(crate) Bytes);

impl Reader {
    pub(crate) fn take(&mut self, length: usize) -> Option<Bytes> {
        (length <= self.0.len()).then(|| self.0.split_to(length))
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = *self.0.first_chunk()?;
        self.0.advance(N);
        Some(array)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn time(&mut self) -> Option<Timestamp> {
        self.u64().and_then(|micros| i64::try_from(micros).ok()).map(Timestamp::from_micros)
    }

    /// A text after its length.
    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.text_bytes()?.into()).ok()
    }

    /// As [`text`](Self::text), for those who may not need it.
    pub(super) fn text_bytes(&mut self) -> Option<Bytes> {
        let length = self.u16()?;
        self.take(length.into()).filter(|text| std::str::from_utf8(text).is_ok())
    }

    /// A name, out of those that are known, in their order, if it is there.
    pub(crate) fn name(&mut self, length: usize, known: &[Name]) -> Option<Name> {
        let text = self.0.get(..length)?;
        let name = match known.binary_search_by(|name| name.as_str().as_bytes().cmp(text)) {
            Ok(place) => known[place].clone(),
            Err(_) => Name::new(std::str::from_utf8(text).ok()?).ok()?,
        };
        self.0.advance(length);
        Some(name)
    }
}
