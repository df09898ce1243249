//! What a running attempt reports of itself.

use windlass_core::job::ClaimedJob;
use windlass_core::queue::QueueConfig;
use windlass_core::size::Caps;
use windlass_core::store::{Progress, Settled};
use windlass_core::{Bytes, Options, Outcome, State};

use crate::Harness;
use crate::scene::{QUEUE, Scene, completed, name, one};

fn report(job: &ClaimedJob, bytes: &'static [u8]) -> Progress {
    Progress { queue: job.queue.clone(), id: job.id, fence: job.fence, progress: Bytes::from_static(bytes) }
}

/// The newest report is kept, also when the attempt has ended.
pub async fn the_newest_report_is_kept(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    for bytes in [b"1".as_slice(), b"\x00\xff", b"\0", b"\\x00", b""] {
        let answer =
            one(scene.store.progress([report(&job, bytes)].into()).await.expect("progress is answered"));
        assert_eq!(answer, Settled::Applied(State::Running));
        assert_eq!(scene.get(job.id).await.progress.as_deref(), Some(bytes));
    }
    let both = [report(&job, b"half"), report(&job, b"most")];
    let answers = scene.store.progress(both.clone().into()).await.expect("progress is answered");
    assert_eq!(answers, [Settled::Applied(State::Running); 2]);
    scene.settle(&job, Outcome::Returned).await;
    assert_eq!(scene.get(job.id).await.progress.as_deref(), Some(b"most".as_slice()));
    let job = scene.claim_one(scene.lease().await).await;
    assert_eq!(scene.get(job.id).await.progress.as_deref(), Some(b"most".as_slice()));
    scene.settle(&job, completed()).await;
    assert_eq!(scene.get(job.id).await.progress.as_deref(), Some(b"most".as_slice()));
}

/// A report above the queue's cap for outputs is refused; the attempt goes on.
pub async fn a_report_above_the_cap_is_refused(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let config = QueueConfig { caps: Caps { output: 4, ..Caps::default() }, ..QueueConfig::default() };
    scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
    let job = scene.running(Options::new()).await;
    let batch = [report(&job, b"1234"), report(&job, b"12345")];
    let answers = scene.store.progress(batch.clone().into()).await.expect("progress is answered");
    assert_eq!(answers[0], Settled::Applied(State::Running));
    match answers[1] {
        Settled::Refused(error) => assert_eq!((error.what, error.size, error.cap), ("progress", 5, 4)),
        other => panic!("a report above the cap is answered with {other:?}"),
    }
    assert_eq!(scene.get(job.id).await.progress.as_deref(), Some(b"1234".as_slice()));
}

/// Each report of a batch is answered for itself.
pub async fn reports_of_a_batch_are_apart(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(3).await;
    let jobs = scene.claim(scene.lease().await, 3).await;
    scene.settle(&jobs[1], completed()).await;
    let batch: Vec<_> = jobs.iter().map(|job| report(job, b"here")).collect();
    let answers = scene.store.progress(batch.as_slice().into()).await.expect("progress is answered");
    let applied = Settled::Applied(State::Running);
    assert_eq!(answers, [applied, Settled::Fenced, applied]);
    assert_eq!(scene.get(jobs[1].id).await.progress, None);
    assert_eq!(scene.store.progress([].into()).await.expect("an empty batch is fine"), []);
}
