//! Why a job is held: what its flow says of it. The types are part of [`Why`]; the rest decides and says, and asks nothing.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use windlass_core::flow::{Graph, Member, Progress, Role, Status};
use windlass_core::{JobId, JobRecord, Name, State};

use super::sentence::{listed, quoted};
use super::why::Why;

/// How many jobs a cause names.
pub(super) const AWAITED_MAX: usize = 10;

/// A flow, as far as it tells why a job waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FlowSeen {
    /// Its id.
    pub id: JobId,
    /// What people call it; nothing where it could not be read.
    pub name: Option<String>,
    /// The queue that keeps it.
    pub home: Name,
}

/// What holds a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
#[non_exhaustive]
pub enum BlockedBy {
    /// Jobs of its flow have not ended.
    Jobs {
        /// Some of them, those that can end first before those that wait themselves.
        jobs: Vec<AwaitedJob>,
        /// How many more there are.
        more: u64,
    },
    /// As many jobs of its flow are under way as may.
    Room {
        /// How many may.
        at_most: u32,
        /// How many are.
        open: u64,
    },
    /// It is a callback, and its time has not come.
    Callback {
        /// When it starts.
        role: Role,
        /// Jobs of the flow that have not ended.
        left: u64,
    },
    /// The flow is not stored to its end.
    Unsealed,
    /// The flow has decided what becomes of it, and that is about to be done.
    Decided {
        /// Where it is, as the flow knows.
        #[serde(serialize_with = "word")]
        status: Status,
    },
    /// The flow is not there, or no longer.
    FlowGone,
    /// The flow does not read.
    FlowUnreadable {
        /// What is wrong with it.
        problem: String,
    },
    /// Nothing that is known: it says no flow, or its flow has another job in its place.
    Nothing,
}

/// A job that another one waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AwaitedJob {
    /// Its id.
    pub id: JobId,
    /// What it is.
    pub kind: Name,
    /// Where it is, as the flow knows.
    #[serde(serialize_with = "word")]
    pub status: Status,
    /// Where it is, as the store knows; nothing if it is gone.
    pub state: Option<State>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn word<S: Serializer>(status: &Status, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(status.as_str())
}

/// What was read of the flow of a job.
#[derive(Debug, Clone)]
pub(super) struct FlowLook {
    pub(super) member: Member,
    pub(super) found: Found,
}

#[derive(Debug, Clone)]
pub(super) enum Found {
    Gone,
    Unreadable(String),
    Flow {
        graph: Arc<Graph>,
        progress: Progress,
        /// Where the jobs are that are named, as the store knows.
        states: HashMap<JobId, State>,
    },
}

/// Places of those that a node waits for and that have not ended; first those that nothing of the flow holds.
pub(super) fn awaited(graph: &Graph, progress: &Progress, node: u32) -> Vec<u32> {
    let parents = graph.nodes.get(node as usize).map_or(&[][..], |node| &node.parents);
    let status = |place: &u32| progress.nodes[*place as usize];
    let open = parents.iter().map(|edge| edge.parent).filter(|place| !status(place).has_ended());
    let mut open: Vec<u32> = open.collect();
    open.sort_by_key(|place| status(place) == Status::Waiting);
    open
}

/// Why a job is held.
pub(super) fn why(job: &JobRecord, look: Option<&FlowLook>) -> Why {
    let Some(FlowLook { member, found }) = look else {
        return Why::Blocked { flow: None, by: BlockedBy::Nothing };
    };
    let (name, by) = match found {
        Found::Gone => (None, BlockedBy::FlowGone),
        Found::Unreadable(problem) => (None, BlockedBy::FlowUnreadable { problem: problem.clone() }),
        Found::Flow { graph, progress, states } => {
            (Some(graph.name.clone()), held_by(job, member.node, (graph, progress), states))
        }
    };
    Why::Blocked { flow: Some(FlowSeen { id: member.flow, name, home: member.home.clone() }), by }
}

