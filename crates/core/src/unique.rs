//! Unique keys: of a queue's jobs at most one holds a key at a time. What becomes of a job that meets the holder of its key
//! is decided where it is accepted, in the same write; see [`Jobs::enqueue`](crate::store::Jobs::enqueue).
//!
//! A caller says what makes a job unique by [`Unique`]. A store sees a [`UniqueKey`]: 16 bytes that it compares, and how long
//! they are held.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::clock::Timestamp;
use crate::options::Due;
use crate::state::State;
use crate::stored;

/// What makes a job unique in its queue, for how long, and what is to happen when another job has the same.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::Options;
/// use windlass_core::unique::Unique;
///
/// // One export per account at a time, from its enqueue to its end.
/// let export = Options::new().unique(Unique::fields(["account"]));
/// // A search index is refreshed two seconds after the last change, a minute after the first one at the latest.
/// let refresh = Options::new()
///     .unique(Unique::key("index").debounce(Some(Duration::from_secs(60))))
///     .delay(Duration::from_secs(2));
/// // At most one reminder an hour; those that follow are dropped.
/// let reminder = Options::new().unique(Unique::payload().for_window(Duration::from_secs(3_600)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    by: By,
    lifetime: Lifetime,
    on_conflict: OnConflict,
    is_across_kinds: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum By {
    Key(String),
    Payload,
    Fields(Vec<String>),
}

impl Unique {
    /// By a word of the caller's own, as an order number.
    pub fn key(key: impl Into<String>) -> Self {
        Self::by(By::Key(key.into()))
    }

    /// By the whole payload. In JSON, the order of fields does not matter.
    pub fn payload() -> Self {
        Self::by(By::Payload)
    }

    /// By some fields of a JSON payload. A field that is missing is a value of its own.
    pub fn fields<F: Into<String>>(fields: impl IntoIterator<Item = F>) -> Self {
        Self::by(By::Fields(fields.into_iter().map(Into::into).collect()))
    }

    fn by(by: By) -> Self {
        Self { by, lifetime: Lifetime::End, on_conflict: OnConflict::Keep, is_across_kinds: false }
    }

    /// The key is held until the job's end, through all its attempts. So it is by default.
    #[must_use]
    pub fn until_end(self) -> Self {
        self.held(Lifetime::End)
    }

    /// The key is held until the job is first claimed: another one may be enqueued while it runs.
    #[must_use]
    pub fn until_start(self) -> Self {
        self.held(Lifetime::Start)
    }

    /// The key is held for this long after the job was accepted, whatever becomes of the job.
    #[must_use]
    pub fn for_window(self, window: Duration) -> Self {
        self.held(Lifetime::Window(window))
    }

    /// The key is held until the slot of the clock ends in which the job was accepted: with an hour, until the next full
    /// hour in UTC, whatever becomes of the job.
    #[must_use]
    pub fn for_slot(self, slot: Duration) -> Self {
        self.held(Lifetime::Slot(slot))
    }

