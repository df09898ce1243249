//! The Redis servers that are measured: one for each way to persist, started by this process. Each measurement has a
//! database of its own.

// The rivals' table and this one count a server's memory in the same way.
#[path = "../rivals/protocol/memory.rs"]
mod memory;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::Result;
use windlass_store_testkit::servers::{Aof, RedisServer, RedisSettings};

use crate::server::{self, ServerCpu};
use crate::subject::Subject;

/// A server of this run.
pub(crate) struct Server {
    own: RedisServer,
    /// A bit for each database that is in use.
    used: AtomicU16,
}

impl Server {
    /// The server of a subject, started when it is first asked for. It ends with this process.
    pub(crate) fn get(subject: Subject) -> &'static Self {
        static SYNCED: OnceLock<Server> = OnceLock::new();
        static FORGETFUL: OnceLock<Server> = OnceLock::new();
        // No rewrite of the append-only file begins in the middle of a measurement.
        let settings = RedisSettings::default().set("auto-aof-rewrite-percentage", 0);
        let start = |settings: RedisSettings| {
            server::keep_files_beside_build();
            Self { own: RedisServer::start(&settings), used: AtomicU16::new(0) }
        };
        match subject {
            Subject::RedisNone => FORGETFUL.get_or_init(|| start(settings)),
            _ => SYNCED.get_or_init(|| start(settings.aof(Aof::Everysec))),
        }
    }

    /// Begins to count the server's time.
    pub(crate) fn cpu(&self) -> Result<ServerCpu> {
        ServerCpu::since_now(self.own.pid())
    }

    /// Writes out what is left of earlier measurements, so that none pays for another.
    fn settle_down(&self) {
        let is_set = |name| self.own.info(name).as_deref() == Some("1");
        self.own.command(&["MEMORY", "PURGE"]);
        if is_set("aof_enabled") {
            self.own.command(&["BGREWRITEAOF"]);
            while is_set("aof_rewrite_in_progress") || is_set("aof_rewrite_scheduled") {
                // The server does not tell when it has ended.
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// A database for one measurement; emptied when dropped.
#[derive(Debug)]
pub(crate) struct Database {
    subject: Subject,
    number: u32,
}

impl Database {
    pub(crate) fn new(subject: Subject) -> Self {
        let server = Server::get(subject);
        server.settle_down();
        let take = |used: u16| (used != u16::MAX).then(|| used | 1 << used.trailing_ones());
        let before = server.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let number = before.expect("no more than sixteen places are in use at once").trailing_ones();
        Self { subject, number }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/{}", Server::get(self.subject).own.url(), self.number)
    }

    /// Bytes of all keys, also of other databases.
    pub(crate) fn bytes(&self) -> Result<u64> {
        memory::used_bytes(&format!("127.0.0.1:{}", Server::get(self.subject).own.port()))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let server = Server::get(self.subject);
        server.own.command(&["-n", &self.number.to_string(), "FLUSHDB", "SYNC"]);
        server.used.fetch_and(!(1 << self.number), Ordering::Relaxed);
    }
}
