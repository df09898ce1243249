//! Schedules that a worker declares in its code: set when it starts, and those that it no longer declares are removed.

use std::collections::BTreeSet;
use std::fmt;

use windlass_core::record::RecordKey;
use windlass_core::schedule::{Schedule, Template, check_id};
use windlass_core::store::PAGE_MAX;
use windlass_core::{Bytes, NewJob, Options};

use super::index;
use crate::client::Client;
use crate::error::{ConfigError, Result};
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

    /// Whose schedules they are: two programs on one store must not remove each other's.
    fn owner(&self) -> String {
        let program = || {
            let path = std::env::current_exe().ok()?;
            Some(path.file_stem()?.to_string_lossy().into_owned())
        };
        self.owner.clone().or_else(program).unwrap_or_else(|| "worker".to_owned())
    }

    /// Sets what is declared, and removes what the same owner has declared before and does no longer.
    pub(crate) async fn run_once(&self, client: &Client) -> Result<()> {
        let owner = self.owner();
        for declared in &self.schedules {
            let payload = declared.payload.clone().unwrap_or_default();
            let job = client.new_raw_job(declared.kind, payload, declared.options.clone()).await?;
            let draft = client.schedule(&declared.id).when(declared.schedule.clone()).owner(&owner);
            match draft.set(&job).await {
                // What is wrong with one keeps no other from being set.
                Err(error @ crate::error::Error::Schedule(_)) => {
                    tracing::error!(schedule = declared.id, %error, "a declared schedule was not set");
                }
                set => drop(set?),
            }
        }
        self.remove_others(client, &owner).await
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
