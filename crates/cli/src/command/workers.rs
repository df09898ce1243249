//! `workers`: the leases of worker processes.

use comfy_table::{Attribute, Cell, Color};
use serde::Serialize;
use windlass_core::Name;

use crate::args::WorkersArgs;
use crate::exit::Exit;
use crate::output::json::LeaseJson;
use crate::output::{cell, keep_whole, number, text};
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Page<'a> {
    workers: Vec<LeaseJson<'a>>,
}

pub(crate) async fn run(session: &mut Session, args: &WorkersArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let leases = client.workers(args.limit).await?;
    if session.output.is_json() {
        session.output.json(&Page { workers: leases.iter().map(LeaseJson::of).collect() })?;
        return Ok(Exit::Done);
    }
    if leases.is_empty() {
        session.note("no workers");
        return Ok(Exit::Done);
    }
    let format = session.output.format();
    let mut table =
        session.output.new_table(&["WORKER", "LEASE", "RUNNING", "QUEUES", "OPENED", "EXPIRES", "LEASE ID"]);
    for lease in &leases {
        let standing = if lease.is_lost {
            Cell::new("lost").fg(Color::Red).add_attribute(Attribute::Bold)
        } else {
            Cell::new("alive").fg(Color::Green)
        };
        table.add_row([
            cell(&lease.worker),
            standing,
            number(lease.running),
            cell(lease.queues.iter().map(Name::as_str).collect::<Vec<_>>().join(" ")),
            cell(text::instant(lease.opened_at, format)),
            cell(text::instant(lease.expires_at, format)),
            cell(lease.id.to_string()),
        ]);
    }
    keep_whole(&mut table, &[1, 2, 6]);
    session.output.table(table)?;
    Ok(Exit::Done)
}
