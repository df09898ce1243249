//! The tick: waits for the next slot of its schedule, and moves the schedule on when it has come.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::clock::Timestamp;
use windlass_core::follow_ups::FollowUps;
use windlass_core::outcome::{Cause, Failure};
use windlass_core::record::{Expect, RecordWrite};
use windlass_core::retry::Policy;
use windlass_core::schedule::{Overlap, ScheduleRecord};
use windlass_core::{JobId, Name, NewJob, Options, Outcome};

use super::key;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::registry::Run;

/// The kind of ticks.
pub(crate) const TICK: &str = "windlass.tick";
/// How long a tick waits after an error, at most.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How long a tick waits at least if its time has not come.
const REST_MIN: Duration = Duration::from_millis(1);

/// The payload of a tick.
#[derive(Debug, Serialize, Deserialize)]
struct Tick {
    schedule: String,
}

/// A tick of this schedule, at this instant.
pub(crate) fn tick_job(queue: &Name, schedule: &str, at: Timestamp) -> NewJob {
    let payload = serde_json::to_vec(&Tick { schedule: schedule.to_owned() }).expect("a text is JSON");
    // It is due before all others of its queue, and nothing but its schedule ends it.
    let options = Options::new()
        .queue(queue.as_str())
        .at(at)
        .priority(i16::MAX)
        .retry(Policy::exponential(u32::MAX, Duration::from_secs(1)).cap(PAUSE_MAX))
        .max_stalls(u32::MAX);
    NewJob::new(TICK, payload, options).expect("a tick is a job")
}

/// What runs ticks.
pub(crate) fn tick_run() -> Run {
    Arc::new(|ctx: Ctx| {
        Box::pin(async move {
            match tick(&ctx).await {
                Ok(outcome) => outcome,
                Err(error) => Outcome::Retry { failure: Failure::error(error.to_string()) },
            }
        })
    })
}

async fn tick(ctx: &Ctx) -> Result<Outcome> {
    let done = Ok(Outcome::Completed { output: None });
    let id = match serde_json::from_slice::<Tick>(ctx.payload()) {
        Ok(tick) => tick.schedule,
        Err(error) => {
            let failure = Failure { cause: Cause::Codec, text: error.to_string() };
            return Ok(Outcome::Fail { failure });
        }
    };
    let key = key(&id)?;
    let Some(found) = ctx.records().get_raw(&key).await? else { return done };
    let before = ScheduleRecord::read(&found.value)?;
    // The schedule was changed or paused, and another tick moves it on, or none.
    if before.is_paused || before.tick != Some(ctx.id()) {
        return done;
    }
    let recurrence = before.recurrence()?;
    let (now, queue) = (ctx.inner().job.claimed_at, ctx.queue());
    let offset = before.schedule.start_delay(queue.as_str(), &id);
    let mut record = before.clone();
    let is_open = is_open(ctx, &record).await?;
    let step = recurrence.advance(&mut record.state, now, offset, is_open);
    if let (true, Some(running)) = (step.cancels, before.state.last_job) {
        // A cancel is not part of the write below: it waits for no proof but this one.
        let is_same = ctx.records().get_raw(&key).await?.is_some_and(|still| still.version == found.version);
        if is_same {
            ctx.client().cancel(running).await?;
        }
    }
    let jobs = step.runs.iter().map(|run| record.job_of(queue, &id, *run));
    let mut jobs: Vec<NewJob> = jobs.collect::<std::result::Result<_, _>>()?;
    if let Some(job) = jobs.last() {
        record.state.last_job = Some(job.id);
    }
    if ctx.attempt() > 1 && jobs.iter().any(|job| job.key.is_some()) {
        // The queue may have been removed, and its rules for keys with it.
        ctx.client().queue(queue)?.permit_keys().await?;
    }
    let outcome = match step.again {
        None => {
            record.tick = None;
            Outcome::Completed { output: None }
        }
        // One that has failed or stalled begins anew: what it has survived counts against it for ever.
        Some(at) if ctx.is_suspect() || ctx.attempt() > 1 => {
            let next = tick_job(queue, &id, at);
            record.tick = Some(next.id);
            jobs.push(next);
            Outcome::Completed { output: None }
        }
        Some(at) => Outcome::Snooze { after: rest(at.since(now), ctx.inner().claimed.at.elapsed()) },
    };
    if record != before {
        let write = RecordWrite::put(key, record.text()).expect(Expect::Version(found.version));
        ctx.inner().follow.leave(FollowUps { jobs, records: vec![write] });
    }
    Ok(outcome)
}

/// How long a tick still waits that was to wait so long when it was claimed: the store counts from the attempt's end. Not less
/// than a moment, so that a clock that stands still is not asked again and again.
fn rest(after: Duration, spent: Duration) -> Duration {
    after.saturating_sub(spent).max(after.min(REST_MIN))
}

/// Whether the newest job of a schedule has not ended, where that matters.
async fn is_open(ctx: &Ctx, record: &ScheduleRecord) -> Result<bool> {
    let last: JobId = match record.state.last_job {
        Some(last) if record.schedule.overlap != Overlap::Allow => last,
        _ => return Ok(false),
    };
    let states = ctx.client().store().states([last].into()).await?;
    Ok(states.first().copied().flatten().is_some_and(|state| !state.is_terminal()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_attempt_takes_is_part_of_the_wait() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(1_000), ms(0)), ms(1_000));
        assert_eq!(rest(ms(1_000), ms(300)), ms(700));
        assert_eq!(rest(ms(1_000), ms(5_000)), ms(1), "not at once, and not in the past");
        assert_eq!(rest(ms(0), ms(300)), ms(0), "more is to be done at once");
    }
}
