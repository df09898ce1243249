//! The contract of stores through a pooler that lends a connection for one transaction at a time.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass_core::bell::Topic;
use windlass_core::store::{SharedStore, Wakeup};
use windlass_store_postgres::{PostgresOptions, PostgresStore, WakeMode};
use windlass_store_testkit::servers::{PgBouncer, PoolMode, PostgresServer, Settings};
use windlass_store_testkit::{Exception, Harness, async_trait, run_all};

/// Stores in schemas of one database behind a pooler. Their clock stands still: `clock_micros()` reads it from a table.
struct Pooled {
    made: AtomicUsize,
    pooler: PgBouncer,
    server: PostgresServer,
}

impl Pooled {
    fn new() -> Self {
        let server = PostgresServer::start(&Settings::default());
        server.psql(
            "CREATE SCHEMA clock AUTHORIZATION windlass;
             CREATE TABLE clock.time (micros int8);
             ALTER TABLE clock.time OWNER TO windlass;
             INSERT INTO clock.time VALUES (1700000000000000)",
        );
        let pooler = PgBouncer::before(&server, PoolMode::Transaction);
        Self { made: AtomicUsize::new(0), pooler, server }
    }

    async fn open(&self, schema: &str) -> PostgresStore {
        let options = PostgresOptions::parse(self.pooler.url()).unwrap();
        PostgresStore::open_with(options.schema(schema).unwrap().pool(4).unwrap()).await.unwrap()
    }
}

#[async_trait]
impl Harness for Pooled {
    async fn fresh(&self) -> SharedStore {
        let schema = format!("s{}", self.made.fetch_add(1, Ordering::Relaxed));
        let store = self.open(&schema).await;
        self.server.psql(&format!(
            "CREATE OR REPLACE FUNCTION {schema}.clock_micros() RETURNS int8 LANGUAGE sql VOLATILE
             AS 'SELECT micros FROM clock.time'"
        ));
        Arc::new(store)
    }

    async fn another(&self, of: &SharedStore) -> Option<SharedStore> {
        let place = of.about().place;
        let (_, schema) = place.rsplit_once(' ')?;
        Some(Arc::new(self.open(schema).await))
    }

    async fn advance(&self, by: Duration) {
        self.server.psql(&format!("UPDATE clock.time SET micros = micros + {}", by.as_micros()));
    }

    fn cannot(&self) -> Vec<Exception> {
        let reason = "notifications do not come through a pooler in transaction mode: workers poll";
        vec![Exception { clause: "handles::hear_each_other", reason }]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_clause_holds_through_a_pooler_in_transaction_mode() {
    let harness = Pooled::new();
    let report = run_all(&harness).await;
    let broken: Vec<_> = report.broken().collect();
    assert!(broken.is_empty(), "{broken:#?}");
    println!("{} clauses through a pooler", report.verdicts.len());

    let store = harness.open("mode").await;
    let _listener = store.bell().listen(Topic::Work);
    let known = async {
        while store.wake_mode() == WakeMode::Starting {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), known).await.expect("it is known how the store wakes");
    assert_eq!(store.wake_mode(), WakeMode::Polling, "notifications do not come through");
    let open =
        harness.server.psql("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'");
    let deadlocks = harness.server.psql("SELECT sum(deadlocks) FROM pg_stat_database");
    assert_eq!((open.as_str(), deadlocks.as_str()), ("0", "0"));
}
