//! The jobs of a lost lease are taken back: only those, once, and counted as stalls if they had begun.

use windlass_core::job::{ClaimedJob, Counters, LostJob};
use windlass_core::judge::stall_pause;
use windlass_core::outcome::{Ending, Reason};
use windlass_core::retry::Policy;
use windlass_core::store::{Renewal, Settled, Settlement};
use windlass_core::{LeaseId, Options, Outcome, State, judge};

use crate::Harness;
use crate::scene::{
    QUEUE, Scene, TTL, assert_after, completed, failed, name, one, seconds, settlement, stalled,
};

async fn lost(scene: &Scene) -> Vec<LostJob> {
    scene.store.lost(1_000).await.expect("lost jobs can be read")
}

async fn reap(scene: &Scene, settlement: Settlement) -> Settled {
    one(scene.store.reap([settlement].into()).await.expect("reaping is answered"))
}

/// What a reaper would write that is sure that the job is lost.
fn hasty(job: &ClaimedJob) -> Settlement {
    settlement(job, Outcome::Stalled { worker: "worker".into() })
}

/// Lost are the running jobs of leases that have run out, with all that the judge needs, up to a limit.
pub async fn lost_jobs_are_found(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new().max_stalls(8)).await;
    h.advance(seconds(10)).await;
    let living = scene.running(Options::new()).await;
    scene.add(Options::new()).await;
    assert_eq!(lost(&scene).await, []);
    h.advance(TTL - seconds(10)).await;
    let expected = LostJob {
        id: job.id,
        fence: job.fence,
        facts: job.facts.clone(),
        queue: name(QUEUE),
        kind: job.kind.clone(),
        worker: "worker".into(),
        has_begun: false,
        unreadable: None,
    };
    assert_eq!(lost(&scene).await, std::slice::from_ref(&expected));
    scene.begin(&job).await;
    assert_eq!(lost(&scene).await, [LostJob { has_begun: true, ..expected }]);
    assert_eq!(scene.state(job.id).await, State::Running, "looking changes nothing");
    h.advance(seconds(10)).await;
    assert_eq!(lost(&scene).await.len(), 2);
    assert_eq!(scene.store.lost(1).await.expect("lost jobs can be read").len(), 1);
    assert_eq!(scene.store.lost(0).await.expect("lost jobs can be read").len(), 0);
    scene.settle(&living, completed()).await;
    assert_eq!(lost(&scene).await.len(), 1);
}

/// An attempt that had begun has stalled: it stays used, the stall is counted, both are on record with the worker,
/// and the job rests before it may start again.
pub async fn a_stalled_job_goes_back(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    scene.begin(&job).await;
    assert_eq!(scene.reap_one(h).await, State::Scheduled);
    let record = scene.get(job.id).await;
    assert_after(record.due_at, job.claimed_at, TTL + seconds(1));
    assert_eq!(record.counters, Counters { attempt: 1, stalls: 1, ..Counters::default() });
    assert!(!record.has_begun, "it waits");
    assert!(record.last_error().is_some_and(|error| error.contains("\"worker\"")), "{record:?}");
    let [attempt] = record.attempts.as_slice() else { panic!("one attempt: {:?}", record.attempts) };
    assert_eq!((attempt.ending, attempt.worker.as_str()), (Some(Ending::Stalled), "worker"));
    assert_eq!((attempt.fence, attempt.number, attempt.started_at), (1, 1, job.claimed_at));
    assert_eq!(lost(&scene).await, []);
    let lease = scene.lease().await;
    assert_eq!(scene.claim(lease, 1).await, [], "it rests");
    h.advance(seconds(1)).await;
    let again = scene.claim_one(lease).await;
    assert_eq!((again.id, again.fence.number, again.facts.counters.attempt), (job.id, 2, 2));
    assert!(!scene.get(job.id).await.has_begun, "the next attempt has not begun yet");
    scene.assert_counts().await;
}

/// A job that was claimed and never began did not stall, however often that happens: it keeps its place, its
/// attempts and its stalls.
pub async fn what_never_began_did_not_stall(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let once = Options::new().max_stalls(0).retry(Policy::fixed(1, seconds(1)));
    let job = scene.running(once).await;
    let behind = scene.add(Options::new()).await;
    assert_eq!(scene.reap_one(h).await, State::Ready);
    for round in 2..5 {
        let again = scene.claim_one(scene.lease().await).await;
        assert_eq!((again.id, again.fence.number), (job.id, round), "it keeps its place");
        assert_eq!(scene.reap_one(h).await, State::Ready);
    }
    let record = scene.get(job.id).await;
    assert_eq!((record.due_at, record.counters), (job.due_at, Counters::default()));
    assert!(record.attempts.iter().all(|attempt| attempt.ending == Some(Ending::Returned)), "{record:?}");
    let again = scene.claim(scene.lease().await, 2).await;
    assert_eq!((again[0].id, again[1].id), (job.id, behind));
    scene.assert_counts().await;
}

