//! What the store's answers about outcomes ask for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_core::backoff::with_retries;
use windlass_core::outcome::{Cause, Failure};
use windlass_core::store::{Right, Settlement};
use windlass_core::{JobRecord, Outcome, State};

use super::batch::{Batch, Unsettled};
use super::recorder::Recorder;
use super::{UNCOMMITTED, has_completed_within, settlement};
use crate::ctx::Ctx;
use crate::ctx::within::Completion;
use crate::flows::notes;
use crate::retries::{endless, wait};
use crate::settling::{self, Answered, follow_ups, hook_alone, refused_follow_up, report_unfollowed};

/// How often the store is asked to take outcomes late. They hold up their lane meanwhile.
const LATE_TRIES: u32 = 3;

impl Recorder {
    /// Ends what was answered. What comes back is to be recorded instead: failures of those that were refused.
    pub(super) async fn handle_answers(&self, batch: Batch, answers: Vec<Answered>) -> Batch {
        let (mut refused, mut fenced) = (Vec::new(), Vec::new());
        tell_flows(batch.attempts(), &answers);
        count(&batch, &answers);
        if batch.attempts().iter().zip(&answers).all(is_plain) {
            return Batch::default();
        }
        for ((told, mut attempt), answer) in batch.into_iter().zip(answers) {
            let outcome = match answer {
                Answered::Applied(_) => {
                    if attempt.inner().within.get() == Completion::Returned {
                        tracing::warn!(
                            job.id = %attempt.id(), job.kind = %attempt.kind(), "failed: {UNCOMMITTED}"
                        );
                    }
                    continue;
                }
                Answered::Fenced if has_completed_within(&attempt) => {
                    tracing::debug!(job.id = %attempt.id(), job.kind = %attempt.kind(), "completed");
                    attempt.inner().observed.completed(&attempt, attempt.ended);
                    continue;
                }
                Answered::Fenced => {
                    fenced.push((told, attempt));
                    continue;
                }
                // It would be as large again.
                Answered::OutputRefused(error) => {
                    Outcome::Fail { failure: Failure { cause: Cause::Codec, text: error.to_string() } }
                }
                Answered::FollowUpRefused(error) if told.transition.state == State::Dead => {
                    let instead = attempt.then.as_deref().and_then(hook_alone);
                    report_unfollowed(&told, instead.as_ref(), &error);
                    attempt.then = instead.map(Arc::new);
                    refused.push((told, attempt));
                    continue;
                }
                Answered::FollowUpRefused(error) => {
                    tracing::warn!(
                        job.id = %attempt.id(), job.kind = %attempt.kind(), %error,
                        "failed: what should follow the job was refused"
                    );
                    refused_follow_up(&error)
                }
            };
            let end = settlement(&attempt, outcome, &self.backoff);
            attempt.then = follow_ups(&attempt, &end).map(Arc::new);
            refused.push((end, attempt));
        }
        if !fenced.is_empty() {
            self.settle_fenced(fenced).await;
        }
        refused.into_iter().collect()
    }

    /// The jobs of these have gone to other attempts. The end of one that was reaped and not claimed since is recorded all
    /// the same. Of the others, some may have been recorded by a report whose answer was lost.
    async fn settle_fenced(&self, fenced: Vec<(Settlement, Unsettled)>) {
        let is_end = |told: &Settlement| told.transition.state.is_terminal();
        let (ends, rest): (Vec<_>, Vec<_>) = fenced.into_iter().partition(|(told, _)| is_end(told));
        let mut late = rest;
        if !ends.is_empty() {
            late.extend(self.settle_late(ends.into_iter().collect()).await);
        }
        let is_doubtful =
            |(_, ctx): &(Settlement, Unsettled)| ctx.inner().is_perhaps_recorded.load(Ordering::Relaxed);
        let (doubtful, late): (Vec<_>, Vec<_>) = late.into_iter().partition(is_doubtful);
        late.iter().for_each(|(_, ctx)| self.count_fenced(ctx));
        if !doubtful.is_empty() {
            self.check_recorded(&doubtful).await;
        }
    }

