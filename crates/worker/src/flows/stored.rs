//! A flow as it is stored: how many pieces its graph has, how far it is, and the graph itself if it is small, each in a line.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::flow::{FlowInvalid, Graph, Progress, Status};
use windlass_core::record::{Expect, Record, RecordKey, RecordWrite, VALUE_MAX, Version};
use windlass_core::{Bytes, JobId, Name};

use super::notes::piece_key;
use super::{chunk_key, open_key, over_key};
use crate::client::{Client, records_of};
use crate::error::Result;

/// Graphs above this are kept apart, so that not every turn writes them.
pub(super) const INLINE_MAX: usize = 32 << 10;
/// How long a flow that has succeeded is remembered.
pub(super) const SUCCESS_TTL: Duration = Duration::from_secs(24 * 3600);
/// How long one is remembered that has not: its parts can be sent back until then.
pub(super) const FAILURE_TTL: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long one is remembered that a job waits for, at most.
pub(super) const GATHERED_TTL: Duration = Duration::from_secs(400 * 24 * 3600);
/// Records that one call reads.
pub(super) const READ_MAX: usize = 100;

/// A flow that was read.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) id: JobId,
    pub(crate) home: Name,
    pub(crate) graph: Arc<Graph>,
    pub(crate) progress: Progress,
    pub(crate) version: Version,
    pub(crate) written_at: Timestamp,
    /// It stands among those that are over.
    pub(crate) is_over: bool,
    /// In how many records its graph is; 0 if it is beside the progress.
    pub(super) chunks: u32,
}

impl Stored {
    /// The key under which it stands.
    fn key(&self) -> Result<RecordKey> {
        if self.is_over { over_key(self.id) } else { open_key(self.id) }
    }

    /// The ids of these nodes, of which the store is told where they are.
    pub(crate) fn ids(&self, client: &Client, nodes: &[u32]) -> Vec<JobId> {
        let places = nodes.iter().map(|node| &self.graph.nodes[*node as usize].place);
        let mut by_queue: BTreeMap<&Name, Vec<JobId>> = BTreeMap::new();
        for place in places.clone() {
            by_queue.entry(&place.queue).or_default().push(place.id);
        }
        for (queue, ids) in by_queue {
            client.store().seen_in(queue, &ids);
        }
        places.map(|place| place.id).collect()
    }

    /// The keys of what its home keeps of it, and the first pieces of outputs there.
    pub(crate) fn keys(&self) -> Result<Vec<RecordKey>> {
        let chunks = (0..self.chunks).map(|chunk| chunk_key(self.id, chunk));
        let at_home = |node: &u32| self.graph.nodes[*node as usize].place.queue == self.home;
        let outputs =
            self.progress.of(Status::Yielded).filter(at_home).map(|node| Ok(piece_key(self.id, node, 0)));
        std::iter::once(self.key()).chain(chunks).chain(outputs).collect()
    }

    /// The records that say how far it is now, if it is still as it was read. One that is over goes to the others that are.
    pub(super) fn writes(&self, progress: &Progress) -> Result<Vec<RecordWrite>> {
        let value = text(&self.graph, progress, self.chunks);
        let is_over = progress.is_over();
        let (from, read) = (self.key()?, Expect::Version(self.version));
        if is_over == self.is_over {
            return Ok(vec![self.lasting(RecordWrite::put(from, value).expect(read), progress)]);
        }
        let to = if is_over { over_key(self.id)? } else { open_key(self.id)? };
        Ok(vec![RecordWrite::remove(from).expect(read), self.lasting(RecordWrite::put(to, value), progress)])
    }

    fn lasting(&self, write: RecordWrite, progress: &Progress) -> RecordWrite {
        match progress.is_over() {
            false => write,
            // The job that waits for it removes it when it completes.
            true if self.graph.wakes.is_some() => write.ttl(GATHERED_TTL),
            true if progress.tally(&self.graph).is_success() => write.ttl(SUCCESS_TTL),
            true => write.ttl(FAILURE_TTL),
        }
    }
}

