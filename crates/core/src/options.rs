//! What can be said about a job when it is enqueued, at one place or another.
//!
//! One precedence everywhere: what the call says wins over the job type's options, those over the definition of the queue
//! ([`JobDefaults`](crate::queue::JobDefaults)), and that over the library's default. [`Options::over`] is that rule.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::{JobInvalid, META_MAX, OnDead, Trace};
use crate::name::{Name, NameError};
use crate::retry::Policy;
use crate::unique::Unique;

/// Options of a job. Each is unset until it is said.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{Options, retry::Policy};
///
/// let job_type = Options::new().queue("mail").retry(Policy::exponential(8, Duration::from_secs(2)));
/// let call = Options::new().queue("mail.urgent").priority(10);
/// let options = call.over(job_type);
/// assert_eq!(options.queue_name().unwrap().as_str(), "mail.urgent");
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    pub(crate) queue: Option<String>,
    pub(crate) priority: Option<i16>,
    pub(crate) due: Option<Due>,
    /// Both a delay and an instant were said at one place.
    is_due_twice: bool,
    pub(crate) expires: Option<Duration>,
    pub(crate) key: Option<String>,
    pub(crate) unique: Option<Unique>,
    pub(crate) retry: Option<Policy>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) stalls_max: Option<u32>,
    pub(crate) tags: Vec<String>,
    pub(crate) trace: Option<Trace>,
    pub(crate) meta: BTreeMap<String, String>,
    pub(crate) on_dead: Option<OnDead>,
    pub(crate) forward_dead: Option<String>,
}

/// When a job may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Due {
    /// As soon as it is accepted.
    Now,
    /// This long after the store accepted it.
    After(Duration),
    /// At an instant of the store's clock.
    At(Timestamp),
    /// Not before it is sent by a [retry](crate::store::Jobs::retry): it begins as `blocked`.
    Held,
}

impl Due {
    /// How long after it is accepted, if that is how it was said.
    pub const fn delay(&self) -> Option<Duration> {
        match self {
            Self::After(delay) => Some(*delay),
            Self::Now | Self::At(_) | Self::Held => None,
        }
    }

    /// Not before which instant, if that is how it was said.
    pub const fn time(&self) -> Option<Timestamp> {
        match self {
            Self::At(time) => Some(*time),
            Self::Now | Self::After(_) | Self::Held => None,
        }
    }
}

impl From<Timestamp> for Due {
    fn from(time: Timestamp) -> Self {
        Self::At(time)
    }
}

impl From<SystemTime> for Due {
    fn from(time: SystemTime) -> Self {
        Self::At(time.into())
    }
}

/// The queue of jobs that name none.
pub const QUEUE_DEFAULT: &str = "default";
/// Lost leases that a job survives, unless it says otherwise.
pub const STALLS_MAX_DEFAULT: u32 = 3;
/// Tags that a job may carry.
pub const TAGS_MAX: usize = 16;

impl Options {
    /// Nothing said.
    pub fn new() -> Self {
        Self::default()
    }

