//! `workers`: the leases of worker processes.

use comfy_table::{Attribute, Cell, Color};
use serde::Serialize;
use windlass_core::Name;

use crate::args::WorkersArgs;
use crate::exit::Exit;
use crate::output::json::LeaseJson;
use crate::output::{cell, keep_whole, number, text};
use crate::session::{Access, Session};

/// How many queues or kinds of a worker are shown.
const SHOWN: usize = 10;

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
    let mut table = session
        .output
        .new_table(&["WORKER", "LEASE", "RUNNING", "QUEUES", "KINDS", "OPENED", "EXPIRES", "LEASE ID"]);
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
            names(&lease.queues),
            names(&own_kinds(&lease.kinds)),
            cell(text::instant(lease.opened_at, format)),
            cell(text::instant(lease.expires_at, format)),
            cell(lease.id.to_string()),
        ]);
    }
    keep_whole(&mut table, &[1, 2, 7]);
    session.output.table(table)?;
    Ok(Exit::Done)
}

/// Without those that every worker runs for the engine.
fn own_kinds(kinds: &[Name]) -> Vec<Name> {
    kinds.iter().filter(|kind| !kind.is_internal()).cloned().collect()
}

/// The first few of them; a worker may run hundreds of kinds, and JSON has them.
fn names(names: &[Name]) -> Cell {
    let mut shown: Vec<_> = names.iter().take(SHOWN).map(Name::as_str).collect();
    let rest = names.len() - shown.len();
    let more = format!("and {rest} more");
    if rest > 0 {
        shown.push(&more);
    }
    cell(shown.join(" "))
}
