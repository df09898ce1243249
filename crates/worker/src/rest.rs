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
    client.queue(ctx.queue())?.change(|config| put(config, key, &pause, now)).await.map(drop)
}

/// Puts a pause in, unless one is there that lasts as long. Rests that are over go.
fn put(config: &mut QueueConfig, key: Option<&Name>, pause: &Pause, now: Timestamp) {
    let lasts = |there: &Pause| there.until.is_none_or(|until| Some(until) >= pause.until);
    let pauses = &mut config.pauses;
    match key {
        Some(key) if !pauses.keys.get(key).is_some_and(lasts) => {
            pauses.keys.retain(|_, there| there.by != BY || there.holds(now));
            pauses.keys.insert(key.clone(), pause.clone());
        }
        None if !pauses.queue.as_ref().is_some_and(lasts) => pauses.queue = Some(pause.clone()),
        _ => {}
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
        put(&mut config, Some(&a), &pause(BY, Some(99)), now);
        assert_eq!(config, before, "a person's pause has no end");
        let c = Name::new("c").unwrap();
        put(&mut config, Some(&c), &pause(BY, Some(99)), now);
        assert_eq!(config.pauses.keys.keys().collect::<Vec<_>>(), [&a, &c], "the rest of b is over");
        put(&mut config, Some(&c), &pause(BY, Some(50)), now);
        assert_eq!(config.pauses.keys[&c], pause(BY, Some(99)), "it lasts longer");
        put(&mut config, None, &pause(BY, Some(50)), now);
        put(&mut config, None, &pause(BY, Some(60)), now);
        assert_eq!(config.pauses.queue, Some(pause(BY, Some(60))));
    }
}
