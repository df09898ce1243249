//! `enqueue`: checks everything first, then hands in one job or many.

use std::io::Read;
use std::time::SystemTime;

use anyhow::Context;
use serde::Serialize;
use windlass_core::clock::Timestamp;
use windlass_core::retry::{ATTEMPTS_DEFAULT, Policy};
use windlass_core::size::CAP_MAX;
use windlass_core::store::{Durability, Enqueued};
use windlass_core::unique::{Lifetime, Unique};
use windlass_core::{Bytes, JobId, NewJob, Options, State};

use crate::args::EnqueueArgs;
use crate::exit::{Exit, Fault};
use crate::output::json;
use crate::session::{Access, Session};

/// How many jobs one store call takes.
const CHUNK: u32 = 1_000;

#[derive(Debug, Serialize)]
struct Answer<'a> {
    id: String,
    new: bool,
    /// Nothing where the job that holds the unique key is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    /// What the job that holds the unique key did: `kept` or `replaced`.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<&'static str>,
    queue: &'a str,
    kind: &'a str,
    durability: &'static str,
}

pub(crate) async fn run(session: &mut Session, args: EnqueueArgs) -> anyhow::Result<Exit> {
    let payload = payload(args.payload.as_deref(), args.raw)?;
    let made = |options| NewJob::new(&args.kind, payload.clone(), options);
    let job = made(options(&args)).map_err(|error| Fault::usage(error.to_string()))?;
    let client = session.open(Access::Create).await?;
    // All of the command line makes sense by now; the queue may have something to say where it says nothing.
    let defaults = client.queue(&job.queue)?.definition().await?.defaults;
    let job =
        made(options(&args).over(defaults.options())).map_err(|error| Fault::usage(error.to_string()))?;
    let job = match args.id {
        Some(id) => job.with_id(id),
        None => job,
    };
    let durability = client.about().durability;
    if args.count == 1 {
        let enqueued = client.enqueue_new(job.clone()).await?;
        return answer_one(session, &job, enqueued, durability);
    }

    if job.key.is_some() {
        client.queue(&job.queue)?.permit_keys().await?;
    }
    let (mut first, mut last) = (None, None);
    let mut accepted = 0;
    while accepted < args.count {
        let chunk: Vec<NewJob> =
            (0..CHUNK.min(args.count - accepted)).map(|_| job.clone().with_id(JobId::new())).collect();
        client
            .store()
            .enqueue(chunk.as_slice().into())
            .await
            .with_context(|| format!("after {accepted} jobs were accepted"))?;
        accepted += CHUNK.min(args.count - accepted);
        first = first.or(chunk.first().map(|job| job.id));
        last = chunk.last().map(|job| job.id);
        if session.output.is_json() {
            for job in &chunk {
                session.output.json(&answer(job, Enqueued::New, durability))?;
            }
        }
    }
    if let (false, Some(first), Some(last)) = (session.output.is_json(), first, last) {
        let (kind, queue) = (&job.kind, &job.queue);
        session
            .output
            .line(format_args!("accepted {accepted} jobs: {kind} in queue {queue}, {durability}"))?;
        session.output.line(format_args!("first {first}, last {last}"))?;
    }
    Ok(Exit::Done)
}

fn answer<'a>(job: &'a NewJob, enqueued: Enqueued, durability: Durability) -> Answer<'a> {
    let (id, state, duplicate) = match enqueued {
        // A repeat of this very call found it accepted: the answer before was lost.
        Enqueued::New | Enqueued::Repeated => {
            (job.id, Some(job.entry(Timestamp::from(SystemTime::now())).0), None)
        }
        Enqueued::Existing(state) => (job.id, Some(state), None),
        Enqueued::Duplicate { id, state } => (id, state, Some("kept")),
        Enqueued::Replaced(id) => (id, None, Some("replaced")),
    };
    Answer {
        id: id.to_string(),
        new: matches!(enqueued, Enqueued::New | Enqueued::Repeated),
        state,
        duplicate,
        queue: job.queue.as_str(),
        kind: job.kind.as_str(),
        durability: json::durability(durability),
    }
}

