//! `migrate`: brings the schema of a store up to date, or prints what that would do.

use serde::Serialize;
use windlass_core::StoreError;
use windlass_store_sqlite::migrate::{Status, status};

use crate::args::MigrateArgs;
use crate::exit::Exit;
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Answer<'a> {
    found: i64,
    known: i64,
    applied: bool,
    pending: Vec<Step<'a>>,
}

#[derive(Debug, Serialize)]
struct Step<'a> {
    version: i64,
    name: &'a str,
    sql: &'a str,
}

pub(crate) async fn run(session: &mut Session, args: &MigrateArgs) -> anyhow::Result<Exit> {
    if !session.url().starts_with("sqlite:") {
        // Opening it says what is wrong with a URL that names no store at all.
        session.open(Access::Create).await?;
        return answer(session, args, &Status { found: 0, known: 0, pending: Vec::new() });
    }
    let before = status(session.url())?;
    if before.found > before.known {
        return Err(StoreError::SchemaTooNew { found: before.found, known: before.known }.into());
    }
    if !args.dry_run {
        session.open(Access::Create).await?;
    }
    answer(session, args, &before)
}

fn answer(session: &mut Session, args: &MigrateArgs, status: &Status) -> anyhow::Result<Exit> {
    let Status { found, known, ref pending } = *status;
    if session.output.is_json() {
        let pending = pending
            .iter()
            .map(|step| Step { version: step.version, name: step.name, sql: step.sql })
            .collect();
        session.output.json(&Answer { found, known, applied: !args.dry_run, pending })?;
        return Ok(Exit::Done);
    }
    if pending.is_empty() {
        session.output.line(format_args!("schema {found} is up to date"))?;
    }
    for step in pending {
        if args.dry_run {
            session.output.line(format_args!("-- {:04} {}", step.version, step.name))?;
            session.output.line(step.sql.trim_end())?;
        } else {
            session.output.line(format_args!("applied {:04} {}", step.version, step.name))?;
        }
    }
    Ok(Exit::Done)
}
