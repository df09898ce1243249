//! The client as programs hold it: the engine's, and a door that knows the stores.

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;

use windlass_core::Store;
use windlass_worker::{Ctx, FromCtx, Result};

use crate::open::open_store;

/// Puts jobs into a store and asks about them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client(windlass_worker::Client);

impl Client {
    /// Opens the store at a URL. Must be called inside a tokio runtime.
    ///
    /// | URL | feature |
    /// |---|---|
    /// | `memory:` | always there |
    /// | `sqlite://path`, `sqlite:path`, `sqlite::memory:` | `sqlite` (default) |
    /// | `postgres://user:password@host:port/database` | `postgres` |
    /// | `redis://host`, `redis+unix:///socket`, `redis-cluster://host,host` | `redis` |
    /// | `redis-sentinel://host,host/primary`; with TLS `rediss://`, `rediss-cluster://`, `rediss-sentinel://` | `redis` |
    ///
    /// What else a URL may say stands on the page of each store in `docs/operations`. A PostgreSQL schema and a SQLite
    /// file are made or brought up to date, unless the URL says otherwise (`migrate=never`, `create=never`).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let client = windlass::Client::open("memory:").await.unwrap();
    /// println!("jobs are kept: {}", client.about().durability);
    ///
    /// let error = windlass::Client::open("mysql://host/jobs").await.unwrap_err();
    /// assert!(error.to_string().starts_with("no store is called \"mysql\": memory:"));
    /// # }
    /// ```
    ///
    /// # Errors
    /// When nothing can be opened there, or this program was built without the feature; the error says which URLs are
    /// supported.
    pub async fn open(url: impl AsRef<str>) -> Result<Self> {
        Ok(Self::new(open_store(url).await?))
    }

    /// A client of a store that was opened elsewhere. Must be called inside a tokio runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(windlass_worker::Client::new(store))
    }
}

impl Deref for Client {
    type Target = windlass_worker::Client;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl From<windlass_worker::Client> for Client {
    fn from(client: windlass_worker::Client) -> Self {
        Self(client)
    }
}

impl From<Client> for windlass_worker::Client {
    fn from(client: Client) -> Self {
        client.0
    }
}

impl<S: Sync> FromCtx<S> for Client {
    type Rejection = Infallible;
    async fn from_ctx(ctx: &Ctx, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(ctx.client().clone()))
    }
}
