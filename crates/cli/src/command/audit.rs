//! `audit`: who changed what by the HTTP API.

use serde::Serialize;
use windlass::server::{AuditEntry, AuditLog};

use crate::args::AuditArgs;
use crate::exit::Exit;
use crate::output::{cell, clean, json, keep_whole, text};
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct EntryJson<'a> {
    at: String,
    actor: &'a str,
    role: &'static str,
    means: &'a str,
    action: &'a str,
    request: &'a str,
    status: Option<u16>,
    detail: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Page<'a> {
    entries: Vec<EntryJson<'a>>,
    next: Option<&'a str>,
}

impl<'a> EntryJson<'a> {
    fn of(entry: &'a AuditEntry) -> Self {
        Self {
            at: json::instant(entry.at),
            actor: &entry.actor,
            role: entry.role.as_str(),
            means: &entry.means,
            action: &entry.action,
            request: &entry.request,
            status: entry.status,
            detail: entry.detail.as_deref(),
        }
    }
}

pub(crate) async fn run(session: &mut Session, args: &AuditArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let page = AuditLog::new(&client).page(args.after.as_ref(), args.limit).await?;
    let next = page.next.as_ref().map(windlass_core::record::RecordKey::as_str);
    if session.output.is_json() {
        session.output.json(&Page { entries: page.entries.iter().map(EntryJson::of).collect(), next })?;
        return Ok(Exit::Done);
    }
    if page.entries.is_empty() {
        session.note("no changes came by the API");
        return Ok(Exit::Done);
    }
    let format = session.output.format();
    let mut table = session.output.new_table(&["AT", "ACTOR", "ROLE", "ACTION", "STATUS", "REQUEST"]);
    for entry in &page.entries {
        table.add_row([
            cell(text::instant(entry.at, format)),
            cell(&entry.actor),
            cell(entry.role.as_str()),
            cell(&entry.action),
            cell(entry.status.map_or_else(|| "unknown".to_owned(), |status| status.to_string())),
            cell(&entry.request),
        ]);
    }
    keep_whole(&mut table, &[0, 2, 3, 4]);
    session.output.table(table)?;
    if let Some(next) = next {
        session.note(&format!("there are more: repeat with --after {}", clean::line(next)));
    }
    Ok(Exit::Done)
}
