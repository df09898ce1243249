//! Graphs of flows that this process has read or made. They never change, and a large one is read in many pieces.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::JobId;
use windlass_core::flow::Graph;

/// The most nodes and edges of all graphs that are kept, but for the newest.
const WEIGHT_MAX: usize = 500_000;

/// The newest graphs.
#[derive(Default)]
pub(super) struct Graphs(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    graphs: HashMap<JobId, Arc<Graph>>,
    order: VecDeque<JobId>,
    weight: usize,
}

impl Graphs {
    pub(super) fn get(&self, flow: JobId) -> Option<Arc<Graph>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).graphs.get(&flow).cloned()
    }

    pub(super) fn keep(&self, flow: JobId, graph: &Arc<Graph>) {
        let kept = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.graphs.insert(flow, Arc::clone(graph)).is_some() {
            return;
        }
        kept.order.push_back(flow);
        kept.weight += weight(graph);
        while kept.weight > WEIGHT_MAX && kept.order.len() > 1 {
            let oldest = kept.order.pop_front().and_then(|oldest| kept.graphs.remove(&oldest));
            kept.weight -= oldest.map_or(0, |graph| weight(&graph));
        }
    }
}

fn weight(graph: &Graph) -> usize {
    graph.nodes.iter().map(|node| 1 + node.parents.len()).sum::<usize>() + 1
}
