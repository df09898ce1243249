//! What jobs of a flow have given back, for those that wait for them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use windlass_core::flow::Status;
use windlass_core::record::RecordKey;
use windlass_core::{Bytes, JobId, Name};

use super::notes::piece_key;
use super::stored::{READ_MAX, Stored};
use crate::client::{Client, records_of};
use crate::error::{Error, Result};
use crate::job::{Job, decode_output};

/// How long an output is kept for a flow at most. Those of a flow that has succeeded go earlier.
pub(super) const OUTPUT_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// A job that another one has waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parent {
    /// Its id.
    pub id: JobId,
    /// What it is.
    pub kind: Name,
    /// Its queue.
    pub queue: Name,
    /// How it ended.
    pub status: Status,
    /// What it gave back, encoded; nothing for `null`, and for a job that did not complete.
    pub output: Option<Bytes>,
}

impl Parent {
    /// What it gave back, if it is a job of this type and has completed.
    ///
    /// # Errors
    /// When the output is not of the type that the job says.
    pub fn output<J: Job>(&self) -> Result<Option<J::Output>> {
        if self.kind.as_str() != J::KIND || !matches!(self.status, Status::Completed | Status::Yielded) {
            return Ok(None);
        }
        decoded(self.id, self.output.as_deref()).map(Some)
    }
}

/// The jobs that were gathered, in the order in which they were added.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gathered {
    /// The jobs.
    pub jobs: Vec<Parent>,
}

impl Gathered {
    /// The outputs of those that are of this type and have completed.
    ///
    /// # Errors
    /// When an output is not of the type that the job says.
    pub fn outputs<J: Job>(&self) -> Result<Vec<J::Output>> {
        outputs::<J>(&self.jobs)
    }

    /// Those that did not complete.
    pub fn failed(&self) -> impl Iterator<Item = &Parent> {
        self.jobs.iter().filter(|job| job.status.is_failure())
    }
}

pub(crate) fn outputs<J: Job>(parents: &[Parent]) -> Result<Vec<J::Output>> {
    parents.iter().filter_map(|parent| parent.output::<J>().transpose()).collect()
}

fn decoded<T: DeserializeOwned>(id: JobId, output: Option<&[u8]>) -> Result<T> {
    decode_output(output).map_err(|error| Error::Output { id, error })
}

/// Nodes of a flow with their outputs, in their order.
pub(crate) async fn of_nodes(client: &Client, stored: &Stored, nodes: &[u32]) -> Result<Vec<Parent>> {
    let status = |node: u32| stored.progress.nodes[node as usize];
    let mut by_queue: BTreeMap<&Name, Vec<u32>> = BTreeMap::new();
    for &node in nodes.iter().filter(|node| status(**node) == Status::Yielded) {
        by_queue.entry(&stored.graph.nodes[node as usize].place.queue).or_default().push(node);
    }
    let mut found = BTreeMap::new();
    for (queue, nodes) in by_queue {
        for some in nodes.chunks(READ_MAX) {
            read(client, stored, queue, some, &mut found).await?;
        }
    }
    let in_job: Vec<u32> = nodes.iter().copied().filter(|node| status(*node) == Status::Completed).collect();
    for some in in_job.chunks(READ_MAX) {
        of_jobs(client, stored, some, &mut found).await?;
    }
    let parent = |&node: &u32| {
        let of = &stored.graph.nodes[node as usize];
        let (id, queue, kind) = (of.place.id, of.place.queue.clone(), of.kind.clone());
        Parent { id, kind, queue, status: status(node), output: found.remove(&node) }
    };
    Ok(nodes.iter().map(parent).collect())
}

async fn read(
    client: &Client,
    stored: &Stored,
    queue: &Name,
    nodes: &[u32],
    found: &mut BTreeMap<u32, Bytes>,
) -> Result<()> {
    let part = records_of(&**client.store())?;
    let keys: Vec<RecordKey> = nodes.iter().map(|node| piece_key(stored.id, *node, 0)).collect();
    let mut lost = Vec::new();
    for (node, first) in nodes.iter().zip(part.read(queue, keys.into()).await?) {
        let Some(first) = first.filter(|first| !first.value.is_empty()) else {
            lost.push(*node);
            continue;
        };
        let count = usize::from(first.value[0]);
        let mut whole = first.value.slice(1..);
        for piece in 1..count {
            let next = part.read(queue, [piece_key(stored.id, *node, piece)].into()).await?.pop().flatten();
            match next {
                Some(next) => whole = [whole, next.value].concat().into(),
                None => lost.push(*node),
            }
        }
        found.insert(*node, whole);
    }
    // They went by their time; the jobs themselves may still be there.
    of_jobs(client, stored, &lost, found).await
}

/// Outputs that are not kept for the flow: they are too large, or an end was found that left no note.
async fn of_jobs(
    client: &Client,
    stored: &Stored,
    nodes: &[u32],
    found: &mut BTreeMap<u32, Bytes>,
) -> Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    let jobs = client.store().get(stored.ids(client, nodes).into()).await?;
    for (node, job) in nodes.iter().zip(jobs) {
        found.extend(job.and_then(|job| job.output).map(|output| (*node, output)));
    }
    Ok(())
}
