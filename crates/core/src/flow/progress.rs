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
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Open,
        Self::Completed,
        Self::Dead,
        Self::Cancelled,
        Self::Failed,
        Self::Skipped,
    ];

    /// The letter to store.
    const fn letter(self) -> u8 {
        match self {
            Self::Waiting => b'w',
            Self::Open => b'o',
            Self::Completed => b'c',
            Self::Dead => b'd',
            Self::Cancelled => b'x',
            Self::Failed => b'f',
            Self::Skipped => b's',
        }
    }

    fn of_letter(letter: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.letter() == letter)
    }

    /// The word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Open => "open",
            Self::Completed => "completed",
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
    /// The job that the next look at open ones begins with.
    pub cursor: u32,
    /// What has not begun does not begin any more.
    pub is_cancelled: bool,
    /// The callback of the first failure has started.
    pub has_told_failure: bool,
    /// Its failed parts were sent back: jobs that were cancelled may start again.
    pub is_again: bool,
    /// Every job has ended, and all callbacks have been seen to.
    pub is_over: bool,
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
    cursor: u32,
    #[serde(default)]
    cancelled: bool,
    #[serde(default)]
    told: bool,
    #[serde(default)]
    again: bool,
    #[serde(default)]
    over: bool,
}

/// The newest form that this program reads.
const VERSION: u32 = 1;

impl Progress {
    /// A flow that has just been stored.
    pub fn new(graph: &Graph) -> Self {
        Self {
            nodes: vec![Status::Waiting; graph.nodes.len()],
            cursor: 0,
            is_cancelled: false,
            has_told_failure: false,
            is_again: false,
            is_over: false,
        }
    }

    /// The text to store.
    pub fn text(&self) -> Vec<u8> {
        let text = Text {
            v: VERSION,
            nodes: self.nodes.iter().map(|status| char::from(status.letter())).collect(),
            cursor: self.cursor,
            cancelled: self.is_cancelled,
            told: self.has_told_failure,
            again: self.is_again,
            over: self.is_over,
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
            cursor: text.cursor,
            is_cancelled: text.cancelled,
            has_told_failure: text.told,
            is_again: text.again,
            is_over: text.over,
        })
    }

    /// How many jobs are where.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally { jobs: self.nodes.len() as u32, ..Tally::default() };
        for status in &self.nodes {
            let count = match status {
                Status::Waiting => &mut tally.waiting,
                Status::Open => &mut tally.open,
                Status::Completed => &mut tally.completed,
                Status::Dead => &mut tally.dead,
                Status::Cancelled => &mut tally.cancelled,
                Status::Failed => &mut tally.failed,
                Status::Skipped => &mut tally.skipped,
            };
            *count += 1;
        }
        tally
    }

    /// Open jobs, beginning where the last look ended and going round once, at most so many.
    pub fn open(&self, limit: usize) -> Vec<u32> {
        let count = self.nodes.len();
        let start = (self.cursor as usize).min(count);
        let round = (start..count).chain(0..start);
        let open = round.filter(|&place| self.nodes[place] == Status::Open);
        open.take(limit).map(|place| place as u32).collect()
    }
}
