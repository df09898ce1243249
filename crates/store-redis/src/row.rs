//! The record of a job: bytes to types and back. What does not read harms nobody else: a row says so, with as much as
//! could be read of it.
//!
//! Scripts answer in the long form, [`format::RECORD`], whose fields are read here in their order, with any first byte that
//! a job with a key has; a job that was never claimed is stored in a shorter one, which only they see, and a claim answers with most of its jobs in that of a first
//! attempt, [`format::FIRST`] ([`Row::read_first`]).
//!
//! The first byte says the form. What a program adds to records, older ones must not misread: it takes another form.

pub(crate) mod attempt;
pub(crate) mod content;
mod reader;

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use windlass_core::clock::Timestamp;
use windlass_core::job::{ClaimedJob, Counters, Facts, JobRecord, LastClaim, LostJob, Unreadable};
use windlass_core::outcome::Reason;
use windlass_core::size::Caps;
use windlass_core::{Fence, JobId, LeaseId, Name, State, stored};

use crate::format::{
    self, BRIEF, BRIEF_BEGUN, BRIEF_END, BRIEF_SORT, BRIEF_UNCOUNTED, FIRST_ATTEMPT, FIRST_BEGUN, GATED,
    GATED_END, GATED_OFFSET, KEYED, KEYED_END, KEYED_OFFSET, LATER_FORMS,
};
use content::{Content, Keys};
pub(crate) use format::INLINE_MAX;
pub(crate) use reader::Reader;

/// As many microseconds as Lua counts exactly; what is later is never.
const NEVER_MICROS: u64 = 1 << 53;

/// The flag of a job with a unique key, and that of one with a key that it takes turns by.
const UNIQUE: u8 = 8;
const GATE: u8 = 16;

/// All flags that there are. The highest one says that the key of a running job does not count it, which only scripts heed.
const FLAGS_MAX: u8 = 63;

/// A job as its record has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) state: State,
    pub(crate) cancel_requested: bool,
    pub(crate) has_begun: bool,
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
    pub(crate) content: Content,
    /// The newest claim, also after it has ended.
    pub(crate) claim: Option<Claim>,
    /// Why it does not read, if so; then the rest is what could be read of it.
    pub(crate) unreadable: Option<Unreadable>,
}

/// What the form of a first attempt says.
struct First {
    has_begun: bool,
    keys: Keys,
}

impl First {
    /// Nothing if it is another form.
    fn of(form: u8) -> Option<Self> {
        match form {
            FIRST_ATTEMPT | FIRST_BEGUN => {
                Some(Self { has_begun: form == FIRST_BEGUN, keys: Keys::default() })
            }
            BRIEF..=BRIEF_END if form % BRIEF_SORT == State::Running.code() => {
                let form = (form - BRIEF) % BRIEF_UNCOUNTED;
                let sort = form % BRIEF_BEGUN / BRIEF_SORT;
                Some(Self {
                    has_begun: form >= BRIEF_BEGUN,
                    keys: Keys { unique: sort > 0, gate: sort != 1 },
                })
            }
            _ => None,
        }
    }
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
    /// All but the label, which stands elsewhere.
    fn begin(from: &mut Reader) -> Option<Self> {
        let (nonce, lease) = (from.u64()?, LeaseId::from_bytes(from.array()?));
        Some(Self { nonce, lease, at: from.time()?, worker: Bytes::new() })
    }

    fn worker(&self) -> String {
        String::from_utf8_lossy(&self.worker).into_owned()
    }
}

impl Row {
    /// Reads a record.
    pub(crate) fn unpack(record: Bytes) -> Self {
        Self::unpack_known(record, &[])
    }

    /// As [`unpack`](Self::unpack), of a job whose kind is probably one of these, which are in their order: a name that is there
    /// need not be made.
    pub(crate) fn unpack_known(record: Bytes, kinds: &[Name]) -> Self {
        let form = record.first().copied().unwrap_or_default();
        let row = match (First::of(form), form) {
            (Some(first), _) => Self::read_first(Reader(record), first, kinds),
            (None, b'0'..=b'6') => Self::read(Reader(record), form, kinds),
            (None, KEYED..=KEYED_END) => Self::read(Reader(record), form - KEYED_OFFSET, kinds),
            (None, GATED..=GATED_END) => Self::read(Reader(record), form - GATED_OFFSET, kinds),
            (None, 0) => None,
            _ => return Self::strange(form, Unreadable::Newer { form: form.into() }),
        };
        row.unwrap_or_else(|| Self::strange(form, broken("its record is cut short")))
    }

