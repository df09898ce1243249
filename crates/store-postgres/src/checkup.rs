//! What only this store can say of its health: the settings of the server, and the state of the schema. Asked of the
//! catalogues, which every role may read; what a role may not see of others is left out by the server itself.

use async_trait::async_trait;
use tokio_postgres::types::Type;
use windlass_core::store::{Checkup, Depth, Finding, StoreResult};

use crate::connect::Call;
use crate::error::Fault;
use crate::row::at;
use crate::session::Session;
use crate::{PostgresStore, migrate};

const SETTINGS: &str = "SELECT current_setting('server_version'), current_setting('fsync'), \
    current_setting('full_page_writes'), current_setting('synchronous_commit'), current_setting('autovacuum'), \
    pg_is_in_recovery(), current_setting('max_connections')::int4, \
    (SELECT count(*) FROM pg_catalog.pg_stat_activity)::int4, pg_backend_pid()";

const INDEXES: &str = "SELECT c.relname::text, i.indisvalid AND i.indisready FROM pg_catalog.pg_index AS i \
    JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid \
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1";

/// Tables with many more dead rows than living ones.
const DEAD: &str = "SELECT relname::text, n_live_tup, n_dead_tup FROM pg_catalog.pg_stat_user_tables \
    WHERE schemaname = $1 AND n_dead_tup > 100000 AND n_dead_tup > 2 * n_live_tup ORDER BY n_dead_tup DESC LIMIT 5";

const OPEN: &str = "SELECT pid, coalesce(application_name, ''), coalesce(state, ''), \
    extract(epoch FROM clock_timestamp() - xact_start)::float8 FROM pg_catalog.pg_stat_activity \
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' \
    AND xact_start < clock_timestamp() - interval '10 minutes' ORDER BY xact_start LIMIT 3";

const FORBIDDEN: &str = "SELECT c.relname::text FROM pg_catalog.pg_class AS c \
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND NOT (has_table_privilege(c.oid, 'SELECT') \
    AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') \
    AND has_table_privilege(c.oid, 'DELETE')) ORDER BY 1 LIMIT 5";

#[async_trait]
impl Checkup for PostgresStore {
    async fn examine(&self, _depth: Depth) -> StoreResult<Vec<Finding>> {
        self.remote
            .call(Call::READ, async move |_, session| {
                let schema = session.options().schema.clone();
                let mut findings = server(&session).await?;
                findings.push(indexes(&session, &schema).await?);
                findings.extend(dead_rows(&session, &schema).await?);
                findings.extend(open_transactions(&session).await?);
                findings.push(permissions(&session, &schema).await?);
                Ok(findings)
            })
            .await
    }
}

async fn server(session: &Session) -> Result<Vec<Finding>, Fault> {
    let rows = session.query(SETTINGS, &[]).await?;
    let row = rows.first().ok_or_else(|| Fault::Defect("no answer".to_owned()))?;
    let again = session.query("SELECT pg_backend_pid()", &[]).await?;
    let is_pooled = match again.first() {
        Some(again) => at::<i32>(again, 0)? != at::<i32>(row, 8)?,
        None => false,
    };
    let (most, used) = (at(row, 6)?, at(row, 7)?);
    let mut findings = vec![
        Finding::ok("version", format!("PostgreSQL {}", at::<&str>(row, 0)?)),
        switch("fsync", at(row, 1)?, "a power cut may damage the whole database"),
        switch("full_page_writes", at(row, 2)?, "a power cut in the middle of a write may damage a page"),
        synchronous_commit(at(row, 3)?),
        switch("autovacuum", at(row, 4)?, "tables grow, and every claim gets slower"),
        connections(most, used),
    ];
    if at(row, 5)? {
        findings.push(Finding::problem(
            "role of the server",
            "it is a standby, and takes no job",
            "name the primary in the URL, or several hosts with target_session_attrs=read-write",
        ));
    }
    if is_pooled {
        findings
            .push(Finding::ok("pooler", "statements go to several sessions: a pooler in transaction mode"));
    }
    Ok(findings)
}

fn switch(name: &str, value: &str, risk: &str) -> Finding {
    match value {
        "on" => Finding::ok(name, "on"),
        _ => Finding::problem(name, format!("{value}: {risk}"), format!("ALTER SYSTEM SET {name} = on")),
    }
}

fn synchronous_commit(value: &str) -> Finding {
    match value {
        "off" => Finding::warning(
            "synchronous_commit",
            "off: a crash of the server may take the newest jobs",
            "leave it on for the role that enqueues, or synchronous_commit=on in the URL",
        ),
        _ => Finding::ok("synchronous_commit", value),
    }
}

