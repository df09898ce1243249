//! Functions that no program uses any more are dropped by a migration, and no others.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use tokio_postgres::{Client, NoTls};
use windlass_store_postgres::{PostgresOptions, PostgresStore};
use windlass_store_testkit::servers::PostgresServer;

const OLD: &str = "jobs_old_0123456789ab";
const YOUNG: &str = "jobs_young_0123456789ab";
const UNNOTED: &str = "jobs_unnoted_0123456789ab";
const OTHERS: &str = "of_the_user";

struct Schema {
    options: PostgresOptions,
    client: Client,
}

impl Schema {
    async fn new() -> Self {
        let schema = format!("digests_{}_{:x}", std::process::id(), fastrand::u32(..));
        let options =
            PostgresOptions::parse(PostgresServer::shared().url()).unwrap().schema(&schema).unwrap();
        let (client, connection) =
            tokio_postgres::connect(PostgresServer::shared().url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
        Self { options, client }
    }

    async fn open(&self) -> PostgresStore {
        PostgresStore::open_with(self.options.clone()).await.unwrap()
    }

    async fn functions(&self, like: &str) -> Vec<String> {
        let sql = "SELECT proname::text FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname ~ $1
            ORDER BY 1";
        self.client.query(sql, &[&like]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }
}

#[tokio::test]
async fn a_migration_drops_what_no_program_uses() {
    let schema = Schema::new().await;
    drop(schema.open().await);
    let ours = schema.functions("_[0-9a-f]{12}$").await;
    for name in [OLD, YOUNG, UNNOTED, OTHERS] {
        let sql = format!("CREATE FUNCTION {name}(int8, text[]) RETURNS int4 LANGUAGE sql AS 'SELECT 1'");
        schema.client.batch_execute(&sql).await.unwrap();
    }
    // Programs of two versions: one has not been seen for 31 days, the other for 29.
    let noted = |name, days| {
        format!("INSERT INTO functions VALUES ('{name}', clock_micros() - {days} * 86400000000::int8);")
    };
    let sql = noted(OLD, 31) + &noted(YOUNG, 29) + &noted(OTHERS, 29);
    schema.client.batch_execute(&sql).await.unwrap();

    drop(schema.open().await);
    assert_eq!(schema.functions("^jobs_old").await, [OLD], "nothing was migrated");
    // A program with another function migrates; that this one uses the rest has not been said for long.
    let sql = format!(
        "DROP FUNCTION {}; UPDATE functions SET seen_at = 1 WHERE name ~ '^(jobs_claim|leases)'",
        signature(&schema, "^jobs_get").await
    );
    schema.client.batch_execute(&sql).await.unwrap();
    drop(schema.open().await);
    assert_eq!(schema.functions("^(jobs_(old|young|unnoted)|of_the)").await, [UNNOTED, YOUNG, OTHERS]);
    let left = schema.functions("_[0-9a-f]{12}$").await;
    assert!(ours.iter().all(|name| left.contains(name)), "{ours:?} {left:?}");
}

async fn signature(schema: &Schema, like: &str) -> String {
    let sql = "SELECT oid::regprocedure::text FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND proname ~ $1";
    schema.client.query_one(sql, &[&like]).await.unwrap().get(0)
}
