//! The graph of a flow: its jobs in an order in which each comes after those that it waits for.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{FlowInvalid, NAME_MAX, NODES_MAX, OnFailure};
use crate::id::JobId;
use crate::name::Name;

/// What a flow consists of. Never changes once it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// What people call it.
    pub name: String,
    /// Its jobs. Each waits only for jobs that stand before it, so no job can wait for itself.
    pub nodes: Vec<Node>,
    /// How many of them may be under way at once.
    pub alive_max: Option<u32>,
    /// Jobs that start when something happens to the flow as a whole.
    pub callbacks: Callbacks,
    /// A job outside of the flow that waits for its end.
    pub wakes: Option<JobId>,
}

/// One job of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Where it is.
    pub place: Place,
    /// What it is.
    pub kind: Name,
    /// What it waits for.
    pub parents: Vec<Edge>,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: Name,
}

/// One thing that a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The place of the other job in the graph.
    pub parent: u32,
    /// What happens if that one fails.
    pub on_failure: OnFailure,
}

/// Jobs that start when something happens to the flow as a whole. Each starts once, or never.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callbacks {
    /// Starts when every job has completed or was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_success: Option<Place>,
    /// Starts when every job has ended, however.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_end: Option<Place>,
    /// Starts when the first job is dead, cancelled or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_first_failure: Option<Place>,
}

/// How a graph is written: names once, and runs of parents that stand side by side as one.
#[derive(Serialize, Deserialize)]
struct Text {
    v: u32,
    name: String,
    names: Vec<Name>,
    /// Id, queue and kind by their places in `names`, and runs of parents: first, how many, what happens if one fails.
    nodes: Vec<(JobId, u32, u32, Vec<(u32, u32, OnFailure)>)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alive_max: Option<u32>,
    #[serde(default)]
    callbacks: Callbacks,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wakes: Option<JobId>,
}

/// The newest form that this program reads.
const VERSION: u32 = 1;

impl Graph {
    /// Tests that it can be run.
    ///
    /// # Errors
    /// When there are too many jobs, when a job waits for itself, a later one or none at all, and for a bad name or bound.
    pub fn check(&self) -> Result<(), FlowInvalid> {
        if self.nodes.len() > NODES_MAX {
            return Err(FlowInvalid::Nodes { count: self.nodes.len() });
        }
        let name = &self.name;
        if name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
            return Err(FlowInvalid::Name { name: name.chars().take(NAME_MAX).collect() });
        }
        if self.alive_max == Some(0) {
            return Err(FlowInvalid::NoneAlive);
        }
        for (place, node) in self.nodes.iter().enumerate() {
            if let Some(edge) = node.parents.iter().find(|edge| edge.parent as usize >= place) {
                return Err(FlowInvalid::Parent { node: place, parent: edge.parent as usize });
            }
        }
        Ok(())
    }

    /// The text to store.
    pub fn text(&self) -> Vec<u8> {
        let (mut names, mut known) = (Vec::new(), HashMap::new());
        let mut named = |name: &Name| {
            *known.entry(name.clone()).or_insert_with(|| {
                names.push(name.clone());
                (names.len() - 1) as u32
            })
        };
        let nodes = self.nodes.iter();
        let nodes: Vec<_> = nodes
            .map(|node| (node.place.id, named(&node.place.queue), named(&node.kind), runs(&node.parents)))
            .collect();
        let text = Text {
            v: VERSION,
            name: self.name.clone(),
            names,
            nodes,
            alive_max: self.alive_max,
            callbacks: self.callbacks.clone(),
            wakes: self.wakes,
        };
        serde_json::to_vec(&text).expect("names and numbers are JSON")
    }

    /// Reads what [`text`](Self::text) wrote.
    ///
    /// # Errors
    /// When it does not read, or is not a graph that can be run.
    pub fn read(text: &[u8]) -> Result<Self, FlowInvalid> {
        let broken = |why: String| FlowInvalid::Broken(why);
        let text: Text = serde_json::from_slice(text).map_err(|error| broken(error.to_string()))?;
        if text.v > VERSION {
            return Err(broken(format!("form {} is newer than this program", text.v)));
        }
        let name = |index: u32| {
            let name = text.names.get(index as usize).cloned();
            name.ok_or_else(|| broken(format!("name {index} is not there")))
        };
        let mut nodes = Vec::with_capacity(text.nodes.len().min(NODES_MAX));
        for (place, (id, queue, kind, runs)) in text.nodes.iter().enumerate() {
            let mut parents = Vec::new();
            for &(first, count, on_failure) in runs {
                let end = first.checked_add(count).filter(|end| *end as usize <= place);
                let end = end.ok_or(FlowInvalid::Parent { node: place, parent: first as usize })?;
                parents.extend((first..end).map(|parent| Edge { parent, on_failure }));
            }
            let place = Place { id: *id, queue: name(*queue)? };
            nodes.push(Node { place, kind: name(*kind)?, parents });
        }
        let Text { name, alive_max, callbacks, wakes, .. } = text;
        let graph = Self { name, nodes, alive_max, callbacks, wakes };
        graph.check()?;
        Ok(graph)
    }

    /// All callbacks.
    pub fn callbacks(&self) -> impl Iterator<Item = &Place> {
        let Callbacks { on_success, on_end, on_first_failure } = &self.callbacks;
        [on_success, on_end, on_first_failure].into_iter().flatten()
    }
}

/// Parents that stand side by side, as one: those of a wide fan-in are thousands.
fn runs(parents: &[Edge]) -> Vec<(u32, u32, OnFailure)> {
    let mut runs: Vec<(u32, u32, OnFailure)> = Vec::new();
    for edge in parents {
        match runs.last_mut() {
            Some((first, count, on_failure))
                if *first + *count == edge.parent && *on_failure == edge.on_failure =>
            {
                *count += 1;
            }
            _ => runs.push((edge.parent, 1, edge.on_failure)),
        }
    }
    runs
}
