//! What a worker is set up with, before and after it was checked.

use std::time::Duration;

use windlass_core::Name;

use super::Wakeups;
use crate::attempt_log::LogLimits;
use crate::attempt_log::chunks::CHUNK_BYTES;
use crate::backoff::Backoff;
use crate::ctx::Defaults;
use crate::error::ConfigError;
use crate::internal::Internal;
use crate::maintenance::{self, Maintenance};
use crate::registry::Registry;
use crate::schedules::Declarations;
use crate::slots::{self, QueueSlots};
use crate::{fetcher, lease};

/// The settings of a worker, checked: those of its parts, and a few that several of them use.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) slots: slots::Config,
    pub(crate) fetcher: fetcher::Config,
    pub(crate) lease: lease::Config,
    pub(crate) maintenance: Maintenance,
    pub(crate) reaper: maintenance::Config,
    pub(crate) promoter: maintenance::Config,
    pub(crate) pruner: maintenance::Config,
    pub(crate) redriver: maintenance::Config,
    pub(crate) drain_deadline: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) blocking_threads: usize,
    pub(crate) slow_poll: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) declarations: Declarations,
}

impl Config {
    /// How long an async handler may hold its thread before it counts as blocked.
    pub(crate) fn blocked_after(&self) -> Duration {
        self.slow_poll.saturating_mul(100)
    }
}

/// The settings as they are given.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) concurrency: usize,
    pub(super) limits: Vec<(String, usize)>,
    pub(super) reserved: Vec<(String, usize)>,
    pub(super) weights: Vec<(String, u32)>,
    pub(super) prefetch_max: usize,
    pub(super) lease: Duration,
    pub(super) lease_least: Duration,
    pub(super) poll_interval: Duration,
    pub(super) wakeups: Wakeups,
    pub(super) drain_deadline: Duration,
    pub(super) cancel_grace: Duration,
    pub(super) timeout: Option<Duration>,
    pub(super) name: Option<String>,
    pub(super) blocking_threads: Option<usize>,
    pub(super) maintenance: Maintenance,
    pub(super) reap_interval: Option<Duration>,
    pub(super) prune_interval: Duration,
    pub(super) redrive_interval: Duration,
    pub(super) slow_poll: Duration,
    pub(super) backoff: Backoff,
    pub(super) log_limits: LogLimits,
    pub(super) internal: Internal,
    pub(super) declarations: Declarations,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            concurrency: 64,
            limits: Vec::new(),
            reserved: Vec::new(),
            weights: Vec::new(),
            prefetch_max: 2_000,
            lease: Duration::from_secs(30),
            lease_least: Duration::from_secs(5),
            poll_interval: Duration::from_secs(2),
            wakeups: Wakeups::On,
            drain_deadline: Duration::from_secs(20),
            cancel_grace: Duration::from_secs(3),
            timeout: None,
            name: None,
            blocking_threads: None,
            maintenance: Maintenance::On,
            reap_interval: None,
            prune_interval: Duration::from_secs(60),
            redrive_interval: Duration::from_secs(30),
            slow_poll: Duration::from_millis(100),
            backoff: Backoff::default(),
            log_limits: LogLimits::default(),
            internal: Internal::On,
            declarations: Declarations::default(),
        }
    }
}

