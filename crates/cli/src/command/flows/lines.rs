//! The jobs of a flow as lines of a drawing: by layer, each below those that it waits for. Jobs that differ in nothing share a
//! line, so that a flow of thousands is a few lines.

use std::collections::{BTreeMap, HashMap};

use windlass::flow::{NodeView, Role};

/// So many jobs that differ in nothing have a line each; more of them share one.
const ALONE_MAX: usize = 3;

/// A line: a job, or several.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Places of its jobs.
    pub(super) nodes: Vec<usize>,
    /// How many jobs stand above each of them, one below the other.
    pub(super) layer: usize,
    /// What each of its jobs waits for.
    pub(super) after: Vec<After>,
}

/// What a job waits for: so many jobs of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct After {
    pub(super) line: usize,
    pub(super) jobs: usize,
}

/// In what jobs of one line do not differ.
#[derive(PartialEq, Eq, Hash)]
struct Alike<'a> {
    kind: &'a str,
    queue: &'a str,
    status: &'static str,
    is_callback: bool,
    after: Vec<After>,
}

/// The lines of a flow, layer by layer.
pub(super) fn of(nodes: &[NodeView]) -> Vec<Line> {
    let mut layers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, layer) in layer_of(nodes).into_iter().enumerate() {
        layers.entry(layer).or_default().push(place);
    }
    let (mut lines, mut line_of): (Vec<Line>, Vec<usize>) = (Vec::new(), vec![0; nodes.len()]);
    for (layer, places) in layers {
        for (after, group) in alike(nodes, &places, &line_of) {
            let size = if group.len() <= ALONE_MAX { 1 } else { group.len() };
            for some in group.chunks(size) {
                some.iter().for_each(|place| line_of[*place] = lines.len());
                lines.push(Line { nodes: some.to_vec(), layer, after: after.clone() });
            }
        }
    }
    lines
}

/// Jobs stand behind those that they wait for; callbacks stand below all.
fn layer_of(nodes: &[NodeView]) -> Vec<usize> {
    let mut layers: Vec<usize> = Vec::with_capacity(nodes.len());
    let mut below = 0;
    for node in nodes {
        let parents = node.parents.iter().filter_map(|parent| layers.get(*parent as usize));
        let layer = match node.role {
            Role::Job => parents.max().map_or(0, |layer| layer + 1),
            _ => below,
        };
        if node.role == Role::Job {
            below = below.max(layer + 1);
        }
        layers.push(layer);
    }
    layers
}

/// Groups of jobs that differ in nothing, in the order of their first ones.
fn alike(nodes: &[NodeView], places: &[usize], line_of: &[usize]) -> Vec<(Vec<After>, Vec<usize>)> {
    let mut known: HashMap<Alike<'_>, usize> = HashMap::new();
    let mut groups: Vec<(Vec<After>, Vec<usize>)> = Vec::new();
    for &place in places {
        let node = &nodes[place];
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for parent in &node.parents {
            *counts.entry(line_of[*parent as usize]).or_default() += 1;
        }
        let after: Vec<After> = counts.into_iter().map(|(line, jobs)| After { line, jobs }).collect();
        let alike = Alike {
            kind: node.kind.as_str(),
            queue: node.queue.as_str(),
            status: node.status.as_str(),
            is_callback: node.role != Role::Job,
            after: after.clone(),
        };
        // Callbacks differ in when they start.
        if alike.is_callback {
            groups.push((after, vec![place]));
            continue;
        }
        let group = *known.entry(alike).or_insert_with(|| {
            groups.push((after, Vec::new()));
            groups.len() - 1
        });
        groups[group].1.push(place);
    }
    groups
}
