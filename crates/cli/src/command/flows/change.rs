//! `flows cancel` and `flows retry`: what a person can do about a flow, with how many jobs it concerned.

use std::time::{Duration, Instant};

use serde::Serialize;
use windlass::Client;
use windlass::flow::{FlowHandle, FlowView, NodeView, Role, Status};
use windlass_core::{JobId, State};

use super::{FlowJson, find, state, tally};
use crate::args::FlowArgs;
use crate::exit::{Exit, Fault};
use crate::output::clean;
use crate::session::{Access, Session};

/// How long the command lets its process tell the flow of jobs that were cancelled at once. Later a worker does.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);
/// Jobs of one store call.
const CHUNK: usize = 1_000;

#[derive(Debug, Serialize)]
struct CancelledJson {
    #[serde(flatten)]
    flow: FlowJson,
    withdrawn: usize,
    stopping: usize,
}

#[derive(Debug, Serialize)]
struct RetriedJson {
    #[serde(flatten)]
    flow: FlowJson,
    sent_back: usize,
    waiting_again: usize,
}

pub(crate) async fn cancel(session: &mut Session, args: &FlowArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let (handle, before) = find::flow(&client, args).await?;
    if before.is_over || before.tally.ended() == before.tally.jobs {
        let (id, said) =
            (before.id, if before.is_over { state(&before) } else { "all of its jobs have ended" });
        return Err(Fault::failed(format!("nothing of flow {id} is left to cancel: {said}")).into());
    }
    let after = handle.cancel().await?;
    let after = told(&client, &handle, after).await?;
    let ended_now = |(before, after): &(&NodeView, &NodeView)| {
        before.role == Role::Job && !before.status.has_ended() && after.status == Status::Cancelled
    };
    let withdrawn = before.nodes.iter().zip(&after.nodes).filter(ended_now).count();
    let stopping = after.tally.open as usize;
    if session.output.is_json() {
        session.output.json(&CancelledJson { flow: FlowJson::of(&after), withdrawn, stopping })?;
    } else {
        let said = format!("{} cancelled, {} asked to stop", jobs(withdrawn), jobs(stopping));
        print(session, "cancelled", &after, &said)?;
    }
    Ok(Exit::Done)
}

/// The flow when it knows of the jobs that were cancelled at once, or after a while.
async fn told(client: &Client, handle: &FlowHandle, mut view: FlowView) -> anyhow::Result<FlowView> {
    let is_open = |node: &&NodeView| node.role == Role::Job && node.status == Status::Open;
    let open: Vec<JobId> = view.nodes.iter().filter(is_open).map(|node| node.id).collect();
    let mut running = 0;
    for ids in open.chunks(CHUNK) {
        let states = client.store().states(ids.into()).await?;
        running += states.iter().filter(|state| **state == Some(State::Running)).count();
    }
    let until = Instant::now() + PATIENCE;
    while view.tally.open as usize > running && Instant::now() < until {
        tokio::time::sleep(LOOK).await;
        view = handle.view().await?;
    }
    Ok(view)
}

pub(crate) async fn retry(session: &mut Session, args: &FlowArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let (handle, before) = find::flow(&client, args).await?;
    let count = |wanted: &[Status]| before.nodes.iter().filter(|node| wanted.contains(&node.status)).count();
    let (sent_back, waiting_again) = (count(&[Status::Dead, Status::Cancelled]), count(&[Status::Failed]));
    if sent_back + waiting_again == 0 {
        let id = before.id;
        let said =
            format!("nothing of flow {id} is dead, cancelled or failed: there is nothing to send back");
        return Err(Fault::failed(said).into());
    }
    let after = handle.retry().await?;
    if session.output.is_json() {
        session.output.json(&RetriedJson { flow: FlowJson::of(&after), sent_back, waiting_again })?;
    } else {
        let others = match waiting_again {
            0 => String::new(),
            count => format!(", and {} that did not run because of others", jobs(count)),
        };
        print(session, "retried", &after, &format!("{} sent back{others}", jobs(sent_back)))?;
    }
    Ok(Exit::Done)
}

fn print(session: &mut Session, word: &str, view: &FlowView, said: &str) -> anyhow::Result<()> {
    session.output.line(format_args!("{word} flow {} ({}): {said}", view.id, clean::line(&view.name)))?;
    Ok(session.output.line(format_args!("now {}", tally(view)))?)
}

fn jobs(count: usize) -> String {
    format!("{count} {}", if count == 1 { "job" } else { "jobs" })
}
