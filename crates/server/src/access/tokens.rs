//! Tokens: records of the server's own queue. What is kept is a name, a role, perhaps queues, and the hash of the secret.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use windlass_core::clock::Timestamp;
use windlass_core::record::Record;
use windlass_core::{Name, StoreError};
use windlass_worker::{Client, Error, Records, Result};

use super::{HOME, Role, Secret};

/// How the keys of tokens begin.
const PREFIX: &str = "token/";
/// The longest name of a token.
const NAME_MAX: usize = 100;
/// Queues that a token may be limited to.
const QUEUES_MAX: usize = 100;
/// Tokens that are listed.
const TOKENS_MAX: u32 = 1_000;

/// A token to be made.
#[derive(Debug, Clone)]
pub struct NewToken {
    name: String,
    role: Role,
    queues: Vec<Name>,
    ttl: Option<Duration>,
}

impl NewToken {
    /// For a person or a program, by a name that the audit shows.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self { name: name.into(), role, queues: Vec::new(), ttl: None }
    }

    /// Limited to these queues; all without any.
    #[must_use]
    pub fn queues(mut self, queues: impl IntoIterator<Item = Name>) -> Self {
        self.queues.extend(queues);
        self
    }

    /// It no longer holds after this long; without end if nothing is said.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

/// A token as it is listed, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenView {
    /// By which it is revoked.
    pub id: String,
    /// Whose it is.
    pub name: String,
    /// What it permits.
    pub role: Role,
    /// The queues that it is limited to; all if there are none.
    pub queues: Vec<Name>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// As it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Stored {
    v: u32,
    pub(super) name: String,
    pub(super) role: Role,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) queues: Vec<Name>,
    pub(super) hash: String,
    created_at: Timestamp,
}

/// The tokens of a store.
#[derive(Debug, Clone)]
pub struct Tokens {
    client: Client,
}

impl Tokens {
    /// Those of this client's store.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    fn records(&self) -> Result<Records> {
        self.client.records(HOME)
    }

    /// Makes a token, and answers its text. It is not kept: what is lost is made anew.
    ///
    /// # Errors
    /// For a name that is empty or too long, for too many queues, and the store's.
    pub async fn create(&self, token: NewToken) -> Result<(TokenView, String)> {
        let NewToken { name, role, queues, ttl } = token;
        if name.trim().is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
            return Err(refused(format!("a token needs a name of 1 to {NAME_MAX} printable characters")));
        }
        if queues.len() > QUEUES_MAX {
            return Err(refused(format!("a token is limited to at most {QUEUES_MAX} queues")));
        }
        let secret = Secret::new().map_err(|error| refused(format!("there is no randomness: {error}")))?;
        let created_at = self.client.store().now().await?;
        let hash = secret.hash();
        let stored = Stored { v: 1, name, role, queues, hash, created_at };
        let records = self.records()?;
        let mut put = records.put(key(&secret.id), &stored).if_absent();
        if let Some(ttl) = ttl {
            put = put.ttl(ttl);
        }
        put.await?;
        let expires_at = ttl.map(|ttl| created_at.plus(ttl));
        Ok((view(&secret.id, stored, expires_at), secret.reveal()))
    }

    /// All tokens that hold, up to a thousand.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self) -> Result<Vec<TokenView>> {
        let page = self.records()?.list(PREFIX, None, TOKENS_MAX).await?;
        Ok(page.records.iter().filter_map(read).collect())
    }

    /// Whether there is any token.
    ///
    /// # Errors
    /// The store's; a store without records has none.
    pub async fn any(&self) -> Result<bool> {
        match self.client.store().records() {
            Some(_) => Ok(!self.records()?.list(PREFIX, None, 1).await?.records.is_empty()),
            None => Ok(false),
        }
    }

    /// Revokes a token. Servers heed it within seconds. Answers whether there was one.
    ///
    /// # Errors
    /// The store's.
    pub async fn revoke(&self, id: &str) -> Result<bool> {
        let records = self.records()?;
        let Some(record) = records.get_raw(key(id)).await? else { return Ok(false) };
        records.remove(&record.key).await?;
        Ok(true)
    }

    /// The token with this id, as it is stored.
    pub(super) async fn stored(&self, id: &str) -> Result<Option<Stored>> {
        let found = self.records()?.get_raw(key(id)).await?;
        Ok(found.and_then(|record| serde_json::from_slice(&record.value).ok()))
    }
}

fn key(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// Nothing for a record that does not read: it permits nothing.
fn read(record: &Record) -> Option<TokenView> {
    let id = record.key.as_str().strip_prefix(PREFIX)?;
    Some(view(id, serde_json::from_slice(&record.value).ok()?, record.expires_at))
}

fn view(id: &str, stored: Stored, expires_at: Option<Timestamp>) -> TokenView {
    let Stored { name, role, queues, created_at, .. } = stored;
    TokenView { id: id.to_owned(), name, role, queues, created_at, expires_at }
}

fn refused(why: String) -> Error {
    StoreError::Transaction(why).into()
}

impl TokenView {
    /// When it was made, for people.
    pub fn created(&self) -> SystemTime {
        self.created_at.into()
    }
}