/// The longest duration that is told apart from longer ones. Sums of it with any instant of this process do not overflow.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl Draft {
    /// The settings if they make sense together.
    pub(super) fn check(mut self, registry: &Registry) -> Result<Config, ConfigError> {
        for duration in [
            &mut self.lease,
            &mut self.poll_interval,
            &mut self.drain_deadline,
            &mut self.cancel_grace,
            &mut self.prune_interval,
            &mut self.log_limits.ttl,
            &mut self.redrive_interval,
        ]
        .into_iter()
        .chain(&mut self.reap_interval)
        {
            *duration = LONGEST.min(*duration);
        }
        if let Some(threads) = self.blocking_threads {
            at_least("blocking_threads", threads, 1)?;
        }
        if self.log_limits.bytes_max > 0 {
            at_least("log_bytes", self.log_limits.bytes_max, 4 * CHUNK_BYTES)?;
        }
        at_least_long("log_ttl", self.log_limits.ttl, Duration::from_secs(1))?;
        self.declarations.check()?;
        let tick = Duration::from_millis(1);
        at_least_long("slow_poll", self.slow_poll, tick)?;
        let slots = slots::Config {
            concurrency: self.concurrency,
            queues: self.queues(registry)?,
            prefetch_max: self.prefetch_max,
        };
        slots.check()?;
        registry.check_batches(&slots)?;
        let fetcher = fetcher::Config {
            queues: slots.queue_names(),
            kinds: registry.kinds(),
            poll_interval: self.poll_interval,
            wakeups: self.wakeups,
            defaults: Defaults { timeout: self.timeout, log_limits: self.log_limits },
            unknown: fetcher::UnknownConfig::default(),
        };
        fetcher.check()?;
        let lease = lease::Config {
            worker: self.name.unwrap_or_else(label),
            queues: slots.queue_names(),
            kinds: fetcher.kinds.clone(),
            ttl: self.lease,
        };
        lease.check(self.lease_least)?;
        let reap_interval = self.reap_interval.unwrap_or((self.lease / 6).max(tick));
        let promote_interval = self.poll_interval.max(Duration::from_secs(1));
        Ok(Config {
            slots,
            fetcher,
            lease,
            maintenance: self.maintenance,
            reaper: maintenance::Config::new("reap_interval", reap_interval)?,
            promoter: maintenance::Config::new("poll_interval", promote_interval)?,
            pruner: maintenance::Config::new("prune_interval", self.prune_interval)?,
            redriver: maintenance::Config::new("redrive_interval", self.redrive_interval)?,
            drain_deadline: self.drain_deadline,
            cancel_grace: self.cancel_grace,
            blocking_threads: self.blocking_threads.unwrap_or(self.concurrency),
            slow_poll: self.slow_poll,
            backoff: self.backoff,
            declarations: self.declarations,
        })
    }

    /// Every queue that is named, or that a registered kind goes to.
    fn queues(&self, registry: &Registry) -> Result<Vec<QueueSlots>, ConfigError> {
        let mut queues: Vec<QueueSlots> = Vec::new();
        let mut entry = |queue: Name| {
            let found = queues.iter().position(|slots| slots.queue == queue);
            found.unwrap_or_else(|| {
                queues.push(QueueSlots { queue, reserved: 0, limit: usize::MAX, weight: 1 });
                queues.len() - 1
            })
        };
        let mut settings = Vec::new();
        for (name, slots) in &self.limits {
            at_least("slots of a queue", *slots, 1)?;
            settings.push((entry(named(name)?), Setting::Limit(*slots)));
        }
        for (name, slots) in &self.reserved {
            settings.push((entry(named(name)?), Setting::Reserved(*slots)));
        }
        for (name, weight) in &self.weights {
            settings.push((entry(named(name)?), Setting::Weight(*weight)));
        }
        for queue in registry.queues() {
            entry(queue.clone());
        }
        for (index, setting) in settings {
            let slots = &mut queues[index];
            match setting {
                Setting::Limit(limit) => slots.limit = limit,
                Setting::Reserved(reserved) => slots.reserved = reserved,
                Setting::Weight(weight) => slots.weight = weight,
            }
        }
        Ok(queues)
    }
}

/// What is said of one queue.
enum Setting {
    Limit(usize),
    Reserved(usize),
    Weight(u32),
}

fn named(name: &str) -> Result<Name, ConfigError> {
    Name::new(name).map_err(|error| ConfigError::Name { what: "queue", error })
}

fn at_least(what: &'static str, given: usize, least: usize) -> Result<(), ConfigError> {
    if given < least { Err(ConfigError::TooSmall { what, given, least }) } else { Ok(()) }
}

/// Whether a duration is long enough.
pub(crate) fn at_least_long(what: &'static str, given: Duration, least: Duration) -> Result<(), ConfigError> {
    if given < least { Err(ConfigError::TooShort { what, given, least }) } else { Ok(()) }
}

/// Host and number of this process.
fn label() -> String {
    let host = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let host = host.as_deref().map(str::trim).filter(|host| !host.is_empty()).unwrap_or("worker");
    format!("{host}-{}", std::process::id())
}
