//! Writing outcomes together with what follows them, for every part of a worker that writes any.

mod lost;

use std::sync::Arc;

use windlass_core::flow::Member;
use windlass_core::follow_ups::FollowUps;
use windlass_core::job::{Forward, NewJob};
use windlass_core::outcome::{Ending, Failure};
use windlass_core::store::{AttemptWrite, AttemptWritten, Right, Settled, Settlement, StoreResult};
use windlass_core::{JobId, Outcome, State, Store, StoreError};

use crate::client::records_of;
use crate::ctx::Ctx;
use crate::flows::notes;
use crate::trace;

pub(crate) use self::lost::write_lost;

/// What the store says about one outcome.
#[derive(Debug)]
pub(crate) enum Answered {
    /// It is recorded.
    Applied(State),
    /// The job has gone to another attempt.
    Fenced,
    /// The output is too large.
    OutputRefused(StoreError),
    /// What was to follow is refused.
    FollowUpRefused(StoreError),
}

/// What follows an attempt by its handler, if it completed, and by the options of its job, if it died. Nothing for nearly all.
pub(crate) fn follow_ups(ctx: &Ctx, end: &Settlement) -> Option<FollowUps> {
    let then = match end.transition.state {
        State::Completed => ctx.inner().follow.of_completion(),
        State::Dead => {
            let job = &ctx.inner().job;
            let hook = job.facts.spec.on_dead.as_ref();
            let about = (ctx.id(), ctx.queue(), ctx.kind());
            let mut told = hook.and_then(|hook| hook.follows(about, ctx.fence(), &end.transition));
            trace::inherit(ctx.trace(), &mut told);
            let sent_on = Forward::of_claimed(job).follows(&ctx.fence().to_string(), &end.transition);
            of_death([told, sent_on])
        }
        _ if end.transition.ending == Ending::Snoozed => ctx.inner().follow.of_snooze(),
        _ => None,
    };
    notes::follow(Member::of(&ctx.inner().job.facts.spec), &end.transition, then)
}

/// The hook of a death comes before the copy that is sent on.
fn of_death(jobs: [Option<NewJob>; 2]) -> Option<FollowUps> {
    let jobs: Vec<_> = jobs.into_iter().flatten().collect();
    (!jobs.is_empty()).then(|| FollowUps { jobs, records: Vec::new() })
}

/// The hook of a death alone, where the job was to be sent on as well: one that is refused does not take the other with it.
pub(crate) fn hook_alone(then: &FollowUps) -> Option<FollowUps> {
    match &then.jobs[..] {
        [hook, _] => Some(FollowUps { jobs: vec![hook.clone()], records: then.records.clone() }),
        // What its flow must know does not go with a hook that is refused.
        [_] if !then.records.is_empty() => Some(FollowUps::of_records(then.records.clone())),
        _ => None,
    }
}

/// How an attempt ends that did its work, and what should follow it was refused.
pub(crate) fn refused_follow_up(error: &StoreError) -> Outcome {
    let text = format!("what should follow the job was refused: {error}");
    Outcome::Retry { failure: Failure::error(text) }
}

/// The item of an outcome and what follows it.
pub(crate) fn item(end: &Settlement, then: FollowUps) -> AttemptWrite {
    let Settlement { queue, id, fence, transition } = end;
    AttemptWrite { queue: queue.clone(), id: *id, fence: *fence, transition: Some(transition.clone()), then }
}

/// Writes outcomes by a right: those without follow-ups in one call, the others in another. Answers come in their order. A
/// death is written also if nothing can follow it, and with its hook if it only cannot be sent on.
pub(crate) async fn write(
    store: &dyn Store,
    right: Right,
    ends: Vec<(Settlement, Option<FollowUps>)>,
) -> StoreResult<Vec<Answered>> {
    let deaths: Vec<_> = ends.iter().map(|(end, then)| death(end, then.as_ref())).collect();
    let mut answers = write_as_told(store, right, ends).await?;
    for (answer, death) in answers.iter_mut().zip(deaths) {
        if let (Answered::FollowUpRefused(error), Some((death, hook))) = (&*answer, death) {
            if hook.is_some() {
                report_unfollowed(&death, hook.as_ref(), error);
                let told = Box::pin(write_as_told(store, right, vec![(death.clone(), hook)])).await?.pop();
                *answer = told.unwrap_or(Answered::Fenced);
            }
            let Answered::FollowUpRefused(error) = &*answer else { continue };
            report_unfollowed(&death, None, error);
            let id = death.id;
            let settled = write_plain(store, right, [death].into()).await?.pop();
            *answer = settled.map_or(Answered::Fenced, |settled| Answered::from((settled, id)));
        }
    }
    Ok(answers)
}

