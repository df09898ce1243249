//! The cold part of a job: everything that was handed in and that no store decides by.
//!
//! A store keeps it as one text that it does not read, so a new option of this kind concerns no store. The text is JSON,
//! so that other languages and people at a prompt can write and read it. A job with nothing but defaults has none.
//!
//! `v` is the lowest version of this format that a reader must know to run the job. A reader ignores fields that it does
//! not know: an option that may be ignored needs no new version, one that must not be ignored does.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{OnDead, Trace, Unreadable};
use crate::name::Name;
use crate::options::STALLS_MAX_DEFAULT;
use crate::retry::Policy;

/// Bytes of keys and values together that a job carries as meta.
pub const META_MAX: usize = 4096;

/// The newest version that this program knows: 1, 2 where a policy spreads its delays by a share, 3 where something is
/// enqueued when the job dies, and 4 where it is sent on then.
const VERSION: i64 = 4;

/// The options of a job that no store decides by.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Spec {
    /// When and how often to try again.
    pub retry: Policy,
    /// How long one attempt may take; whole microseconds.
    pub timeout: Option<Duration>,
    /// How many lost leases the job survives.
    pub stalls_max: u32,
    /// The trace that the job belongs to.
    pub trace: Option<Trace>,
    /// Whatever its producer wants to say; at most [`META_MAX`] bytes.
    pub meta: BTreeMap<String, String>,
    /// What is enqueued when the job dies.
    pub on_dead: Option<OnDead>,
    /// The queue that it is sent to, as a new job, when it dies.
    pub forward_dead: Option<Name>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            retry: Policy::default(),
            timeout: None,
            stalls_max: STALLS_MAX_DEFAULT,
            trace: None,
            meta: BTreeMap::new(),
            on_dead: None,
            forward_dead: None,
        }
    }
}

/// How it is written. What has its default is left out.
#[derive(Serialize, Deserialize)]
struct Text {
    v: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<Policy>,
    /// In microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stalls_max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    meta: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_dead: Option<OnDead>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forward_dead: Option<Name>,
}

/// Only the version, for a text of which nothing else reads.
#[derive(Deserialize)]
struct Version {
    v: i64,
}

impl Spec {
    /// The text to store; nothing where all has its default.
    pub fn text(&self) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        let text = Text {
            v: match () {
                () if self.forward_dead.is_some() => 4,
                () if self.on_dead.is_some() => 3,
                () if self.retry.has_share() => 2,
                () => 1,
            },
            retry: (self.retry != Policy::default()).then(|| self.retry.clone()),
            timeout: self.timeout.map(|timeout| u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX)),
            stalls_max: (self.stalls_max != STALLS_MAX_DEFAULT).then_some(self.stalls_max),
            trace: self.trace.clone(),
            meta: self.meta.clone(),
            on_dead: self.on_dead.clone(),
            forward_dead: self.forward_dead.clone(),
        };
        Some(serde_json::to_string(&text).expect("numbers and names are JSON"))
    }

    /// Reads what [`text`](Self::text) wrote.
    ///
    /// # Errors
    /// [`Unreadable::Newer`] for a later version, [`Unreadable::Broken`] for anything else that does not read.
    pub fn read(text: Option<&str>) -> Result<Self, Unreadable> {
        let Some(text) = text else { return Ok(Self::default()) };
        if let Some(trace) = only_trace(text) {
            return Ok(Self { trace: Some(trace), ..Self::default() });
        }
        let read = serde_json::from_str::<Text>(text);
        let version = read.as_ref().map_or_else(
            |_| serde_json::from_str(text).map(|Version { v }| v).unwrap_or(VERSION),
            |read| read.v,
        );
        if version > VERSION {
            return Err(Unreadable::Newer { form: version });
        }
        let Text { v: _, retry, timeout, stalls_max, trace, meta, on_dead, forward_dead } =
            read.map_err(|error| Unreadable::Broken(format!("its options: {error}")))?;
        Ok(Self {
            retry: retry.unwrap_or_default(),
            timeout: timeout.map(Duration::from_micros),
            stalls_max: stalls_max.unwrap_or(STALLS_MAX_DEFAULT),
            trace,
            meta,
            on_dead,
            forward_dead,
        })
    }
}

