//! Rules that send dead jobs back by themselves: what they say, and where they are kept.
//!
//! A rule is a record, under its queue and its name, beside those of all other queues, so that one list finds them all. Workers
//! heed them in a round of maintenance (`maintenance::redriver`). How often a job was sent back is a record in its own queue.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::clock::Timestamp;
use windlass_core::fingerprint::Fingerprint;
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Record, RecordKey, RecordWrite};
use windlass_core::{JobId, JobRecord, Name, StoreError};

use super::{DeadFilter, DeadLetter};
use crate::client::{Client, Records};
use crate::error::{ConfigError, Error, Result};

/// Whose records the rules are. No jobs are in it.
pub(crate) const HOME: &str = "windlass.dead";
/// What keys of rules begin with.
pub(crate) const RULES: &str = "rule/";
/// What keys of queues begin with whose jobs may expire with something to follow.
pub(crate) const EXPIRING: &str = "expiring/";
/// The version of what a rule says.
const VERSION: u32 = 1;
/// How long it is remembered how often a job was sent back, from the last time on.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);
/// Rules that one call lists.
const PAGE: u32 = 1_000;

/// Sends dead jobs of a queue back by itself: those that match, some time after they died, and each only so often.
///
/// How often a job was sent back is stored beside it, for thirty days from the last time: a job whose handler always fails stays
/// dead after the last time. A job whose unique key another one holds when its turn comes stays dead, and that turn is gone; it is
/// logged. Where jobs are sent on when they die (`forward_dead`), each death sends a copy, also that of a job that a rule has sent
/// back.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DeadRule {
    /// The queue that it is about.
    pub queue: Name,
    /// What it is called there.
    pub name: Name,
    /// Jobs of this kind; of all if nothing.
    pub kind: Option<Name>,
    /// Jobs that died of this error; of any if nothing.
    pub fingerprint: Option<Fingerprint>,
    /// Jobs whose last error has this text in it, whatever the case.
    pub error: Option<String>,
    /// How long after its death a job is sent back. Sooner than about a minute it is not.
    pub after: Duration,
    /// How often a job is sent back at most, by all rules together.
    pub most: u32,
}

/// How often rules have sent a job back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Redriven {
    /// So often.
    pub count: u32,
    /// By which rule the last time.
    pub rule: Name,
    /// How often the job had been claimed when it died the last time. A second look at the same death counts nothing.
    pub fence: u64,
    /// When the last time was.
    pub at: Timestamp,
}

/// A rule as it is stored; its key has its queue and its name.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<Fingerprint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// In seconds.
    after: u64,
    most: u32,
}

impl DeadRule {
    /// A rule for all dead jobs of a queue: each once, an hour after its death.
    ///
    /// # Errors
    /// When one of them is not a name.
    pub fn new(queue: impl AsRef<str>, name: impl AsRef<str>) -> Result<Self> {
        let (queue, name) = (named("queue", queue)?, named("rule", name)?);
        let after = Duration::from_secs(3600);
        Ok(Self { queue, name, kind: None, fingerprint: None, error: None, after, most: 1 })
    }

    /// Only jobs of this kind.
    ///
    /// # Errors
    /// When it is not a name.
    pub fn kind(mut self, kind: impl AsRef<str>) -> Result<Self> {
        self.kind = Some(named("kind", kind)?);
        Ok(self)
    }

    /// Only jobs that died of this error.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// Only jobs whose last error has this text in it, whatever the case.
    #[must_use]
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.error = Some(text.into());
        self
    }

    /// So long after the death, in whole seconds.
    #[must_use]
    pub fn after(mut self, after: Duration) -> Self {
        self.after = after;
        self
    }

    /// Each job so often at most; at least once.
    #[must_use]
    pub fn most(mut self, most: u32) -> Self {
        self.most = most.max(1);
        self
    }

    /// Whether a dead job is one of those that it is about.
    pub fn matches(&self, letter: &DeadLetter) -> bool {
        letter.job.queue == self.queue && self.filter().matches(letter)
    }

    fn filter(&self) -> DeadFilter {
        let Self { kind, fingerprint, error, .. } = self;
        DeadFilter::of_rule(kind.clone(), *fingerprint, error.clone())
    }

    pub(crate) fn key(queue: &Name, name: &Name) -> Result<RecordKey> {
        Ok(RecordKey::new(format!("{RULES}{queue}/{name}"))?)
    }

    /// The rule of a record; an error in words where it does not read.
    pub(crate) fn read(record: &Record) -> Result<Self, String> {
        let key = record.key.as_str();
        let names = key.strip_prefix(RULES).and_then(|names| names.split_once('/'));
        let names = names.and_then(|(queue, name)| Some((Name::new(queue).ok()?, Name::new(name).ok()?)));
        let (queue, name) = names.ok_or_else(|| format!("{key} does not name a queue and a rule"))?;
        let stored: Stored = serde_json::from_slice(&record.value)
            .map_err(|error| format!("the rule {name} of queue {queue} does not read: {error}"))?;
        if stored.v > VERSION {
            return Err(format!("the rule {name} of queue {queue} is of a newer program"));
        }
        let Stored { v: _, kind, fingerprint, error, after, most } = stored;
        Ok(Self { queue, name, kind, fingerprint, error, after: Duration::from_secs(after), most })
    }

    fn text(&self) -> Result<Vec<u8>> {
        let Self { kind, fingerprint, error, after, most, .. } = self.clone();
        let stored = Stored { v: VERSION, kind, fingerprint, error, after: after.as_secs(), most };
        serde_json::to_vec(&stored).map_err(|error| Error::Encode { kind: "rule", error })
    }
}

