//! What holds for every job, tested where one comes in that was put together elsewhere.

use super::{JobInvalid, META_MAX, NewJob};
use crate::options::TAGS_MAX;

impl NewJob {
    /// Tests a job that came from another program as [`new`](Self::new) tests its own. Names, the trace and the form of the
    /// spec were tested when it was read.
    ///
    /// # Errors
    /// As there.
    pub fn check(&self) -> Result<(), JobInvalid> {
        if self.tags.len() > TAGS_MAX {
            return Err(JobInvalid::Tags { count: self.tags.len() });
        }
        if self.spec.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(JobInvalid::NoTime);
        }
        let size = self.spec.meta.iter().map(|(key, value)| key.len() + value.len()).sum();
        if size > META_MAX {
            return Err(JobInvalid::Meta { size });
        }
        self.spec.retry.check().map_err(JobInvalid::Retry)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Options;
    use crate::retry::Policy;

    #[test]
    fn what_new_refuses_is_refused_from_elsewhere_too() {
        let made = |change: fn(&mut NewJob)| {
            let mut job = NewJob::new("k", "", Options::new()).unwrap();
            change(&mut job);
            job.check()
        };
        assert_eq!(made(|_| {}), Ok(()));
        assert_eq!(made(|job| job.spec.timeout = Some(Duration::ZERO)), Err(JobInvalid::NoTime));
        assert_eq!(
            made(|job| job.tags = vec![job.kind.clone(); TAGS_MAX + 1]),
            Err(JobInvalid::Tags { count: 17 })
        );
        let large = made(|job| drop(job.spec.meta.insert("m".into(), "x".repeat(META_MAX))));
        assert_eq!(large, Err(JobInvalid::Meta { size: META_MAX + 1 }));
        let policy = made(|job| job.spec.retry = Policy::never().attempts(0));
        assert!(matches!(policy, Err(JobInvalid::Retry(_))), "{policy:?}");
    }
}
