//! Instants and durations as text.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::{KnownFormat, ObjectBuilder, RefOr, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};
use windlass_core::clock::Timestamp;
use windlass_core::forms;

/// A duration, as `30s` or `1h 30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        forms::span(self.0).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        forms::duration(&text).map(Self).map_err(D::Error::custom)
    }
}

impl PartialSchema for Span {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("A duration, as 300ms, 30s or 1h 30m."))
            .examples(["30s"])
            .into()
    }
}

impl ToSchema for Span {
    fn name() -> Cow<'static, str> {
        "Duration".into()
    }
}

/// An instant in UTC, as `2026-11-15T08:30:00Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instant(pub(crate) Timestamp);

impl From<Timestamp> for Instant {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl From<Instant> for SystemTime {
    fn from(at: Instant) -> Self {
        at.0.into()
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        forms::instant(&text).map(|at| Self(at.into())).map_err(D::Error::custom)
    }
}

impl PartialSchema for Instant {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("An instant in UTC."))
            .examples(["2026-11-15T08:30:00Z"])
            .into()
    }
}

impl ToSchema for Instant {
    fn name() -> Cow<'static, str> {
        "Instant".into()
    }
}
