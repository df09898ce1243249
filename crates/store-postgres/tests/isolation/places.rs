//! Where a store is: schemas that are words of SQL, and databases that are copies of each other.

use std::pin::pin;

use tokio_postgres::{Client, NoTls};
use windlass_core::sql::{Ask, Heard, Row, SqlError, Value, line};
use windlass_core::store::{Enqueued, Jobs, Leases, Maintenance, Queues, Store, StoreResult};
use windlass_core::{StoreError, StoreErrorKind};
use windlass_store_postgres::{PostgresOptions, PostgresStore};
use windlass_store_testkit::servers::{PostgresServer, Settings};

use super::bench::{name, new_job};

/// Enqueues over a connection that understands no more than what a store asks before it writes.
async fn enqueue_within(store: &PostgresStore, client: &Client) -> StoreResult<Vec<Enqueued>> {
    let (mut line, mut operator) = line();
    let jobs = [new_job()];
    let mut conversation = pin!(store.within().unwrap().enqueue(&mut line, &jobs));
    loop {
        match operator.listen(conversation.as_mut()).await {
            Heard::End(answer) => return answer,
            Heard::Ask(Ask { sql, values }) if values.is_empty() => {
                let rows = client.query(&sql, &[]).await.unwrap();
                let number =
                    |row: &tokio_postgres::Row, column| Value::Int(row.get::<_, Option<i64>>(column));
                let columns =
                    |row: &tokio_postgres::Row| (0..row.len()).map(|column| number(row, column)).collect();
                operator.answer(Ok(rows.iter().map(|row| Row::new(columns(row))).collect()));
            }
            Heard::Ask(Ask { .. }) => {
                let (code, text) = ("57014".to_owned(), "this is where it would write".to_owned());
                operator.answer(Err(SqlError::Answered { code, text, source: None }));
            }
        }
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_copy_of_a_database_is_another_store() {
    let server = PostgresServer::start(&Settings::default());
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let database = server.url().rsplit_once('/').unwrap().1.to_owned();
    let own = connect(&server.url()).await;
    let written = enqueue_within(&store, &own).await.unwrap_err();
    assert_eq!(written.kind(), StoreErrorKind::Unavailable, "its own database it would write to: {written}");
    drop((store, own));
    let gone = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND usename = 'windlass'"
    );
    while server.psql(&gone) != "0" {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // By a connection to another database: a template must be left alone.
    let other = server.superuser_url().replace(&format!("/{database}"), "/postgres");
    let admin = connect(&other).await;
    admin.batch_execute(&format!("CREATE DATABASE clone TEMPLATE {database}")).await.unwrap();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let clone = connect(&server.url().replace(&format!("/{database}"), "/clone")).await;
    let refused = enqueue_within(&store, &clone).await.unwrap_err();
    assert!(matches!(refused, StoreError::Transaction(_)), "{refused:?}");
}

#[tokio::test]
async fn a_schema_may_be_a_word_of_sql() {
    let server = PostgresServer::shared();
    for schema in ["order", "user", "select", "table"] {
        let options = PostgresOptions::parse(server.url()).unwrap().schema(schema).unwrap();
        let store = PostgresStore::open_with(options.clone()).await.unwrap();
        store.enqueue([new_job()].into()).await.unwrap();
        store.define(&name("q"), &Default::default()).await.unwrap();
        store.promote(10).await.unwrap();
        store.tidy(10).await.unwrap();
        store.lost(10).await.unwrap();
        let client = connect(server.url()).await;
        let written = enqueue_within(&store, &client).await.unwrap_err();
        assert_eq!(written.kind(), StoreErrorKind::Unavailable, "{written}");
        server.psql(&format!("SELECT \"{schema}\".enqueue('k'); SELECT \"{schema}\".wake()"));
        drop(store);
        let again = PostgresStore::open_with(options).await.unwrap();
        assert_eq!(again.queues(None, 10).await.unwrap().len(), 2);
        server.psql(&format!("DROP SCHEMA \"{schema}\" CASCADE"));
    }
    let refused = PostgresOptions::parse(server.url()).unwrap().schema("information_schema").unwrap_err();
    assert!(refused.to_string().contains("information_schema"), "{refused}");
}
