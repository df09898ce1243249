//! `migrate`: brings the schema of a store up to date, or prints what that would do.

use serde::Serialize;
use windlass_core::StoreError;
use windlass_store_postgres::migrate as postgres;
use windlass_store_sqlite::migrate as sqlite;

use crate::args::MigrateArgs;
use crate::exit::{Exit, Fault};
use crate::session::{Access, Scheme, Session};

/// How far a schema has grown, and what is still to be done.
#[derive(Debug, Default)]
struct Plan {
    found: i64,
    known: i64,
    pending: Vec<Step>,
    /// The whole of it for another program to run; empty when nothing is pending.
    script: String,
}

#[derive(Debug, Serialize)]
struct Step {
    /// Nothing for a function, whose name says which text it is.
    version: Option<i64>,
    name: &'static str,
    sql: String,
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    found: i64,
    known: i64,
    applied: bool,
    pending: &'a [Step],
}

pub(crate) async fn run(session: &mut Session, args: &MigrateArgs) -> anyhow::Result<Exit> {
    let plan = match session.scheme() {
        Scheme::Sqlite => of_sqlite(session, args).await?,
        Scheme::Postgres => of_postgres(session.url(), args).await?,
        Scheme::Server => {
            return Err(Fault::usage(
                "a server brings its store up to date when it starts: migrate the store itself, by its own URL",
            )
            .into());
        }
        Scheme::Other => {
            // Redis and memory have none. Opening it says what is wrong with a URL that names no store at all.
            session.open(Access::Create).await?;
            Plan::default()
        }
    };
    answer(session, args, &plan)
}

async fn of_sqlite(session: &Session, args: &MigrateArgs) -> anyhow::Result<Plan> {
    let before = sqlite::status(session.url())?;
    if before.found > before.known {
        return Err(StoreError::SchemaTooNew { found: before.found, known: before.known }.into());
    }
    if !args.dry_run {
        session.open(Access::Create).await?;
    }
    let step = |step: &sqlite::Migration| Step {
        version: Some(step.version),
        name: step.name,
        sql: step.sql.to_owned(),
    };
    let pending: Vec<_> = before.pending.iter().map(step).collect();
    let texts = pending.iter().map(|step| format!("-- {}\n{}\n", step.title(), step.sql.trim_end()));
    Ok(Plan { found: before.found, known: before.known, script: texts.collect(), pending })
}

/// Without opening a store, so that a dry run makes nothing and a run does so whatever the URL says about it.
async fn of_postgres(url: &str, args: &MigrateArgs) -> anyhow::Result<Plan> {
    let before = if args.dry_run { postgres::status(url).await? } else { postgres::run(url).await? };
    let (found, known, script) = (before.found, before.known, before.script());
    let step = |step: postgres::Migration| Step { version: step.version, name: step.name, sql: step.sql };
    Ok(Plan { found, known, pending: before.pending.into_iter().map(step).collect(), script })
}

fn answer(session: &mut Session, args: &MigrateArgs, plan: &Plan) -> anyhow::Result<Exit> {
    let Plan { found, known, ref pending, .. } = *plan;
    if session.output.is_json() {
        session.output.json(&Answer { found, known, applied: !args.dry_run, pending })?;
    } else if pending.is_empty() {
        // In a script this is a comment.
        let comment = if args.dry_run { "-- " } else { "" };
        let state = match known {
            0 => "nothing to migrate: this store has no schema".to_owned(),
            _ => format!("schema {found} is up to date"),
        };
        session.output.line(format_args!("{comment}{state}"))?;
    } else if args.dry_run {
        session.output.line(plan.script.trim_end())?;
    } else {
        for step in pending {
            session.output.line(format_args!("applied {}", step.title()))?;
        }
    }
    Ok(Exit::Done)
}

impl Step {
    fn title(&self) -> String {
        match self.version {
            Some(version) => format!("{version:04} {}", self.name),
            None => format!("function {}", self.name),
        }
    }
}
