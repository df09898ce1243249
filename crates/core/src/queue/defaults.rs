//! What holds for jobs of a queue that say nothing themselves. Heeded by those who enqueue; what is stored with a job is what
//! holds for it, whatever the definition says later.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::QueueInvalid;
use crate::job::OnDead;
use crate::name::Name;
use crate::options::Options;
use crate::retry::Policy;

/// Options for jobs of a queue that neither the call nor the job type has said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobDefaults {
    /// When and how often to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Policy>,
    /// How long one attempt may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Higher is claimed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// What is enqueued when a job dies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_dead: Option<OnDead>,
    /// The queue that a job is sent to when it dies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_dead: Option<Name>,
}

impl JobDefaults {
    /// Whether they say nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These defaults, as what others go over.
    pub fn options(&self) -> Options {
        let mut options = Options::new();
        (options.retry, options.timeout, options.priority) =
            (self.retry.clone(), self.timeout, self.priority);
        options.on_dead = self.on_dead.clone();
        options.forward_dead = self.forward_dead.as_ref().map(ToString::to_string);
        options
    }

    pub(super) fn check(&self) -> Result<(), QueueInvalid> {
        self.options().check().map_err(|error| QueueInvalid::Defaults(Box::new(error)))
    }
}
