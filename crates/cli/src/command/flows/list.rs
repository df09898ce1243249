//! `flows list`: a page of flows, each with how far it is.

use comfy_table::{Cell, Color};
use serde::Serialize;
use windlass::Client;
use windlass::flow::{FlowPlace, FlowView, FlowsListed};
use windlass_core::clock::Timestamp;

use super::FlowJson;
use crate::args::{FlowCursor, FlowsListArgs};
use crate::command::known;
use crate::exit::Exit;
use crate::output::{Format, cell, keep_whole, number, text};
use crate::session::{Access, Session};

/// How many characters a bar has.
const BAR: u32 = 10;

#[derive(Debug, Serialize)]
struct Page<'a> {
    flows: Vec<&'a FlowJson>,
    next: Option<String>,
}

/// A flow of the list, and where it stands there.
struct Row {
    flow: FlowJson,
    changed_at: Timestamp,
    cursor: FlowCursor,
}

pub(crate) async fn run(session: &mut Session, args: &FlowsListArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    // One more than is shown tells whether there are more.
    let mut rows = rows(&client, args, args.limit as usize + 1).await?;
    if rows.is_empty()
        && args.after.is_none()
        && let Some(queue) = &args.queue
        && !client.all_flow_queues().await?.contains(queue)
    {
        known::check_queue(&client, queue).await?;
    }
    let has_more = rows.len() > args.limit as usize;
    rows.truncate(args.limit as usize);
    let next = rows.last().filter(|_| has_more).map(|row| row.cursor.to_string());
    if session.output.is_json() {
        session.output.json(&Page { flows: rows.iter().map(|row| &row.flow).collect(), next })?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        session.note(if args.ended { "no flows that are over" } else { "no flows under way" });
        return Ok(Exit::Done);
    }
    print(session, &rows)?;
    if let Some(cursor) = next {
        session.note(&format!("there are more: repeat with --after {cursor}"));
    }
    Ok(Exit::Done)
}

/// Flows of the queues, one queue after the other.
async fn rows(client: &Client, args: &FlowsListArgs, most: usize) -> anyhow::Result<Vec<Row>> {
    let queues = match &args.queue {
        Some(queue) => vec![queue.clone()],
        None => client.all_flow_queues().await?,
    };
    let which = if args.ended { FlowsListed::Ended } else { FlowsListed::Open };
    let after =
        args.after.as_ref().map(|FlowCursor { id, queue }| FlowPlace { id: *id, queue: queue.clone() });
    let row = |view: &FlowView| Row {
        flow: FlowJson::of(view),
        changed_at: view.changed_at,
        cursor: FlowCursor { id: view.id, queue: view.home.clone() },
    };
    Ok(client.list_flows(which, &queues, after.as_ref(), most, row).await?)
}

fn print(session: &mut Session, rows: &[Row]) -> anyhow::Result<()> {
    let format = session.output.format();
    let header = ["ID", "NAME", "QUEUE", "PROGRESS", "FAILED", "STATE", "CHANGED"];
    let mut table = session.output.new_table(&header);
    for Row { flow, changed_at, .. } in rows {
        table.add_row([
            cell(&flow.id),
            cell(&flow.name),
            cell(&flow.queue),
            cell(progress(flow.ended, flow.jobs, format)),
            number(u64::from(flow.dead) + u64::from(flow.cancelled) + u64::from(flow.failed)),
            state(flow.state),
            cell(text::instant(*changed_at, format)),
        ]);
    }
    keep_whole(&mut table, &[0, 2, 3, 4, 5, 6]);
    Ok(session.output.table(table)?)
}

/// How many jobs have ended, on a terminal with a bar. What has not ended is never shown as 100 %.
fn progress(ended: u32, jobs: u32, format: Format) -> String {
    let share = |of: u32| match jobs {
        0 => of,
        _ => u32::try_from(u64::from(ended) * u64::from(of) / u64::from(jobs)).unwrap_or(of),
    };
    let said = format!("{ended}/{jobs} {}%", share(100));
    if format != Format::Terminal {
        return said;
    }
    let full = share(BAR);
    format!("{}{} {said}", "█".repeat(full as usize), "░".repeat((BAR - full) as usize))
}

fn state(state: &str) -> Cell {
    let shown = Cell::new(state);
    match state {
        "running" => shown.fg(Color::Cyan),
        "succeeded" => shown.fg(Color::Green),
        "failed" => shown.fg(Color::Red),
        _ => shown.fg(Color::Yellow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_whole_only_at_the_end() {
        assert_eq!(progress(3, 10, Format::Plain), "3/10 30%");
        assert_eq!(progress(999, 1_000, Format::Plain), "999/1000 99%");
        assert_eq!(progress(5, 10, Format::Terminal), "█████░░░░░ 5/10 50%");
        assert_eq!(progress(0, 0, Format::Plain), "0/0 100%");
    }
}
