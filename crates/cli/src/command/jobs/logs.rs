//! `jobs logs`: what the attempts of a job have said.

use serde::Serialize;
use windlass::worker::LogLine;
use windlass_core::clock::Timestamp;

use super::amend;
use crate::args::LogsArgs;
use crate::exit::Exit;
use crate::output::{Output, clean, json};
use crate::session::{Access, Session};

/// A line for programs.
#[derive(Debug, Serialize)]
pub(super) struct LineJson<'a> {
    attempt: u32,
    fence: u64,
    number: u64,
    /// How many lines before this one were dropped.
    dropped: u64,
    at: String,
    level: &'static str,
    text: &'a str,
}

impl<'a> LineJson<'a> {
    pub(super) fn of(line: &'a LogLine) -> Self {
        Self {
            attempt: line.attempt,
            fence: line.fence,
            number: line.number,
            dropped: line.dropped,
            at: json::instant(Timestamp::from(line.at)),
            level: line.level.as_str(),
            text: &line.text,
        }
    }
}

pub(crate) async fn run(session: &mut Session, args: &LogsArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let found = client.logs(args.id).await?;
    let reader = match (found, &args.queue) {
        (Some(reader), _) => reader,
        (None, Some(queue)) => client.logs_in(queue, args.id)?,
        (None, None) => {
            amend::complain_missing(&[args.id.to_string()]);
            session.note("if its queue has removed it already, name the queue with --queue");
            return Ok(Exit::NotFound);
        }
    };
    let mut reader = match args.attempt {
        Some(number) => reader.attempt(number),
        None => reader,
    };
    let mut count: usize = 0;
    loop {
        let lines = reader.next().await?;
        if lines.is_empty() {
            break;
        }
        count += lines.len();
        for line in &lines {
            if session.output.is_json() {
                session.output.json(&LineJson::of(line))?;
            } else {
                print(&mut session.output, line)?;
            }
        }
    }
    if count == 0 {
        session.note("nothing was said, or it was kept for no longer");
    }
    Ok(Exit::Done)
}

/// A line for people: the attempt, when, how much it matters, and the text on one line.
pub(super) fn print(output: &mut Output, line: &LogLine) -> std::io::Result<()> {
    if line.dropped > 0 {
        output.line(format_args!("{:>3}  … {} lines dropped", line.attempt, line.dropped))?;
    }
    let at = Timestamp::from(line.at);
    output.line(format_args!("{:>3}  {at}  {:<5}  {}", line.attempt, line.level, clean::line(&line.text)))
}
