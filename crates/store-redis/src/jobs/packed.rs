//! Jobs on their way into a queue, as `scripts/shared/packed.lua` takes them, and as transfers carry them.

use bytes::{BufMut, Bytes, BytesMut};
use redis::Cmd;
use windlass_core::job::NewJob;
use windlass_core::options::Due;
use windlass_core::unique::OnConflict;

use crate::agenda::Needs;
use crate::error::Fault;
use crate::format::{CONFLICT, HEAD};
use crate::keys::QueueKeys;
use crate::row::{self, INLINE_MAX, Reader, content};

/// The form in which transfers carry jobs, and that of transfers with a job that has a unique key: a program that would not
/// know it leaves them to others.
const FORMAT: u8 = 1;
const KEYED_FORMAT: u8 = 2;
/// That of transfers with a job that has a key which it takes turns by, and that of transfers with one that is held.
const GATED_FORMAT: u8 = 3;
const HELD_FORMAT: u8 = 4;

/// How a head says that jobs are due now, and that they are held.
const NOW: u8 = b'n';
const HELD: u8 = b'h';

/// What comes before the key that jobs take turns by, in a head ([`GATE`](crate::format::GATE)).
const GATE_MARK: u8 = b'g';

/// The most bytes that a script is given to keep. A server takes ten times as long for what passes through a script,
/// because it makes a string of Lua from it: more is written by commands that go before it.
pub(crate) const GIVEN_MAX: usize = 256 << 10;

/// Whether payloads that stand apart are among the arguments of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bodies {
    Given,
    Withheld,
}

/// Where a head has the payload's length.
const PAYLOAD_LENGTH: std::ops::Range<usize> = HEAD.before("payload")..HEAD.before("length");

/// Some jobs of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Packed {
    pub(crate) ids: Vec<Bytes>,
    heads: Vec<Bytes>,
    contents: Vec<Bytes>,
    /// Payloads that stand apart.
    bodies: Vec<Bytes>,
}

