//! From a URL to a store. The only place that knows which stores there are.

use std::sync::Arc;

use windlass_core::{Store, StoreError};
use windlass_store_memory::MemoryStore;
use windlass_worker::{Client, Result};

/// Opens the store at a URL, and answers a client of it. Must be called inside a tokio runtime.
///
/// | URL | feature |
/// |---|---|
/// | `memory:` | always there |
/// | `sqlite://path`, `sqlite:path`, `sqlite::memory:` | `sqlite` (default) |
/// | `postgres://user:password@host:port/database` | `postgres` |
/// | `redis://host`, `redis+unix:///socket`, `redis-cluster://host,host` | `redis` |
/// | `https://host`, `http://host:port`: a Windlass server, with the token of `WINDLASS_TOKEN_FILE` | `http` |
/// | `redis-sentinel://host,host/primary`; with TLS `rediss://`, `rediss-cluster://`, `rediss-sentinel://` | `redis` |
///
/// The page of each store in `docs/operations` has the parameters of its URL. A PostgreSQL schema and a SQLite file
/// are made or brought up to date, unless the URL says otherwise (`migrate=never`, `create=never`).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let client = windlass::open("memory:").await.unwrap();
/// println!("jobs are kept: {}", client.about().durability);
///
/// let error = windlass::open("mysql://host/jobs").await.unwrap_err();
/// assert!(error.to_string().starts_with("no store is called \"mysql\": memory:"));
/// # }
/// ```
///
/// # Errors
/// When nothing can be opened there, or this program was built without the feature; the error says which URLs are
/// supported.
pub async fn open(url: impl AsRef<str>) -> Result<Client> {
    Ok(Client::new(open_store(url.as_ref().trim()).await?))
}

async fn open_store(url: &str) -> Result<Arc<dyn Store>> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("memory") => Ok(Arc::new(MemoryStore::new())),
        Some("sqlite") => open_sqlite(url).await,
        Some("postgres" | "postgresql") => open_postgres(url).await,
        Some(
            "redis" | "rediss" | "redis-cluster" | "rediss-cluster" | "redis-sentinel" | "rediss-sentinel"
            | "redis+unix" | "unix",
        ) => open_redis(url).await,
        Some("http" | "https") => open_http(url).await,
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

#[cfg(feature = "http")]
async fn open_http(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(windlass_store_http::HttpStore::open(url).await?))
}

#[cfg(not(feature = "http"))]
#[allow(clippy::unused_async)]
async fn open_http(_url: &str) -> Result<Arc<dyn Store>> {
    Err(without("http"))
}

#[cfg(not(all(feature = "http", feature = "sqlite", feature = "postgres", feature = "redis")))]
fn without(feature: &str) -> windlass_worker::Error {
    let text =
        format!("this program was built without the feature `{feature}`: switch it on; {}", supported());
    StoreError::Address(text).into()
}

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
    if cfg!(feature = "http") {
        urls.push("https://server");
    }
    match urls.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("{} and {last} are supported", others.join(", "))
        }
        _ => "memory: is supported".to_owned(),
    }
}

fn address(wrong: String) -> windlass_worker::Error {
    StoreError::Address(format!("{wrong}: {}", supported())).into()
}

fn short(text: &str) -> String {
    text.chars().take(64).collect()
}
