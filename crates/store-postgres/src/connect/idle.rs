//! Closes connections that a burst has left behind. Each is a process of the server, and a fleet has many pools.

use std::time::{Duration, Instant};

use deadpool::managed::{Manager, Metrics, Pool};
use tokio::time::sleep;

/// How long ago a connection may have been lent last. Longer than most statements may take, since what is known is when a
/// connection was lent and not when it came back; shorter than a server full of idle programs should have to wait.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// How often pools are looked at.
const INTERVAL: Duration = Duration::from_secs(5);

/// Looks at pools until they are closed.
pub(super) fn close<M: Manager + 'static>(pools: Vec<Pool<M>>) {
    tokio::spawn(async move {
        while pools.iter().any(|pool| !pool.is_closed()) {
            sleep(INTERVAL).await;
            for pool in &pools {
                sweep(pool, IDLE_MAX);
            }
        }
    });
}

/// Closes what has lain idle for so long. The connection that was lent last stays: the next call finds it warm.
pub(super) fn sweep<M: Manager>(pool: &Pool<M>, idle_max: Duration) {
    if pool.status().size < 2 {
        return;
    }
    let lent_at = |metrics: Metrics| metrics.recycled.unwrap_or(metrics.created);
    let mut newest = None;
    pool.retain(|_, metrics| {
        newest = newest.max(Some(lent_at(metrics)));
        true
    });
    let old = Instant::now().checked_sub(idle_max);
    pool.retain(|_, metrics| Some(lent_at(metrics)) > old || Some(lent_at(metrics)) == newest);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use deadpool::managed::RecycleResult;

    use super::*;

    /// Numbers instead of connections.
    #[derive(Default)]
    struct Numbers(AtomicU32);

    impl Manager for Numbers {
        type Type = u32;
        type Error = ();

        async fn create(&self) -> Result<u32, ()> {
            Ok(self.0.fetch_add(1, Ordering::Relaxed))
        }

        async fn recycle(&self, _: &mut u32, _: &Metrics) -> RecycleResult<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn of_idle_connections_the_one_that_was_lent_last_stays() {
        let pool = Pool::builder(Numbers::default()).max_size(4).build().unwrap();
        let (first, second, third) = (pool.get().await, pool.get().await, pool.get().await);
        drop((first.unwrap(), third.unwrap()));
        // Idle ones that were lent lately stay as well.
        sweep(&pool, Duration::from_secs(3_600));
        assert_eq!(pool.status().size, 3);
        sweep(&pool, Duration::ZERO);
        assert_eq!(pool.status().size, 2, "one is lent, and one stays");
        assert_eq!((*pool.get().await.unwrap(), *second.unwrap()), (2, 1));
        sweep(&pool, Duration::ZERO);
        assert_eq!(pool.status().size, 1);
    }
}