impl Client {
    /// All rules that send dead jobs back, by queue and name.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass_worker::Result<()> {
    /// # use std::{sync::Arc, time::Duration};
    /// # use windlass_worker::DeadRule;
    /// # let client = windlass_worker::Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
    /// let rule = DeadRule::new("mail", "outages")?.error("timed out").after(Duration::from_secs(600)).most(3);
    /// client.set_dead_rule(&rule).await?;
    /// assert_eq!(client.dead_rules().await?, [rule]);
    /// assert!(client.remove_dead_rule("mail", "outages").await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store's. A rule that does not read, or is of a newer program, is left out and logged.
    pub async fn dead_rules(&self) -> Result<Vec<DeadRule>> {
        let (home, mut rules, mut after) = (self.records(HOME)?, Vec::new(), None);
        loop {
            let page = home.list(RULES, after.as_ref(), PAGE).await?;
            for record in &page.records {
                match DeadRule::read(record) {
                    Ok(rule) => rules.push(rule),
                    Err(why) => tracing::warn!(why, "a rule for dead jobs is left out"),
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(rules);
            }
        }
    }

    /// Stores a rule, also over one of the same name. It looks at all dead jobs of its queue, those from before as well.
    ///
    /// # Errors
    /// The store's, and when the names of the queue and the rule are too long together.
    pub async fn set_dead_rule(&self, rule: &DeadRule) -> Result<()> {
        let key = DeadRule::key(&rule.queue, &rule.name)?;
        // How far rounds are is kept under a longer key.
        RecordKey::new(place_text(key.as_str()))?;
        let write = RecordWrite::put(key, rule.text()?);
        let what = FollowUps { jobs: Vec::new(), records: vec![write] };
        self.records(HOME)?.write(what).await.map(drop)
    }

    /// Removes a rule; false where there is none.
    ///
    /// # Errors
    /// The store's, and when one of them is not a name.
    pub async fn remove_dead_rule(&self, queue: impl AsRef<str>, name: impl AsRef<str>) -> Result<bool> {
        let key = DeadRule::key(&named("queue", queue)?, &named("rule", name)?)?;
        let home = self.records(HOME)?;
        let is_there = home.get_raw(&key).await?.is_some();
        home.remove(&key).await?;
        home.remove(place_key(key.as_str())?).await?;
        Ok(is_there)
    }

    /// How often rules have sent a job back; nothing where none has.
    ///
    /// # Errors
    /// The store's.
    pub async fn redriven(&self, job: &JobRecord) -> Result<Option<Redriven>> {
        let records = Records::of(self.clone(), job.queue.clone());
        Ok(records.get(redriven_key(job.id)?).await?.map(|found| found.value))
    }
}

/// Where it is kept how far a round has come with a rule or a queue.
pub(crate) fn place_key(of: &str) -> Result<RecordKey, StoreError> {
    RecordKey::new(place_text(of)).map_err(|error| StoreError::Corrupt(error.to_string()))
}

fn place_text(of: &str) -> String {
    format!("place/{of}")
}

/// Where it is kept how often a job was sent back.
pub(crate) fn redriven_key(id: JobId) -> Result<RecordKey, StoreError> {
    RecordKey::new(format!("redriven/{id}")).map_err(|error| StoreError::Corrupt(error.to_string()))
}

fn named(what: &'static str, text: impl AsRef<str>) -> Result<Name> {
    Ok(Name::new(text).map_err(|error| ConfigError::Name { what, error })?)
}
