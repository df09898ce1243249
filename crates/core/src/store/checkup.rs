//! The part that examines a store itself: settings and conditions that no other call tells of.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::StoreResult;

/// What a store can say of its own health. What holds for every store is found out above the traits.
#[async_trait]
pub trait Checkup: Send + Sync {
    /// Looks at the settings and the condition of the store. Changes nothing. One finding for each thing that was looked at,
    /// also where all is well; what may not be looked at, or could not be, is a finding, too.
    async fn examine(&self, depth: Depth) -> StoreResult<Vec<Finding>>;
}

/// How much an examination may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// A few short calls.
    Quick,
    /// Also what reads all there is.
    Deep,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was looked at, in a word or two.
    pub subject: String,
    /// How it is.
    pub level: Level,
    /// What was found.
    pub what: String,
    /// What to do about it, where something should be done.
    pub remedy: Option<String>,
}

impl Finding {
    /// All is well.
    pub fn ok(subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self { subject: subject.into(), level: Level::Ok, what: what.into(), remedy: None }
    }

    /// It works, and should be otherwise.
    pub fn warning(subject: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into());
        Self { subject: subject.into(), level: Level::Warning, what: what.into(), remedy }
    }

    /// Jobs may be lost or do not run.
    pub fn problem(subject: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Problem, ..Self::warning(subject, what, remedy) }
    }
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// All is well.
    Ok,
    /// It works, and should be otherwise.
    Warning,
    /// Jobs may be lost or do not run.
    Problem,
}

impl Level {
    /// The word used in the CLI and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
