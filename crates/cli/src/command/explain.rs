//! `explain`: why jobs are where they are.

use serde::Serialize;
use windlass::worker::{Cause, Explanation, Why};
use windlass_core::{JobId, Name, State};

use super::jobs::complain_missing;
use crate::exit::Exit;
use crate::output::json::instant;
use crate::output::{cell, keep_whole};
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct ExplanationJson<'a> {
    id: String,
    queue: &'a Name,
    kind: &'a Name,
    state: State,
    /// By the store's clock.
    now: String,
    causes: Vec<CauseJson<'a>>,
}

#[derive(Debug, Serialize)]
struct CauseJson<'a> {
    #[serde(flatten)]
    why: &'a Why,
    sentence: &'a str,
    remedy: Option<&'a str>,
}

pub(crate) async fn run(session: &mut Session, ids: &[JobId]) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let mut missing = Vec::new();
    let mut shown = 0;
    for &id in ids {
        let Some(explanation) = client.explain(id).await? else {
            missing.push(id.to_string());
            continue;
        };
        if session.output.is_json() {
            session.output.json(&json(&explanation))?;
        } else {
            if shown > 0 {
                session.output.line("")?;
            }
            print(session, &explanation)?;
        }
        shown += 1;
    }
    if missing.is_empty() {
        return Ok(Exit::Done);
    }
    complain_missing(&missing);
    Ok(Exit::NotFound)
}

fn json(explanation: &Explanation) -> ExplanationJson<'_> {
    let Explanation { job, now, causes, .. } = explanation;
    ExplanationJson {
        id: job.id.to_string(),
        queue: &job.queue,
        kind: &job.kind,
        state: job.state,
        now: instant(*now),
        causes: causes.iter().map(CauseJson::of).collect(),
    }
}

impl<'a> CauseJson<'a> {
    fn of(cause: &'a Cause) -> Self {
        Self { why: &cause.why, sentence: &cause.sentence, remedy: cause.remedy.as_deref() }
    }
}

fn print(session: &mut Session, explanation: &Explanation) -> anyhow::Result<()> {
    let job = &explanation.job;
    session.output.line(format_args!("{} is {}: {} in queue {}", job.id, job.state, job.kind, job.queue))?;
    let mut table = session.output.new_table(&["CAUSE", "WHAT", "REMEDY"]);
    for cause in &explanation.causes {
        let remedy = cause.remedy.as_deref().unwrap_or_default();
        table.add_row([cell(cause.why.name()), cell(&cause.sentence), cell(remedy)]);
    }
    keep_whole(&mut table, &[0]);
    Ok(session.output.table(table)?)
}
