//! From a URL to a store. The only place that knows which stores there are.

use std::sync::Arc;

use windlass_core::{Store, StoreError};
use windlass_store_memory::MemoryStore;
use windlass_worker::Result;

/// What a URL may be.
const SUPPORTED: &str = match (cfg!(feature = "sqlite"), cfg!(feature = "postgres")) {
    (true, true) => "memory:, sqlite://path, sqlite::memory: and postgres://user@host/database are supported",
    (true, false) => "memory:, sqlite://path, sqlite:path and sqlite::memory: are supported",
    (false, true) => "memory: and postgres://user@host/database are supported",
    (false, false) => "memory: is supported",
};

/// Opens the store at a URL.
///
/// # Errors
/// When nothing can be opened there; the error says what is supported.
pub async fn open_store(url: impl AsRef<str>) -> Result<Arc<dyn Store>> {
    let url = url.as_ref().trim();
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("memory") => Ok(Arc::new(MemoryStore::new())),
        Some("sqlite") => open_sqlite(url).await,
        Some("postgres" | "postgresql") => open_postgres(url).await,
        Some(scheme @ ("redis" | "rediss" | "valkey")) => {
            Err(address(format!("this version has no store for {scheme}: {SUPPORTED}")))
        }
        // The rest of the URL may hold a password and is not repeated.
        Some(scheme) => Err(address(format!("no store is called {:?}: {SUPPORTED}", short(scheme)))),
        None if url.contains(['@', '=']) => Err(address(format!("this is no store URL: {SUPPORTED}"))),
        None => Err(address(format!("{:?} is no store URL: {SUPPORTED}", short(url)))),
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(windlass_store_sqlite::SqliteStore::open(url).await?))
}

#[cfg(not(feature = "sqlite"))]
#[allow(clippy::unused_async)]
async fn open_sqlite(_url: &str) -> Result<Arc<dyn Store>> {
    Err(address(format!("this program was built without the feature `sqlite`: switch it on; {SUPPORTED}")))
}

#[cfg(feature = "postgres")]
async fn open_postgres(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(windlass_store_postgres::PostgresStore::open(url).await?))
}

#[cfg(not(feature = "postgres"))]
#[allow(clippy::unused_async)]
async fn open_postgres(_url: &str) -> Result<Arc<dyn Store>> {
    Err(address(format!("this program was built without the feature `postgres`: switch it on; {SUPPORTED}")))
}

fn address(text: String) -> windlass_worker::Error {
    StoreError::Address(text).into()
}

fn short(text: &str) -> String {
    text.chars().take(64).collect()
}
