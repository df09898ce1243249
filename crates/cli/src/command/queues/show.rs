//! `queues show`: one queue, and what keeps its jobs from starting now.

use windlass::worker::ByKey;
use windlass_core::State;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Permits, QueueRecord};

use super::look;
use crate::args::ShowArgs;
use crate::command::known;
use crate::exit::Exit;
use crate::output::json::QueueJson;
use crate::output::text;
use crate::session::{Access, Session};

/// How many keys are shown: of the newest jobs, those that wait longest first.
const KEYS_SHOWN: usize = 10;

pub(crate) async fn run(session: &mut Session, args: &ShowArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    known::check_queue(&client, &args.queue).await?;
    let Some(queue) = client.queue(&args.queue)?.record().await? else {
        session.note(&format!("queue {} has no definition and holds no jobs", args.queue));
        return Ok(Exit::Done);
    };
    let queues = [queue];
    let looks = look::at_all(&client, &queues).await?;
    let (queue, look) = (&queues[0], &looks[0]);
    if session.output.is_json() {
        session.output.json(&QueueJson::seen(queue, look))?;
        return Ok(Exit::Done);
    }
    let held = text::by_state(&queue.counts).filter(|(_, count)| *count > 0);
    let held: Vec<String> = held.map(|(state, count)| format!("{count} {state}")).collect();
    let held = if held.is_empty() { "no jobs".to_owned() } else { held.join(", ") };
    session.output.line(format_args!("{} holds {held}", queue.name))?;
    session.output.line(format_args!(
        "oldest waits {}, {} overdue, workers: {}",
        look.oldest(),
        look.overdue(),
        if look.workers.is_empty() { "none".to_owned() } else { look.workers() }
    ))?;
    if let Some(most) = queue.config.concurrency {
        let running = queue.counts.of(State::Running);
        let full = if running >= u64::from(most) { ": jobs wait for one of them to end" } else { "" };
        session.output.line(format_args!("{running} of {most} places are taken{full}"))?;
    }
    let now = client.store().now().await?;
    if let Some(Permits { jobs, more_at }) = queue.permits {
        let more = more_at.map(|at| format!(", more in {}", text::duration(text::coarse(at.since(now)))));
        let why = if jobs == 0 { ": jobs wait for the rate" } else { "" };
        session.output.line(format_args!("its rate permits {jobs} now{}{why}", more.unwrap_or_default()))?;
    }
    if queue.config.keys.is_some() {
        keys(session, &client.queue(&args.queue)?.by_key().await?, queue, now)?;
    }
    definition(session, queue, now)?;
    Ok(Exit::Done)
}

/// The keys whose jobs wait longest, and what keeps them from starting.
fn keys(session: &mut Session, found: &ByKey, queue: &QueueRecord, now: Timestamp) -> anyhow::Result<()> {
    for key in found.keys.iter().take(KEYS_SHOWN) {
        let rules = queue.config.keys.as_ref();
        let most = rules.and_then(|rules| rules.concurrency).map(u64::from);
        let why = match most {
            _ if key.ready == 0 => "",
            _ if !queue.config.pauses.permit_key(&key.key, now) => ": the key is paused",
            Some(most) if key.running >= most => ": they wait for one of those that run to end",
            _ => "",
        };
        let waits = key
            .oldest
            .map(|since| format!(", oldest waits {}", text::duration(text::coarse(now.since(since)))));
        let (name, ready, running) = (&key.key, key.ready, key.running);
        session.output.line(format_args!(
            "key {name}: {ready} ready, {running} running{}{why}",
            waits.unwrap_or_default()
        ))?;
    }
    let hidden = found.keys.len().saturating_sub(KEYS_SHOWN);
    if hidden > 0 || found.has_more_ready || found.has_more_running {
        let more = if found.has_more_ready || found.has_more_running {
            ", and of older jobs: only the newest 1,000 were looked at"
        } else {
            ""
        };
        session.output.line(format_args!("{hidden} more keys{more}"))?;
    }
    Ok(())
}

/// What a queue hands out, keeps and permits.
pub(super) fn definition(session: &mut Session, queue: &QueueRecord, now: Timestamp) -> anyhow::Result<()> {
    let config = &queue.config;
    if config.rules() > 0 {
        session.output.line(format_args!("{} hands out {}", queue.name, text::rules(config, now)))?;
    }
    session.output.line(format_args!("{} keeps {}", queue.name, text::retention(&config.retention)))?;
    let [payload, output, error] =
        [config.caps.payload, config.caps.output, config.caps.error].map(text::size);
    session.output.line(format_args!(
        "{} takes payloads up to {payload}, outputs up to {output}, errors up to {error}",
        queue.name
    ))?;
    if !config.defaults.is_empty() {
        session.output.line(format_args!(
            "{} gives jobs {}",
            queue.name,
            text::defaults(&config.defaults)
        ))?;
    }
    Ok(())
}
