//! The contract of stores, on a real server.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass_core::Name;
use windlass_core::store::SharedStore;
use windlass_store_postgres::{PostgresOptions, PostgresStore};
use windlass_store_testkit::servers::PostgresServer;
use windlass_store_testkit::{Harness, async_trait};

/// Stores in schemas of one database, whose clock stands still: `clock_micros()` reads it from a table.
struct Schemas {
    /// Tells the schemas of this process from others'.
    name: String,
    made: AtomicUsize,
}

impl Schemas {
    fn new() -> Self {
        let name = format!("test_{}_{:x}", std::process::id(), fastrand::u32(..));
        let server = PostgresServer::shared();
        server.psql(&format!(
            "CREATE SCHEMA {name}_clock;
             CREATE TABLE {name}_clock.time (micros int8);
             INSERT INTO {name}_clock.time VALUES (1700000000000000)"
        ));
        Self { name, made: AtomicUsize::new(0) }
    }

    async fn open(&self, schema: &str) -> SharedStore {
        let options = PostgresOptions::parse(PostgresServer::shared().url()).unwrap();
        let options = options.schema(schema).unwrap().pool(4).unwrap();
        Arc::new(PostgresStore::open_with(options).await.unwrap())
    }
}

#[async_trait]
impl Harness for Schemas {
    async fn fresh(&self) -> SharedStore {
        let schema = format!("{}_{}", self.name, self.made.fetch_add(1, Ordering::Relaxed));
        let store = self.open(&schema).await;
        let clock = &self.name;
        PostgresServer::shared().psql(&format!(
            "CREATE OR REPLACE FUNCTION {schema}.clock_micros() RETURNS int8 LANGUAGE sql VOLATILE
             AS 'SELECT micros FROM {clock}_clock.time'"
        ));
        store
    }

    async fn another(&self, of: &SharedStore) -> Option<SharedStore> {
        let place = of.about().place;
        let (_, schema) = place.rsplit_once(' ')?;
        Some(self.open(schema).await)
    }

    async fn advance(&self, by: Duration) {
        let name = &self.name;
        PostgresServer::shared()
            .psql(&format!("UPDATE {name}_clock.time SET micros = micros + {}", by.as_micros()));
    }

    async fn use_rule(&self, of: &SharedStore, queue: &Name, rule: u32) -> bool {
        let place = of.about().place;
        let (_, schema) = place.rsplit_once(' ').unwrap();
        PostgresServer::shared().psql(&format!(
            "UPDATE {schema}.settings SET value = value + 1 WHERE name = 'definitions';
             INSERT INTO {schema}.queues (name, config, payload_max, rules) VALUES ('{queue}', '{{}}', 1048576, {rule})
             ON CONFLICT (name) DO UPDATE SET config = excluded.config, rules = excluded.rules;
             UPDATE {schema}.settings SET value = (SELECT max(rules) FROM {schema}.queues) WHERE name = 'rules'"
        ));
        true
    }
}

windlass_store_testkit::conformance!(Schemas::new());
