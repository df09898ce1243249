//! The graph of a flow: its jobs in an order in which each comes after those that it waits for.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::{EDGES_MAX, FlowInvalid, NAME_MAX, NODES_MAX, OnFailure};
use crate::id::JobId;
use crate::name::Name;

/// What a flow consists of. Never changes once it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// What people call it.
    pub name: String,
    /// Its jobs. Each waits only for jobs that stand before it, so no job can wait for itself. Callbacks come last.
    pub nodes: Vec<Node>,
    /// How many of them may be under way at once.
    pub alive_max: Option<u32>,
    /// A job outside of the flow that waits for its end.
    pub wakes: Option<Waiting>,
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
    /// What it is to the flow.
    pub role: Role,
}

/// What a job is to its flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// One of its jobs.
    #[default]
    Job,
    /// Starts when every job has completed or was skipped.
    OnSuccess,
    /// Starts when every job has ended, however.
    OnEnd,
    /// Starts when the first job is dead, cancelled or failed.
    OnFirstFailure,
}

/// A job that comes back when a flow that it has added is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Its id.
    pub id: JobId,
    /// How often it had been claimed when it began to wait.
    pub fence: u64,
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

/// Parents that stand side by side: the first, how many, and what happens if one fails.
type Run = (u32, u32, OnFailure);

/// How a graph is written: names once, and runs of parents that stand side by side as one.
#[derive(Serialize, Deserialize)]
struct Text {
    v: u32,
    name: String,
    names: Vec<Name>,
    /// Id, queue and kind by their places in `names`, and runs of parents: first, how many, what happens if one fails.
    nodes: Vec<(JobId, u32, u32, Vec<Run>)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alive_max: Option<u32>,
    /// What the last nodes are to the flow, where they are not jobs of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    callbacks: Vec<Role>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wakes: Option<Waiting>,
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
        let is_job = |node: &Node| node.role == Role::Job;
        if self.nodes[self.jobs()..].iter().any(is_job) {
            return Err(FlowInvalid::Broken("a callback stands before a job".into()));
        }
        if self.alive_max == Some(0) {
            return Err(FlowInvalid::NoneAlive);
        }
        let edges = self.nodes.iter().map(|node| node.parents.len()).sum();
        if edges > EDGES_MAX {
            return Err(FlowInvalid::Edges { count: edges });
        }
        for (place, node) in self.nodes.iter().enumerate() {
            if let Some(edge) = node.parents.iter().find(|edge| edge.parent as usize >= place) {
                return Err(FlowInvalid::Parent { node: place, parent: edge.parent as usize });
            }
        }
        Ok(())
    }

    /// How many of its nodes are jobs; callbacks stand behind them.
    pub fn jobs(&self) -> usize {
        self.nodes.iter().position(|node| node.role != Role::Job).unwrap_or(self.nodes.len())
    }

    /// The queues of its jobs, each once.
    pub fn queues(&self) -> BTreeSet<&Name> {
        self.nodes.iter().map(|node| &node.place.queue).collect()
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
            callbacks: self.nodes[self.jobs()..].iter().map(|node| node.role).collect(),
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
        let mut edges = 0;
        for (place, (id, queue, kind, runs)) in text.nodes.iter().enumerate() {
            let mut parents = Vec::new();
            for &(first, count, on_failure) in runs {
                let end = first.checked_add(count).filter(|end| *end as usize <= place);
                let end = end.ok_or(FlowInvalid::Parent { node: place, parent: first as usize })?;
                parents.extend((first..end).map(|parent| Edge { parent, on_failure }));
            }
            let place = Place { id: *id, queue: name(*queue)? };
            edges += parents.len();
            if edges > EDGES_MAX {
                return Err(FlowInvalid::Edges { count: edges });
            }
            nodes.push(Node { place, kind: name(*kind)?, parents, role: Role::Job });
        }
        let Text { name, alive_max, callbacks, wakes, .. } = text;
        let first = nodes.len().checked_sub(callbacks.len());
        let first = first.ok_or_else(|| broken("there are more callbacks than nodes".into()))?;
        for (node, role) in nodes[first..].iter_mut().zip(callbacks) {
            node.role = role;
        }
        let graph = Self { name, nodes, alive_max, wakes };
        graph.check()?;
        Ok(graph)
    }
}

/// Parents that stand side by side, as one: those of a wide fan-in are thousands.
fn runs(parents: &[Edge]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
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
