//! Calls that the server knows by name, where the session stays the same.

use uuid::Uuid;

use super::*;
use crate::functions::COMPLETE;
use crate::migrate;
use crate::session::Parameters;

/// The URL of a store on the shared server.
async fn store() -> String {
    let url = format!("{}?schema=t{:016x}", PostgresServer::shared().url(), fastrand::u64(..));
    migrate::run(&url).await.unwrap();
    url
}

/// Calls a frequent function so often, each time by a version of the definitions that was never current.
async fn call(session: &Session, times: u32) -> Result<(), Fault> {
    let (ids, texts, numbers): (Vec<Uuid>, Vec<String>, Vec<i64>) = Default::default();
    for _ in 0..times {
        let parameters: Parameters<'_> = &[&-7_i64, &ids, &texts, &numbers, &numbers, &numbers, &1_i64];
        let rows = session.call(&COMPLETE, parameters).await?;
        assert_eq!(at::<&str>(&rows[0], 0)?, "stale");
    }
    Ok(())
}

/// How many statements the server knows on this connection.
async fn known(session: &Session) -> Result<i64, Fault> {
    let rows = session.query("SELECT count(*) FROM pg_prepared_statements", &[]).await?;
    at(&rows[0], 0)
}

#[tokio::test]
async fn frequent_calls_have_a_name_for_as_long_as_it_leads_to_them() {
    let server = open(&store().await).await;
    let operation = async |_, session: Session| {
        call(&session, 3).await?;
        let named = known(&session).await?;
        session.query("DEALLOCATE ALL", &[]).await?;
        call(&session, 3).await?;
        Ok((named, known(&session).await?))
    };
    let counts = server.call(Call::WRITE, operation).await.unwrap();
    assert_eq!(counts, (1, 0), "known at first, and spelled out since the server has forgotten");
}

#[tokio::test]
async fn a_name_that_leads_to_something_else_is_not_followed() {
    let server = open(&store().await).await;
    let operation = async |_, session: Session| {
        call(&session, 2).await?;
        let rows = session.query("SELECT name FROM pg_prepared_statements", &[]).await?;
        let name: String = at(&rows[0], 0)?;
        session.query("DEALLOCATE ALL", &[]).await?;
        session.query(&format!("PREPARE {name} (int8) AS SELECT $1"), &[]).await?;
        call(&session, 2).await
    };
    server.call(Call::WRITE, operation).await.unwrap();
}

/// How many names a fresh connection has given after some calls.
async fn names_given(url: &str) -> i64 {
    let operation = async |_, session: Session| {
        call(&session, 3).await?;
        known(&session).await
    };
    open(url).await.call(Call::WRITE, operation).await.unwrap()
}

#[tokio::test]
async fn behind_a_pooler_every_call_is_spelled_out() {
    let postgres = PostgresServer::start(&Settings::default());
    migrate::run(&postgres.url()).await.unwrap();
    assert_eq!(names_given(&postgres.url()).await, 1, "there is none");
    for mode in [PoolMode::Transaction, PoolMode::Session] {
        let pooler = PgBouncer::before(&postgres, mode);
        assert_eq!(names_given(pooler.url()).await, 0, "{mode:?}, and settings are refused");
        pooler.ignore_settings();
        assert_eq!(names_given(pooler.url()).await, 0, "{mode:?}, and settings are not handed on");
    }
}
