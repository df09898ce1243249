//! Schemas that earlier programs left behind: `tests/fixtures/layout-N.sql`, one per layout since the first, never written
//! anew. After a new migration, `WINDLASS_FIXTURE=layout-3.sql cargo test -p windlass-store-postgres --test fixture`
//! writes the next one.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tokio_postgres::NoTls;
use windlass_store_postgres::{PostgresOptions, PostgresStore};
use windlass_store_testkit::fixture;
use windlass_store_testkit::servers::{PostgresServer, Settings};

/// The schema in the files.
const SCHEMA: &str = "windlass";

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

async fn open(server: &PostgresServer) -> Arc<PostgresStore> {
    let options = PostgresOptions::parse(&server.url()).unwrap().schema(SCHEMA).unwrap();
    Arc::new(PostgresStore::open_with(options).await.unwrap())
}

/// Statements that make the schema again, in any database of any later server.
fn dumped(server: &PostgresServer) -> String {
    let url = server.url();
    let arguments = ["--inserts", "--no-owner", "--no-privileges", "--schema", SCHEMA, "--dbname", &url];
    let dump = Command::new("pg_dump").args(arguments).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let text = String::from_utf8(dump.stdout).unwrap();
    // Words for psql, settings of the dumping server, and what changes with every run.
    let is_kept =
        |line: &&str| !line.starts_with(['\\', '-']) && !line.starts_with("SET ") && !line.is_empty();
    text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect()
}

async fn restore(server: &PostgresServer, text: &str) {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    // Functions come before the tables that they name.
    client.batch_execute("SET check_function_bodies = off").await.unwrap();
    client.batch_execute(text).await.unwrap();
    drop(client);
    driver.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_this_program_leaves_is_worked_off() {
    let server = PostgresServer::start(&Settings::default());
    let store = open(&server).await;
    fixture::write(store).await;
    if let Some(name) = std::env::var_os("WINDLASS_FIXTURE") {
        let to = kept().join(name);
        assert!(!to.exists(), "{} is kept as it is", to.display());
        fs::write(to, dumped(&server)).unwrap();
    }
    let store = open(&server).await;
    fixture::check(store.clone()).await;
    fixture::drain(store).await;
}

#[tokio::test]
async fn what_earlier_programs_left_is_worked_off() {
    let mut files = 0;
    for file in fs::read_dir(kept()).unwrap() {
        let server = PostgresServer::start(&Settings::default());
        restore(&server, &fs::read_to_string(file.unwrap().path()).unwrap()).await;
        let store = open(&server).await;
        fixture::check(store.clone()).await;
        fixture::drain(store).await;
        files += 1;
    }
    assert!(files > 0, "a file of every layout is kept");
}