    /// Nothing can be read of it but, in later forms, the state.
    fn strange(form: u8, unreadable: Unreadable) -> Self {
        let code = match form {
            LATER_FORMS.. => form % 8,
            form => form.wrapping_sub(b'0'),
        };
        Self {
            state: State::from_code(code.into()).unwrap_or(State::Blocked),
            cancel_requested: false,
            has_begun: false,
            reason: None,
            counters: Counters::default(),
            fence: 0,
            due_at: Timestamp::from_micros(0),
            seq: 0,
            priority: 0,
            expires_at: None,
            enqueued_at: Timestamp::from_micros(0),
            finished_at: None,
            payload_length: 0,
            content: Content::unreadable(Name::unreadable()),
            claim: None,
            unreadable: Some(unreadable),
        }
    }

    /// Reads a long record of a job whose state is this digit.
    fn read(mut from: Reader, state: u8, kinds: &[Name]) -> Option<Self> {
        let mut unreadable = None;
        let (_form, state) = (from.u8()?, State::from_code(i64::from(state.checked_sub(b'0')?))?);
        let flags = from.u8()?.wrapping_sub(b'0');
        if flags > FLAGS_MAX {
            unreadable = Some(broken("it has flags that its form does not have"));
        }
        let reason = match from.u8()? {
            b'-' => None,
            code => {
                let known = Reason::ALL.into_iter().find(|reason| reason_code(*reason) == code);
                let wrong = || broken("it ended for a reason that its form does not have");
                unreadable = unreadable.or_else(|| known.is_none().then(wrong));
                known
            }
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
        let mut row = Self {
            state,
            cancel_requested: flags & 1 != 0,
            has_begun: flags & 2 != 0 && state == State::Running,
            reason,
            counters,
            fence,
            due_at,
            seq,
            priority,
            expires_at,
            enqueued_at,
            finished_at,
            payload_length: 0,
            content: Content::unreadable(Name::unreadable()),
            claim: None,
            unreadable,
        };
        row.read_content(&mut from, Keys { unique: flags & UNIQUE != 0, gate: flags & GATE != 0 }, kinds)?;
        if fence > 0 {
            row.claim = Claim::begin(&mut from);
            row.read_label(&mut from);
        }
        Some(row)
    }

    /// Reads the record of a job that was claimed for the first time: what the claim says before what was there.
    fn read_first(mut from: Reader, first: First, kinds: &[Name]) -> Option<Self> {
        let First { has_begun, keys } = first;
        let _form = from.u8()?;
        let claim = Claim::begin(&mut from)?;
        let (due_at, seq, priority) = (from.time()?, from.u64()?, from.u16()?.cast_signed());
        let mut row = Self {
            state: State::Running,
            cancel_requested: false,
            has_begun,
            reason: None,
            counters: Counters { attempt: 1, stalls: 0, ambiguous: 0, backoff: Duration::ZERO },
            fence: 1,
            due_at,
            seq,
            priority,
            expires_at: None,
            enqueued_at: due_at,
            finished_at: None,
            payload_length: 0,
            content: Content::unreadable(Name::unreadable()),
            claim: Some(claim),
            unreadable: None,
        };
        row.read_content(&mut from, keys, kinds)?;
        row.read_label(&mut from);
        Some(row)
    }

    /// Reads the content after the lengths before it; nothing if these are not there.
    fn read_content(&mut self, from: &mut Reader, keys: Keys, kinds: &[Name]) -> Option<()> {
        let (payload_length, length, _block) = (from.u32()? as usize, from.u32()? as usize, from.u32()?);
        self.payload_length = payload_length;
        let read = match from.take(length) {
            Some(content) => {
                let (content, read) = Content::read(Reader(content), payload_length, keys, kinds);
                self.content = content;
                read
            }
            None => Err(broken("its record is cut short")),
        };
        if let Err(wrong) = read {
            self.unreadable.get_or_insert(wrong);
        }
        Some(())
    }

    /// Reads the label at the end of a record that was claimed.
    fn read_label(&mut self, from: &mut Reader) {
        let label = from.text_bytes();
        match (&mut self.claim, label) {
            (Some(claim), Some(label)) => claim.worker = label,
            _ => {
                self.unreadable.get_or_insert(broken("its claim does not read"));
            }
        }
    }

    /// The payload: from the record, or given because it stands apart. If it is neither, the job does not read.
    fn payload(&mut self, apart: Option<Bytes>) -> Bytes {
        let payload =
            self.content.payload.take().or(apart).filter(|payload| payload.len() == self.payload_length);
        if payload.is_none() {
            self.unreadable.get_or_insert(broken("its payload is not there"));
        }
        payload.unwrap_or_default()
    }

    /// What anyone can look at, without attempts and with what stands apart, and who took it last.
    pub(crate) fn record(mut self, id: JobId, queue: &Name, apart: Apart) -> (JobRecord, Option<LastClaim>) {
        let payload = self.payload(apart.payload);
        let last = self.claim.map(|claim| LastClaim { worker: claim.worker(), at: claim.at });
        let record = JobRecord {
            id,
            queue: queue.clone(),
            kind: self.content.kind,
            state: self.state,
            reason: self.reason,
            payload,
            output: apart.output,
            progress: apart.progress,
            priority: self.priority,
            key: self.content.key,
            unique: self.content.unique,
            counters: self.counters,
            spec: self.content.spec,
            tags: self.content.tags,
            fence: self.fence,
            cancel_requested: self.cancel_requested,
            has_begun: self.has_begun,
            unreadable: self.unreadable,
            enqueued_at: self.enqueued_at,
            due_at: self.due_at,
            expires_at: self.expires_at,
            finished_at: self.finished_at,
            attempts: Vec::new(),
        };
        (record, last)
    }

    /// What a worker gets; of a job that does not read, what it is settled by, if its fence reads.
    pub(crate) fn claimed(
        mut self,
        id: JobId,
        queue: &Name,
        payload: Option<Bytes>,
        caps: Caps,
    ) -> Result<ClaimedJob, Option<Box<LostJob>>> {
        let payload = self.payload(payload);
        if self.unreadable.is_some() {
            return Err(self.lost(id, queue).map(Box::new));
        }
        let Some(claim) = self.claim else { return Err(None) };
        Ok(ClaimedJob {
            id,
            queue: queue.clone(),
            kind: self.content.kind,
            payload,
            priority: self.priority,
            key: self.content.key,
            fence: Fence { number: self.fence, nonce: claim.nonce },
            facts: Facts { counters: self.counters, spec: self.content.spec },
            caps,
            tags: self.content.tags,
            enqueued_at: self.enqueued_at,
            due_at: self.due_at,
            claimed_at: claim.at,
        })
    }

    /// What a reaper gets; nothing of one whose fence does not read.
    pub(crate) fn lost(self, id: JobId, queue: &Name) -> Option<LostJob> {
        let claim = self.claim?;
        Some(LostJob {
            id,
            fence: Fence { number: self.fence, nonce: claim.nonce },
            facts: Facts { counters: self.counters, spec: self.content.spec },
            queue: queue.clone(),
            kind: self.content.kind,
            worker: claim.worker(),
            has_begun: self.has_begun,
            unreadable: self.unreadable,
        })
    }
}

fn broken(why: &str) -> Unreadable {
    Unreadable::Broken(why.to_owned())
}

/// What is kept of a job beside its record.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    pub(crate) payload: Option<Bytes>,
    pub(crate) output: Option<Bytes>,
    pub(crate) progress: Option<Bytes>,
}