/// The text of a record.
pub(super) fn text(graph: &Graph, progress: &Progress, chunks: u32) -> Bytes {
    let graph = if chunks == 0 { graph.text() } else { Vec::new() };
    [chunks.to_string().as_bytes(), b"\n", &progress.text(), b"\n", &graph].concat().into()
}

/// The records of a graph that is too large to stand beside the progress.
pub(super) fn chunks(id: JobId, text: &[u8]) -> Result<Vec<RecordWrite>> {
    let chunk = |(place, chunk): (usize, &[u8])| {
        let key = chunk_key(id, u32::try_from(place).unwrap_or(u32::MAX))?;
        Ok(RecordWrite::put(key, chunk.to_vec()))
    };
    text.chunks(VALUE_MAX).enumerate().map(chunk).collect()
}

/// Flows of one home, in the order of their ids; nothing for one that is not there, and an error for one that does not read.
pub(crate) async fn load(client: &Client, home: &Name, ids: &[JobId]) -> Result<Vec<Option<Result<Stored>>>> {
    let part = records_of(&**client.store())?;
    let mut found = Vec::with_capacity(ids.len());
    for ids in ids.chunks(READ_MAX) {
        let keys: Vec<RecordKey> = ids.iter().map(|id| open_key(*id)).collect::<Result<_>>()?;
        let open = part.read(home, keys.into()).await?;
        let missing: Vec<JobId> =
            ids.iter().zip(&open).filter(|(_, open)| open.is_none()).map(|(id, _)| *id).collect();
        let keys: Vec<RecordKey> = missing.iter().map(|id| over_key(*id)).collect::<Result<_>>()?;
        let over = if keys.is_empty() { Vec::new() } else { part.read(home, keys.into()).await? };
        let mut over = over.into_iter();
        for (id, open) in ids.iter().zip(open) {
            let is_over = open.is_none();
            found.push(match open.or_else(|| over.next().flatten()) {
                None => None,
                Some(record) => Some(read(client, home, *id, &record, is_over).await),
            });
        }
    }
    Ok(found)
}

/// Reads the record of a flow, and its graph if this process does not know it.
pub(super) async fn read(
    client: &Client,
    home: &Name,
    id: JobId,
    record: &Record,
    is_over: bool,
) -> Result<Stored> {
    let broken = |why: &str| FlowInvalid::Broken(why.to_owned());
    let mut lines = record.value.splitn(3, |byte| *byte == b'\n');
    let (Some(chunks), Some(progress), Some(graph)) = (lines.next(), lines.next(), lines.next()) else {
        return Err(broken("it does not have three lines").into());
    };
    let chunks: Option<u32> = std::str::from_utf8(chunks).ok().and_then(|text| text.parse().ok());
    let chunks = chunks.ok_or_else(|| broken("it does not begin with a number"))?;
    let graphs = client.flow_graphs();
    let known = graphs.get(id);
    let read = match (&known, chunks) {
        (Some(graph), _) => Arc::clone(graph),
        (None, 0) => Arc::new(Graph::read(graph)?),
        (None, _) => Arc::new(Graph::read(&whole(client, home, id, chunks).await?)?),
    };
    let progress = Progress::read(progress, &read)?;
    // One that is not sealed may be laid out once more, by an attempt that takes over.
    if known.is_none() && progress.is_sealed {
        graphs.keep(id, &read);
    }
    let graph = read;
    let (home, version, written_at) = (home.clone(), record.version, record.written_at);
    Ok(Stored { id, home, graph, progress, version, written_at, is_over, chunks })
}

async fn whole(client: &Client, home: &Name, id: JobId, chunks: u32) -> Result<Vec<u8>> {
    let (part, mut text) = (records_of(&**client.store())?, Vec::new());
    for chunk in 0..chunks {
        let found = part.read(home, [chunk_key(id, chunk)?].into()).await?.pop().flatten();
        let found =
            found.ok_or_else(|| FlowInvalid::Broken(format!("part {chunk} of its graph is not there")))?;
        text.extend_from_slice(&found.value);
    }
    Ok(text)
}
