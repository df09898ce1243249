//! Every write of an attempt needs its fence: the right number and the right random bits, on a running job.

use windlass_core::job::Facts;
use windlass_core::store::{Begin, Progress, Settled, Settlement};
use windlass_core::{Bytes, Fence, JobId, Name, Options, Outcome, State, judge};

use crate::Harness;
use crate::scene::{
    QUEUE, Scene, TTL, completed, failed, failed_for_good, forgeries, name, one, seconds, settlement, stalled,
};

fn lost() -> Outcome {
    Outcome::Stalled { worker: "worker".into() }
}

/// Tries every write with a fence that must not hold, and asserts that nothing changed.
async fn assert_fenced(scene: &Scene, id: JobId, facts: &Facts, fence: Fence) {
    let queue = scene.find(id).await.map_or_else(|| name(QUEUE), |job| job.queue);
    assert_refused(scene, &queue, id, facts, fence).await;
}

async fn assert_refused(scene: &Scene, queue: &Name, id: JobId, facts: &Facts, fence: Fence) {
    let queue = || queue.clone();
    let before = scene.find(id).await;
    let report = Progress { queue: queue(), id, fence, progress: Bytes::from_static(b"stale") };
    let answer = one(scene.store.progress([report].into()).await.expect("progress is answered"));
    assert_eq!(answer, Settled::Fenced, "progress under {fence}");
    let outcomes = [
        Outcome::Completed { output: Some(Bytes::from_static(b"stale")) },
        failed(),
        failed_for_good(),
        Outcome::Snooze { after: seconds(1) },
        Outcome::Cancelled,
        Outcome::Returned,
    ];
    for outcome in outcomes {
        let settlement =
            Settlement { queue: queue(), id, fence, transition: judge(facts, outcome.clone(), 0.5) };
        assert_eq!(scene.settle_raw(settlement).await, Settled::Fenced, "{outcome:?} under {fence}");
    }
    let settlement = Settlement { queue: queue(), id, fence, transition: judge(facts, lost(), 0.5) };
    let answer = one(scene.store.reap([settlement].into()).await.expect("reaping is answered"));
    assert_eq!(answer, Settled::Fenced, "reaping under {fence}");
    let begin = Begin { queue: queue(), id, fence };
    let answer = one(scene.store.begin([begin].into()).await.expect("beginning is answered"));
    assert_eq!(answer, Settled::Fenced, "beginning under {fence}");
    assert_eq!(scene.find(id).await, before, "a refused write changes nothing");
}

/// A forged fence writes nothing about a running job, whether its lease lives or has run out.
pub async fn a_forged_fence_writes_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    for forged in forgeries(job.fence) {
        assert_fenced(&scene, job.id, &job.facts, forged).await;
    }
    h.advance(TTL).await;
    for forged in forgeries(job.fence) {
        assert_fenced(&scene, job.id, &job.facts, forged).await;
    }
    assert_eq!(scene.settle(&job, completed()).await, State::Completed);
}

/// The right fence with the wrong queue writes nothing: a store may look for the job by its queue.
pub async fn another_queue_writes_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    let other = Name::new("elsewhere").expect("a good name");
    assert_refused(&scene, &other, job.id, &job.facts, job.fence).await;
    h.advance(TTL).await;
    assert_refused(&scene, &other, job.id, &job.facts, job.fence).await;
    assert_eq!(scene.settle(&job, completed()).await, State::Completed);
}

/// The fence of an attempt that has ended writes nothing, whatever the end was.
pub async fn an_ended_attempt_writes_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let endings = [completed(), failed(), failed_for_good(), Outcome::Cancelled, Outcome::Returned];
    for (priority, outcome) in (0..).zip(endings) {
        let job = scene.running(Options::new().priority(priority)).await;
        scene.settle(&job, outcome).await;
        assert_fenced(&scene, job.id, &job.facts, job.fence).await;
    }
    scene.assert_counts().await;
}

/// After a retry and a new claim, the first attempt writes nothing and the second does.
pub async fn an_attempt_before_a_retry_writes_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let old = scene.running(Options::new()).await;
    scene.settle(&old, failed()).await;
    h.advance(seconds(11)).await;
    let new = scene.claim_one(scene.lease().await).await;
    assert_fenced(&scene, old.id, &old.facts, old.fence).await;
    assert_eq!(scene.settle(&new, completed()).await, State::Completed);
}