    fn held(mut self, lifetime: Lifetime) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// A holder that waits takes the payload, the tags, retry, timeout, trace and meta of the new job. It keeps its id, its
    /// place in the order, its priority and its expiry.
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.on_conflict = OnConflict::Replace;
        self
    }

    /// As [`replace`](Self::replace), and a holder that waits for its time waits as long again as the new job would, but
    /// for `wait_max` in all. The key is held until the job starts, and the job must have a delay.
    #[must_use]
    pub fn debounce(mut self, wait_max: Option<Duration>) -> Self {
        self.on_conflict = OnConflict::Debounce { wait_max };
        self.until_start()
    }

    /// Jobs of other kinds in the queue count as well.
    #[must_use]
    pub fn across_kinds(mut self) -> Self {
        self.is_across_kinds = true;
        self
    }

    /// The key of a job, and what happens when it is held.
    ///
    /// # Errors
    /// When it makes no sense, or the payload does not have what it names.
    pub fn of(&self, kind: &str, payload: &[u8], due: Due) -> Result<(UniqueKey, OnConflict), UniqueInvalid> {
        if let Lifetime::Window(span) | Lifetime::Slot(span) = self.lifetime
            && span < Duration::from_micros(1)
        {
            return Err(UniqueInvalid::NoWindow);
        }
        if matches!(self.on_conflict, OnConflict::Debounce { .. }) && due == Due::Now {
            return Err(UniqueInvalid::NoDelay);
        }
        if let (OnConflict::Debounce { wait_max: Some(wait_max) }, Some(delay)) =
            (self.on_conflict, due.delay())
            && delay > wait_max
        {
            return Err(UniqueInvalid::ShortWait);
        }
        let mut parts = Parts::default();
        parts.add(if self.is_across_kinds { b"" } else { kind.as_bytes() });
        match &self.by {
            By::Key(key) if key.is_empty() => return Err(UniqueInvalid::NoKey),
            By::Key(key) => parts.add(b"key").add(key.as_bytes()),
            By::Payload => match serde_json::from_slice::<Value>(payload) {
                Ok(value) => parts.add(b"payload").add(&text(&value)),
                Err(_other) => parts.add(b"bytes").add(payload),
            },
            By::Fields(fields) if fields.is_empty() => return Err(UniqueInvalid::NoKey),
            By::Fields(fields) => {
                let Ok(Value::Object(object)) = serde_json::from_slice(payload) else {
                    return Err(UniqueInvalid::NoFields);
                };
                parts.add(b"fields");
                for field in fields {
                    parts.add(field.as_bytes()).add(&object.get(field).map_or_else(Vec::new, text));
                }
                &mut parts
            }
        };
        Ok((UniqueKey { digest: parts.digest(), lifetime: self.lifetime }, self.on_conflict))
    }
}

/// A value in one form: fields in the order of their names, no spaces. Written here, since the order in which serde_json
/// writes them depends on what other crates ask of it.
fn text(value: &Value) -> Vec<u8> {
    fn write(value: &Value, into: &mut Vec<u8>) {
        match value {
            Value::Array(values) => {
                into.push(b'[');
                for value in values {
                    write(value, into);
                    into.push(b',');
                }
                into.push(b']');
            }
            Value::Object(fields) => {
                let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
                sorted.sort_unstable_by_key(|(name, _)| *name);
                into.push(b'{');
                for (name, value) in sorted {
                    write_plain(name, into);
                    into.push(b':');
                    write(value, into);
                    into.push(b',');
                }
                into.push(b'}');
            }
            other => write_plain(other, into),
        }
    }
    fn write_plain(value: &impl Serialize, into: &mut Vec<u8>) {
        serde_json::to_writer(into, value).expect("a text or a number is written to memory");
    }
    let mut text = Vec::with_capacity(64);
    write(value, &mut text);
    text
}

/// Why a job cannot be unique in the way that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UniqueInvalid {
    /// No key and no field.
    #[error("a unique job needs a key: give a text that is not empty, or name at least one field")]
    NoKey,
    /// Fields of something that has none.
    #[error("unique by fields, but the payload is not a JSON object: use a key, or the whole payload")]
    NoFields,
    /// A window of no length.
    #[error("a window of zero holds a key for no time: give a longer one")]
    NoWindow,
    /// A first delay that is longer than the longest wait.
    #[error(
        "a debounced job waits for longer than its maximum before it is put off once: give a shorter delay"
    )]
    ShortWait,
    /// Nothing to put off.
    #[error("a debounced job waits before it starts: give it a delay")]
    NoDelay,
}

/// A key as a store sees it: what it compares, and how long it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqueKey {
    /// Equal for jobs of which one queue should have one. Says nothing about the queue, which the store adds.
    pub digest: Digest,
    /// How long it is held.
    pub lifetime: Lifetime,
}

/// 16 bytes of a SHA-256 over what makes a job unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// Of parts that are hashed each with its length: no two lists of parts are the same bytes.
    pub(crate) fn of<P: AsRef<[u8]>>(parts: &[P]) -> Self {
        let mut all = Parts::default();
        for part in parts {
            all.add(part.as_ref());
        }
        all.digest()
    }
}

/// What a digest is made of.
#[derive(Default)]
struct Parts(Sha256);

