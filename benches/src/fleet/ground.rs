//! The stores that a fleet is measured on: servers of its own, which take many connections and count what they do.

use anyhow::Result;
use tempfile::TempDir;
use windlass::Client;
use windlass_store_testkit::servers::{Aof, PostgresServer, RedisServer, RedisSettings, Settings};

use super::counters::{Counted, Server};
use crate::{server, subject};

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sqlite,
    Postgres,
    Redis,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Sqlite, Self::Postgres, Self::Redis];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
        }
    }
}

/// The server of a kind of store, or none for files. Ends with this.
pub(super) struct Ground {
    pub(super) kind: Kind,
    server: Option<Server>,
}

/// A fresh store; a file is removed with it.
pub(super) struct Place {
    pub(super) url: String,
    _folder: Option<TempDir>,
}

impl Ground {
    pub(super) fn start(kind: Kind) -> Result<Self> {
        server::keep_files_beside_build();
        let server = match kind {
            Kind::Sqlite => None,
            Kind::Postgres => {
                let settings = Settings::default().durable().max_connections(1_700);
                let settings = settings.set("shared_buffers", "256MB").set("track_functions", "pl");
                Some(Server::Postgres(PostgresServer::start(&settings)))
            }
            Kind::Redis => {
                let settings = RedisSettings::default().aof(Aof::Everysec).set("maxclients", 10_000);
                Some(Server::Redis(RedisServer::start(&settings)))
            }
        };
        Ok(Self { kind, server })
    }

    /// An empty store that no other scene has.
    pub(super) fn place(&self) -> Result<Place> {
        let number = uuid::Uuid::new_v4().simple().to_string();
        let with = |url: String, parameter: &str| {
            let separator = if url.contains('?') { '&' } else { '?' };
            format!("{url}{separator}{parameter}=f{}", &number[..12])
        };
        let (url, folder) = match &self.server {
            None => {
                let folder = tempfile::tempdir_in(subject::base_folder()?)?;
                (format!("sqlite://{}", folder.path().join("jobs.db").display()), Some(folder))
            }
            Some(Server::Postgres(server)) => (with(server.url(), "schema"), None),
            Some(Server::Redis(server)) => (with(server.url(), "namespace"), None),
        };
        Ok(Place { url, _folder: folder })
    }

    /// What the server has counted so far.
    pub(super) fn counted(&self) -> Counted {
        self.server.as_ref().map(Server::counted).unwrap_or_default()
    }

    /// Connections to the server, apart from the one that asks.
    pub(super) fn connections(&self) -> u64 {
        self.server.as_ref().map_or(0, Server::connections)
    }
}

impl Place {
    pub(super) async fn client(&self) -> Result<Client> {
        Ok(windlass::open(&self.url).await?)
    }
}
