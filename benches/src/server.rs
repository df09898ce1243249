//! The PostgreSQL server that is measured: one that this process starts, durable and with the memory of a small
//! installation, or the one that `DATABASE_URL` names. Each measurement has a schema of its own.

// The rivals' table and this one count a server's time in the same way.
#[path = "../rivals/protocol/server.rs"]
mod cpu;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use windlass_store_testkit::servers::{PostgresServer, Settings};

pub(crate) use cpu::ServerCpu;

use crate::subject;

/// The server of this run.
pub(crate) struct Server {
    /// None when it was started elsewhere.
    own: Option<PostgresServer>,
}

impl Server {
    /// The server, started when it is first asked for. It ends with this process.
    pub(crate) fn get() -> &'static Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(|| {
            let is_named = std::env::var("DATABASE_URL").is_ok_and(|url| !url.is_empty());
            Self { own: (!is_named).then(start) }
        })
    }

    pub(crate) fn url(&self) -> String {
        self.own.as_ref().map_or_else(|| PostgresServer::shared().url().to_owned(), PostgresServer::url)
    }

    /// Begins to count the server's time; nothing when it is not ours.
    pub(crate) fn cpu(&self) -> Result<Option<ServerCpu>> {
        self.own.as_ref().map(|server| ServerCpu::since_now(server.pid())).transpose()
    }

    fn psql(&self, sql: &str) -> String {
        self.own.as_ref().map_or_else(|| PostgresServer::shared().psql(sql), |server| server.psql(sql))
    }

    /// Writes out what is left of earlier measurements, so that none pays for another.
    fn settle_down(&self) {
        if let Some(server) = &self.own {
            server.psql("CHECKPOINT");
        }
    }
}

/// Commits as durable as PostgreSQL makes them by itself; buffers and log as in any installation with traffic.
fn start() -> PostgresServer {
    let settings = Settings::default().durable().set("shared_buffers", "512MB").set("max_wal_size", "4GB");
    keep_files_beside_build();
    PostgresServer::start(&settings)
}

/// Makes servers that are started afterwards keep their files beside the build.
pub(crate) fn keep_files_beside_build() {
    if let Ok(folder) = folder() {
        // Refused if it was done before, which is as good.
        let _ = tempfile::env::override_temp_dir(&folder);
    }
}

/// Beside the build, not in a temporary folder that may be held in memory. Every account may make and remove folders of
/// their own there, as in the temporary folder: under root the server runs and clears up as another account.
fn folder() -> Result<PathBuf> {
    let folder = subject::base_folder()?.join("servers");
    std::fs::create_dir_all(&folder)?;
    std::fs::set_permissions(&folder, Permissions::from_mode(0o1777))?;
    Ok(folder)
}

/// A schema for one measurement; dropped with everything in it.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) name: String,
}

impl Schema {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        Server::get().settle_down();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Of this process, because another may weigh on the same server.
        Self { name: format!("b{}_{number}", std::process::id()) }
    }

    /// Where a store of ours opens it.
    pub(crate) fn url(&self, parameter: &str) -> String {
        let url = Server::get().url();
        let separator = if url.contains('?') { '&' } else { '?' };
        format!("{url}{separator}schema={}&{parameter}", self.name)
    }

    /// Bytes of the tables with their indexes.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let sql = format!(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class AS c \
             WHERE c.relkind = 'r' AND c.relnamespace = '{}'::regnamespace",
            self.name
        );
        Server::get().psql(&sql).parse().context("the size of a schema is not a number")
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        Server::get().psql(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name));
    }
}
