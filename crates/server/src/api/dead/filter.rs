//! Which dead jobs are meant: as parameters of a query, and as a form.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use windlass_core::Name;
use windlass_core::fingerprint::Fingerprint;
use windlass_worker::{DeadFilter, DeadLetters};

use crate::access::Caller;
use crate::app::App;
use crate::problem::Problem;
use crate::wire::Instant;

/// Dead jobs that a call looks at where nothing is said, and at most.
const LOOK_DEFAULT: u64 = 10_000;
const LOOK_MAX: u64 = 100_000;

/// Which dead jobs, and which page of them.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeadParams {
    /// Of this queue.
    #[param(value_type = Option<String>)]
    queue: Option<Name>,
    /// Of this kind.
    #[param(value_type = Option<String>)]
    kind: Option<Name>,
    /// With this tag.
    #[param(value_type = Option<String>)]
    tag: Option<Name>,
    /// Whose last error has this text in it, whatever the case.
    error: Option<String>,
    /// That died of this error, as groups have it.
    #[param(value_type = Option<String>)]
    fingerprint: Option<Fingerprint>,
    /// That died at this instant or later.
    #[param(value_type = Option<String>)]
    since: Option<Instant>,
    /// That died before this instant.
    #[param(value_type = Option<String>)]
    before: Option<Instant>,
    /// Dead jobs to look at, at most 100,000; 10,000 if nothing is said.
    look: Option<u64>,
    /// What the page before has named as `next`.
    pub(super) after: Option<String>,
    /// How many jobs at most; larger ones than 1,000 are lowered to it.
    #[param(default = 50)]
    pub(super) limit: Option<u64>,
}

/// Which dead jobs; everything that is said must hold.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = DeadFilter)]
pub(crate) struct FilterForm {
    /// Of this queue.
    #[schema(value_type = Option<String>)]
    pub(super) queue: Option<Name>,
    /// Of this kind.
    #[schema(value_type = Option<String>)]
    kind: Option<Name>,
    /// With this tag.
    #[schema(value_type = Option<String>)]
    tag: Option<Name>,
    /// Whose last error has this text in it, whatever the case.
    error: Option<String>,
    /// That died of this error, as groups have it.
    #[schema(value_type = Option<String>)]
    fingerprint: Option<Fingerprint>,
    /// Whose payload has these values, by path of fields, as `{"order.id": 42}`.
    #[schema(value_type = BTreeMap<String, Value>)]
    fields: BTreeMap<String, Value>,
    /// That died at this instant or later.
    since: Option<Instant>,
    /// That died before this instant.
    before: Option<Instant>,
}

impl DeadParams {
    /// How many dead jobs a call looks at.
    pub(super) fn look(&self) -> u64 {
        self.look.unwrap_or(LOOK_DEFAULT).clamp(1, LOOK_MAX)
    }

    pub(super) fn letters(&self, app: &App, caller: &Caller) -> Result<DeadLetters, Problem> {
        let Self { queue, kind, tag, error, fingerprint, since, before, .. } = self.clone();
        let fields = BTreeMap::new();
        FilterForm { queue, kind, tag, error, fingerprint, fields, since, before }.letters(app, caller)
    }
}

impl FilterForm {
    /// The dead jobs that are meant. A token that is limited to queues names one.
    pub(super) fn letters(self, app: &App, caller: &Caller) -> Result<DeadLetters, Problem> {
        let mut filter = DeadFilter::new();
        match &self.queue {
            Some(queue) => {
                caller.on(queue)?;
                filter = filter.queue(queue)?;
            }
            None if caller.queues.is_some() => {
                return Err(Problem::invalid("queue", "the token is limited to queues: say which one"));
            }
            None => {}
        }
        if let Some(kind) = &self.kind {
            filter = filter.kind(kind)?;
        }
        if let Some(tag) = &self.tag {
            filter = filter.tag(tag)?;
        }
        if let Some(error) = self.error {
            filter = filter.error(error);
        }
        if let Some(fingerprint) = self.fingerprint {
            filter = filter.fingerprint(fingerprint);
        }
        for (path, value) in self.fields {
            if path.split('.').any(str::is_empty) {
                return Err(Problem::invalid(
                    "fields",
                    "a field of a path is empty; use forms such as order.id",
                ));
            }
            filter = filter.field(path, value);
        }
        if let Some(since) = self.since {
            filter = filter.since(since);
        }
        if let Some(before) = self.before {
            filter = filter.before(before);
        }
        Ok(app.client().dead(filter))
    }
}
