//! Notes: that a job of a flow has ended, as a record of the job's queue that is written with its end.

use windlass_core::flow::{Member, Status};
use windlass_core::follow_ups::{FollowUps, RECORD_BYTES_MAX, RECORDS_MAX};
use windlass_core::judge::Transition;
use windlass_core::record::{Change, Record, RecordKey, RecordWrite, VALUE_MAX, Version};
use windlass_core::{Bytes, JobId, Name, State};

use super::key;
use crate::client::{Client, Records};
use crate::ctx::Ctx;
use crate::error::Result;

/// What keys of notes begin with.
pub(crate) const NOTES: &str = "flow-end/";
/// Stands in place of a node: more is to be done than one turn does.
const MORE: &str = "more";
/// Stands in place of a node: all is to be done that follows from where the flow is.
const REDO: &str = "redo";
/// Records that a note and an output take, and bytes beside the output. A larger one is read from its job, if that is there.
const NOTE_ROOM: usize = 6;
const KEYS_ROOM: usize = 4_096;
/// The most of an output in one record, behind the number of records.
const PIECE_MAX: usize = VALUE_MAX - 1;

/// What a note is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) key: RecordKey,
    pub(crate) version: Version,
    pub(crate) home: Name,
    pub(crate) flow: JobId,
    /// Which node has ended, and how; nothing for a note that asks for a turn.
    pub(crate) ended: Option<(u32, Status)>,
    /// It asks for all that follows from where the flow is.
    pub(crate) is_redo: bool,
}

impl Note {
    /// Reads a note; nothing for a record that is none.
    pub(crate) fn read(record: &Record) -> Option<Self> {
        let mut parts = record.key.as_str().strip_prefix(NOTES)?.splitn(3, '/');
        let home = Name::new(parts.next()?).ok()?;
        let flow = parts.next()?.parse().ok()?;
        let last = parts.next()?;
        let ended = match last {
            MORE | REDO => None,
            node => {
                let status = record.value.first().and_then(|letter| Status::of_letter(*letter))?;
                Some((node.parse().ok()?, status))
            }
        };
        let (key, version) = (record.key.clone(), record.version);
        Some(Self { key, version, home, flow, ended, is_redo: last == REDO })
    }
}

/// What keys of notes for flows of this home begin with.
pub(crate) fn prefix(home: &Name) -> String {
    format!("{NOTES}{home}/")
}

/// A note that a node has ended.
pub(crate) fn ended(home: &Name, flow: JobId, node: u32, status: Status) -> Result<RecordWrite> {
    let key = key(format!("{NOTES}{home}/{flow}/{node}"))?;
    Ok(RecordWrite::put(key, vec![status.letter()]))
}

/// A note that asks for another turn of a flow.
pub(crate) fn more(home: &Name, flow: JobId) -> Result<RecordWrite> {
    Ok(RecordWrite::put(key(format!("{NOTES}{home}/{flow}/{MORE}"))?, Bytes::new()))
}

/// A note that asks for all that follows from where a flow is.
pub(crate) fn redo(home: &Name, flow: JobId) -> Result<RecordWrite> {
    Ok(RecordWrite::put(key(format!("{NOTES}{home}/{flow}/{REDO}"))?, Bytes::new()))
}

/// Adds to what follows the end of a job what its flow must know; nothing for jobs that go on.
pub(crate) fn follow(member: Option<Member>, end: &Transition, then: Option<FollowUps>) -> Option<FollowUps> {
    let Some(member) = member.filter(|_| end.state.is_terminal()) else { return then };
    let mut then = then.unwrap_or_default();
    // Removals of checkpoints make room: they go by their time as well.
    let is_removal = |write: &RecordWrite| matches!(write.change, Change::Remove);
    while then.records.len() + NOTE_ROOM > RECORDS_MAX && then.records.last().is_some_and(is_removal) {
        then.records.pop();
    }
    let used: usize = then.records.iter().map(RecordWrite::weight).sum();
    let fits = |output: &&Bytes| used + output.len() + KEYS_ROOM <= RECORD_BYTES_MAX;
    let output = end.kept_output().filter(|_| member.is_read).filter(fits);
    let status = match (end.state, output) {
        (State::Completed, Some(_)) => Status::Yielded,
        (State::Completed, None) => Status::Completed,
        (State::Dead, _) => Status::Dead,
        _ => Status::Cancelled,
    };
    let Member { flow, node, home, .. } = member;
    let records = ended(&home, flow, node, status).into_iter();
    then.records.extend(records.chain(output.into_iter().flat_map(|output| pieces(flow, node, output))));
    Some(then)
}

