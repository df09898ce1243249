//! `dead show`: everything about dead jobs.

use serde::Serialize;
use windlass::Client;
use windlass::worker::{DeadLetter, Edited, Redriven};
use windlass_core::fingerprint::pattern;
use windlass_core::{JobId, JobRecord, State};

use crate::command::jobs;
use crate::exit::Exit;
use crate::output::clean;
use crate::output::json::JobJson;
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct LetterJson<'a> {
    #[serde(flatten)]
    job: JobJson<'a>,
    fingerprint: String,
    pattern: &'a str,
    cause: &'a str,
    edited: Option<&'a Edited>,
    redriven: Option<&'a Redriven>,
}

pub(crate) async fn run(session: &mut Session, ids: &[JobId]) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let (mut missing, mut alive, mut shown) = (Vec::new(), false, 0);
    for &id in ids {
        let Some(job) = client.job(id).await? else {
            missing.push(id.to_string());
            continue;
        };
        if job.state != State::Dead {
            alive = true;
            session.complain(&format!("job {id} is {}, not dead: use windlass jobs show {id}", job.state));
            continue;
        }
        if shown > 0 && !session.output.is_json() {
            session.output.line("")?;
        }
        let (edited, redriven) = remembered(&client, &job).await?;
        print(session, &job, edited.as_ref(), redriven.as_ref())?;
        shown += 1;
    }
    jobs::complain_missing(&missing);
    Ok(match (alive, missing.is_empty()) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::Done,
        (false, false) => Exit::NotFound,
    })
}

/// What was edited, and how often rules have sent it back; a store that keeps no records knows of nothing.
async fn remembered(
    client: &Client,
    job: &JobRecord,
) -> windlass::Result<(Option<Edited>, Option<Redriven>)> {
    match client.store().records() {
        Some(_) => Ok((client.edit_of(job).await?, client.redriven(job).await?)),
        None => Ok((None, None)),
    }
}

fn print(
    session: &mut Session,
    job: &JobRecord,
    edited: Option<&Edited>,
    redriven: Option<&Redriven>,
) -> anyhow::Result<()> {
    let letter = DeadLetter::of(job.clone());
    let (cause, fingerprint) = (letter.cause(), letter.fingerprint.to_string());
    let pattern = pattern(&cause);
    if session.output.is_json() {
        let job = JobJson::shown(job);
        let letter = LetterJson { job, fingerprint, pattern: &pattern, cause: &cause, edited, redriven };
        return Ok(session.output.json(&letter)?);
    }
    jobs::print_job(session, job)?;
    session.output.line(format_args!("\nfingerprint {fingerprint}: {}", clean::line(&pattern)))?;
    if let Some(Edited { new, by, why, .. }) = edited {
        let (by, why) = (clean::line(by), clean::line(why));
        session.output.line(format_args!("edited by {by} as job {new}: {why}"))?;
    }
    if let Some(Redriven { count, rule, at, .. }) = redriven {
        let times = if *count == 1 { "time" } else { "times" };
        session
            .output
            .line(format_args!("sent back {count} {times} by rules, the last time by {rule} at {at}"))?;
    }
    Ok(())
}