/// The end of a job that dies with something to follow, and what is tried if that is refused.
fn death(end: &Settlement, then: Option<&FollowUps>) -> Option<(Settlement, Option<FollowUps>)> {
    let then = then.filter(|_| end.transition.state == State::Dead)?;
    Some((end.clone(), hook_alone(then)))
}

/// Says that a job died and what should have followed was refused, and what is recorded instead.
pub(crate) fn report_unfollowed(end: &Settlement, instead: Option<&FollowUps>, error: &StoreError) {
    if instead.is_some() {
        tracing::error!(
            job.id = %end.id, job.queue = %end.queue, %error,
            "a job has died, and what should be enqueued then is refused: its hook is tried without the copy that is sent on"
        );
        return;
    }
    tracing::error!(
        job.id = %end.id, job.queue = %end.queue, %error,
        "a job has died, and what should be enqueued then is refused: only the death is recorded"
    );
}

async fn write_as_told(
    store: &dyn Store,
    right: Right,
    ends: Vec<(Settlement, Option<FollowUps>)>,
) -> StoreResult<Vec<Answered>> {
    let ids: Vec<JobId> = ends.iter().map(|(end, _)| end.id).collect();
    let is_followed: Vec<bool> = ends.iter().map(|(_, then)| then.is_some()).collect();
    let (mut plain, mut followed) = (Vec::new(), Vec::new());
    for (end, then) in ends {
        match then {
            None => plain.push(end),
            Some(then) => followed.push(item(&end, then)),
        }
    }
    let mut plain = write_plain(store, right, plain.into()).await?.into_iter();
    let mut followed = write_followed(store, right, followed.into()).await?.into_iter();
    let answers = ids.into_iter().zip(is_followed).filter_map(|(id, is_followed)| match is_followed {
        false => plain.next().map(|settled| Answered::from((settled, id))),
        true => followed.next().map(|written| Answered::from((written, id))),
    });
    Ok(answers.collect())
}

/// Writes outcomes that nothing follows.
pub(crate) async fn write_plain(
    store: &dyn Store,
    right: Right,
    ends: Arc<[Settlement]>,
) -> StoreResult<Vec<Settled>> {
    match right {
        _ if ends.is_empty() => Ok(Vec::new()),
        Right::Fence => store.settle(ends).await,
        Right::LostLease => store.reap(ends).await,
        Right::Late => store.settle_late(ends).await,
    }
}

/// Writes outcomes with what follows them.
pub(crate) async fn write_followed(
    store: &dyn Store,
    right: Right,
    items: Arc<[AttemptWrite]>,
) -> StoreResult<Vec<AttemptWritten>> {
    match items.is_empty() {
        true => Ok(Vec::new()),
        false => records_of(store)?.write_fenced(right, items).await,
    }
}

impl From<(Settled, JobId)> for Answered {
    fn from((settled, id): (Settled, JobId)) -> Self {
        match settled {
            Settled::Applied(state) => Self::Applied(state),
            Settled::Fenced => Self::Fenced,
            Settled::Refused(error) => Self::OutputRefused(StoreError::TooLarge { id, error }),
        }
    }
}

impl From<(AttemptWritten, JobId)> for Answered {
    fn from((written, own): (AttemptWritten, JobId)) -> Self {
        match written {
            AttemptWritten::Applied(state) => Self::Applied(state),
            AttemptWritten::Fenced => Self::Fenced,
            AttemptWritten::Refused(error @ StoreError::TooLarge { id, .. }) if id == own => {
                Self::OutputRefused(error)
            }
            AttemptWritten::Refused(error) => Self::FollowUpRefused(error),
        }
    }
}
