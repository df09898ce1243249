//! Tokens that were asked for lately, so that a request costs no store call. What is revoked elsewhere is heeded when the
//! knowledge is too old.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_worker::{Client, Result};

use super::tokens::Stored;
use super::{Caller, Means, Secret, Tokens};

/// How long a token is taken for what it was.
const FRESH: Duration = Duration::from_secs(5);
/// The most tokens that are remembered; beyond that all are forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// Tokens by id.
#[derive(Debug)]
pub(crate) struct Known {
    tokens: Tokens,
    known: Mutex<HashMap<String, (Option<Stored>, Instant)>>,
}

impl Known {
    pub(crate) fn new(client: &Client) -> Self {
        Self { tokens: Tokens::new(client), known: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Option<Stored>, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who this text stands for; nothing for a text that is not a token which holds.
    pub(crate) async fn caller(&self, text: &str) -> Result<Option<Caller>> {
        let Some(secret) = Secret::read(text) else { return Ok(None) };
        let stored = self.stored(&secret.id).await?;
        Ok(stored.filter(|stored| secret.has_hash(&stored.hash)).map(|stored| caller(&stored, Means::Bearer)))
    }

    /// Who the token with this id stands for, for a session that was begun by it.
    pub(crate) async fn caller_of(&self, id: &str, means: Means) -> Result<Option<Caller>> {
        Ok(self.stored(id).await?.map(|stored| caller(&stored, means)))
    }

    async fn stored(&self, id: &str) -> Result<Option<Stored>> {
        if let Some((stored, at)) = self.lock().get(id)
            && at.elapsed() < FRESH
        {
            return Ok(stored.clone());
        }
        let stored = self.tokens.stored(id).await?;
        let mut known = self.lock();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(id.to_owned(), (stored.clone(), Instant::now()));
        Ok(stored)
    }

    /// A token was changed by this server.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().remove(id);
    }
}

fn caller(stored: &Stored, means: Means) -> Caller {
    let queues = (!stored.queues.is_empty()).then(|| stored.queues.as_slice().into());
    Caller { name: stored.name.as_str().into(), role: stored.role, queues, means }
}
