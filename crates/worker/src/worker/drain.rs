//! Draining: what is ready runs here and now, one job after the other. For tests.

use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use futures_util::future::join_all;
use tracing::Instrument;

use windlass_core::outcome::Ending;
use windlass_core::store::{ClaimAnswer, ClaimRequest, QueueShare, Right};
use windlass_core::{Fence, LeaseId, Outcome, State, StoreError};

use super::Config;
use crate::attempts;
use crate::backoff::Backoff;
use crate::client::Client;
use crate::ctx::{Claimed, Ctx};
use crate::error::{Error, Result};
use crate::executor::Executor;
use crate::flows::notes;
use crate::observe::Observed;
use crate::settler::{has_completed_within, settlement};
use crate::settling::{self, Answered, follow_ups, refused_follow_up};

/// What a drain came to: one count per attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Attempts whose job is done.
    pub completed: u64,
    /// Attempts whose job will be tried again.
    pub retried: u64,
    /// Attempts whose job was given up.
    pub dead: u64,
    /// Attempts whose job was ended on purpose.
    pub cancelled: u64,
    /// Attempts whose job asked to come back later.
    pub snoozed: u64,
}

impl Drained {
    /// All attempts.
    pub fn total(&self) -> u64 {
        self.completed + self.retried + self.dead + self.cancelled + self.snoozed
    }

    fn count(&mut self, state: State, ending: Ending) {
        *match (state, ending) {
            (State::Completed, _) => &mut self.completed,
            (State::Dead, _) => &mut self.dead,
            (State::Cancelled, _) => &mut self.cancelled,
            (_, Ending::Snoozed) => &mut self.snoozed,
            _ => &mut self.retried,
        } += 1;
    }
}

/// Attempts after which a drain gives up on coming to rest.
const ATTEMPTS_MAX: u64 = 1_000_000;
const BATCH: u32 = 100;

pub(super) async fn drain(client: &Client, config: &Config, executor: &Executor) -> Result<Drained> {
    if !config.declarations.is_empty() {
        config.declarations.run_once(client).await?;
    }
    let store = client.store();
    let lease = LeaseId::new();
    store.open(&config.lease.new_lease(lease)).await?;
    let drained = rounds(client, config, executor, lease).await;
    store.close(lease).await?;
    drained
}

async fn rounds(client: &Client, config: &Config, executor: &Executor, lease: LeaseId) -> Result<Drained> {
    let (mut drained, mut is_moved) = (Drained::default(), false);
    let request = ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: config
            .slots
            .queue_names()
            .into_iter()
            .map(|queue| QueueShare { queue, limit: BATCH })
            .collect(),
        kinds: config.fetcher.kinds.clone(),
        limit: BATCH,
        at_once: BATCH,
        bytes: usize::MAX,
    };
    loop {
        let sent = Instant::now();
        let jobs = match client.store().claim(request.clone()).await? {
            ClaimAnswer::Jobs { jobs, .. } => jobs,
            ClaimAnswer::LeaseLost => return Err(lost()),
        };
        if jobs.is_empty() {
            if is_moved {
                return Ok(drained);
            }
            // Jobs of flows may have become ready by the ends of others.
            client.flows_at_rest().await;
            is_moved = true;
            continue;
        }
        is_moved = false;
        let claimed = Claimed { lease, sent, at: Instant::now() };
        let mut last = Observed::default();
        let ctxs = jobs.into_iter().map(|job| {
            let observed = client.observe().of(&job, &mut last);
            observed.started();
            Ctx::new(job, client.clone(), config.fetcher.defaults, claimed, observed)
        });
        let (batched, single): (Vec<_>, Vec<_>) = ctxs.partition(|ctx| executor.batches.has(ctx.kind()));
        for ctx in single {
            let outcome = executor.execute(&ctx).instrument(attempts::span(&ctx)).await;
            record(client, &ctx, outcome, &config.backoff, &mut drained).await?;
        }
        for ctxs in batched.chunks(config.slots.concurrency) {
            for (ctx, outcome) in ctxs.iter().zip(together(executor, ctxs).await) {
                record(client, ctx, outcome, &config.backoff, &mut drained).await?;
            }
        }
        if drained.total() >= ATTEMPTS_MAX {
            return Err(Error::Restless { attempts: drained.total() });
        }
    }
}

/// Runs items of batches side by side. Nothing else comes, so they do not wait for more.
async fn together(executor: &Executor, ctxs: &[Ctx]) -> Vec<Option<Outcome>> {
    let mut all = pin!(join_all(ctxs.iter().map(|ctx| executor.execute(ctx))));
    std::future::poll_fn(|context| match all.as_mut().poll(context) {
        Poll::Pending => {
            executor.batches.flush();
            Poll::Pending
        }
        ended => ended,
    })
    .await
}

async fn record(
    client: &Client,
    ctx: &Ctx,
    outcome: Option<Outcome>,
    backoff: &Backoff,
    drained: &mut Drained,
) -> Result<()> {
    Box::pin(ctx.last_words()).await;
    let end = settlement(ctx, outcome.ok_or_else(lost)?, backoff);
    let (told, then) = (end.transition.clone(), follow_ups(ctx, &end));
    let (ending, observed) = (told.ending, &ctx.inner().observed);
    let ended = observed.ended();
    let answer = settling::write(&**client.store(), Right::Fence, vec![(end, then.clone())]).await?.pop();
    if let (Some(Answered::Applied(_)), Some(then)) = (&answer, &then) {
        notes::tell(ctx, then);
    }
    if let Some(Answered::Applied(state)) = &answer {
        observed.settled(ctx, &told, *state, ended);
    }
    match answer {
        // What the engine does for itself is not the caller's.
        Some(Answered::Applied(_)) if ctx.kind().is_internal() => {}
        Some(Answered::Applied(state)) => drained.count(state, ending),
        Some(Answered::OutputRefused(error)) => return Err(error.into()),
        Some(Answered::FollowUpRefused(error)) => {
            let end = settlement(ctx, refused_follow_up(&error), backoff);
            let told = end.transition.clone();
            let answer = settling::write(&**client.store(), Right::Fence, vec![(end, None)]).await?.pop();
            match answer {
                Some(Answered::Applied(state)) => {
                    observed.settled(ctx, &told, state, ended);
                    drained.count(state, told.ending);
                }
                _ => return Err(error.into()),
            }
        }
        Some(Answered::Fenced) if has_completed_within(ctx) => {
            notes::tell_of(ctx);
            observed.completed(ctx, ended);
            drained.count(State::Completed, Ending::Completed);
        }
        Some(Answered::Fenced) | None => return Err(Error::Fenced),
    }
    Ok(())
}

/// Only a clock that was moved by more than the lease while draining gets here.
fn lost() -> Error {
    StoreError::Unavailable { what: "the lease ran out while draining".into(), source: None }.into()
}
