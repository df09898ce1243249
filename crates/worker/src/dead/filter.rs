//! Which dead jobs are meant.

use std::time::SystemTime;

use serde_json::{Number, Value};
use windlass_core::clock::Timestamp;
use windlass_core::fingerprint::Fingerprint;
use windlass_core::store::Filter;
use windlass_core::{JobRecord, Name};

use super::{DeadLetter, stored};
use crate::error::{ConfigError, Result};

/// Which dead jobs are meant; everything that is said must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeadFilter {
    queue: Option<Name>,
    kind: Option<Name>,
    tag: Option<Name>,
    error: Option<String>,
    fingerprint: Option<Fingerprint>,
    fields: Vec<(String, Value)>,
    since: Option<Timestamp>,
    before: Option<Timestamp>,
}

impl DeadFilter {
    /// All of them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Of this queue.
    ///
    /// # Errors
    /// When it is not a name.
    pub fn queue(mut self, queue: impl AsRef<str>) -> Result<Self> {
        self.queue = Some(name("queue", queue)?);
        Ok(self)
    }

    /// Of this kind.
    ///
    /// # Errors
    /// When it is not a name.
    pub fn kind(mut self, kind: impl AsRef<str>) -> Result<Self> {
        self.kind = Some(name("kind", kind)?);
        Ok(self)
    }

    /// With this tag.
    ///
    /// # Errors
    /// When it is not a name.
    pub fn tag(mut self, tag: impl AsRef<str>) -> Result<Self> {
        self.tag = Some(name("tag", tag)?);
        Ok(self)
    }

    /// Whose last error has this text in it, whatever the case.
    #[must_use]
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.error = Some(text.into().to_lowercase());
        self
    }

    /// That died of this error.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// Whose JSON payload has this value at a path of fields, as `order.id`.
    #[must_use]
    pub fn field(mut self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.push((path.into(), value.into()));
        self
    }

    /// That died at this instant or later.
    #[must_use]
    pub fn since(mut self, instant: impl Into<SystemTime>) -> Self {
        self.since = Some(Timestamp::from(instant.into()));
        self
    }

    /// That died before this instant.
    #[must_use]
    pub fn before(mut self, instant: impl Into<SystemTime>) -> Self {
        self.before = Some(Timestamp::from(instant.into()));
        self
    }

    /// Not after this instant either.
    pub(super) fn not_after(mut self, instant: Timestamp) -> Self {
        self.before = Some(self.before.map_or(instant, |before| before.min(instant)));
        self
    }

    /// The instant before which jobs must have died.
    pub(super) fn end(&self) -> Option<Timestamp> {
        self.before
    }

    /// The queue and the fingerprint, where it names both.
    pub(super) fn indexed_by(&self) -> Option<(&Name, Fingerprint)> {
        Some((self.queue.as_ref()?, self.fingerprint?))
    }

    /// Which dead jobs of its queue a rule is about.
    pub(super) fn of_rule(
        kind: Option<Name>,
        fingerprint: Option<Fingerprint>,
        error: Option<String>,
    ) -> Self {
        let error = error.map(|text| text.to_lowercase());
        Self { kind, fingerprint, error, ..Self::default() }
    }

    pub(super) fn stored(&self) -> Filter {
        let (kind, tag) = (self.kind.clone(), self.tag.clone());
        Filter { kind, tag, ..stored(self.queue.as_ref()) }
    }

    /// Whether a job may match by what a list shows of it.
    pub(super) fn may_match(&self, job: &JobRecord) -> bool {
        let died = job.finished_at;
        self.since.is_none_or(|since| died.is_some_and(|died| died >= since))
            && self.before.is_none_or(|before| died.is_some_and(|died| died < before))
            && (self.fields.is_empty() || self.has_fields(&job.payload))
    }

    pub(super) fn matches(&self, letter: &DeadLetter) -> bool {
        let has_error = |text: &String| letter.cause().to_lowercase().contains(text);
        self.kind.as_ref().is_none_or(|kind| *kind == letter.job.kind)
            && self.tag.as_ref().is_none_or(|tag| letter.job.tags.contains(tag))
            && self.may_match(&letter.job)
            && self.fingerprint.is_none_or(|wanted| wanted == letter.fingerprint)
            && self.error.as_ref().is_none_or(has_error)
    }

    fn has_fields(&self, payload: &[u8]) -> bool {
        let Ok(payload) = serde_json::from_slice::<Value>(payload) else { return false };
        let found = |path: &str| path.split('.').try_fold(&payload, |value, field| step(value, field));
        self.fields.iter().all(|(path, wanted)| found(path).is_some_and(|value| is_same(value, wanted)))
    }
}

fn step<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.get(field.parse::<usize>().ok()?),
        other => other.get(field),
    }
}

/// A text that was typed also means the number or the truth value that it spells.
fn is_same(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Number(number), Value::String(text)) => {
            text.parse().is_ok_and(|read: Number| read == *number)
        }
        (Value::Bool(truth), Value::String(text)) => text.parse() == Ok(*truth),
        _ => value == wanted,
    }
}

fn name(what: &'static str, text: impl AsRef<str>) -> Result<Name> {
    Ok(Name::new(text).map_err(|error| ConfigError::Name { what, error })?)
}
