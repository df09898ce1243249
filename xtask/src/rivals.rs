//! `cargo xtask rivals`: the same work on Windlass and on other job queues, on this machine and in turns, so that
//! whatever else the machine does meets all of them. The programs lie in `benches/rivals`.

pub(crate) mod locks;
mod program;
mod server;
mod table;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::shell;
use program::{Finished, Made, Program, Role};
use server::Server;
use table::Table;

/// A store that several job queues can keep their jobs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
    Redis,
}

/// On SQLite, the first is the one that rivals are compared with; the second shows our default.
const ON_SQLITE: [Program; 4] = [
    Program::new("windlass", Made::Cargo("sqlite/windlass"), Role::Ours, Finished::Kept),
    Program::new("windlass full", Made::Cargo("sqlite/windlass"), Role::Shown, Finished::Kept)
        .with(&["--synchronous", "full"]),
    Program::new("effectum", Made::Cargo("sqlite/effectum"), Role::Rival, Finished::Kept),
    Program::new("apalis", Made::Cargo("sqlite/apalis"), Role::Rival, Finished::Kept),
];

const ON_POSTGRES: [Program; 12] = [
    Program::new("windlass", Made::Cargo("postgres/windlass"), Role::Ours, Finished::Kept),
    Program::new(
        "windlass, finished deleted",
        Made::Cargo("postgres/windlass"),
        Role::Ours,
        Finished::Deleted,
    )
    .with(&["--finished", "deleted"]),
    Program::new("raw rows", Made::Cargo("postgres/raw"), Role::Raw, Finished::Kept),
    Program::new("raw rows, deleted", Made::Cargo("postgres/raw"), Role::Raw, Finished::Deleted)
        .with(&["--finished", "deleted"]),
    Program::new("skip-locked", Made::Cargo("postgres/skip-locked"), Role::Rival, Finished::Kept),
    Program::new("apalis-postgres", Made::Cargo("postgres/apalis"), Role::Rival, Finished::Kept),
    Program::new("awa", Made::Cargo("postgres/awa"), Role::Rival, Finished::Kept),
    Program::new(
        "graphile_worker (Rust)",
        Made::Cargo("postgres/graphile-worker"),
        Role::Rival,
        Finished::Deleted,
    ),
    Program::new("graphile-worker (Node)", Made::Node("graphile-worker"), Role::Rival, Finished::Deleted),
    Program::new(
        "graphile-worker, 2 processes",
        Made::Node("graphile-worker"),
        Role::Rival,
        Finished::Deleted,
    )
    .with(&["--processes", "2"]),
    Program::new("pg-boss (Node)", Made::Node("pg-boss"), Role::Rival, Finished::Kept),
    Program::new("pg-boss, 2 processes", Made::Node("pg-boss"), Role::Rival, Finished::Kept)
        .with(&["--processes", "2"]),
];

const ON_REDIS: [Program; 17] = [
    Program::new("windlass", Made::Cargo("redis/windlass"), Role::Ours, Finished::Kept),
    Program::new("windlass, finished deleted", Made::Cargo("redis/windlass"), Role::Ours, Finished::Deleted)
        .with(&["--finished", "deleted"]),
    Program::new("raw keys", Made::Cargo("redis/raw"), Role::Raw, Finished::Kept),
    Program::new("raw keys, deleted", Made::Cargo("redis/raw"), Role::Raw, Finished::Deleted)
        .with(&["--finished", "deleted"]),
    // More waiting jobs than this end its worker: one of its scripts unpacks them all.
    Program::new("apalis-redis, 7,000 jobs", Made::Cargo("redis/apalis"), Role::Rival, Finished::Kept)
        .with(&["--jobs", "7000"]),
    Program::new("oxana", Made::Cargo("redis/oxana"), Role::Rival, Finished::Deleted),
    Program::new("rusty-sidekiq", Made::Cargo("redis/rusty-sidekiq"), Role::Rival, Finished::Deleted),
    Program::new("BullMQ (Node)", Made::Node("bullmq"), Role::Rival, Finished::Kept).of("BullMQ"),
    Program::new("BullMQ, 2 processes", Made::Node("bullmq"), Role::Rival, Finished::Kept)
        .of("BullMQ")
        .with(&["--processes", "2"]),
    Program::new("BullMQ, removeOnComplete", Made::Node("bullmq"), Role::Rival, Finished::Deleted)
        .of("BullMQ")
        .with(&["--finished", "deleted"]),
    Program::new("BullMQ, the same, 2 processes", Made::Node("bullmq"), Role::Rival, Finished::Deleted)
        .of("BullMQ")
        .with(&["--finished", "deleted", "--processes", "2"]),
    // What rules cost that never bind, for each beside itself without them.
    Program::new("windlass, rate", Made::Cargo("redis/windlass"), Role::Shown, Finished::Kept)
        .beside("windlass")
        .with(&["--rule", "rate"]),
    Program::new("BullMQ, limiter", Made::Node("bullmq"), Role::Shown, Finished::Kept)
        .beside("BullMQ (Node)")
        .with(&["--rule", "rate"]),
    Program::new("windlass, concurrency", Made::Cargo("redis/windlass"), Role::Shown, Finished::Kept)
        .beside("windlass")
        .with(&["--rule", "concurrency"]),
    Program::new("BullMQ, global concurrency", Made::Node("bullmq"), Role::Shown, Finished::Kept)
        .beside("BullMQ (Node)")
        .with(&["--rule", "concurrency"]),
    Program::new("windlass, unique", Made::Cargo("redis/windlass"), Role::Shown, Finished::Kept)
        .beside("windlass")
        .with(&["--rule", "unique"]),
    Program::new("BullMQ, deduplication", Made::Node("bullmq"), Role::Shown, Finished::Kept)
        .beside("BullMQ (Node)")
        .with(&["--rule", "unique"]),
];

