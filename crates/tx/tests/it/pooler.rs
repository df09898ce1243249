//! The same behind a pooler that lends a server connection for one transaction only: no statement may count on
//! something that was prepared before.

use sqlx::ConnectOptions as _;
use sqlx_08::ConnectOptions as _;
use windlass_core::State;
use windlass_core::store::Settled;
use windlass_store_testkit::servers::{PgBouncer, PoolMode, PostgresServer, Settings};
use windlass_tx::{Tx, complete, enqueue};

use crate::support::{Schema, done, job};

/// Enqueues and completes, again and again, each time on whichever connection the pooler lends.
macro_rules! begin_and_commit {
    ($schema:expr, $connection:expr, $begin:path) => {
        for _ in 0..5 {
            let claimed = $schema.claimed().await;
            let mut tx = $begin(&mut $connection).await.unwrap();
            both($schema, &mut tx, &claimed).await;
            tx.commit().await.unwrap();
        }
    };
}

async fn both(schema: &Schema, tx: &mut impl Tx, claimed: &windlass_core::ClaimedJob) {
    let later = job("later");
    enqueue(schema.store(), tx, &[later]).await.unwrap();
    let settled = complete(schema.store(), tx, &done(claimed, None)).await.unwrap();
    assert_eq!(settled, Settled::Applied(State::Completed));
}

#[tokio::test]
async fn every_driver_works_behind_a_transaction_pooler() {
    let server = PostgresServer::start(&Settings::default());
    let pooler = PgBouncer::before(&server, PoolMode::Transaction);
    let (url, schema) = (pooler.url(), &Schema::at(pooler.url()).await);

    let options = url.parse::<sqlx::postgres::PgConnectOptions>().unwrap().statement_cache_capacity(0);
    let mut first = options.connect().await.unwrap();
    let mut second = options.connect().await.unwrap();
    begin_and_commit!(schema, first, sqlx::Connection::begin);
    begin_and_commit!(schema, second, sqlx::Connection::begin);

    let options = url.parse::<sqlx_08::postgres::PgConnectOptions>().unwrap().statement_cache_capacity(0);
    let mut old = options.connect().await.unwrap();
    begin_and_commit!(schema, old, sqlx_08::Connection::begin);

    let (mut client, line) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(line);
    begin_and_commit!(schema, client, tokio_postgres::Client::transaction);

    assert_eq!(schema.counts().await.unwrap().of(State::Completed), 20);
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'";
    assert_eq!(server.psql(idle).trim(), "0");
}