impl Packed {
    /// Packs jobs, judged by the cap of their queue.
    pub(crate) fn of<'j>(jobs: impl Iterator<Item = &'j NewJob>, cap: usize) -> Result<Self, Fault> {
        let mut packed = Self::default();
        for job in jobs {
            let content = content::pack(job)?;
            let head = head(job, content.len(), cap);
            packed.ids.push(Bytes::copy_from_slice(job.id.as_bytes()));
            packed.heads.push(head);
            packed.contents.push(content);
            if job.payload.len() > INLINE_MAX {
                packed.bodies.push(job.payload.clone());
            }
        }
        Ok(packed)
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether any of them has to be looked at later: it is not due yet, or expires.
    pub(crate) fn has_instants(&self) -> bool {
        let is_later = |head: &Bytes| !matches!(due_form(head), Some(NOW | HELD));
        self.heads.iter().any(|head| is_later(head) || head.get(HEAD.before("expires")) != Some(&b'-'))
    }

    /// Whether any of them has a unique key.
    pub(crate) fn has_keys(&self) -> bool {
        self.heads.iter().any(is_keyed)
    }

    /// What maintenance has to look for where they are: instants of theirs, or the end of keys that are held for a time.
    pub(crate) fn needs(&self) -> Needs {
        Needs { promote: self.has_instants() || self.has_timed_keys(), prune: false }
    }

    /// Whether a unique key is held for a time.
    fn has_timed_keys(&self) -> bool {
        let mut keyed = self.heads.iter().zip(&self.contents).filter(|(head, _)| is_keyed(head));
        keyed.any(|(_, content)| content::is_timed(content))
    }

    /// Whether a script is given the payloads that stand apart, if it may do without.
    pub(crate) fn bodies_for_script(&self) -> Bodies {
        let bytes: usize = self.bodies.iter().map(Bytes::len).sum();
        if bytes > GIVEN_MAX && !self.has_id_twice() { Bodies::Withheld } else { Bodies::Given }
    }

    /// Whether an id may stand twice: see [`Plan`](super::enqueue).
    fn has_id_twice(&self) -> bool {
        self.has_keys() && has_alike(self.ids.iter().map(|id| &id[..]))
    }

    /// The same, or a unique key may.
    fn has_repeats(&self) -> bool {
        let keyed = self.heads.iter().zip(&self.contents).filter(|(head, _)| is_keyed(head));
        has_alike(keyed.filter_map(|(_, content)| content::digest_of(content))) || self.has_id_twice()
    }

    /// Commands that write the payloads that stand apart, but not over those that are there.
    pub(crate) fn writes(&self, keys: &QueueKeys) -> Vec<Cmd> {
        let is_apart = |head: &&Bytes| payload_length(head).is_some_and(|length| length > INLINE_MAX);
        let apart = self.ids.iter().zip(&self.heads).filter(|(_, head)| is_apart(head));
        let write = |((id, _), body): ((&Bytes, _), &Bytes)| {
            redis::cmd("HSETNX").arg(&keys.bodies()[..]).arg(&id[..]).arg(&body[..]).to_owned()
        };
        apart.zip(&self.bodies).map(write).collect()
    }

    /// The arguments that a script gets them as, after those of its own. A head that several jobs in a row have is sent
    /// once.
    pub(crate) fn push_to(&self, arguments: &mut Vec<Bytes>, bodies: Bodies) {
        let runs: Vec<_> = self.heads.chunk_by(|one, other| one == other).collect();
        arguments.reserve(3 + 2 * runs.len() + 2 * self.ids.len() + self.bodies.len());
        arguments.push(self.ids.len().to_string().into());
        arguments.push(runs.len().to_string().into());
        let letters =
            [(b'g', bodies == Bodies::Given), (b'r', self.has_repeats()), (b't', self.has_timed_keys())];
        let letters = letters.into_iter().filter(|(_, is_true)| *is_true).map(|(letter, _)| letter);
        arguments.push(letters.collect());
        for run in runs {
            arguments.push(run[0].clone());
            arguments.push(run.len().to_string().into());
        }
        for part in [&self.ids, &self.contents] {
            arguments.extend(part.iter().cloned());
        }
        if bodies == Bodies::Given {
            arguments.extend(self.bodies.iter().cloned());
        }
    }

    /// As a transfer carries them.
    pub(crate) fn encode(&self) -> Bytes {
        let (format, jobs, bodies) = self.parts();
        let mut encoded = BytesMut::with_capacity(5 + jobs.len() + bodies.len());
        encoded.put_u8(format);
        encoded.put_u32(u32::try_from(self.ids.len()).expect("a transfer carries few jobs"));
        encoded.put_slice(&jobs);
        encoded.put_slice(&bodies);
        encoded.freeze()
    }

    /// What a transfer of these and others is put together from: the form that it must have at least, the jobs, and payloads
    /// that stand apart.
    pub(crate) fn parts(&self) -> (u8, Bytes, Bytes) {
        let lengths = self.contents.iter().map(|part| part.len() + 4).sum::<usize>();
        let mut jobs = BytesMut::with_capacity(100 * self.ids.len() + lengths);
        for (place, id) in self.ids.iter().enumerate() {
            jobs.put_slice(id);
            for part in [&self.heads[place], &self.contents[place]] {
                put(&mut jobs, part);
            }
        }
        let mut bodies = BytesMut::with_capacity(self.bodies.iter().map(|body| body.len() + 4).sum());
        for body in &self.bodies {
            put(&mut bodies, body);
        }
        (self.format(), jobs.freeze(), bodies.freeze())
    }

    fn format(&self) -> u8 {
        let is_gated = |head: &Bytes| after_kind(head).is_some_and(|after| after.first() == Some(&GATE_MARK));
        if self.heads.iter().any(|head| due_form(head) == Some(HELD)) {
            HELD_FORMAT
        } else if self.heads.iter().any(is_gated) {
            GATED_FORMAT
        } else if self.has_keys() {
            KEYED_FORMAT
        } else {
            FORMAT
        }
    }

    /// What [`encode`](Self::encode) made.
    pub(crate) fn decode(encoded: Bytes) -> Result<Self, Fault> {
        Self::read(Reader(encoded)).ok_or_else(|| Fault::Corrupt("a transfer does not read back".to_owned()))
    }

    fn read(mut from: Reader) -> Option<Self> {
        let (format, count) = (from.u8()?, from.u32()?);
        let mut packed = Self::default();
        for _ in 0..count {
            packed.ids.push(from.take(16)?);
            packed.heads.push(part(&mut from)?);
            packed.contents.push(part(&mut from)?);
        }
        for head in &packed.heads {
            if payload_length(head)? > INLINE_MAX {
                packed.bodies.push(part(&mut from)?);
            }
        }
        ((FORMAT..=HELD_FORMAT).contains(&format) && from.0.is_empty()).then_some(packed)
    }
}

