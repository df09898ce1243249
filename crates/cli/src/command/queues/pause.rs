//! `queues pause` and `queues resume`.

use serde::Serialize;
use windlass::worker::Pausing;
use windlass_core::Name;

use crate::args::{PauseArgs, ResumeArgs};
use crate::command::known;
use crate::exit::Exit;
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Answer<'a> {
    queue: &'a Name,
    kinds: &'a [Name],
    keys: &'a [Name],
    paused: bool,
}

/// Pauses a queue. One that nothing knows may be paused before its first job comes.
pub(crate) async fn pause(session: &mut Session, args: PauseArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Create).await?;
    let queue = client.queue(&args.queue)?;
    let mut pausing = Pausing::new().by(args.by).why(args.why);
    if let Some(time) = args.time {
        pausing = pausing.for_time(time);
    }
    if args.kinds.is_empty() && args.keys.is_empty() {
        queue.pause(pausing.clone()).await?;
    }
    for kind in &args.kinds {
        queue.pause_kind(kind, pausing.clone()).await?;
    }
    for key in &args.keys {
        queue.pause_key(key, pausing.clone()).await?;
    }
    said(session, Answer { queue: &args.queue, kinds: &args.kinds, keys: &args.keys, paused: true })
}

/// Resumes a queue; one that was not paused is said to be.
pub(crate) async fn resume(session: &mut Session, args: &ResumeArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    known::check_queue(&client, &args.queue).await?;
    let queue = client.queue(&args.queue)?;
    let is_whole = args.kinds.is_empty() && args.keys.is_empty();
    let mut was_paused = is_whole && queue.resume().await?;
    for kind in &args.kinds {
        was_paused |= queue.resume_kind(kind).await?;
    }
    for key in &args.keys {
        was_paused |= queue.resume_key(key).await?;
    }
    let answer = Answer { queue: &args.queue, kinds: &args.kinds, keys: &args.keys, paused: false };
    if !was_paused {
        session.note(&format!("{} was not paused", answer.subject()));
        return Ok(Exit::Failed);
    }
    said(session, answer)
}

fn said(session: &mut Session, answer: Answer<'_>) -> anyhow::Result<Exit> {
    if session.output.is_json() {
        session.output.json(&answer)?;
    } else {
        let what =
            if answer.paused { "paused: jobs that run go on, no other is handed out" } else { "resumed" };
        session.output.line(format_args!("{} {what}", answer.subject()))?;
    }
    Ok(Exit::Done)
}

impl Answer<'_> {
    /// What is paused or resumed, as people read it.
    fn subject(&self) -> String {
        let named = |noun: &str, names: &[Name]| {
            let names: Vec<&str> = names.iter().map(Name::as_str).collect();
            match &names[..] {
                [] => None,
                [name] => Some(format!("{noun} {name}")),
                names => Some(format!("{noun}s {}", names.join(", "))),
            }
        };
        let parts: Vec<String> =
            [named("kind", self.kinds), named("key", self.keys)].into_iter().flatten().collect();
        if parts.is_empty() {
            self.queue.to_string()
        } else {
            format!("{} of {}", parts.join(" and "), self.queue)
        }
    }
}
