//! Rows of the user's own that are changed only while they are as they were read, on every driver.

use sqlx::Connection as _;
use windlass_core::StoreErrorKind;
use windlass_tx::{Tx, Versioned};

use crate::support::{File, schema};

/// Two writers have read version 1; the second one to write is told so, and goes on.
async fn the_second_writer_is_told<T: Tx>(tx: &mut T, table: &str) {
    let change = |cents: i64| Versioned::row(table, "id", 7).version(1).set("cents", cents).set("who", "ada");
    assert_eq!(change(10).update(tx).await.unwrap(), Some(2));
    assert_eq!(change(20).update(tx).await.unwrap(), None, "it has changed since");
    assert_eq!(change(30).version(2).update(tx).await.unwrap(), Some(3));
    assert_eq!(Versioned::row(table, "id", 8).version(1).update(tx).await.unwrap(), None, "there is none");
    let refused = Versioned::row(table, "id; DROP TABLE x", 7).update(tx).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Refused);
    // Nothing was sent for that, so the transaction goes on.
    assert_eq!(Versioned::row(table, "who", "ada").version(3).update(tx).await.unwrap(), Some(4));
}

const COLUMNS: &str = "(id INTEGER PRIMARY KEY, cents INTEGER, who TEXT, version INTEGER NOT NULL)";

#[tokio::test]
async fn on_rusqlite() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    connection.execute(&format!("CREATE TABLE accounts {COLUMNS}"), []).unwrap();
    connection.execute("INSERT INTO accounts VALUES (7, 0, '', 1)", []).unwrap();
    let mut tx = connection.transaction().unwrap();
    the_second_writer_is_told(&mut tx, "accounts").await;
    let next = Versioned::row("accounts", "id", 7).version(4).update_blocking(&mut tx).unwrap();
    assert_eq!(next, Some(5));
    tx.commit().unwrap();
    let left: (i64, i64) = connection
        .query_row("SELECT cents, version FROM accounts", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(left, (30, 5));
    let missing = Versioned::row("nothing", "id", 7).update_blocking(&mut connection).unwrap_err();
    assert_eq!(missing.kind(), StoreErrorKind::Refused);
}

#[tokio::test]
async fn on_sqlx_with_sqlite() {
    let scene = File::new().await;
    let url = format!("sqlite://{}", scene.path().display());
    let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
    let made = format!("CREATE TABLE accounts {COLUMNS}; INSERT INTO accounts VALUES (7, 0, '', 1)");
    sqlx::raw_sql(sqlx::AssertSqlSafe(made)).execute(&mut connection).await.unwrap();
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
    the_second_writer_is_told(&mut tx, "accounts").await;
    tx.commit().await.unwrap();
}

/// A table in a schema of its own, on the server of the tests.
fn made(schema: &str) -> String {
    format!(
        "CREATE SCHEMA {schema}; CREATE TABLE {schema}.accounts {COLUMNS}; \
         INSERT INTO {schema}.accounts VALUES (7, 0, '', 1)"
    )
}

fn dropped(schema: &str) -> String {
    format!("DROP SCHEMA {schema} CASCADE")
}

fn fresh(driver: &str) -> String {
    format!("versioned_{driver}_{:016x}", fastrand::u64(..))
}

#[tokio::test]
async fn on_tokio_postgres() {
    let (mut client, connection) =
        tokio_postgres::connect(schema::url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let schema = fresh("tokio");
    client.batch_execute(&made(&schema)).await.unwrap();
    let mut tx = client.transaction().await.unwrap();
    the_second_writer_is_told(&mut tx, &format!("{schema}.accounts")).await;
    tx.commit().await.unwrap();
    client.batch_execute(&dropped(&schema)).await.unwrap();
}

#[tokio::test]
async fn on_sqlx_with_postgres() {
    let mut connection = sqlx::PgConnection::connect(schema::url()).await.unwrap();
    let schema = fresh("sqlx");
    sqlx::raw_sql(sqlx::AssertSqlSafe(made(&schema))).execute(&mut connection).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    the_second_writer_is_told(&mut tx, &format!("{schema}.accounts")).await;
    tx.commit().await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(dropped(&schema))).execute(&mut connection).await.unwrap();
}

#[tokio::test]
async fn on_sqlx_08() {
    use sqlx_08::Connection as _;
    let mut connection = sqlx_08::PgConnection::connect(schema::url()).await.unwrap();
    let schema = fresh("sqlx08");
    sqlx_08::raw_sql(&made(&schema)).execute(&mut connection).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    the_second_writer_is_told(&mut tx, &format!("{schema}.accounts")).await;
    tx.commit().await.unwrap();
    sqlx_08::raw_sql(&dropped(&schema)).execute(&mut connection).await.unwrap();
}

#[tokio::test]
async fn unknown_columns_and_keys_of_several_rows_are_refused() {
    let scene = File::new().await;
    let mut connection = scene.rusqlite();
    connection.execute(&format!("CREATE TABLE accounts {COLUMNS}"), []).unwrap();
    connection.execute("INSERT INTO accounts VALUES (7, 0, 'ada', 1), (8, 0, 'ada', 1)", []).unwrap();
    let row = |key: &str, value: &str| Versioned::row("main.accounts", key, value).version(1);
    for wrong in [row("whom", "whom"), row("who", "ada").version_column("revision"), row("who", "ada")] {
        let mut tx = connection.transaction().unwrap();
        let refused = wrong.update_blocking(&mut tx).unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Refused, "{refused}");
        tx.rollback().unwrap();
    }
}
