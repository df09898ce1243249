//! Held jobs in calls that are large enough for the statement of many rows.

use windlass_core::options::Due;
use windlass_core::store::{Amended, Enqueued, Jobs, Queues};
use windlass_core::unique::Unique;
use windlass_core::{JobId, NewJob, Options, State};

use super::{claim, lease, open};

/// Every third is held.
fn batch(options: impl Fn(usize) -> Options) -> Vec<NewJob> {
    let job = |number: usize| {
        let mut job = NewJob::new("greet", number.to_string(), options(number)).unwrap();
        if number.is_multiple_of(3) {
            job.due = Due::Held;
        }
        job
    };
    (0..40).map(job).collect()
}

#[tokio::test]
async fn a_large_call_holds_those_that_are_held() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let unique = || batch(|number| Options::new().unique(Unique::key(number.to_string())));
    let mut left: Vec<JobId> = Vec::new();
    {
        let store = open(&path).await;
        for jobs in [batch(|_| Options::new()), unique()] {
            assert_eq!(store.enqueue(jobs.as_slice().into()).await.unwrap(), vec![Enqueued::New; 40]);
            left.extend(jobs.iter().filter(|job| job.due == Due::Held).map(|job| job.id));
        }
    }
    let store = open(&path).await;
    let counts = store.queues(None, 1).await.unwrap()[0].counts;
    assert_eq!((counts.of(State::Blocked), counts.of(State::Ready)), (28, 52));
    let lease = lease(&store).await;
    assert_eq!(claim(&store, lease, 100).await.len(), 52);
    let answers = store.enqueue(unique().into()).await.unwrap();
    let is_held =
        |answer: &&Enqueued| matches!(answer, Enqueued::Duplicate { state: Some(State::Blocked), .. });
    assert_eq!(answers.iter().filter(is_held).count(), 14, "they hold their keys");
    assert_eq!(store.retry(left.as_slice().into()).await.unwrap(), vec![Amended::Done(State::Ready); 28]);
    let sent: Vec<_> = claim(&store, lease, 100).await.into_iter().map(|job| job.id).collect();
    assert_eq!(sent, left, "those of one instant in the order of their acceptance");
}
