//! What can be said about a job when it is enqueued, at one place or another.
//!
//! One precedence everywhere: what the call says wins over the job type's options, those over the queue's
//! definition, and that over the library's default. [`Options::over`] is that rule.

use std::time::{Duration, SystemTime};

use crate::clock::Timestamp;
use crate::name::{Name, NameError};
use crate::retry::Policy;

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
    pub(crate) expires: Option<Duration>,
    pub(crate) retry: Option<Policy>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) stalls_max: Option<u32>,
    pub(crate) tags: Vec<String>,
}

/// When a job may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Due {
    /// As soon as it is accepted.
    Now,
    /// This long after the store accepted it.
    After(Duration),
    /// At an instant of the store's clock.
    At(Timestamp),
}

impl Due {
    /// How long after it is accepted, if that is how it was said.
    pub const fn delay(&self) -> Option<Duration> {
        match self {
            Self::After(delay) => Some(*delay),
            Self::Now | Self::At(_) => None,
        }
    }

    /// Not before which instant, if that is how it was said.
    pub const fn time(&self) -> Option<Timestamp> {
        match self {
            Self::At(time) => Some(*time),
            Self::Now | Self::After(_) => None,
        }
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

    /// Not before this long after it is accepted.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.due = Some(Due::After(delay));
        self
    }

    /// Not before this instant, by the store's clock.
    #[must_use]
    pub fn at(mut self, time: impl Into<SystemTime>) -> Self {
        self.due = Some(Due::At(Timestamp::from(time.into())));
        self
    }

    /// Dead with reason `expired` unless it starts within this time after it is accepted.
    #[must_use]
    pub fn expires_in(mut self, expiry: Duration) -> Self {
        self.expires = Some(expiry);
        self
    }

    /// When and how often to try again.
    #[must_use]
    pub fn retry(mut self, policy: Policy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// How long one attempt may take.
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

    /// These options, and where they say nothing, those of `base`. Tags add up.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        let mut tags = base.tags;
        tags.extend(self.tags);
        Self {
            queue: self.queue.or(base.queue),
            priority: self.priority.or(base.priority),
            due: self.due.or(base.due),
            expires: self.expires.or(base.expires),
            retry: self.retry.or(base.retry),
            timeout: self.timeout.or(base.timeout),
            stalls_max: self.stalls_max.or(base.stalls_max),
            tags,
        }
    }

    /// The queue these options lead to.
    pub fn queue_name(&self) -> Result<Name, NameError> {
        Name::new(self.queue.as_deref().unwrap_or(QUEUE_DEFAULT))
    }
}
