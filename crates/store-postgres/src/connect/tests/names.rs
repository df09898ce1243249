//! Calls that the server knows by name, where the session stays the same.

use uuid::Uuid;

use super::*;
use crate::functions::COMPLETE;
use crate::statement::Parameters;

/// Calls by the parameters of a frequent function, so often.
async fn call(session: &Session, times: u32) -> Result<(), Fault> {
    let (ids, texts, numbers): (Vec<Uuid>, Vec<String>, Vec<i64>) = Default::default();
    for _ in 0..times {
        let parameters: Parameters<'_> = &[&7_i64, &ids, &texts, &numbers, &numbers, &numbers, &9_i64];
        let rows = session.call(&COMPLETE, "SELECT $1 + $7", parameters).await?;
        assert_eq!(rows[0].try_get::<_, i64>(0)?, 16);
    }
    Ok(())
}

/// How many statements the server knows on this connection.
async fn known(session: &Session) -> Result<i64, Fault> {
    let rows = session.query("SELECT count(*) FROM pg_prepared_statements", &[]).await?;
    Ok(rows[0].try_get(0)?)
}

#[tokio::test]
async fn frequent_calls_have_a_name_for_as_long_as_it_leads_to_them() {
    let server = open(PostgresServer::shared().url()).await;
    let operation = |session: Session| async move {
        call(&session, 3).await?;
        let named = known(&session).await?;
        session.query("DEALLOCATE ALL", &[]).await?;
        call(&session, 3).await?;
        Ok((named, known(&session).await?))
    };
    let counts = server.call(Lane::Work, Effect::Write, operation).await.unwrap();
    assert_eq!(counts, (1, 0), "known at first, and spelled out since the server has forgotten");
}

#[tokio::test]
async fn a_name_that_leads_to_something_else_is_not_followed() {
    let server = open(PostgresServer::shared().url()).await;
    let operation = |session: Session| async move {
        call(&session, 2).await?;
        let rows = session.query("SELECT name FROM pg_prepared_statements", &[]).await?;
        let name: String = rows[0].try_get(0)?;
        session.query("DEALLOCATE ALL", &[]).await?;
        session.query(&format!("PREPARE {name} (int8) AS SELECT $1"), &[]).await?;
        call(&session, 2).await
    };
    server.call(Lane::Work, Effect::Write, operation).await.unwrap();
}

/// How many names a fresh connection has given after some calls.
async fn names_given(url: &str) -> i64 {
    let operation = |session: Session| async move {
        call(&session, 3).await?;
        known(&session).await
    };
    open(url).await.call(Lane::Work, Effect::Write, operation).await.unwrap()
}

#[tokio::test]
async fn behind_a_pooler_every_call_is_spelled_out() {
    let postgres = PostgresServer::start(&Settings::default());
    assert_eq!(names_given(&postgres.url()).await, 1, "there is none");
    for mode in [PoolMode::Transaction, PoolMode::Session] {
        let pooler = PgBouncer::before(&postgres, mode);
        assert_eq!(names_given(pooler.url()).await, 0, "{mode:?}, and settings are refused");
        pooler.ignore_settings();
        assert_eq!(names_given(pooler.url()).await, 0, "{mode:?}, and settings are not handed on");
    }
}
