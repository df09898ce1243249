//! From a URL to a store. The only place that knows which stores there are.

use std::sync::Arc;

use windlass_core::{Store, StoreError};
use windlass_store_memory::MemoryStore;
use windlass_worker::Result;

/// What a URL may be, by what this program was built with.
fn supported() -> String {
    let mut urls = vec!["memory:"];
    if cfg!(feature = "sqlite") {
        urls.extend(["sqlite://path", "sqlite::memory:"]);
    }
    if cfg!(feature = "postgres") {
        urls.push("postgres://user@host/database");
    }
    if cfg!(feature = "redis") {
        urls.extend(["redis://host", "redis-cluster://host,host", "redis-sentinel://host,host/primary"]);
    }
    match urls.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("{} and {last} are supported", others.join(", "))
        }
        _ => "memory: is supported".to_owned(),
    }
}

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
        Some(
            "redis" | "rediss" | "redis-cluster" | "rediss-cluster" | "redis-sentinel" | "rediss-sentinel"
            | "redis+unix" | "unix",
        ) => open_redis(url).await,
        // The rest of the URL may hold a password and is not repeated.
        Some(scheme) => Err(address(format!("no store is called {:?}", short(scheme)))),
        None if url.contains(['@', '=']) => Err(address("this is not a store URL".into())),
        None => Err(address(format!("{:?} is not a store URL", short(url)))),
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(windlass_store_sqlite::SqliteStore::open(url).await?))
}

#[cfg(not(feature = "sqlite"))]
#[allow(clippy::unused_async)]
async fn open_sqlite(_url: &str) -> Result<Arc<dyn Store>> {
    Err(without("sqlite"))
}

#[cfg(feature = "postgres")]
async fn open_postgres(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(windlass_store_postgres::PostgresStore::open(url).await?))
}

#[cfg(not(feature = "postgres"))]
#[allow(clippy::unused_async)]
async fn open_postgres(_url: &str) -> Result<Arc<dyn Store>> {
    Err(without("postgres"))
}

#[cfg(feature = "redis")]
async fn open_redis(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(windlass_store_redis::RedisStore::open(url).await?))
}

#[cfg(not(feature = "redis"))]
#[allow(clippy::unused_async)]
async fn open_redis(_url: &str) -> Result<Arc<dyn Store>> {
    Err(without("redis"))
}

#[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "redis")))]
fn without(feature: &str) -> windlass_worker::Error {
    let text =
        format!("this program was built without the feature `{feature}`: switch it on; {}", supported());
    StoreError::Address(text).into()
}

fn address(wrong: String) -> windlass_worker::Error {
    StoreError::Address(format!("{wrong}: {}", supported())).into()
}

fn short(text: &str) -> String {
    text.chars().take(64).collect()
}
