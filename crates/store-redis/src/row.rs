//! The record of a job: bytes to types and back. Whatever does not fit is [`Fault::Corrupt`]: records are written here
//! and by our scripts only.
//!
//! This is the long form, in which scripts answer; a job that was never claimed is stored in a shorter one, which only
//! they see, and a claim answers with most of its jobs in that of a first attempt ([`Row::read_first`]). All integers are
//! big-endian. Places count from 1, as in `scripts/shared/record.lua`, which splices the same bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 1, 2, 3 | state as a digit; `1` if asked to stop, else `0`; the reason as a letter, `-` for none |
//! | 4-23 | counters: attempt, stalls, ambiguous (u32 each), backoff in micros (u64) |
//! | 24-31 | fence number |
//! | 32-39, 40-47 | due instant; place in the order of acceptance |
//! | 48-49 | priority (i16) |
//! | 50-57, 58-65, 66-73 | expiry (0 for none), enqueued, finished (0 if it is not) |
//! | 74-77, 78-81, 82-85 | payload length, length of V, number of its block (u32 each) |
//! | 86- | V, see [`spec`] |
//! | then | B, once it was claimed: nonce (u64), lease (16), claimed (u64), length of label (u16), label |

pub(crate) mod attempt;
pub(crate) mod spec;

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use windlass_core::clock::Timestamp;
use windlass_core::job::{ClaimedJob, Counters, Facts, JobRecord, LastClaim, LostJob};
use windlass_core::outcome::Reason;
use windlass_core::size::Caps;
use windlass_core::{Fence, JobId, LeaseId, Name, State};

use crate::error::Fault;
use spec::Spec;

/// A payload that is longer stands apart from its record.
pub(crate) const INLINE_MAX: usize = 1024;

/// What the record of a job begins with that runs for the first time, and has nothing that stands apart and no expiry.
const FIRST_ATTEMPT: u8 = b'a';

/// As many microseconds as Lua counts exactly; what is later is never.
const NEVER_MICROS: u64 = 1 << 53;

/// A job as its record has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) state: State,
    pub(crate) cancel_requested: bool,
    pub(crate) reason: Option<Reason>,
    pub(crate) counters: Counters,
    pub(crate) fence: u64,
    pub(crate) due_at: Timestamp,
    pub(crate) seq: u64,
    pub(crate) priority: i16,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) enqueued_at: Timestamp,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) payload_length: usize,
    pub(crate) spec: Spec,
    /// The newest claim, also after it has ended.
    pub(crate) claim: Option<Claim>,
}

/// Who took a job last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) nonce: u64,
    pub(crate) lease: LeaseId,
    pub(crate) at: Timestamp,
    /// A text; few who read a record want to know it.
    worker: Bytes,
}

impl Claim {
    fn worker(&self) -> String {
        String::from_utf8_lossy(&self.worker).into_owned()
    }
}

impl Row {
    /// Reads a record.
    pub(crate) fn unpack(record: Bytes) -> Result<Self, Fault> {
        Self::unpack_known(record, &[])
    }

    /// As [`unpack`](Self::unpack), of a job whose kind is probably one of these: a name that is there need not be made.
    pub(crate) fn unpack_known(record: Bytes, kinds: &[Name]) -> Result<Self, Fault> {
        let row = match record.first() {
            Some(&FIRST_ATTEMPT) => Self::read_first(Reader(record), kinds),
            _ => Self::read(Reader(record), kinds),
        };
        row.ok_or_else(|| Fault::Corrupt("a job's record does not read back".to_owned()))
    }