/// Whether two of these ids or digests end alike, in half of their bytes: as good as never by chance.
fn has_alike<'a>(all: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut ends: Vec<_> =
        all.filter_map(|one| one.last_chunk::<8>()).map(|end| u64::from_ne_bytes(*end)).collect();
    ends.sort_unstable();
    ends.windows(2).any(|pair| pair[0] == pair[1])
}

/// How a head says when its jobs are due.
fn due_form(head: &Bytes) -> Option<u8> {
    head.get(HEAD.before("due")).copied()
}

/// What a head has after the kind.
fn after_kind(head: &Bytes) -> Option<&[u8]> {
    let kind = head.get(HEAD.before("kind_length")).copied()?;
    head.get(HEAD.width() + usize::from(kind)..)
}

/// Whether jobs of a head have a unique key.
fn is_keyed(head: &Bytes) -> bool {
    match after_kind(head) {
        Some([GATE_MARK, length, rest @ ..]) => rest.len() > usize::from(*length),
        after => after.is_some_and(|after| !after.is_empty()),
    }
}

fn payload_length(head: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(head.get(PAYLOAD_LENGTH)?.try_into().ok()?);
    Some(length as usize)
}

fn put(encoded: &mut BytesMut, part: &[u8]) {
    encoded.put_u32(u32::try_from(part.len()).expect("a payload is within its cap"));
    encoded.put_slice(part);
}

fn part(from: &mut Reader) -> Option<Bytes> {
    let length = from.u32()?;
    from.take(length as usize)
}