/// A worker that lost its lease writes nothing, neither after its job was taken back nor after another has
/// claimed it.
pub async fn an_attempt_that_was_reaped_writes_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let old = scene.running(Options::new()).await;
    h.advance(TTL).await;
    let lost = one(scene.store.lost(9).await.expect("lost jobs can be read"));
    let answer = one(scene.store.reap([stalled(&lost)].into()).await.expect("reaping is answered"));
    assert_eq!(answer, Settled::Applied(State::Scheduled));
    assert_fenced(&scene, old.id, &old.facts, old.fence).await;
    h.advance(seconds(1)).await;
    let new = scene.claim_one(scene.lease().await).await;
    assert_eq!(new.fence.number, 2);
    assert_fenced(&scene, old.id, &old.facts, old.fence).await;
    assert_eq!(scene.settle(&new, completed()).await, State::Completed);
}

/// A retry by hand starts the attempts again, but never the fence.
pub async fn an_attempt_before_a_retry_by_hand_writes_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut old = scene.running(Options::new()).await;
    for number in 2..5 {
        scene.settle(&old, failed_for_good()).await;
        scene.retry(old.id).await;
        assert_eq!(scene.get(old.id).await.fence, number - 1, "the fence stays");
        let new = scene.claim_one(scene.lease().await).await;
        assert_eq!((new.fence.number, new.facts.counters.attempt), (number, 1));
        assert_fenced(&scene, old.id, &old.facts, old.fence).await;
        let mixed = Fence { number: new.fence.number, nonce: old.fence.nonce };
        assert_fenced(&scene, old.id, &old.facts, mixed).await;
        old = new;
    }
}

/// A job that is gone, or was never there, is fenced like any other.
pub async fn a_missing_job_is_fenced(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    assert_fenced(&scene, JobId::new(), &job.facts, job.fence).await;
    scene.settle(&job, completed()).await;
    scene.delete(job.id).await;
    assert_fenced(&scene, job.id, &job.facts, job.fence).await;
}

/// The fences of one claim are not interchangeable between its jobs once one of them has moved on.
pub async fn a_fence_belongs_to_one_job(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let first = scene.running(Options::new()).await;
    scene.settle(&first, Outcome::Returned).await;
    let lease = scene.lease().await;
    let second = scene.add(Options::new()).await;
    let jobs = scene.claim(lease, 2).await;
    assert_eq!((jobs[0].id, jobs[1].id), (first.id, second));
    assert_fenced(&scene, second, &jobs[1].facts, jobs[0].fence).await;
    for job in &jobs {
        assert_eq!(scene.settle_raw(settlement(job, completed())).await, Settled::Applied(State::Completed));
    }
}

/// Of a late worker, two reapers and a second late answer at once, exactly one is heeded.
pub async fn of_many_writes_at_once_one_counts(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for round in 0..10 {
        let job = scene.running(Options::new()).await;
        h.advance(TTL).await;
        let lost = one(scene.store.lost(9).await.expect("lost jobs can be read"));
        let write = |settlement: Settlement, is_reaper: bool| {
            let store = scene.store.clone();
            tokio::spawn(async move {
                let batch = [settlement];
                let answers = if is_reaper {
                    store.reap(batch.clone().into()).await
                } else {
                    store.settle(batch.clone().into()).await
                };
                one(answers.expect("the write is answered"))
            })
        };
        let writes = [
            write(settlement(&job, completed()), false),
            write(stalled(&lost), true),
            write(stalled(&lost), true),
            write(settlement(&job, failed_for_good()), false),
        ];
        let mut applied = Vec::new();
        for write in writes {
            let answer = write.await.expect("no write panics");
            applied.extend(Some(answer).filter(|answer| *answer != Settled::Fenced));
        }
        let state = scene.state(job.id).await;
        assert_eq!(applied, [Settled::Applied(state)], "round {round}");
        scene.cancel(job.id).await;
    }
    scene.assert_counts().await;
}
