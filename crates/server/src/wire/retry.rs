//! Retry policies, with the names and forms of the command line.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::forms;
use windlass_core::retry::Policy;

use super::Span;
use crate::problem::Problem;

/// When and how often a job is tried again. What is not said has the default of the library.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Retry)]
pub(crate) struct RetryForm {
    /// Attempts in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub(crate) attempts: Option<u32>,
    /// Attempts with an unknown effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ambiguous: Option<u32>,
    /// `fixed:10s`, `linear:10s`, `exponential:2s`, `exponential:2s:3` with its factor, `polynomial:1s:4` with its power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) backoff: Option<String>,
    /// The longest wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) backoff_max: Option<Span>,
    /// `none`, `equal`, `full`, `decorrelated` or `share:0.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jitter: Option<String>,
}

impl RetryForm {
    pub(crate) fn of(policy: &Policy) -> Self {
        Self {
            attempts: Some(policy.attempts_max()),
            ambiguous: Some(policy.ambiguous_max()),
            backoff: Some(forms::Backoff::from(policy.backoff()).to_string()),
            backoff_max: Some(Span(policy.delay_max())),
            jitter: Some(forms::jitter_text(policy.spread())),
        }
    }

    pub(crate) fn policy(&self, at: &str) -> Result<Policy, Problem> {
        let mut policy = Policy::default();
        let attempts = self.attempts.unwrap_or(policy.attempts_max());
        if let Some(backoff) = &self.backoff {
            let backoff = forms::backoff(backoff);
            policy = backoff.map_err(|why| Problem::invalid(format!("{at}.backoff"), why))?.policy(attempts);
        }
        policy = policy.attempts(attempts);
        if let Some(ambiguous) = self.ambiguous {
            policy = policy.ambiguous(ambiguous);
        }
        if let Some(longest) = self.backoff_max {
            policy = policy.cap(longest.0);
        }
        if let Some(jitter) = &self.jitter {
            let jitter = forms::jitter(jitter);
            policy = policy.jitter(jitter.map_err(|why| Problem::invalid(format!("{at}.jitter"), why))?);
        }
        Ok(policy)
    }
}