/// How much is done.
struct Scale {
    rounds: u32,
    jobs: &'static str,
    singles: &'static str,
    samples: &'static str,
}

/// Builds the programs of one store or of all, runs them in turns and prints the medians, a table per store.
pub(crate) fn run(store: Option<Store>, is_quick: bool) -> Result<()> {
    let is_asked = |other| store.is_none_or(|store| store == other);
    if is_asked(Store::Sqlite) {
        on_sqlite(is_quick)?;
    }
    if is_asked(Store::Postgres) {
        on_postgres(is_quick)?;
    }
    if is_asked(Store::Redis) {
        on_redis(is_quick)?;
    }
    Ok(())
}

fn on_sqlite(is_quick: bool) -> Result<()> {
    let scale = if is_quick {
        Scale { rounds: 1, jobs: "2000", singles: "2000", samples: "100" }
    } else {
        Scale { rounds: 3, jobs: "10000", singles: "10000", samples: "300" }
    };
    let mut table = Table::new(&ON_SQLITE);
    table.build();
    let folder = target().join("files");
    let place = folder.to_str().context("the build folder's path is not text")?;
    table.measure(&scale, |_program| {
        // Beside the build, not in a temporary folder that may be held in memory.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        Ok(vec!["--dir".into(), place.into()])
    })?;
    let _ = fs::remove_dir_all(&folder);
    table.print("SQLite", &scale);
    Ok(())
}

fn on_postgres(is_quick: bool) -> Result<()> {
    let scale = if is_quick {
        Scale { rounds: 1, jobs: "5000", singles: "1000", samples: "50" }
    } else {
        Scale { rounds: 3, jobs: "50000", singles: "10000", samples: "300" }
    };
    Program::build_folder("postgres/server")?;
    let mut table = Table::new(&ON_POSTGRES);
    table.build();
    let mut server = Server::start("postgres/server", &[])?;
    table.measure(&scale, |_program| server.make_fresh())?;
    table.print(&format!("PostgreSQL {}, durable commits", server.version), &scale);
    Ok(())
}

/// Twice: as durable as Redis usually is, and as fast as it can be.
fn on_redis(is_quick: bool) -> Result<()> {
    let scale = if is_quick {
        Scale { rounds: 1, jobs: "10000", singles: "5000", samples: "100" }
    } else {
        Scale { rounds: 3, jobs: "50000", singles: "20000", samples: "300" }
    };
    Program::build_folder("redis/server")?;
    for (argument, persisted) in
        [("everysec", "append-only file synced every second"), ("nothing", "nothing persisted")]
    {
        let mut table = Table::new(&ON_REDIS);
        table.build();
        let mut server = Server::start("redis/server", &[argument])?;
        table.measure(&scale, |_program| server.make_fresh())?;
        table.print(&format!("Redis {}, {persisted}", server.version), &scale);
    }
    Ok(())
}

fn target() -> PathBuf {
    let base =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), PathBuf::from);
    base.join("rivals")
}