    fn read(mut from: Reader, kinds: &[Name]) -> Option<Self> {
        let state = State::from_code(i64::from(from.u8()?.checked_sub(b'0')?))?;
        let cancel_requested = from.u8()? == b'1';
        let reason = match from.u8()? {
            b'-' => None,
            code => Some(Reason::ALL.into_iter().find(|reason| reason_code(*reason) == code)?),
        };
        let counters = Counters {
            attempt: from.u32()?,
            stalls: from.u32()?,
            ambiguous: from.u32()?,
            backoff: Duration::from_micros(from.u64()?),
        };
        let (fence, due_at, seq) = (from.u64()?, from.time()?, from.u64()?);
        let priority = from.u16()?.cast_signed();
        let set = |time: Timestamp| (time.as_micros() != 0).then_some(time);
        let (expires_at, enqueued_at, finished_at) = (set(from.time()?), from.time()?, set(from.time()?));
        let (payload_length, length, _block) = (from.u32()? as usize, from.u32()? as usize, from.u32()?);
        let spec = Spec::read(Reader(from.take(length)?), payload_length, kinds)?;
        let claim = match fence {
            0 => None,
            _ => Some(Claim {
                nonce: from.u64()?,
                lease: LeaseId::from_bytes(from.array()?),
                at: from.time()?,
                worker: from.text_bytes()?,
            }),
        };
        Some(Self {
            state,
            cancel_requested,
            reason,
            counters,
            fence,
            due_at,
            seq,
            priority,
            expires_at,
            enqueued_at,
            finished_at,
            payload_length,
            spec,
            claim,
        })
    }

    /// Reads the record of a job that was just claimed for the first time: what the claim says before what was there.
    fn read_first(mut from: Reader, kinds: &[Name]) -> Option<Self> {
        from.u8()?;
        let nonce = from.u64()?;
        let lease = LeaseId::from_bytes(from.array()?);
        let at = from.time()?;
        let (due_at, seq, priority) = (from.time()?, from.u64()?, from.u16()?.cast_signed());
        let (payload_length, length, _block) = (from.u32()? as usize, from.u32()? as usize, from.u32()?);
        let spec = Spec::read(Reader(from.take(length)?), payload_length, kinds)?;
        Some(Self {
            state: State::Running,
            cancel_requested: false,
            reason: None,
            counters: Counters { attempt: 1, stalls: 0, ambiguous: 0, backoff: Duration::ZERO },
            fence: 1,
            due_at,
            seq,
            priority,
            expires_at: None,
            enqueued_at: due_at,
            finished_at: None,
            payload_length,
            spec,
            claim: Some(Claim { nonce, lease, at, worker: from.text_bytes()? }),
        })
    }

    /// The payload: from the record, or given because it stands apart.
    fn payload(&mut self, apart: Option<Bytes>) -> Result<Bytes, Fault> {
        let payload =
            self.spec.payload.take().or(apart).filter(|payload| payload.len() == self.payload_length);
        payload.ok_or_else(|| Fault::Corrupt("a job has lost its payload".to_owned()))
    }

    /// What anyone can look at, without attempts and with what stands apart, and who took it last.
    pub(crate) fn record(
        mut self,
        id: JobId,
        queue: &Name,
        apart: Apart,
    ) -> Result<(JobRecord, Option<LastClaim>), Fault> {
        let payload = self.payload(apart.payload)?;
        let last = self.claim.map(|claim| LastClaim { worker: claim.worker(), at: claim.at });
        let record = JobRecord {
            id,
            queue: queue.clone(),
            kind: self.spec.kind,
            state: self.state,
            reason: self.reason,
            payload,
            output: apart.output,
            progress: apart.progress,
            priority: self.priority,
            counters: self.counters,
            retry: self.spec.retry,
            timeout: self.spec.timeout,
            stalls_max: self.spec.stalls_max,
            tags: self.spec.tags,
            fence: self.fence,
            cancel_requested: self.cancel_requested,
            enqueued_at: self.enqueued_at,
            due_at: self.due_at,
            expires_at: self.expires_at,
            finished_at: self.finished_at,
            attempts: Vec::new(),
        };
        Ok((record, last))
    }

    /// What a worker gets.
    pub(crate) fn claimed(
        mut self,
        id: JobId,
        queue: &Name,
        payload: Option<Bytes>,
        caps: Caps,
    ) -> Result<ClaimedJob, Fault> {
        let payload = self.payload(payload)?;
        let (fence, claim) = self.running()?;
        Ok(ClaimedJob {
            id,
            queue: queue.clone(),
            kind: self.spec.kind,
            payload,
            priority: self.priority,
            fence,
            facts: Facts {
                counters: self.counters,
                retry: self.spec.retry,
                stalls_max: self.spec.stalls_max,
            },
            timeout: self.spec.timeout,
            caps,
            tags: self.spec.tags,
            enqueued_at: self.enqueued_at,
            due_at: self.due_at,
            claimed_at: claim.at,
        })
    }