/// The trace of a text that has nothing else, as [`Spec::text`] writes it. With traces nearly all texts are such, and parsing them
/// would cost more than all else of reading a job.
fn only_trace(text: &str) -> Option<Trace> {
    let parent = text.strip_prefix(r#"{"v":1,"trace":{"parent":""#)?.strip_suffix(r#""}}"#)?;
    // A text that goes on behind the trace has characters that stand for themselves nowhere in a string.
    let is_whole = !parent.contains(['"', '\\']);
    is_whole.then(|| Trace::new(parent, None).ok()).flatten()
}

/// As its text, which says its own version.
impl Serialize for Spec {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.text().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::read(Option::<String>::deserialize(from)?.as_deref()).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::Jitter;

    #[test]
    fn what_has_its_default_is_not_written() {
        assert_eq!(Spec::default().text(), None);
        assert_eq!(Spec::read(None), Ok(Spec::default()));
        let spec = Spec { timeout: Some(Duration::from_millis(1_500)), ..Spec::default() };
        assert_eq!(spec.text().as_deref(), Some(r#"{"v":1,"timeout":1500000}"#));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let spec = Spec {
            retry: Policy::linear(7, Duration::from_secs(3)),
            timeout: Some(Duration::from_secs(9)),
            stalls_max: 0,
            trace: Trace::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Some("a=1".into()))
                .ok(),
            meta: [("tenant".into(), "\u{0}ä\"".into())].into(),
            on_dead: None,
            forward_dead: None,
        };
        assert!(spec.text().unwrap().starts_with(r#"{"v":1,"#), "what older programs can read");
        assert_eq!(Spec::read(spec.text().as_deref()), Ok(spec.clone()));
        let shared = Spec { retry: spec.retry.clone().jitter(Jitter::share(0.1)), ..spec };
        assert!(shared.text().unwrap().starts_with(r#"{"v":2,"#));
        assert_eq!(Spec::read(shared.text().as_deref()), Ok(shared.clone()));
        let hooked = Spec { on_dead: OnDead::kind("alert").ok(), ..shared };
        assert!(hooked.text().unwrap().starts_with(r#"{"v":3,"#), "no program may forget it");
        assert_eq!(Spec::read(hooked.text().as_deref()), Ok(hooked.clone()));
        let sent_on = Spec { forward_dead: Name::new("elsewhere").ok(), ..hooked };
        assert!(sent_on.text().unwrap().starts_with(r#"{"v":4,"#), "no program may forget it");
        assert_eq!(Spec::read(sent_on.text().as_deref()), Ok(sent_on));
    }

    #[test]
    fn a_trace_alone_is_read_without_a_parser_and_as_with_one() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        let spec = Spec { trace: Trace::new(parent, None).ok(), ..Spec::default() };
        let text = spec.text().unwrap();
        assert_eq!(only_trace(&text), spec.trace);
        assert_eq!(Spec::read(Some(&text)), Ok(spec.clone()));
        assert_eq!(Spec::read(Some(&text.replace(':', ": "))), Ok(spec), "as others may write it");
        for other in [
            format!(r#"{{"v":1,"trace":{{"parent":"{parent}","state":"a=1"}}}}"#),
            format!(r#"{{"v":1,"trace":{{"parent":"{parent}"}},"stalls_max":7}}"#),
            format!(r#"{{"v":1,"trace":{{"parent":"{parent}"}},"meta":{{"k":"v"}}}}"#),
            format!(r#"{{"v":1,"trace":{{"parent":"cc{}-x","state":"a"}}}}"#, &parent[2..]),
            r#"{"v":1,"trace":{"parent":"x"}}"#.to_owned(),
        ] {
            assert_eq!(only_trace(&other), None, "{other}");
        }
    }

    #[test]
    fn a_later_version_is_left_to_a_newer_program() {
        let newer = |v: i64| Err(Unreadable::Newer { form: v });
        assert_eq!(Spec::read(Some(r#"{"v":6}"#)), newer(6));
        assert_eq!(Spec::read(Some(r#"{"v":5,"retry":"otherwise"}"#)), newer(5));
        let known = Spec { stalls_max: 5, ..Spec::default() };
        assert_eq!(Spec::read(Some(r#"{"v":1,"stalls_max":5,"colour":"red"}"#)), Ok(known), "may be ignored");
    }

    #[test]
    fn what_does_not_read_says_why() {
        for text in ["", "{}", "[]", r#"{"v":1,"timeout":-1}"#, r#"{"v":1,"retry":"never"}"#] {
            let Err(Unreadable::Broken(why)) = Spec::read(Some(text)) else { panic!("{text} reads") };
            assert!(why.starts_with("its options: "), "{why}");
        }
    }
}
