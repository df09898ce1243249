//! Schedules that a worker declares in its code: set when it starts, and those that their owner no longer declares are removed.

use std::collections::BTreeSet;
use std::fmt;

use windlass_core::record::RecordKey;
use windlass_core::schedule::{Schedule, Template, check_id};
use windlass_core::store::PAGE_MAX;
use windlass_core::{Bytes, NewJob, Options};

use super::index;
use crate::client::Client;
use crate::error::{ConfigError, Error, Result};
use crate::retries::backoff;
use crate::shutdown::Shutdown;

/// One schedule that a worker declares.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    pub(crate) id: String,
    pub(crate) schedule: Schedule,
    pub(crate) kind: &'static str,
    pub(crate) payload: std::result::Result<Bytes, String>,
    pub(crate) options: Options,
}

/// All that a worker declares.
#[derive(Clone, Default)]
pub(crate) struct Declarations {
    pub(crate) owner: Option<String>,
    pub(crate) schedules: Vec<Declared>,
}

impl Declared {
    /// Fails as the store would later.
    fn check(&self) -> std::result::Result<(), ConfigError> {
        let bad = |error: String| ConfigError::Schedule { id: self.id.clone(), error };
        check_id(&self.id).map_err(|error| bad(error.to_string()))?;
        self.schedule.recurrence().map_err(|error| bad(error.to_string()))?;
        let payload = self.payload.clone().map_err(bad)?;
        let job = NewJob::new(self.kind, payload, self.options.clone()).map_err(|e| bad(e.to_string()))?;
        Template::of(&job).map(drop).map_err(|error| bad(error.to_string()))
    }
}

impl Declarations {
    pub(crate) fn check(&self) -> std::result::Result<(), ConfigError> {
        let mut ids = BTreeSet::new();
        for declared in &self.schedules {
            declared.check()?;
            if !ids.insert(&declared.id) {
                let error = "it is declared twice".to_owned();
                return Err(ConfigError::Schedule { id: declared.id.clone(), error });
            }
        }
        Ok(())
    }

    /// Whether the worker has said anything about schedules.
    pub(crate) fn is_empty(&self) -> bool {
        self.owner.is_none() && self.schedules.is_empty()
    }

    /// Sets what is declared, and removes what the same owner has declared before and does no longer. Without an owner nothing is
    /// removed: two workers of one program that declare different schedules must not remove each other's.
    pub(crate) async fn run_once(&self, client: &Client) -> Result<()> {
        let mut failed = None;
        for declared in &self.schedules {
            // What is wrong with one keeps no other from being set.
            match Box::pin(self.set(client, declared)).await {
                Ok(()) => {}
                // The same words are refused again.
                Err(error @ Error::Schedule(_)) => {
                    tracing::error!(schedule = declared.id, %error, "a declared schedule was not set");
                }
                Err(error) => {
                    tracing::warn!(schedule = declared.id, %error, "a declared schedule was not set yet");
                    failed.get_or_insert(error);
                }
            }
        }
        if let Some(owner) = &self.owner {
            self.remove_others(client, owner).await?;
        }
        failed.map_or(Ok(()), Err)
    }

    async fn set(&self, client: &Client, declared: &Declared) -> Result<()> {
        let payload = declared.payload.clone().unwrap_or_default();
        let job = client.new_raw_job(declared.kind, payload, declared.options.clone()).await?;
        let draft = client.schedule(&declared.id).when(declared.schedule.clone());
        draft.owner(self.owner.clone()).set(&job).await.map(drop)
    }

    async fn remove_others(&self, client: &Client, owner: &str) -> Result<()> {
        let declared: BTreeSet<&str> = self.schedules.iter().map(|one| one.id.as_str()).collect();
        let mut after: Option<RecordKey> = None;
        loop {
            let (entries, next) = index::page(client, after.as_ref(), PAGE_MAX).await?;
            for (id, entry) in entries {
                if entry.owner.as_deref() == Some(owner) && !declared.contains(id.as_str()) {
                    client.schedule(&id).delete().await?;
                    tracing::info!(schedule = id, owner, "removed a schedule that is no longer declared");
                }
            }
            after = next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Does that until it has succeeded, or the worker ends.
    pub(crate) async fn run(self, client: Client, mut shutdown: Shutdown) {
        let mut failures = 0;
        while shutdown.is_running() {
            let Err(error) = self.run_once(&client).await else { return };
            failures += 1;
            tracing::warn!(%error, failures, "declared schedules were not set, will try again");
            tokio::select! {
                () = tokio::time::sleep(backoff(failures)) => {}
                () = shutdown.changed() => {}
            }
        }
    }
}

impl fmt::Debug for Declarations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.schedules.iter().map(|declared| &declared.id);
        f.debug_list().entries(ids).finish()
    }
}
