//! Changing what a queue hands out: pauses and limits. A change is made to the definition as it is, and made again if
//! another program has changed that meanwhile, so that two people who change one queue do not undo each other.

use std::time::Duration;

use windlass_core::queue::{Pause, QueueConfig};
use windlass_core::{Name, StoreError};

use super::QueueHandle;
use crate::error::{ConfigError, Error, Result};

/// How often a change is tried while other programs change the same definition.
const TRIES: usize = 20;
/// The longest pause between two tries.
const PAUSE: Duration = Duration::from_millis(30);

/// Why a queue is paused, for people, and for how long.
///
/// ```
/// use std::time::Duration;
/// use windlass_worker::Pausing;
///
/// let pausing = Pausing::new().by("ada").why("the mail server is ill").for_time(Duration::from_secs(3600));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pausing {
    by: String,
    why: String,
    time: Option<Duration>,
}

impl Pausing {
    /// Without an end.
    pub fn new() -> Self {
        Self::default()
    }

    /// Who asks for it.
    #[must_use]
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = by.into();
        self
    }

    /// Why.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// It ends by itself after this long, by the store's clock.
    #[must_use]
    pub fn for_time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }
}

impl QueueHandle {
    /// The newest rule that its definition uses, and the newest one that this program knows, if that is an older one: programs
    /// of this version then take nothing of the queue. Nothing also where the store cannot be asked at present.
    pub async fn unknown_rule(&self) -> Option<(u32, u32)> {
        // A change of such a definition is refused. This one is from a definition that no queue can have, so it never takes
        // effect.
        let never = QueueConfig { concurrency: Some(0), ..QueueConfig::default() };
        match self.store().redefine(self.name(), &never, &QueueConfig::default()).await {
            Err(StoreError::UnknownRules { rules, known, .. }) => Some((rules, known)),
            _ => None,
        }
    }

    /// Changes its definition as it is now, and answers the new one. The change is made again if another program has
    /// changed the definition in the same moment.
    ///
    /// # Errors
    /// [`Error::Busy`] if that happens too often, [`Error::Definition`] if the stored one does not read, and those of
    /// [`define`](Self::define).
    pub async fn change(&self, mut change: impl FnMut(&mut QueueConfig)) -> Result<QueueConfig> {
        for tried in 0..TRIES {
            if tried > 0 {
                tokio::time::sleep(PAUSE.mul_f64(fastrand::f64())).await;
            }
            let record = self.record().await?;
            if let Some(why) = record.as_ref().and_then(|record| record.unreadable.clone()) {
                return Err(Error::Definition { queue: self.name().clone(), why });
            }
            let before = record.map(|record| record.config).unwrap_or_default();
            let mut config = before.clone();
            change(&mut config);
            if config == before || self.store().redefine(self.name(), &before, &config).await? {
                self.forget_defaults();
                return Ok(config);
            }
        }
        Err(Error::Busy { queue: self.name().clone() })
    }

    /// Hands out no job of it from now on, on any worker. What runs goes on to its end, what is scheduled becomes ready,
    /// and jobs are accepted. A pause that is there already is replaced.
    pub async fn pause(&self, pausing: Pausing) -> Result<()> {
        let pause = self.made(pausing).await?;
        self.change(|config| config.pauses.queue = Some(pause.clone())).await.map(drop)
    }

    /// Ends the pause of the queue, not those of its kinds. Answers whether there was one.
    pub async fn resume(&self) -> Result<bool> {
        let mut was_paused = false;
        self.change(|config| was_paused = config.pauses.queue.take().is_some()).await?;
        Ok(was_paused)
    }

    /// As [`pause`](Self::pause), for the jobs of one kind.
    pub async fn pause_kind(&self, kind: impl AsRef<str>, pausing: Pausing) -> Result<()> {
        let (kind, pause) = (kind_name(kind)?, self.made(pausing).await?);
        let put = |config: &mut QueueConfig| drop(config.pauses.kinds.insert(kind.clone(), pause.clone()));
        self.change(put).await.map(drop)
    }

    /// Ends the pause of a kind. Answers whether there was one.
    pub async fn resume_kind(&self, kind: impl AsRef<str>) -> Result<bool> {
        let (kind, mut was_paused) = (kind_name(kind)?, false);
        self.change(|config| was_paused = config.pauses.kinds.remove(&kind).is_some()).await?;
        Ok(was_paused)
    }

    /// As [`pause`](Self::pause), for the jobs of one key.
    pub async fn pause_key(&self, key: impl AsRef<str>, pausing: Pausing) -> Result<()> {
        let (key, pause) = (key_name(key)?, self.made(pausing).await?);
        let put = |config: &mut QueueConfig| drop(config.pauses.keys.insert(key.clone(), pause.clone()));
        self.change(put).await.map(drop)
    }

    /// Ends the pause of a key. Answers whether there was one.
    pub async fn resume_key(&self, key: impl AsRef<str>) -> Result<bool> {
        let (key, mut was_paused) = (key_name(key)?, false);
        self.change(|config| was_paused = config.pauses.keys.remove(&key).is_some()).await?;
        Ok(was_paused)
    }

    async fn made(&self, Pausing { by, why, time }: Pausing) -> Result<Pause> {
        let until = match time {
            Some(time) => Some(self.store().now().await?.plus(time)),
            None => None,
        };
        Ok(Pause { by, why, until })
    }
}

fn key_name(key: impl AsRef<str>) -> Result<Name> {
    Ok(Name::new(key).map_err(|error| ConfigError::Name { what: "key", error })?)
}

fn kind_name(kind: impl AsRef<str>) -> Result<Name> {
    Ok(Name::new(kind).map_err(|error| ConfigError::Name { what: "kind", error })?)
}
