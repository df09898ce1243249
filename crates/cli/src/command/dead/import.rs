//! `dead import`: enqueues the jobs of an archive again. The id of each follows from the one that it had, so a second import
//! finds it there.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Context;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use windlass::Client;
use windlass_core::job::{AGAIN_OF, Spec};
use windlass_core::store::Enqueued;
use windlass_core::unique::{Digest, UniqueKey};
use windlass_core::{JobId, Name, NewJob, Options};

use super::archive::{FORM, Line, UniqueLine};
use super::file::Reader;
use super::{counter, jobs};
use crate::exit::{Exit, Fault};
use crate::session::{Access, Session};

/// Jobs, and bytes of their payloads, that one store call takes.
const CHUNK: usize = 500;
const CHUNK_BYTES: usize = 4 << 20;

#[derive(Debug, Default, Serialize)]
struct Answer {
    read: u64,
    stored: u64,
    /// Those that the store has from an import before.
    known: u64,
    /// Those whose unique key another job has.
    held: u64,
}

pub(crate) async fn run(session: &mut Session, file: &Path) -> anyhow::Result<Exit> {
    let mut reader = Reader::open(file)?;
    let client = session.open(Access::Create).await?;
    let mut answer = Answer::default();
    let ended = import(&client, &mut reader, file, &mut answer).await;
    if session.output.is_json() {
        session.output.json(&answer)?;
    } else {
        let Answer { read, stored, known, held } = answer;
        session.output.line(format_args!(
            "{} read: {stored} stored, {known} known from an import before, {held} not stored since another job has \
             their unique key",
            jobs(read)
        ))?;
    }
    ended.context("the import did not come to its end; it can be repeated")?;
    Ok(Exit::Done)
}

async fn import(
    client: &Client,
    reader: &mut Reader,
    file: &Path,
    answer: &mut Answer,
) -> anyhow::Result<()> {
    let (mut chunk, mut bytes, mut keyed) = (Vec::new(), 0, HashSet::new());
    let bar = counter("read");
    loop {
        let next = reader.next();
        let line = match &next {
            Ok(Some(line)) => Some(line),
            _ => None,
        };
        if let Some(line) = line {
            let at = || format!("line {} of {}", reader.line, file.display());
            let job = job(line).map_err(|why| Fault::failed(format!("{}: {why}", at())));
            match job {
                Ok(job) => {
                    answer.read += 1;
                    bytes += job.payload.len();
                    chunk.push(job);
                }
                Err(fault) => {
                    store(client, &chunk, &mut keyed, answer).await?;
                    return Err(fault.into());
                }
            }
        }
        if chunk.len() >= CHUNK || bytes >= CHUNK_BYTES || line.is_none() {
            store(client, &chunk, &mut keyed, answer).await?;
            chunk.clear();
            bytes = 0;
            bar.set_position(answer.read);
        }
        if next?.is_none() {
            bar.finish_and_clear();
            return Ok(());
        }
    }
}

async fn store(
    client: &Client,
    jobs: &[NewJob],
    keyed: &mut HashSet<Name>,
    answer: &mut Answer,
) -> anyhow::Result<()> {
    for job in jobs {
        if job.key.is_some() && keyed.insert(job.queue.clone()) {
            client.queue(&job.queue)?.permit_keys().await?;
        }
    }
    if jobs.is_empty() {
        return Ok(());
    }
    for enqueued in client.store().enqueue(jobs.into()).await? {
        match enqueued {
            Enqueued::New | Enqueued::Repeated => answer.stored += 1,
            Enqueued::Existing(_) => answer.known += 1,
            Enqueued::Duplicate { .. } | Enqueued::Replaced(_) => answer.held += 1,
        }
    }
    Ok(())
}

/// The job of a line, as a new one. Everything is checked as for a job that a program hands in.
fn job(line: &[u8]) -> Result<NewJob, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| format!("not a dead job: {error}"))?;
    if line.form > FORM {
        return Err(format!("form {} is newer than this program: run a later version", line.form));
    }
    let payload = BASE64_STANDARD.decode(&line.payload).map_err(|error| format!("its payload: {error}"))?;
    let spec =
        Spec::read(line.options.as_ref().map(|options| options.get())).map_err(|why| why.to_string())?;
    let mut options = Options::new().queue(line.queue.as_str()).priority(line.priority);
    options = options.retry(spec.retry).max_stalls(spec.stalls_max);
    if let Some(timeout) = spec.timeout {
        options = options.timeout(timeout);
    }
    if let Some(trace) = spec.trace {
        options = options.trace(trace);
    }
    if let Some(hook) = spec.on_dead {
        options = options.on_dead(hook);
    }
    if let Some(queue) = spec.forward_dead {
        options = options.forward_dead(queue.as_str());
    }
    if let Some(key) = &line.key {
        options = options.key(key.as_str());
    }
    for tag in &line.tags {
        options = options.tag(tag.as_str());
    }
    for (key, value) in spec.meta {
        options = options.meta(key, value);
    }
    options = options.meta(AGAIN_OF, line.id.to_string());
    let mut job = NewJob::new(&line.kind, payload, options).map_err(|error| error.to_string())?;
    job.unique = line.unique.map(unique).transpose()?;
    Ok(job.with_id(imported(line.id)))
}

/// The id of the job that an import makes of one.
fn imported(id: JobId) -> JobId {
    let name = Name::new("windlass.import").expect("it is a name");
    id.moved_to(&name)
}

fn unique(UniqueLine { digest, lifetime }: UniqueLine) -> Result<UniqueKey, String> {
    let is_hex = digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_hex.then(|| u128::from_str_radix(&digest, 16).ok()).flatten();
    let number = number.ok_or_else(|| "its unique key is not 32 hexadecimal digits".to_owned())?;
    Ok(UniqueKey { digest: Digest(number.to_be_bytes()), lifetime: lifetime.parse()? })
}