fn connections(most: i32, used: i32) -> Finding {
    let what = format!("{used} of {most} are used");
    match used.saturating_mul(10) > most.saturating_mul(9) {
        true => Finding::warning(
            "connections",
            what,
            "lower pool= in the URLs, put a pooler in front, or raise max_connections",
        ),
        false => Finding::ok("connections", what),
    }
}

async fn indexes(session: &Session, schema: &str) -> Result<Finding, Fault> {
    let rows = session.query(INDEXES, &[(&schema, Type::TEXT)]).await?;
    let mut there = Vec::new();
    for row in &rows {
        there.push((at::<String>(row, 0)?, at::<bool>(row, 1)?));
    }
    Ok(compared(&there, &migrate::indexes()))
}

/// What is there, with whether it can be used, against what migrations make.
fn compared(there: &[(String, bool)], wanted: &[String]) -> Finding {
    let broken = there.iter().filter(|(_, is_valid)| !is_valid).map(|(name, _)| format!("{name} is invalid"));
    let is_there = |wanted: &String| there.iter().any(|(name, _)| name == wanted);
    let missing = wanted.iter().filter(|name| !is_there(name)).map(|name| format!("{name} is missing"));
    let wrong: Vec<String> = broken.chain(missing).collect();
    match wrong.is_empty() {
        true => Finding::ok("indexes", format!("all {} are there and valid", there.len())),
        false => Finding::problem(
            "indexes",
            wrong.join(", "),
            "REINDEX INDEX CONCURRENTLY what is invalid; make what is missing by the text of windlass migrate on an empty schema",
        ),
    }
}

async fn dead_rows(session: &Session, schema: &str) -> Result<Vec<Finding>, Fault> {
    let rows = session.query(DEAD, &[(&schema, Type::TEXT)]).await?;
    if rows.is_empty() {
        return Ok(vec![Finding::ok("dead rows", "no table has many")]);
    }
    let finding = |row| {
        let (table, live, dead): (&str, i64, i64) = (at(row, 0)?, at(row, 1)?, at(row, 2)?);
        let what = format!("table {table} has {dead} dead rows beside {live} living ones");
        let remedy =
            "see what keeps autovacuum from them: an open transaction, a replication slot, its settings";
        Ok(Finding::warning("dead rows", what, remedy))
    };
    rows.iter().map(finding).collect()
}

async fn open_transactions(session: &Session) -> Result<Vec<Finding>, Fault> {
    let rows = session.query(OPEN, &[]).await?;
    if rows.is_empty() {
        return Ok(vec![Finding::ok(
            "transactions",
            "none is open for long, of those that this role may see",
        )]);
    }
    let finding = |row| {
        let (pid, application, state): (i32, &str, &str) = (at(row, 0)?, at(row, 1)?, at(row, 2)?);
        let minutes = at::<f64>(row, 3)? / 60.0;
        let what = format!("process {pid} ({application}, {state}) has one open for {minutes:.0} minutes");
        let remedy = format!("end it if it is not a backup: SELECT pg_terminate_backend({pid})");
        Ok(Finding::warning("transactions", what, remedy))
    };
    rows.iter().map(finding).collect()
}

async fn permissions(session: &Session, schema: &str) -> Result<Finding, Fault> {
    let rows = session.query(FORBIDDEN, &[(&schema, Type::TEXT)]).await?;
    let tables: Vec<&str> = rows.iter().map(|row| at(row, 0)).collect::<Result<_, Fault>>()?;
    Ok(match tables.is_empty() {
        true => Finding::ok("permissions", "this role may read and write every table of the schema"),
        false => Finding::problem(
            "permissions",
            format!("this role may not read and write {}", tables.join(", ")),
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA to it",
        ),
    })
}

#[cfg(test)]
mod tests {
    use windlass_core::store::Level;

    use super::*;

    #[test]
    fn only_what_is_unsafe_is_told() {
        assert_eq!(
            (switch("fsync", "on", "").level, switch("fsync", "off", "").level),
            (Level::Ok, Level::Problem)
        );
        assert_eq!(synchronous_commit("off").level, Level::Warning);
        assert_eq!(synchronous_commit("remote_write").level, Level::Ok);
        assert_eq!((connections(100, 90).level, connections(100, 91).level), (Level::Ok, Level::Warning));
    }

    #[test]
    fn indexes_are_compared_with_what_migrations_make() {
        let wanted = migrate::indexes();
        assert!(wanted.contains(&"waiting_ready".to_owned()), "{wanted:?}");
        assert!(!wanted.contains(&"running_stopping".to_owned()), "it was dropped");
        let mut there: Vec<_> = wanted.iter().map(|name| (name.clone(), true)).collect();
        assert_eq!(compared(&there, &wanted).level, Level::Ok);
        there[0].1 = false;
        let (last, _) = there.pop().unwrap();
        let found = compared(&there, &wanted);
        assert_eq!(found.what, format!("{} is invalid, {last} is missing", there[0].0));
    }
}
