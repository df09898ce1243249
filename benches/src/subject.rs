//! What is measured: a store at a durability level, fresh each time.

use std::path::PathBuf;

use anyhow::{Context, Result};
use tempfile::TempDir;
use windlass::Client;
use windlass::queue::{Keep, QueueConfig};

use crate::redis::{self, Database};
use crate::server::{Schema, Server, ServerCpu};

/// A store at a durability level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Memory,
    SqliteFull,
    SqliteNormal,
    Postgres,
    PostgresOff,
    /// With an append-only file that is synced every second.
    Redis,
    /// That persists nothing.
    RedisNone,
}

impl Subject {
    pub(crate) const ALL: [Self; 7] = [
        Self::Memory,
        Self::SqliteFull,
        Self::SqliteNormal,
        Self::Postgres,
        Self::PostgresOff,
        Self::Redis,
        Self::RedisNone,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::SqliteFull => "sqlite full",
            Self::SqliteNormal => "sqlite normal",
            Self::Postgres => "postgres",
            Self::PostgresOff => "postgres off",
            Self::Redis => "redis",
            Self::RedisNone => "redis none",
        }
    }

    /// The value of SQLite's `synchronous` or PostgreSQL's `synchronous_commit`.
    pub(crate) fn synchronous(self) -> &'static str {
        match self {
            Self::SqliteNormal => "normal",
            Self::Postgres => "on",
            Self::PostgresOff => "off",
            Self::Memory | Self::SqliteFull | Self::Redis | Self::RedisNone => "full",
        }
    }

    pub(crate) fn is_postgres(self) -> bool {
        matches!(self, Self::Postgres | Self::PostgresOff)
    }

    pub(crate) fn is_redis(self) -> bool {
        matches!(self, Self::Redis | Self::RedisNone)
    }

    /// Whether jobs lie on a server, which serves several connections and has a time of its own.
    pub(crate) fn has_server(self) -> bool {
        self.is_postgres() || self.is_redis()
    }

    /// Begins to count the server's time; nothing where there is no server of ours.
    pub(crate) fn server_cpu(self) -> Result<Option<ServerCpu>> {
        match self {
            Self::Postgres | Self::PostgresOff => Server::get().cpu(),
            Self::Redis | Self::RedisNone => redis::Server::get(self).cpu().map(Some),
            Self::Memory | Self::SqliteFull | Self::SqliteNormal => Ok(None),
        }
    }

    /// A fresh, empty place.
    pub(crate) fn place(self) -> Result<Place> {
        let ground = match self {
            Self::Memory => Ground::Memory,
            Self::SqliteFull | Self::SqliteNormal => Ground::Folder(tempfile::tempdir_in(base_folder()?)?),
            Self::Postgres | Self::PostgresOff => Ground::Schema(Schema::new()),
            Self::Redis | Self::RedisNone => Ground::Database(Database::new(self)),
        };
        Ok(Place { subject: self, ground })
    }
}

/// Where files of measurements lie: beside the build, not in a temporary folder that may be held in memory.
pub(crate) fn base_folder() -> Result<PathBuf> {
    let base = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    std::fs::create_dir_all(&base)?;
    Ok(base.canonicalize()?)
}

/// What becomes of completed jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finished {
    Kept,
    Deleted,
}

/// A fresh place for a store; removed when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) subject: Subject,
    ground: Ground,
}

#[derive(Debug)]
enum Ground {
    Memory,
    Folder(TempDir),
    Schema(Schema),
    Database(Database),
}

impl Place {
    /// The file, on SQLite.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        match &self.ground {
            Ground::Folder(folder) => Ok(folder.path().join("jobs.db")),
            _ => anyhow::bail!("{} has no file", self.subject.name()),
        }
    }

    /// The schema, on PostgreSQL.
    pub(crate) fn schema(&self) -> Result<&str> {
        match &self.ground {
            Ground::Schema(schema) => Some(schema.name.as_str()),
            _ => None,
        }
        .with_context(|| format!("{} has no schema", self.subject.name()))
    }

    /// The database, on Redis.
    pub(crate) fn database(&self) -> Result<&Database> {
        match &self.ground {
            Ground::Database(database) => Some(database),
            _ => None,
        }
        .with_context(|| format!("{} has no database", self.subject.name()))
    }

    /// Opens the store through the front door.
    pub(crate) async fn client(&self) -> Result<Client> {
        let synchronous = self.subject.synchronous();
        let url = match &self.ground {
            Ground::Memory => "memory:".to_owned(),
            Ground::Folder(_) => format!("sqlite://{}?synchronous={synchronous}", self.path()?.display()),
            Ground::Schema(schema) => schema.url(&format!("synchronous_commit={synchronous}")),
            Ground::Database(database) => database.url(),
        };
        Ok(windlass::open(url).await?)
    }

    /// As [`client`](Self::client), after the queue has been told what becomes of completed jobs.
    pub(crate) async fn client_with(&self, finished: Finished) -> Result<Client> {
        let client = self.client().await?;
        if finished == Finished::Deleted {
            let mut config = QueueConfig::default();
            config.retention.completed = Keep::NONE;
            client.define_queue("default", config).await?;
        }
        Ok(client)
    }

    /// Bytes on disk; on Redis, in the server's memory.
    pub(crate) fn bytes(&self) -> Result<u64> {
        match &self.ground {
            Ground::Memory => Ok(0),
            Ground::Schema(schema) => schema.bytes(),
            Ground::Database(database) => database.bytes(),
            Ground::Folder(folder) => {
                let mut bytes = 0;
                for entry in std::fs::read_dir(folder.path())? {
                    bytes += entry?.metadata()?.len();
                }
                Ok(bytes)
            }
        }
    }
}