    /// What a reaper gets.
    pub(crate) fn lost(mut self, id: JobId, queue: &Name) -> Result<LostJob, Fault> {
        let (fence, claim) = self.running()?;
        Ok(LostJob {
            id,
            fence,
            facts: Facts {
                counters: self.counters,
                retry: self.spec.retry,
                stalls_max: self.spec.stalls_max,
            },
            queue: queue.clone(),
            kind: self.spec.kind,
            worker: claim.worker(),
        })
    }

    fn running(&mut self) -> Result<(Fence, Claim), Fault> {
        let claim = self.claim.take();
        let claim = claim.ok_or_else(|| Fault::Corrupt("a running job was never claimed".to_owned()))?;
        Ok((Fence { number: self.fence, nonce: claim.nonce }, claim))
    }
}

/// What is kept of a job beside its record.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    pub(crate) payload: Option<Bytes>,
    pub(crate) output: Option<Bytes>,
    pub(crate) progress: Option<Bytes>,
}

/// The first 23 bytes of a record that is not asked to stop.
pub(crate) fn put_start(to: &mut impl BufMut, state: State, reason: Option<Reason>, counters: &Counters) {
    to.put_slice(&[b'0' + state.code(), b'0', reason.map_or(b'-', reason_code)]);
    to.put_u32(counters.attempt);
    to.put_u32(counters.stalls);
    to.put_u32(counters.ambiguous);
    to.put_u64(whole_micros(counters.backoff));
}

/// A fence as scripts compare it: 16 bytes.
pub(crate) fn put_fence(to: &mut impl BufMut, fence: Fence) {
    to.put_u64(fence.number);
    to.put_u64(fence.nonce);
}

/// A fence by itself.
pub(crate) fn fence(fence: Fence) -> Bytes {
    let mut packed = BytesMut::with_capacity(16);
    put_fence(&mut packed, fence);
    packed.freeze()
}

/// How long the payload of a claimed job is, without reading the rest; 0 if this is no record.
pub(crate) fn payload_length(record: &[u8]) -> usize {
    let at = if record.first() == Some(&FIRST_ATTEMPT) { 51 } else { 73 };
    let length = record.get(at..).and_then(|rest| rest.first_chunk());
    length.map_or(0, |length| u32::from_be_bytes(*length) as usize)
}

/// The letter of a reason. They are stored and never change their meaning.
const fn reason_code(reason: Reason) -> u8 {
    match reason {
        Reason::AttemptsExhausted => b'a',
        Reason::Permanent => b'p',
        Reason::Ambiguous => b'm',
        Reason::Stalled => b's',
        Reason::Expired => b'e',
        Reason::Requested => b'r',
        Reason::Discarded => b'd',
        _ => b'?',
    }
}

/// A span as scripts count with it: whole micros, rounded up, at most as many as are never.
pub(crate) fn micros(span: Duration) -> u64 {
    whole_micros(span).min(NEVER_MICROS)
}

/// An instant as scripts count with it.
pub(crate) fn instant_micros(time: Timestamp) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(0).min(NEVER_MICROS)
}

/// Whole microseconds, rounded up; see [`windlass_core::clock::whole_micros`].
fn whole_micros(span: Duration) -> u64 {
    Timestamp::from_micros(0).plus(span).as_micros().unsigned_abs()
}

/// Takes bytes from the front, as long as there are enough.
pub(crate) struct Reader(pub(crate) Bytes);

impl Reader {
    pub(crate) fn take(&mut self, length: usize) -> Option<Bytes> {
        (length <= self.0.len()).then(|| self.0.split_to(length))
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
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
    fn text_bytes(&mut self) -> Option<Bytes> {
        let length = self.u16()?;
        self.take(length.into()).filter(|text| std::str::from_utf8(text).is_ok())
    }

    /// A name, out of those that are known if it is there.
    pub(crate) fn name(&mut self, length: usize, known: &[Name]) -> Option<Name> {
        let text = self.0.get(..length)?;
        let name = match known.iter().find(|name| name.as_str().as_bytes() == text) {
            Some(name) => name.clone(),
            None => Name::new(std::str::from_utf8(text).ok()?).ok()?,
        };
        self.0.advance(length);
        Some(name)
    }
}

#[cfg(test)]
mod tests;
