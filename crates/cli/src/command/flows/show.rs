//! `flows show`: how far a flow is, and its jobs as a drawing.

use serde::Serialize;
use windlass::flow::{FlowView, NodeView, Role};
use windlass_core::Name;

use super::{FlowJson, drawing, find, state, tally};
use crate::args::FlowArgs;
use crate::exit::Exit;
use crate::output::{cell, text};
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct ShownJson<'a> {
    #[serde(flatten)]
    flow: FlowJson,
    nodes: Vec<NodeJson<'a>>,
}

#[derive(Debug, Serialize)]
struct NodeJson<'a> {
    id: String,
    kind: &'a Name,
    queue: &'a Name,
    status: &'static str,
    role: Role,
    /// The places in `nodes` of those that it waits for.
    parents: &'a [u32],
}

impl<'a> NodeJson<'a> {
    fn of(node: &'a NodeView) -> Self {
        let NodeView { id, kind, queue, status, role, parents, .. } = node;
        Self { id: id.to_string(), kind, queue, status: status.as_str(), role: *role, parents }
    }
}

pub(crate) async fn run(session: &mut Session, args: &FlowArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let (_, view) = find::flow(&client, args).await?;
    if session.output.is_json() {
        let nodes = view.nodes.iter().map(NodeJson::of).collect();
        session.output.json(&ShownJson { flow: FlowJson::of(&view), nodes })?;
        return Ok(Exit::Done);
    }
    print(session, &view)?;
    Ok(Exit::Done)
}

fn print(session: &mut Session, view: &FlowView) -> anyhow::Result<()> {
    let format = session.output.format();
    let mut table = session.output.new_table(&[]);
    for (name, value) in [
        ("flow", view.name.clone()),
        ("id", view.id.to_string()),
        ("queue", view.home.to_string()),
        ("state", state(view).to_owned()),
        ("jobs", tally(view)),
        ("changed", text::instant_long(view.changed_at, format)),
    ] {
        table.add_row([cell(name), cell(value)]);
    }
    session.output.table(table)?;
    session.output.line("")?;
    for line in drawing::of(view) {
        session.output.line(line)?;
    }
    Ok(())
}
