//! A store in a schema of its own, on the PostgreSQL server that the tests share.

use std::ops::Deref;
use std::sync::Arc;

use windlass_store_postgres::{PostgresOptions, PostgresStore};
use windlass_store_testkit::servers::PostgresServer;

use super::Scene;

pub(crate) struct Schema {
    scene: Scene,
    pub(crate) name: String,
}

impl Schema {
    pub(crate) async fn new() -> Self {
        let schema = Self::at(url()).await;
        schema.psql(&format!("CREATE TABLE {}.ledger (amount int8 NOT NULL)", schema.name));
        schema
    }

    /// A fresh one on another server, without a ledger.
    pub(crate) async fn at(url: &str) -> Self {
        let name = format!("tx_{}_{:x}", std::process::id(), fastrand::u64(..));
        let store = Arc::new(Self::open(url, &name).await);
        Self { scene: Scene { store }, name }
    }

    /// A store in a schema.
    pub(crate) async fn open(url: &str, name: &str) -> PostgresStore {
        let options = PostgresOptions::parse(url).unwrap().schema(name).unwrap().pool(2).unwrap();
        PostgresStore::open_with(options).await.unwrap()
    }

    /// The address of another database on the same server.
    pub(crate) fn new_database(&self) -> String {
        self.psql(&format!("CREATE DATABASE {}", self.name));
        let (server, _) = url().rsplit_once('/').unwrap();
        format!("{server}/{}", self.name)
    }

    pub(crate) fn psql(&self, sql: &str) -> String {
        PostgresServer::shared().psql(sql)
    }

    /// The statement that writes to the ledger.
    pub(crate) fn pay(&self, amount: i64) -> String {
        format!("INSERT INTO {}.ledger VALUES ({amount})", self.name)
    }

    /// The sum of the ledger, as committed.
    pub(crate) fn ledger(&self) -> i64 {
        let sum = format!("SELECT coalesce(sum(amount), 0) FROM {}.ledger", self.name);
        self.psql(&sum).trim().parse().unwrap()
    }
}

pub(crate) fn url() -> &'static str {
    PostgresServer::shared().url()
}

impl Deref for Schema {
    type Target = Scene;
    fn deref(&self) -> &Scene {
        &self.scene
    }
}