/// What most jobs of a call have in common ([`HEAD`]), so that the script reads it once.
fn head(job: &NewJob, spec_length: usize, cap: usize) -> Bytes {
    // Behind it the kind, the key with its mark and length, and what happens at a conflict.
    let key_length = job.key.as_ref().map_or(0, |key| 2 + key.as_str().len());
    let mut head =
        BytesMut::with_capacity(HEAD.width() + job.kind.as_str().len() + key_length + CONFLICT.width());
    head.put_u8(if job.check_payload(cap).is_err() { b'1' } else { b'0' });
    head.put_i16(job.priority);
    head.put_u32(u32::try_from(job.payload.len()).unwrap_or(u32::MAX));
    head.put_u32(u32::try_from(spec_length).expect("what is packed of a job is short"));
    let (form, micros) = match job.due {
        Due::After(delay) => (b'a', row::micros(delay)),
        Due::At(time) => (b't', row::instant_micros(time)),
        Due::Held => (HELD, 0),
        _ => (NOW, 0),
    };
    head.put_u8(form);
    head.put_u64(micros);
    head.put_u8(if job.expires.is_some() { b'e' } else { b'-' });
    head.put_u64(job.expires.map_or(0, row::micros));
    head.put_u8(u8::try_from(job.kind.as_str().len()).expect("a name is at most 128 bytes long"));
    head.put_slice(job.kind.as_str().as_bytes());
    if let Some(key) = &job.key {
        head.put_slice(&[
            GATE_MARK,
            u8::try_from(key.as_str().len()).expect("a name is at most 128 bytes long"),
        ]);
        head.put_slice(key.as_str().as_bytes());
    }
    if job.unique.is_some() {
        let (how, wait) = match job.on_conflict {
            OnConflict::Replace => (b'r', None),
            OnConflict::Debounce { wait_max: None } => (b'd', None),
            OnConflict::Debounce { wait_max } => (b'm', wait_max),
            _ => (b'k', None),
        };
        head.put_u8(how);
        head.put_u64(wait.map_or(0, row::micros));
    }
    head.freeze()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_core::Options;
    use windlass_core::unique::Unique;

    use super::*;

    #[test]
    fn a_transfer_reads_back_and_no_part_of_it_does() {
        let jobs = [
            NewJob::new("k", "short", Options::new()).unwrap(),
            NewJob::new("l", vec![7; INLINE_MAX + 1], Options::new().delay(Duration::MAX).priority(-1))
                .unwrap(),
            NewJob::new("m", "", Options::new().expires_in(Duration::ZERO).tag("t")).unwrap(),
        ];
        let packed = Packed::of(jobs.iter(), 1 << 20).unwrap();
        assert_eq!((packed.len(), packed.bodies.len()), (3, 1));
        let encoded = packed.encode();
        assert_eq!(Packed::decode(encoded.clone()).unwrap(), packed);
        let has_instants =
            |place: usize| Packed::of(jobs[place..=place].iter(), 1 << 20).unwrap().has_instants();
        assert_eq!([0, 1, 2].map(has_instants), [false, true, true]);
        for length in 0..encoded.len() {
            assert!(Packed::decode(encoded.slice(..length)).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_key_is_told_from_none_and_its_end_is_looked_for() {
        let span = Duration::from_secs(1);
        let keys = [None, Some(Unique::key("k")), Some(Unique::key("k").for_window(span))];
        let packed = keys.map(|key| {
            let options = key.map_or_else(Options::new, |key| Options::new().unique(key));
            Packed::of([NewJob::new("kind", "p", options).unwrap()].iter(), 9).unwrap()
        });
        assert_eq!(packed.each_ref().map(Packed::has_keys), [false, true, true]);
        assert_eq!(packed.each_ref().map(|packed| packed.needs().promote), [false, false, true]);
        let formats = packed.each_ref().map(|packed| {
            let encoded = packed.encode();
            assert_eq!(Packed::decode(encoded.clone()).unwrap(), *packed);
            encoded[0]
        });
        assert_eq!(formats, [FORMAT, KEYED_FORMAT, KEYED_FORMAT]);
    }

    #[test]
    fn a_key_that_jobs_take_turns_by_is_none_that_is_unique() {
        let options = [Options::new().key("gg"), Options::new().key("gg").unique(Unique::key("k"))];
        let packed =
            options.map(|options| Packed::of([NewJob::new("g", "p", options).unwrap()].iter(), 9).unwrap());
        assert_eq!(packed.each_ref().map(Packed::has_keys), [false, true]);
        for packed in packed {
            let encoded = packed.encode();
            assert_eq!(encoded[0], GATED_FORMAT);
            assert_eq!(Packed::decode(encoded).unwrap(), packed);
        }
    }

    #[test]
    fn a_held_job_needs_no_visit_and_is_left_alone_by_older_programs() {
        let options = [Options::new(), Options::new().key("g"), Options::new().expires_in(Duration::ZERO)];
        let packed = options.map(|options| {
            let mut job = NewJob::new("k", "p", options).unwrap();
            job.due = Due::Held;
            Packed::of([job].iter(), 9).unwrap()
        });
        assert_eq!(packed.each_ref().map(|packed| packed.needs().promote), [false, false, true]);
        for packed in packed {
            let encoded = packed.encode();
            assert_eq!(encoded[0], HELD_FORMAT);
            assert_eq!(Packed::decode(encoded).unwrap(), packed);
        }
    }

    /// Of two payloads under one id only one could be written before the script.
    #[test]
    fn payloads_are_given_where_an_id_stands_twice() {
        let long = || NewJob::new("k", vec![0; GIVEN_MAX], Options::new().unique(Unique::key("k"))).unwrap();
        let (one, other) = (long(), long());
        let bodies = |jobs: [&NewJob; 2]| Packed::of(jobs.into_iter(), 9).unwrap().bodies_for_script();
        assert_eq!(bodies([&one, &other]), Bodies::Withheld);
        assert_eq!(bodies([&one, &one]), Bodies::Given);
    }

    #[test]
    fn what_is_above_the_cap_says_so() {
        let jobs = [4, 5].map(|length| NewJob::new("k", vec![0; length], Options::new()).unwrap());
        let packed = Packed::of(jobs.iter(), 4).unwrap();
        assert_eq!(packed.heads.iter().map(|head| head[0]).collect::<Vec<_>>(), b"01");
    }
}