fn answer_one(
    session: &mut Session,
    job: &NewJob,
    enqueued: Enqueued,
    durability: Durability,
) -> anyhow::Result<Exit> {
    let answer = answer(job, enqueued, durability);
    if session.output.is_json() {
        session.output.json(&answer)?;
    } else {
        let Answer { id, state, queue, kind, .. } = answer;
        let state = state.map_or_else(|| "gone".to_owned(), |state| state.to_string());
        session.output.line(match enqueued {
            Enqueued::New | Enqueued::Repeated => {
                format!("accepted {id} (new, {state}): {kind} in queue {queue}, {durability}")
            }
            Enqueued::Existing(_) => {
                format!("known {id} (not new, {state}): {kind} in queue {queue}, {durability}")
            }
            Enqueued::Duplicate { .. } => {
                format!("not stored: job {id} ({state}) has the unique key: {kind} in queue {queue}")
            }
            Enqueued::Replaced(_) => {
                format!("replaced: job {id} has the unique key and says this now: {kind} in queue {queue}")
            }
        })?;
    }
    Ok(Exit::Done)
}

fn options(args: &EnqueueArgs) -> Options {
    let mut options = Options::new();
    if let Some(queue) = &args.queue {
        options = options.queue(queue);
    }
    if let Some(priority) = args.priority {
        options = options.priority(priority);
    }
    if let Some(delay) = args.delay {
        options = options.delay(delay);
    }
    if let Some(at) = args.at {
        options = options.at(at);
    }
    if let Some(expiry) = args.expires_in {
        options = options.expires_in(expiry);
    }
    if let Some(key) = &args.key {
        options = options.key(key);
    }
    if let Some(unique) = unique(args) {
        options = options.unique(unique);
    }
    if let Some(timeout) = args.timeout {
        options = options.timeout(timeout);
    }
    if let Some(stalls) = args.max_stalls {
        options = options.max_stalls(stalls);
    }
    for tag in &args.tags {
        options = options.tag(tag);
    }
    for (key, value) in &args.meta {
        options = options.meta(key, value);
    }
    if let Some(trace) = &args.trace {
        options = options.trace(trace.clone());
    }
    match policy(args) {
        Some(policy) => options.retry(policy),
        None => options,
    }
}

fn unique(args: &EnqueueArgs) -> Option<Unique> {
    let unique = Unique::key(args.unique.as_deref()?);
    let unique = match args.unique_until {
        None | Some(Lifetime::End) => unique,
        Some(Lifetime::Window(window)) => unique.for_window(window),
        Some(_) => unique.until_start(),
    };
    Some(match args.debounce {
        Some(wait_max) => unique.debounce(Some(wait_max)),
        None if args.replace => unique.replace(),
        None => unique,
    })
}

/// The policy, where something was said about it.
fn policy(args: &EnqueueArgs) -> Option<Policy> {
    let EnqueueArgs { attempts, backoff, backoff_max, jitter, .. } = args;
    if attempts.is_none() && backoff.is_none() && backoff_max.is_none() && jitter.is_none() {
        return None;
    }
    let attempts = args.attempts.unwrap_or(ATTEMPTS_DEFAULT);
    let mut policy = match args.backoff {
        Some(backoff) => backoff.policy(attempts),
        None => Policy::default().attempts(attempts),
    };
    if let Some(longest) = args.backoff_max {
        policy = policy.cap(longest);
    }
    if let Some(jitter) = args.jitter {
        policy = policy.jitter(jitter);
    }
    Some(policy)
}

/// The payload's bytes, from wherever they are. Unless they are sent raw they must be JSON; then the space
/// around it is dropped.
pub(crate) fn payload(given: Option<&str>, raw: bool) -> anyhow::Result<Bytes> {
    let bytes = match given {
        None if raw => Vec::new(),
        None => b"null".to_vec(),
        Some("-") => read(std::io::stdin(), "standard input")?,
        Some(text) => match text.strip_prefix('@') {
            Some(file) => {
                let open = std::fs::File::open(file);
                read(open.map_err(|error| unreadable(file, &error))?, file)?
            }
            None => text.as_bytes().to_vec(),
        },
    };
    if raw {
        return Ok(bytes.into());
    }
    let json = serde_json::from_slice::<&serde_json::value::RawValue>(&bytes).map_err(|error| {
        Fault::usage(format!(
            "the payload is not JSON: {error}; quote it for the shell, or send it as it is with --raw"
        ))
    })?;
    Ok(Bytes::copy_from_slice(json.get().as_bytes()))
}

fn read(from: impl Read, name: &str) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(CAP_MAX).unwrap_or(u64::MAX);
    from.take(limit + 1).read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    if bytes.len() > CAP_MAX {
        return Err(Fault::usage(format!("{name} is larger than {CAP_MAX} bytes, which no queue accepts")));
    }
    Ok(bytes)
}

fn unreadable(name: &str, error: &std::io::Error) -> Fault {
    Fault::usage(format!("cannot read the payload from {name}: {error}"))
}