fn held_by(
    job: &JobRecord,
    node: u32,
    (graph, progress): (&Graph, &Progress),
    states: &HashMap<JobId, State>,
) -> BlockedBy {
    let Some(own) = graph.nodes.get(node as usize).filter(|own| own.place.id == job.id) else {
        return BlockedBy::Nothing;
    };
    let status = progress.nodes[node as usize];
    let jobs = &progress.nodes[..graph.jobs()];
    let open = jobs.iter().filter(|status| **status == Status::Open).count() as u64;
    if !progress.is_sealed {
        return BlockedBy::Unsealed;
    }
    if status != Status::Waiting {
        return BlockedBy::Decided { status };
    }
    if own.role != Role::Job {
        let left = jobs.iter().filter(|status| !status.has_ended()).count() as u64;
        return BlockedBy::Callback { role: own.role, left };
    }
    let awaited = awaited(graph, progress, node);
    if !awaited.is_empty() {
        let more = awaited.len().saturating_sub(AWAITED_MAX) as u64;
        let seen = |place: &u32| {
            let node = &graph.nodes[*place as usize];
            let (id, status) = (node.place.id, progress.nodes[*place as usize]);
            AwaitedJob { id, kind: node.kind.clone(), status, state: states.get(&id).copied() }
        };
        return BlockedBy::Jobs { jobs: awaited.iter().take(AWAITED_MAX).map(seen).collect(), more };
    }
    match graph.alive_max {
        Some(at_most) if open >= u64::from(at_most) => BlockedBy::Room { at_most, open },
        _ => BlockedBy::Decided { status },
    }
}

impl FlowSeen {
    pub(super) fn said(&self) -> String {
        match &self.name {
            Some(name) => format!("flow {} ({})", quoted(name), self.id),
            None => format!("flow {} of queue {}", self.id, self.home),
        }
    }

    /// The command that shows it.
    pub(super) fn shown(&self) -> String {
        format!("windlass flows show {} --queue {}", self.id, self.home)
    }
}

impl AwaitedJob {
    fn said(&self) -> String {
        let state = match (self.status, self.state) {
            (Status::Waiting, _) => "waits itself",
            (_, Some(state)) => state.as_str(),
            (_, None) => "gone",
        };
        format!("{} {} ({state})", self.kind, self.id)
    }
}

impl BlockedBy {
    pub(super) fn sentence(&self, flow: Option<&FlowSeen>) -> String {
        let flow = flow.map_or_else(|| "a flow".to_owned(), FlowSeen::said);
        match self {
            Self::Jobs { jobs, more } => {
                let count = jobs.len() as u64 + more;
                let (word, have) = if count == 1 { ("job", "has") } else { ("jobs", "have") };
                let named = listed(jobs.iter().map(AwaitedJob::said), *more);
                format!("it waits for {count} {word} of {flow} that {have} not ended: {named}")
            }
            Self::Room { at_most, open } => format!(
                "{open} jobs of {flow} are under way, and {at_most} may at once: it waits until one of them ends"
            ),
            Self::Callback { role, left } => {
                let when = match role {
                    Role::OnSuccess => "when every job has completed",
                    Role::OnFirstFailure => "with the first job that fails",
                    _ => "when every job has ended",
                };
                format!("it is a callback of {flow} and starts {when}; {left} have not ended")
            }
            Self::Unsealed => format!(
                "{flow} is not stored to its end: that is still done, or the program that did it has died"
            ),
            Self::Decided { status: Status::Waiting | Status::Open } => {
                format!("nothing of {flow} keeps it: it is sent within seconds")
            }
            Self::Decided { status } => {
                format!("{flow} has it as {}: it is cancelled within seconds", status.as_str())
            }
            Self::FlowGone => format!("it belongs to {flow}, which is not there: nothing sends it"),
            Self::FlowUnreadable { problem } => format!("{flow} does not read: {}", quoted(problem)),
            Self::Nothing => {
                format!("it is held for {flow}, and none is known that has it: nothing sends it")
            }
        }
    }

    pub(super) fn remedy(&self, id: JobId, flow: Option<&FlowSeen>) -> String {
        let shown = flow.map(FlowSeen::shown).unwrap_or_default();
        match (self, flow) {
            (Self::Jobs { jobs, .. }, Some(_)) if !jobs.is_empty() => {
                format!(
                    "windlass explain {} says why the first has not ended; all of it: {shown}",
                    jobs[0].id
                )
            }
            (Self::Jobs { .. } | Self::Room { .. } | Self::Callback { .. }, Some(_)) => {
                format!("wait, or look at those that are under way: {shown}")
            }
            (Self::Unsealed, Some(flow)) => format!(
                "wait: a worker cancels what stays like this for an hour; or at once: windlass flows cancel {} --queue {}",
                flow.id, flow.home
            ),
            (Self::Decided { .. }, Some(_)) => {
                format!("if it stays, see that a worker of this store runs: windlass workers; {shown}")
            }
            (Self::FlowUnreadable { .. }, Some(_)) => {
                "run programs of the version that wrote it, or a later one".to_owned()
            }
            _ => format!(
                "to run it all the same: windlass jobs retry {id}; to end it: windlass jobs cancel {id}"
            ),
        }
    }
}