/// The key of a piece of an output.
pub(super) fn piece_key(flow: JobId, node: u32, piece: usize) -> RecordKey {
    RecordKey::new(format!("flow-out/{flow}/{node}/{piece}")).expect("ids and numbers are a key")
}

/// An output in records. The first one begins with how many there are.
fn pieces(flow: JobId, node: u32, output: &Bytes) -> Vec<RecordWrite> {
    let pieces: Vec<&[u8]> = output.chunks(PIECE_MAX).collect();
    let count = u8::try_from(pieces.len()).unwrap_or(u8::MAX);
    let piece = |(place, piece): (usize, &[u8])| {
        let value = if place == 0 { [&[count], piece].concat() } else { piece.to_vec() };
        RecordWrite::put(piece_key(flow, node, place), value).ttl(super::outputs::OUTPUT_TTL)
    };
    pieces.into_iter().enumerate().map(piece).collect()
}

/// The homes of flows that these follow-ups have notes for.
fn homes(then: &FollowUps) -> Vec<Name> {
    let home = |write: &RecordWrite| {
        let rest = write.key.as_str().strip_prefix(NOTES)?;
        Name::new(rest.split('/').next()?).ok()
    };
    let mut homes: Vec<Name> = then.records.iter().filter_map(home).collect();
    homes.dedup();
    homes
}

/// Lets flows go on that these follow-ups of an attempt have notes for.
pub(crate) fn tell(ctx: &Ctx, then: &FollowUps) {
    for home in homes(then) {
        ctx.client().move_soon(home, ctx.queue().clone());
    }
}

/// Lets the flow go on whose job this attempt has completed in another way.
pub(crate) fn tell_of(ctx: &Ctx) {
    if let Some(member) = Member::of(&ctx.inner().job.facts.spec) {
        ctx.client().move_soon(member.home, ctx.queue().clone());
    }
}

impl Client {
    /// Notes an end that left no note, in the background.
    fn note_soon(&self, member: Member, status: Status) {
        let client = self.clone();
        tokio::spawn(async move {
            let Member { flow, node, home, .. } = member;
            let Ok(note) = ended(&home, flow, node, status) else { return };
            let records = Records::of(client.clone(), home.clone());
            // If it fails, maintenance finds the end.
            if records.write(FollowUps::of_records(vec![note])).await.is_ok() {
                client.move_soon(home.clone(), home);
            }
        });
    }
}

/// Notes that the store has cancelled a job instead of putting it back.
pub(crate) fn tell_cancelled(ctx: &Ctx) {
    if let Some(member) = Member::of(&ctx.inner().job.facts.spec) {
        ctx.client().note_soon(member, Status::Cancelled);
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::clock::Timestamp;

    use super::*;

    fn record(write: &RecordWrite) -> Record {
        let Change::Put { value, .. } = &write.change else { panic!("it is put") };
        let (written_at, version) = (Timestamp::from_micros(0), Version::new());
        Record { key: write.key.clone(), version, value: value.clone(), written_at, expires_at: None }
    }

    #[test]
    fn a_note_says_which_node_of_which_flow_ended_how() {
        let (home, flow) = (Name::new("a:b.c").unwrap(), JobId::new());
        let note = ended(&home, flow, 7, Status::Dead).unwrap();
        let read = Note::read(&record(&note)).unwrap();
        assert_eq!((read.home.clone(), read.flow, read.ended), (home.clone(), flow, Some((7, Status::Dead))));
        let again = Note::read(&record(&more(&home, flow).unwrap())).unwrap();
        assert_eq!((again.flow, again.ended, again.is_redo), (flow, None, false));
        assert!(Note::read(&record(&redo(&home, flow).unwrap())).unwrap().is_redo);
        let then = FollowUps { records: vec![note.clone(), note], ..FollowUps::default() };
        assert_eq!(homes(&then), [home]);
        assert_eq!(homes(&FollowUps::default()), []);
    }

    #[test]
    fn an_output_is_cut_into_records() {
        let output = Bytes::from(vec![5; PIECE_MAX + 2]);
        let writes = pieces(JobId::new(), 3, &output);
        let values: Vec<_> = writes.iter().map(|write| record(write).value).collect();
        assert_eq!((values.len(), values[0][0], values[1].len()), (2, 2, 2));
        assert!(values.iter().all(|value| value.len() <= VALUE_MAX));
    }
}
