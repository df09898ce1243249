//! Sessions of browsers: begun by a token, held by a cookie, and ended with the token. Records of the server's own queue, so
//! that a restart of the server ends none.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::StoreError;
use windlass_worker::{Client, Records, Result};

use super::{HOME, Secret};

/// How the keys of sessions begin.
const PREFIX: &str = "session/";
/// How long a session holds.
pub(crate) const SESSION_TTL: Duration = Duration::from_secs(12 * 3600);

/// A session, as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Session {
    v: u32,
    /// The id of the token that it was begun by.
    pub(super) token: String,
    pub(super) hash: String,
}

/// The sessions of a store.
#[derive(Debug)]
pub(super) struct Sessions {
    client: Client,
}

impl Sessions {
    pub(super) fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    fn records(&self) -> Result<Records> {
        self.client.records(HOME)
    }

    pub(super) async fn begin(&self, token: &str) -> Result<Secret> {
        let secret = Secret::new()
            .map_err(|error| StoreError::Transaction(format!("there is no randomness: {error}")))?;
        let session = Session { v: 1, token: token.to_owned(), hash: secret.hash() };
        self.records()?.put(key(&secret.id), &session).if_absent().ttl(SESSION_TTL).await?;
        Ok(secret)
    }

    pub(super) async fn get(&self, id: &str) -> Result<Option<Session>> {
        let found = self.records()?.get_raw(key(id)).await?;
        Ok(found.and_then(|record| serde_json::from_slice(&record.value).ok()))
    }

    pub(super) async fn end(&self, id: &str) -> Result<()> {
        self.records()?.remove(key(id)).await
    }
}

fn key(id: &str) -> String {
    format!("{PREFIX}{id}")
}