impl Parts {
    fn add(&mut self, part: &[u8]) -> &mut Self {
        self.0.update((part.len() as u64).to_be_bytes());
        self.0.update(part);
        self
    }

    fn digest(self) -> Digest {
        let mut digest = [0; 16];
        digest.copy_from_slice(&self.0.finalize()[..16]);
        Digest(digest)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        format!("{digest:?}")
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let number = (text.len() == 32).then(|| u128::from_str_radix(&text, 16).ok()).flatten();
        Ok(Self(number.ok_or("a digest is 32 hexadecimal digits")?.to_be_bytes()))
    }
}

/// How long a key is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub enum Lifetime {
    /// Until its job is first claimed. What comes back from a worker does not take it again.
    Start,
    /// Until its job has come to its end or is removed.
    End,
    /// For this long after the job was accepted.
    Window(Duration),
    /// Until the next multiple of this since 1970, by the store's clock.
    Slot(Duration),
}

impl Lifetime {
    /// The instant at which a key is free that a job takes now; nothing where the job decides.
    pub fn free_at(&self, now: Timestamp) -> Option<Timestamp> {
        match *self {
            Self::Start | Self::End => None,
            Self::Window(window) => Some(now.plus(window)),
            Self::Slot(slot) => {
                let slot = stored::micros(slot).max(1);
                let begun = now.as_micros().div_euclid(slot).saturating_mul(slot);
                Some(Timestamp::from_micros(begun.saturating_add(slot)))
            }
        }
    }

    /// Whether the key is free when a job that holds it goes from one state to another; `None` for one that is removed.
    pub fn ends_with(&self, to: Option<State>) -> bool {
        match self {
            Self::Start => to.is_none_or(|to| to == State::Running || to.is_terminal()),
            Self::End => to.is_none_or(State::is_terminal),
            Self::Window(_) | Self::Slot(_) => false,
        }
    }
}

/// As it is stored: `start`, `end`, or `window` or `slot` and the number of microseconds.
impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Start => f.write_str("start"),
            Self::End => f.write_str("end"),
            Self::Window(window) => write!(f, "window {}", stored::micros(window)),
            Self::Slot(slot) => write!(f, "slot {}", stored::micros(slot)),
        }
    }
}

impl FromStr for Lifetime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let span =
            |micros: &str| micros.parse().map(Duration::from_micros).map_err(|error| error.to_string());
        match text.split_once(' ') {
            None if text == "start" => Ok(Self::Start),
            None if text == "end" => Ok(Self::End),
            Some(("window", micros)) => span(micros).map(Self::Window),
            Some(("slot", micros)) => span(micros).map(Self::Slot),
            _ => Err(format!("{text:?} does not say how long a key is held")),
        }
    }
}

impl From<Lifetime> for String {
    fn from(lifetime: Lifetime) -> Self {
        lifetime.to_string()
    }
}

impl TryFrom<String> for Lifetime {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// What happens to a job whose key another one holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnConflict {
    /// It is not stored; the holder stays as it is.
    #[default]
    Keep,
    /// A holder that waits takes over what the new job says; see [`Unique::replace`].
    Replace,
    /// As `Replace`, and a scheduled holder waits longer; see [`Unique::debounce`].
    Debounce {
        /// How long after its acceptance the holder is due at the latest.
        wait_max: Option<Duration>,
    },
}

impl OnConflict {
    /// Whether a holder in this state takes over what the new job says. One that is gone has no state.
    pub fn replaces(&self, holder: Option<State>) -> bool {
        *self != Self::Keep && holder.is_some_and(State::is_waiting)
    }

    /// When a scheduled holder is due that was accepted then, and meets a job that would be due then; nothing if that
    /// stays as it is.
    pub fn due_at(&self, accepted: Timestamp, new_due: Timestamp) -> Option<Timestamp> {
        match *self {
            Self::Keep | Self::Replace => None,
            Self::Debounce { wait_max: None } => Some(new_due),
            Self::Debounce { wait_max: Some(wait_max) } => Some(new_due.min(accepted.plus(wait_max))),
        }
    }
}

#[cfg(test)]
mod tests;
