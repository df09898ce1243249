//! A transfer, as it is kept and as it is read.

use bytes::{BufMut, Bytes, BytesMut};
use windlass_core::Name;

use crate::error::Fault;
use crate::jobs::packed::Packed;
use crate::row::Reader;

/// A transfer to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) target: Name,
    pub(crate) content: Content,
}

/// What a transfer asks its target for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// To store jobs that were accepted with others.
    Enqueue {
        jobs: Packed,
        /// How far each is from the first place that the transfer's sender was given (u32 each).
        offsets: Bytes,
    },
}

/// The first byte of a transfer's content. They are stored and never change their meaning.
const ENQUEUE: u8 = b'e';

impl Transfer {
    /// Jobs that have these places in the call that accepted them.
    pub(crate) fn enqueue(target: &Name, jobs: Packed, places: &[usize]) -> Self {
        let mut offsets = BytesMut::with_capacity(4 * places.len());
        for place in places {
            offsets.put_u32(u32::try_from(*place).expect("a call has fewer jobs than that"));
        }
        let content = Content::Enqueue { jobs, offsets: offsets.freeze() };
        Self { target: target.clone(), content }
    }

    /// Whether any of its jobs has a unique key.
    pub(super) fn has_keys(&self) -> bool {
        let Content::Enqueue { jobs, .. } = &self.content;
        jobs.has_keys()
    }

    /// The content as it is kept.
    pub(super) fn encode(&self) -> Bytes {
        let Content::Enqueue { jobs, offsets } = &self.content;
        let jobs = jobs.encode();
        let mut encoded = BytesMut::with_capacity(5 + offsets.len() + jobs.len());
        encoded.put_u8(ENQUEUE);
        encoded.put_u32(u32::try_from(offsets.len()).expect("a transfer carries few jobs"));
        encoded.put_slice(offsets);
        encoded.put_slice(&jobs);
        encoded.freeze()
    }

    /// Reads what [`encode`](Self::encode) made.
    pub(super) fn decode(target: Name, content: Bytes) -> Result<Self, Fault> {
        let mut from = Reader(content);
        let mut read = || {
            let (form, length) = (from.u8()?, from.u32()?);
            let offsets = from.take(length as usize)?;
            (form == ENQUEUE).then_some(offsets)
        };
        let offsets = read();
        let offsets = offsets.ok_or_else(|| Fault::Corrupt("a transfer does not read back".to_owned()))?;
        let jobs = Packed::decode(from.0)?;
        if offsets.len() != 4 * jobs.len() {
            return Err(Fault::Corrupt("a transfer's jobs have no places".to_owned()));
        }
        Ok(Self { target, content: Content::Enqueue { jobs, offsets } })
    }
}

/// A transfer that waits in a stream.
#[derive(Debug, Clone)]
pub(super) struct Posted {
    pub(super) number: u64,
    pub(super) transfer: Transfer,
    /// The name under which its content is kept, empty if it stands in the stream.
    pub(super) name: Bytes,
    /// Its first place in the order of acceptance, and when it was accepted, as scripts are told them.
    pub(super) seq: Bytes,
    pub(super) at: Bytes,
}

#[cfg(test)]
mod tests {
    use windlass_core::{NewJob, Options};

    use super::*;

    #[test]
    fn a_transfer_reads_back_and_no_part_of_it_does() {
        let jobs =
            [NewJob::new("k", "p", Options::new()).unwrap(), NewJob::new("k", "", Options::new()).unwrap()];
        let target = Name::new("q").unwrap();
        let transfer = Transfer::enqueue(&target, Packed::of(jobs.iter(), 9).unwrap(), &[3, 70_000]);
        let encoded = transfer.encode();
        assert_eq!(Transfer::decode(target.clone(), encoded.clone()).unwrap(), transfer);
        for length in 0..encoded.len() {
            assert!(Transfer::decode(target.clone(), encoded.slice(..length)).is_err(), "{length} bytes");
        }
    }
}