/// A job whose lease lives is not taken from it, however sure the reaper was.
pub async fn a_living_lease_is_not_reaped(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    let lease = scene.store.leases(1).await.expect("leases can be listed")[0].id;
    assert_eq!(reap(&scene, hasty(&job)).await, Settled::Fenced);
    h.advance(TTL - seconds(10)).await;
    assert_eq!(reap(&scene, hasty(&job)).await, Settled::Fenced);
    let renewal = scene.store.renew(lease, TTL, 9).await.expect("a renewal is answered");
    assert_eq!(renewal, Renewal::Renewed { cancel: Vec::new(), lost: Vec::new() });
    h.advance(seconds(15)).await;
    assert_eq!(reap(&scene, hasty(&job)).await, Settled::Fenced, "the renewal counts");
    assert_eq!(scene.state(job.id).await, State::Running);
    assert_eq!(scene.settle(&job, completed()).await, State::Completed);
}

/// What happened since the reaper looked wins: a settlement, another reaper, another claim.
pub async fn a_late_reaper_takes_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(3).await;
    scene.claim(scene.lease().await, 3).await;
    h.advance(TTL).await;
    let seen = lost(&scene).await;
    let late: Vec<_> = seen.iter().map(stalled).collect();
    let settled = Settlement { transition: judge(&seen[0].facts, completed(), 0.5), ..late[0].clone() };
    assert_eq!(scene.settle_raw(settled).await, Settled::Applied(State::Completed));
    assert_eq!(reap(&scene, late[1].clone()).await, Settled::Applied(State::Scheduled));
    let answers = scene.store.reap(late.as_slice().into()).await.expect("reaping is answered");
    assert_eq!(answers, [Settled::Fenced, Settled::Fenced, Settled::Applied(State::Scheduled)]);
    h.advance(seconds(1)).await;
    let again = scene.claim(scene.lease().await, 2).await;
    assert_eq!(again.len(), 2);
    let answers = scene.store.reap(late.as_slice().into()).await.expect("reaping is answered");
    assert_eq!(answers, [Settled::Fenced; 3]);
    for job in &again {
        assert_eq!((job.facts.counters.stalls, job.facts.counters.attempt), (1, 2));
    }
    scene.assert_counts().await;
}

/// Two leases of the same worker's label are two: only the one that has run out is reaped.
pub async fn leases_are_not_mixed_up(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let old = scene.running(Options::new()).await;
    h.advance(TTL).await;
    let new = scene.running(Options::new()).await;
    let found = one(lost(&scene).await);
    assert_eq!(found.id, old.id);
    assert_eq!(reap(&scene, hasty(&new)).await, Settled::Fenced);
    assert_eq!(reap(&scene, hasty(&old)).await, Settled::Applied(State::Scheduled));
}

/// Loses a job's lease again and again, and answers its record at the end.
async fn lose_until_dead(h: &impl Harness, scene: &Scene, rounds: u32) -> windlass_core::JobRecord {
    let mut id = None;
    for round in 1..=rounds {
        let job = scene.claim_one(scene.lease().await).await;
        assert_eq!(job.facts.counters.attempt, round);
        scene.begin(&job).await;
        scene.reap_one(h).await;
        h.advance(stall_pause(round)).await;
        id = Some(job.id);
    }
    scene.get(id.expect("at least one round")).await
}

/// More stalls than the job survives are its end, whatever its attempts.
pub async fn too_many_stalls_are_the_end(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add(Options::new().max_stalls(2).retry(Policy::fixed(99, seconds(1)))).await;
    let record = lose_until_dead(h, &scene, 3).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::Stalled)));
    assert_eq!((record.counters.stalls, record.counters.attempt, record.attempts.len()), (3, 3, 3));
    assert!(record.finished_at.is_some());
}

/// A lost lease uses up an attempt, so the last one may end so too.
pub async fn a_stall_may_use_the_last_attempt(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add(Options::new().max_stalls(9).retry(Policy::fixed(2, seconds(1)))).await;
    let record = lose_until_dead(h, &scene, 2).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::AttemptsExhausted)));
    assert_eq!(record.counters.stalls, 2);
}

/// Stalls and failures are counted apart.
pub async fn stalls_and_attempts_are_counted_apart(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add(Options::new()).await;
    let record = lose_until_dead(h, &scene, 1).await;
    assert_eq!((record.counters.attempt, record.counters.stalls), (1, 1));
    let job = scene.claim_one(scene.lease().await).await;
    scene.settle(&job, failed()).await;
    let record = scene.get(job.id).await;
    assert_eq!((record.counters.attempt, record.counters.stalls), (2, 1));
    let endings: Vec<_> = record.attempts.iter().map(|attempt| attempt.ending).collect();
    assert_eq!(endings, [Some(Ending::Stalled), Some(Ending::Failed)]);
}

/// A closed lease gives its jobs up at once.
pub async fn a_closed_lease_can_be_reaped(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    let lease: LeaseId = scene.store.leases(1).await.expect("leases can be listed")[0].id;
    scene.store.close(lease).await.expect("a lease closes");
    assert_eq!(one(lost(&scene).await).id, job.id);
    assert_eq!(reap(&scene, hasty(&job)).await, Settled::Applied(State::Scheduled));
}