    /// Answers the attempts whose end the store did not take.
    async fn settle_late(&self, ends: Batch) -> Vec<(Settlement, Unsettled)> {
        let settle_late = || async {
            let told = ends.pairs();
            let answers = self.guarded(settling::write(&*self.store, Right::Late, told)).await;
            answers.inspect_err(|error| {
                self.mark_unknown(&ends, error);
                tracing::info!(%error, outcomes = ends.len(), "outcomes could not be taken late");
            })
        };
        let Ok(answers) = with_retries(&mut endless().tries_max(LATE_TRIES), settle_late, wait).await else {
            return ends.into_iter().collect();
        };
        let refused = ends.into_iter().zip(answers).filter_map(|((told, attempt), answer)| match answer {
            Answered::Applied(state) => {
                attempt.count(&told.transition, state);
                notes::tell_of(&attempt);
                tracing::info!(
                    job.id = %attempt.id(), job.kind = %attempt.kind(), fence = %attempt.fence(), %state,
                    "an outcome came late and was recorded: no other attempt had the job since"
                );
                None
            }
            Answered::Fenced | Answered::OutputRefused(_) | Answered::FollowUpRefused(_) => {
                Some((told, attempt))
            }
        });
        refused.collect()
    }

    /// The answer to an earlier report of these was lost, and a repeat is fenced: either that report was recorded, or
    /// they really are late. The jobs tell.
    async fn check_recorded(&self, attempts: &[(Settlement, Unsettled)]) {
        let ids: Arc<[_]> = attempts.iter().map(|(_, ctx)| ctx.id()).collect();
        match self.guarded(self.store.get(Arc::clone(&ids))).await {
            Ok(records) => {
                for ((told, ctx), record) in attempts.iter().zip(records) {
                    let goes_on = |record: &JobRecord| {
                        record.fence != ctx.fence().number || record.state == State::Running
                    };
                    // One that is gone had ended, and its queue keeps none.
                    if record.as_ref().is_some_and(goes_on) {
                        self.count_fenced(ctx);
                    } else {
                        ctx.count(
                            &told.transition,
                            record.map_or(told.transition.state, |record| record.state),
                        );
                        tracing::debug!(
                            job.id = %ctx.id(), job.kind = %ctx.kind(), fence = %ctx.fence(),
                            "an outcome was recorded by a report whose answer was lost"
                        );
                    }
                }
            }
            Err(error) => {
                tracing::info!(%error, jobs = ids.len(), "whether outcomes were recorded cannot be seen at present");
            }
        }
    }

    fn count_fenced(&self, ctx: &Ctx) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
        self.observe.fenced("settle");
        tracing::warn!(
            job.id = %ctx.id(), job.kind = %ctx.kind(), fence = %ctx.fence(),
            "an outcome came too late: the job had gone to another attempt"
        );
    }
}

/// Counts what is recorded.
fn count(batch: &Batch, answers: &[Answered]) {
    for ((told, attempt), answer) in batch.both().zip(answers) {
        if let Answered::Applied(state) = answer {
            attempt.count(&told.transition, *state);
        }
    }
}

/// Lets flows go on whose jobs have ended.
fn tell_flows(attempts: &[Unsettled], answers: &[Answered]) {
    for (attempt, answer) in attempts.iter().zip(answers) {
        match (answer, attempt.then.as_deref()) {
            (Answered::Applied(_), Some(then)) => notes::tell(attempt, then),
            (Answered::Applied(State::Cancelled), None) => notes::tell_cancelled(attempt),
            (Answered::Fenced, _) if has_completed_within(attempt) => notes::tell_of(attempt),
            _ => {}
        }
    }
}

/// Whether nothing is left to do or to say: so it is mostly with all of a batch.
fn is_plain((attempt, answer): (&Unsettled, &Answered)) -> bool {
    matches!(answer, Answered::Applied(_)) && attempt.inner().within.get() == Completion::Engine
}
