//! What a handler's word that it was rate limited brings with it: the key of its job, or the whole queue, rests on every
//! worker. A rest is a pause with an end, so it is stored, shown and ended like any other.

use std::time::Duration;

use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Pause, QueueConfig};

use crate::ctx::Ctx;
use crate::error::Result;
use crate::job_error::JobError;

/// Who asks for such a pause.
const BY: &str = "windlass";
/// A pause that ends this much earlier will do.
const NEARLY_LEAST: Duration = Duration::from_secs(1);

/// Pauses the key or the queue of an attempt that was rate limited, before its outcome is recorded. If that fails, only the
/// job itself comes back later.
pub(crate) async fn heed(ctx: &Ctx, error: Option<&JobError>) {
    let Some((after, error)) = error.and_then(|error| Some((error.rate_limit()?, error))) else { return };
    if let Err(failed) = rest(ctx, after, &error.to_string()).await {
        let (queue, id) = (ctx.queue(), ctx.id());
        tracing::warn!(%queue, %id, error = %failed, "a rate limit could not be told to other workers");
    }
}

async fn rest(ctx: &Ctx, after: Duration, why: &str) -> Result<()> {
    let client = &ctx.inner().client;
    let now = client.store().now().await?;
    let pause = Pause { by: BY.into(), why: why.into(), until: Some(now.plus(after)) };
    let key = ctx.key();
    // Many attempts meet the same limit within a moment: one of them writes.
    let nearly = now.plus(after.saturating_sub((after / 10).max(NEARLY_LEAST)));
    client.queue(ctx.queue())?.change(|config| put(config, key, (&pause, nearly), now)).await.map(drop)
}

/// Puts a pause in, unless one is there that lasts nearly as long. Rests that are over go with it.
fn put(config: &mut QueueConfig, key: Option<&Name>, (pause, nearly): (&Pause, Timestamp), now: Timestamp) {
    let there = match key {
        Some(key) => config.pauses.keys.get(key),
        None => config.pauses.queue.as_ref(),
    };
    if there.is_some_and(|there| there.holds(now) && there.until.is_none_or(|until| until >= nearly)) {
        return;
    }
    let pauses = &mut config.pauses;
    pauses.keys.retain(|_, there| there.by != BY || there.holds(now));
    pauses.queue.take_if(|there| there.by == BY && !there.holds(now));
    match key {
        Some(key) => drop(pauses.keys.insert(key.clone(), pause.clone())),
        None => pauses.queue = Some(pause.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(by: &str, until: Option<i64>) -> Pause {
        Pause { by: by.into(), why: String::new(), until: until.map(Timestamp::from_micros) }
    }

    #[test]
    fn a_longer_pause_stays_and_old_rests_go() {
        let (a, b) = (Name::new("a").unwrap(), Name::new("b").unwrap());
        let now = Timestamp::from_micros(10);
        let mut config = QueueConfig::default();
        config.pauses.keys = [(a.clone(), pause("ada", None)), (b.clone(), pause(BY, Some(9)))].into();
        let before = config.clone();
        let put = |config: &mut QueueConfig, key: Option<&Name>, pause: &Pause, nearly: i64| {
            put(config, key, (pause, Timestamp::from_micros(nearly)), now);
        };
        put(&mut config, Some(&a), &pause(BY, Some(99)), 99);
        assert_eq!(config, before, "a person's pause has no end");
        let c = Name::new("c").unwrap();
        put(&mut config, Some(&c), &pause(BY, Some(99)), 99);
        assert_eq!(config.pauses.keys.keys().collect::<Vec<_>>(), [&a, &c], "the rest of b is over");
        put(&mut config, Some(&c), &pause(BY, Some(50)), 50);
        assert_eq!(config.pauses.keys[&c], pause(BY, Some(99)), "it lasts longer");
        put(&mut config, None, &pause(BY, Some(50)), 50);
        put(&mut config, None, &pause(BY, Some(60)), 60);
        assert_eq!(config.pauses.queue, Some(pause(BY, Some(60))));
        put(&mut config, None, &pause(BY, Some(61)), 59);
        assert_eq!(config.pauses.queue, Some(pause(BY, Some(60))), "it lasts nearly as long");
    }
}
