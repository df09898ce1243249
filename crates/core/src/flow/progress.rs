//! How far a flow is: one letter for each of its jobs, so that a hundred thousand of them fit into one record.

use serde::{Deserialize, Serialize};

use super::{FlowInvalid, Graph};
use crate::state::State;

/// Where a job of a flow is, as its flow knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It waits for others.
    Waiting,
    /// Nothing of its flow holds it back, and it has not ended as far as is known.
    Open,
    /// Done.
    Completed,
    /// Done, and its output is kept for the flow.
    Yielded,
    /// Given up.
    Dead,
    /// Ended on purpose, or removed.
    Cancelled,
    /// It did not run, because of one that it waited for.
    Failed,
    /// It did not run, and nothing waits for that.
    Skipped,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Waiting,
        Self::Open,
        Self::Completed,
        Self::Yielded,
        Self::Dead,
        Self::Cancelled,
        Self::Failed,
        Self::Skipped,
    ];

    /// The letter to store.
    pub const fn letter(self) -> u8 {
        match self {
            Self::Waiting => b'w',
            Self::Open => b'o',
            Self::Completed => b'c',
            Self::Yielded => b'y',
            Self::Dead => b'd',
            Self::Cancelled => b'x',
            Self::Failed => b'f',
            Self::Skipped => b's',
        }
    }

    /// What a letter stands for.
    pub fn of_letter(letter: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.letter() == letter)
    }

    /// The word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Open => "open",
            Self::Completed | Self::Yielded => "completed",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// Whether nothing more happens to it.
    pub const fn has_ended(self) -> bool {
        !matches!(self, Self::Waiting | Self::Open)
    }

    /// Whether it ended in a way that what waits for it has to know of.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Dead | Self::Cancelled | Self::Failed)
    }

    /// What the end of a job means to its flow; nothing if that is not an end.
    pub const fn of_end(state: State) -> Option<Self> {
        match state {
            State::Completed => Some(Self::Completed),
            State::Dead => Some(Self::Dead),
            State::Cancelled => Some(Self::Cancelled),
            State::Blocked | State::Scheduled | State::Ready | State::Running => None,
        }
    }
}

/// How far a flow is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Where each of its jobs is, in the order of the graph.
    pub nodes: Vec<Status>,
    /// All of it is stored: jobs may start.
    pub is_sealed: bool,
    /// It was never sealed, and is cancelled: not even callbacks begin.
    pub is_abandoned: bool,
    /// What has not begun does not begin any more.
    pub is_cancelled: bool,
    /// Its failed parts were sent back: jobs that were cancelled may start again.
    pub is_again: bool,
}

/// How many jobs of a flow are where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// All of them.
    pub jobs: u32,
    /// Those that wait for others.
    pub waiting: u32,
    /// Those that nothing holds back.
    pub open: u32,
    /// Those that are done.
    pub completed: u32,
    /// Those that were given up.
    pub dead: u32,
    /// Those that were cancelled or removed.
    pub cancelled: u32,
    /// Those that did not run because of others.
    pub failed: u32,
    /// Those that were skipped.
    pub skipped: u32,
}

impl Tally {
    /// Whether every job has ended as it should.
    pub const fn is_success(&self) -> bool {
        self.completed + self.skipped == self.jobs
    }

    /// How many have ended.
    pub const fn ended(&self) -> u32 {
        self.jobs - self.waiting - self.open
    }
}

#[derive(Serialize, Deserialize)]
struct Text {
    v: u32,
    nodes: String,
    #[serde(default)]
    sealed: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    abandoned: bool,
    #[serde(default)]
    cancelled: bool,
    #[serde(default)]
    again: bool,
}

/// The newest form that this program reads.
const VERSION: u32 = 1;

impl Progress {
    /// A flow that has just been stored.
    pub fn new(graph: &Graph) -> Self {
        Self {
            nodes: vec![Status::Waiting; graph.nodes.len()],
            is_sealed: true,
            is_abandoned: false,
            is_cancelled: false,
            is_again: false,
        }
    }

    /// The text to store.
    pub fn text(&self) -> Vec<u8> {
        let text = Text {
            v: VERSION,
            nodes: self.nodes.iter().map(|status| char::from(status.letter())).collect(),
            sealed: self.is_sealed,
            abandoned: self.is_abandoned,
            cancelled: self.is_cancelled,
            again: self.is_again,
        };
        serde_json::to_vec(&text).expect("letters and numbers are JSON")
    }

    /// Reads what [`text`](Self::text) wrote about this graph.
    ///
    /// # Errors
    /// When it does not read, or is about another graph.
    pub fn read(text: &[u8], graph: &Graph) -> Result<Self, FlowInvalid> {
        let text: Text =
            serde_json::from_slice(text).map_err(|error| FlowInvalid::Broken(error.to_string()))?;
        if text.v > VERSION {
            return Err(FlowInvalid::Broken(format!("form {} is newer than this program", text.v)));
        }
        let nodes: Option<Vec<_>> = text.nodes.bytes().map(Status::of_letter).collect();
        let nodes = nodes.filter(|nodes| nodes.len() == graph.nodes.len());
        let nodes = nodes
            .ok_or_else(|| FlowInvalid::Broken(format!("it does not speak of {} jobs", graph.nodes.len())))?;
        Ok(Self {
            nodes,
            is_sealed: text.sealed,
            is_abandoned: text.abandoned,
            is_cancelled: text.cancelled,
            is_again: text.again,
        })
    }

    /// How many jobs are where; callbacks are not counted.
    pub fn tally(&self, graph: &Graph) -> Tally {
        let jobs = &self.nodes[..graph.jobs()];
        let mut tally = Tally { jobs: jobs.len() as u32, ..Tally::default() };
        for status in jobs {
            let count = match status {
                Status::Waiting => &mut tally.waiting,
                Status::Open => &mut tally.open,
                Status::Completed | Status::Yielded => &mut tally.completed,
                Status::Dead => &mut tally.dead,
                Status::Cancelled => &mut tally.cancelled,
                Status::Failed => &mut tally.failed,
                Status::Skipped => &mut tally.skipped,
            };
            *count += 1;
        }
        tally
    }

    /// Whether every job has ended, and every callback too.
    pub fn is_over(&self) -> bool {
        self.nodes.iter().all(|status| status.has_ended())
    }

    /// The nodes of this status, in the order of the graph.
    pub fn of(&self, wanted: Status) -> impl Iterator<Item = u32> {
        let found = self.nodes.iter().enumerate().filter(move |(_, status)| **status == wanted);
        found.map(|(place, _)| place as u32)
    }
}
