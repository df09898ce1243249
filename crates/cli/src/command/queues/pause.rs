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
    if args.kinds.is_empty() {
        queue.pause(pausing.clone()).await?;
    }
    for kind in &args.kinds {
        queue.pause_kind(kind, pausing.clone()).await?;
    }
    said(session, &args.queue, &args.kinds, true)
}

/// Resumes a queue; one that was not paused is said to be.
pub(crate) async fn resume(session: &mut Session, args: &ResumeArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    known::check_queue(&client, &args.queue).await?;
    let queue = client.queue(&args.queue)?;
    let mut was_paused = args.kinds.is_empty() && queue.resume().await?;
    for kind in &args.kinds {
        was_paused |= queue.resume_kind(kind).await?;
    }
    if !was_paused {
        session.note(&format!("{} was not paused", subject(&args.queue, &args.kinds)));
        return Ok(Exit::Failed);
    }
    said(session, &args.queue, &args.kinds, false)
}

fn said(session: &mut Session, queue: &Name, kinds: &[Name], paused: bool) -> anyhow::Result<Exit> {
    if session.output.is_json() {
        session.output.json(&Answer { queue, kinds, paused })?;
    } else {
        let what = if paused { "paused: jobs that run go on, no other is handed out" } else { "resumed" };
        session.output.line(format_args!("{} {what}", subject(queue, kinds)))?;
    }
    Ok(Exit::Done)
}

fn subject(queue: &Name, kinds: &[Name]) -> String {
    let kinds: Vec<&str> = kinds.iter().map(Name::as_str).collect();
    match &kinds[..] {
        [] => queue.to_string(),
        [kind] => format!("kind {kind} of {queue}"),
        kinds => format!("kinds {} of {queue}", kinds.join(", ")),
    }
}
