//! What keeps one queue from holding up the others of a claim.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::error::Fault;

/// How long a script may take where others may have jobs meanwhile: as long as it likes while they have none.
pub(super) struct Hurry {
    others_have_jobs: watch::Receiver<bool>,
    grace: Duration,
}

impl Hurry {
    /// The hurry, and what tells that others have jobs.
    pub(super) fn new(grace: Duration) -> (Self, watch::Sender<bool>) {
        let (tell, others_have_jobs) = watch::channel(false);
        (Self { others_have_jobs, grace }, tell)
    }

    /// Waits for a script. What is given up may have taken effect.
    pub(super) async fn wait_for<T>(
        &self,
        script: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let until = Instant::now() + self.grace;
        let mut others = self.others_have_jobs.clone();
        let too_long = async {
            if others.wait_for(|have_jobs| *have_jobs).await.is_err() {
                // No other queue was asked, or none has jobs.
                std::future::pending::<()>().await;
            }
            sleep_until(until).await;
        };
        tokio::select! {
            biased;
            answer = script => answer,
            () = too_long => Err(Fault::Timeout(self.grace)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(250);

    async fn script(takes: Duration) -> Result<u32, Fault> {
        tokio::time::sleep(takes).await;
        Ok(7)
    }

    #[tokio::test(start_paused = true)]
    async fn a_script_is_given_up_only_while_others_have_jobs() {
        let (hurry, tell) = Hurry::new(GRACE);
        assert!(hurry.wait_for(script(10 * GRACE)).await.is_ok(), "others have nothing");
        let began = Instant::now();
        let told = async {
            tokio::time::sleep(GRACE / 2).await;
            tell.send_replace(true);
        };
        let (answer, ()) = tokio::join!(hurry.wait_for(script(10 * GRACE)), told);
        assert!(matches!(answer, Err(Fault::Timeout(GRACE))));
        assert_eq!(began.elapsed(), GRACE, "it had its time, counted from its beginning");
        assert!(hurry.wait_for(script(GRACE / 2)).await.is_ok(), "the next one has its own");
        drop(tell);
        assert!(hurry.wait_for(script(10 * GRACE)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_script_is_waited_for_where_no_other_queue_is_asked() {
        let (hurry, tell) = Hurry::new(GRACE);
        drop(tell);
        assert!(hurry.wait_for(script(10 * GRACE)).await.is_ok());
    }
}