    /// The queue to put it in; checked when the job is enqueued.
    #[must_use]
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queue = Some(name.into());
        self
    }

    /// Higher is claimed first; 0 by default.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Not before this long after it is accepted; instead of [`Options::at`], not beside it.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.is_due_twice |= matches!(self.due, Some(Due::At(_)));
        self.due = Some(Due::After(delay));
        self
    }

    /// Not before this instant, by the store's clock; instead of [`Options::delay`], not beside it.
    #[must_use]
    pub fn at(mut self, time: impl Into<SystemTime>) -> Self {
        self.is_due_twice |= matches!(self.due, Some(Due::After(_)));
        self.due = Some(Due::At(Timestamp::from(time.into())));
        self
    }

    /// Dead with reason `expired` unless it starts within this time after it is accepted.
    #[must_use]
    pub fn expires_in(mut self, expiry: Duration) -> Self {
        self.expires = Some(expiry);
        self
    }

    /// The key that it takes turns by with jobs of other keys in its queue, such as the customer that it is for. Its queue may
    /// limit how many jobs of one key run or start ([`KeyRules`](crate::queue::KeyRules)). Checked when the job is enqueued.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// At most one job of its queue has this; see [`Unique`].
    #[must_use]
    pub fn unique(mut self, unique: Unique) -> Self {
        self.unique = Some(unique);
        self
    }

    /// When and how often to try again.
    #[must_use]
    pub fn retry(mut self, policy: Policy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// How long one attempt may take; longer than zero.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How many lost leases the job survives.
    #[must_use]
    pub fn max_stalls(mut self, stalls: u32) -> Self {
        self.stalls_max = Some(stalls);
        self
    }

    /// Adds a word to find the job by.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// The trace that the job belongs to, as the header `traceparent` of a request says it. A text that is not one is left out,
    /// for it came from elsewhere and is none of the job's business.
    #[must_use]
    pub fn traceparent(self, parent: impl AsRef<str>) -> Self {
        match Trace::of_headers(parent.as_ref(), None) {
            Some(trace) => self.trace(trace),
            None => self,
        }
    }

    /// The trace that the job belongs to.
    #[must_use]
    pub fn trace(mut self, trace: Trace) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Adds a value that the handler and everyone who looks at the job can read. Nothing is decided by it.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }

    /// What is enqueued when the job dies, in the same write.
    #[must_use]
    pub fn on_dead(mut self, hook: OnDead) -> Self {
        self.on_dead = Some(hook);
        self
    }

    /// The queue that the job is sent to when it dies, as a new job with all its attempts, in the same write. It stays among the
    /// dead of its own queue, too. Checked when the job is enqueued.
    #[must_use]
    pub fn forward_dead(mut self, queue: impl Into<String>) -> Self {
        self.forward_dead = Some(queue.into());
        self
    }

    /// Whether the job may die inside the store, because it does not start in time, and something is to follow that.
    pub fn is_followed_when_expired(&self) -> bool {
        self.expires.is_some() && (self.on_dead.is_some() || self.forward_dead.is_some())
    }

    /// These options, and where they say nothing, those of `base`. Tags add up, and so does meta.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        let mut tags = base.tags;
        tags.extend(self.tags);
        let mut meta = base.meta;
        meta.extend(self.meta);
        Self {
            queue: self.queue.or(base.queue),
            priority: self.priority.or(base.priority),
            due: self.due.or(base.due),
            is_due_twice: if self.due.is_some() { self.is_due_twice } else { base.is_due_twice },
            expires: self.expires.or(base.expires),
            key: self.key.or(base.key),
            unique: self.unique.or(base.unique),
            retry: self.retry.or(base.retry),
            timeout: self.timeout.or(base.timeout),
            stalls_max: self.stalls_max.or(base.stalls_max),
            tags,
            trace: self.trace.or(base.trace),
            meta,
            on_dead: self.on_dead.or(base.on_dead),
            forward_dead: self.forward_dead.or(base.forward_dead),
        }
    }

    /// Whether these options make sense. Names are checked where they are used.
    ///
    /// # Errors
    /// With a delay and an instant at once, a timeout of zero, too much meta, or a retry policy that makes no sense.
    pub fn check(&self) -> Result<(), JobInvalid> {
        if self.is_due_twice {
            return Err(JobInvalid::DueTwice);
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(JobInvalid::NoTime);
        }
        let size = self.meta.iter().map(|(key, value)| key.len() + value.len()).sum();
        if size > META_MAX {
            return Err(JobInvalid::Meta { size });
        }
        match &self.retry {
            Some(policy) => policy.check().map_err(JobInvalid::Retry),
            None => Ok(()),
        }
    }

    /// What they say makes a job unique.
    pub fn unique_by(&self) -> Option<&Unique> {
        self.unique.as_ref()
    }

    /// The text that they give for the queue, or the default one. It may break the rules of names.
    pub fn queue_text(&self) -> &str {
        self.queue.as_deref().unwrap_or(QUEUE_DEFAULT)
    }

    /// The queue these options lead to.
    pub fn queue_name(&self) -> Result<Name, NameError> {
        Name::new(self.queue_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_delay_and_an_instant_at_one_place_are_refused() {
        let now = SystemTime::UNIX_EPOCH;
        let both = [Options::new().delay(SECOND).at(now), Options::new().at(now).delay(SECOND)];
        for options in both {
            assert_eq!(options.check(), Err(JobInvalid::DueTwice));
            assert_eq!(Options::new().priority(1).over(options.clone()).check(), Err(JobInvalid::DueTwice));
            assert_eq!(Options::new().at(now).over(options).check(), Ok(()), "the call's word counts");
        }
        assert_eq!(Options::new().delay(SECOND).delay(SECOND).check(), Ok(()));
        let call = Options::new().at(now).over(Options::new().delay(SECOND));
        assert_eq!((call.check(), call.due), (Ok(()), Some(Due::At(now.into()))), "precedence, not a slip");
    }

    #[test]
    fn meta_adds_up_and_is_bounded() {
        let base = Options::new().meta("tenant", "a").meta("plan", "free");
        let both = Options::new().meta("tenant", "b").over(base);
        assert_eq!(both.meta, [("plan".into(), "free".into()), ("tenant".into(), "b".into())].into());
        assert_eq!(Options::new().meta("k", "v".repeat(META_MAX - 1)).check(), Ok(()));
        let size = META_MAX + 1;
        assert_eq!(Options::new().meta("k", "v".repeat(META_MAX)).check(), Err(JobInvalid::Meta { size }));
    }

    #[test]
    fn a_timeout_of_zero_is_refused() {
        assert_eq!(Options::new().timeout(Duration::ZERO).check(), Err(JobInvalid::NoTime));
        assert_eq!(Options::new().timeout(Duration::from_nanos(1)).check(), Ok(()));
    }
}