/// What the record of a job that is not asked to stop begins with: state, flags, reason and counters.
pub(crate) fn put_start(to: &mut impl BufMut, state: State, reason: Option<Reason>, counters: &Counters) {
    to.put_slice(&[b'0' + state.code(), b'0', reason.map_or(b'-', reason_code)]);
    to.put_u32(counters.attempt);
    to.put_u32(counters.stalls);
    to.put_u32(counters.ambiguous);
    to.put_u64(stored::micros(counters.backoff).unsigned_abs());
}

/// A fence as scripts compare it.
pub(crate) fn put_fence(to: &mut impl BufMut, fence: Fence) {
    to.put_u64(fence.number);
    to.put_u64(fence.nonce);
}

/// A fence by itself.
pub(crate) fn fence(fence: Fence) -> Bytes {
    let mut packed = BytesMut::with_capacity(format::FENCE.width());
    put_fence(&mut packed, fence);
    packed.freeze()
}

/// How long the payload of a claimed job is, without reading the rest; 0 if this is no record.
pub(crate) fn payload_length(record: &[u8]) -> usize {
    let at = if record.first().is_some_and(|form| First::of(*form).is_some()) {
        const { format::FIRST.before("payload") }
    } else {
        const { format::RECORD.before("payload") }
    };
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
        Reason::Unreadable => b'u',
        _ => b'?',
    }
}

/// A span as scripts count with it: whole micros, rounded up, at most as many as are never.
pub(crate) fn micros(span: Duration) -> u64 {
    stored::micros(span).unsigned_abs().min(NEVER_MICROS)
}

/// An instant as scripts count with it.
pub(crate) fn instant_micros(time: Timestamp) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(0).min(NEVER_MICROS)
}

#[cfg(test)]
mod tests;
