//! `dead edit` and `dead again`: an ended job once more, as a new one.

use serde::Serialize;
use windlass::Client;
use windlass_core::{JobId, JobRecord};

use crate::args::DeadEditArgs;
use crate::command::{enqueue, jobs};
use crate::exit::{Exit, Fault};
use crate::output::clean;
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Answer {
    id: String,
    new_id: String,
}

pub(crate) async fn run(session: &mut Session, args: &DeadEditArgs) -> anyhow::Result<Exit> {
    let source = match args.payload.as_str() {
        "-" => "-".to_owned(),
        file => format!("@{file}"),
    };
    let payload = enqueue::payload(Some(&source), args.raw)?;
    let client = session.open(Access::Existing).await?;
    let Some(job) = ended(&client, args.id).await? else { return Ok(Exit::NotFound) };
    match client.edit_again(args.id, payload, &args.by, &args.why).await {
        Ok(Some(new)) => said(session, args.id, new, "is enqueued with the new payload"),
        Ok(None) => Err(changed(args.id).into()),
        Err(error) if error.is_conflict() => Err(edited_before(&client, &job).await.into()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn again(session: &mut Session, id: JobId) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    if ended(&client, id).await?.is_none() {
        return Ok(Exit::NotFound);
    }
    match client.run_again(id).await? {
        Some(new) => said(session, id, new, "runs again"),
        None => Err(changed(id).into()),
    }
}

/// The job, if it is there; a fault if it has not ended.
async fn ended(client: &Client, id: JobId) -> anyhow::Result<Option<JobRecord>> {
    match client.job(id).await? {
        None => {
            jobs::complain_missing(&[id.to_string()]);
            Ok(None)
        }
        Some(job) if job.state.is_terminal() => Ok(Some(job)),
        Some(job) => Err(Fault::failed(format!(
            "job {id} is {}: only jobs that have ended can be run again",
            job.state
        ))
        .into()),
    }
}

fn changed(id: JobId) -> Fault {
    Fault::failed(format!("job {id} was sent back or removed meanwhile: nothing was enqueued"))
}

async fn edited_before(client: &Client, job: &JobRecord) -> Fault {
    let id = job.id;
    Fault::failed(match client.edit_of(job).await {
        Ok(Some(edited)) => format!(
            "job {id} was edited before, by {} as job {}: edit that one",
            clean::line(&edited.by),
            edited.new
        ),
        _ => format!("job {id} was edited before"),
    })
}

fn said(session: &mut Session, id: JobId, new: JobId, what: &str) -> anyhow::Result<Exit> {
    if session.output.is_json() {
        session.output.json(&Answer { id: id.to_string(), new_id: new.to_string() })?;
    } else {
        session.output.line(format_args!("{id} {what} as {new}"))?;
    }
    Ok(Exit::Done)
}
