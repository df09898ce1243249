//! Tallies: what happens to jobs is counted by queue, kind and minute, in the write in which it happens.

use std::time::Duration;

use windlass_core::follow_ups::FollowUps;
use windlass_core::job::NewJob;
use windlass_core::options::Due;
use windlass_core::queue::{Keep, QueueConfig, Removed, Retention};
use windlass_core::size::Caps;
use windlass_core::store::{AttemptWrite, Enqueued, Right, Settled, Tallies};
use windlass_core::tally::{Bucket, Count, Interval, Quantile, Row, Tally, Window};
use windlass_core::unique::Unique;
use windlass_core::{CallId, Options, Outcome, State, StoreError};

use super::keys::define;
use crate::Harness;
use crate::scene::{
    KIND, QUEUE, Scene, TTL, claim_at_once, completed, failed, failed_for_good, forgeries, job, jobs, name,
    one, request, seconds, settlement,
};

pub(super) const HOUR: Duration = seconds(3_600);

/// A scene on a store that counts; nothing where the store has no such part.
pub(super) async fn counting(h: &impl Harness) -> Option<Scene> {
    let scene = Scene::new(h).await;
    scene.store.tallies().is_some().then_some(scene)
}

pub(super) fn tallies(scene: &Scene) -> &dyn Tallies {
    scene.store.tallies().expect("the store counts")
}

pub(super) async fn rows(scene: &Scene, queue: &str, back: Duration, interval: Interval) -> Vec<Row> {
    let now = scene.store.now().await.expect("a store has a clock");
    let window =
        Window { queues: vec![name(queue)], from: now.minus(back), until: now.plus(seconds(60)), interval };
    tallies(scene).tallies(&window).await.expect("tallies can be read")
}

/// What was counted of a kind in the last hours.
async fn of_kind(scene: &Scene, queue: &str, kind: &str) -> Tally {
    let mut sum = Tally::default();
    let rows = rows(scene, queue, 5 * HOUR, Interval::Minute).await;
    for row in rows.iter().filter(|row| row.kind.as_ref().is_some_and(|named| named.as_str() == kind)) {
        sum.merge(&row.tally);
    }
    sum
}

pub(super) async fn counted(scene: &Scene) -> Tally {
    of_kind(scene, QUEUE, KIND).await
}

pub(super) async fn tidy(scene: &Scene) {
    while scene.store.tidy(1_000).await.expect("tidying is answered") > 0 {}
}

/// A job that is changed before it is handed in.
fn with(mut job: NewJob, change: impl FnOnce(&mut NewJob)) -> NewJob {
    change(&mut job);
    job
}

/// Asserts what was counted of the scene's kind, and that it says how many jobs there are.
async fn assert_counted(scene: &Scene, expected: &[(Count, u64)]) {
    let tally = counted(scene).await;
    for count in Count::ALL {
        let wanted = expected.iter().find(|(each, _)| *each == count).map_or(0, |(_, times)| *times);
        assert_eq!(tally.of(count), wanted, "{count} of {tally:?}");
    }
    let open = [State::Blocked, State::Scheduled, State::Ready, State::Running];
    let mut waits_or_runs = 0;
    for state in open {
        waits_or_runs += scene.count(QUEUE, state).await;
    }
    let came = tally.of(Count::Accepted) + tally.of(Count::SentBack);
    let went =
        tally.of(Count::Completed) + tally.dead() + tally.of(Count::Cancelled) + tally.of(Count::Deleted);
    assert_eq!(came - went, waits_or_runs, "{tally:?}");
}

/// Every start and every end is counted, as what it is.
pub async fn what_happens_is_counted(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    assert_counted(&scene, &[]).await;
    let lease = scene.lease().await;
    scene.add_many(7).await;
    assert_counted(&scene, &[(Count::Accepted, 7)]).await;
    let claimed = scene.claim(lease, 7).await;
    assert_counted(&scene, &[(Count::Accepted, 7), (Count::Started, 7)]).await;
    let after = seconds(1_000);
    let outcomes = [
        completed(),
        failed(),
        failed_for_good(),
        Outcome::Snooze { after },
        Outcome::Returned,
        Outcome::Discard { why: "no longer".into() },
        Outcome::Unreadable { why: "by this test".into() },
    ];
    let ends: Vec<_> = claimed.iter().zip(outcomes).map(|(job, outcome)| settlement(job, outcome)).collect();
    scene.store.settle(ends.into()).await.expect("settling is answered");
    let once =
        [Count::Completed, Count::Retried, Count::Failed, Count::Snoozed, Count::Returned, Count::Cancelled]
            .map(|count| (count, 1));
    let ended = [&once[..], &[(Count::Accepted, 7), (Count::Started, 7), (Count::Unreadable, 1)]].concat();
    assert_counted(&scene, &ended).await;
    let again = scene.claim_one(lease).await;
    scene.settle(&again, Outcome::Completed { output: Some("1".into()) }).await;
    let tally = counted(&scene).await;
    assert_eq!((tally.of(Count::Started), tally.of(Count::Completed), tally.attempts_ended()), (8, 2, 8));
    assert_eq!((tally.waits().total(), tally.runs().total()), (8, 8), "all of them took some time");
}

/// What happens to jobs that wait is counted, without a time.
pub async fn what_happens_to_waiting_jobs_is_counted(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    let cancelled = scene.add(Options::new()).await;
    let later = scene.add(Options::new().delay(seconds(1_000))).await;
    let held = scene.enqueue(with(job(Options::new()), |job| job.due = Due::Held)).await;
    scene.add(Options::new().expires_in(seconds(3))).await;
    scene.cancel(cancelled).await;
    scene.delete(later).await;
    scene.retry(held).await;
    h.advance(seconds(4)).await;
    assert_eq!(scene.store.promote(10).await.expect("promoting is answered").expired, 1);
    let seen = [(Count::Accepted, 4), (Count::Cancelled, 1), (Count::Deleted, 1), (Count::Expired, 1)];
    assert_counted(&scene, &seen).await;
    assert_eq!(counted(&scene).await.runs().total(), 0, "none of them ran");
    scene.retry(cancelled).await;
    assert_counted(&scene, &[&seen[..], &[(Count::SentBack, 1)]].concat()).await;
    let dead = scene.finished(Options::new().priority(9), failed_for_good()).await;
    scene.retry(dead).await;
    let tally = counted(&scene).await;
    assert_eq!((tally.of(Count::SentBack), tally.of(Count::Failed)), (2, 1));
    scene.delete(scene.finished(Options::new().priority(10), completed()).await).await;
    assert_eq!(counted(&scene).await.of(Count::Deleted), 1, "what has ended is counted");
}

/// A job that dies in its last attempt, or of too many stalls, is counted by the reason.
pub async fn deaths_are_counted_by_reason(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    let once = windlass_core::retry::Policy::never();
    scene.finished(Options::new().retry(once), failed()).await;
    let ambiguous = scene.running(Options::new()).await;
    let unclear = || Outcome::Ambiguous { failure: windlass_core::outcome::Failure::error("who knows") };
    let mut transition = settlement(&ambiguous, unclear());
    transition.transition.state = State::Dead;
    transition.transition.reason = Some(windlass_core::outcome::Reason::Ambiguous);
    scene.settle_raw(transition).await;
    let stalls = scene.running(Options::new().max_stalls(0)).await;
    scene.begin(&stalls).await;
    assert_eq!(scene.reap_one(h).await, State::Dead);
    let seen = [Count::Exhausted, Count::Ambiguous, Count::StalledOut].map(|count| (count, 1));
    assert_counted(&scene, &[&seen[..], &[(Count::Accepted, 3), (Count::Started, 3)]].concat()).await;
}

/// A call that is repeated is counted once, and one that is refused is not.
pub async fn a_repeated_call_is_counted_once(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    let (call, batch) = (CallId::new(), jobs(3));
    for _ in 0..3 {
        scene.store.enqueue_once(call, batch.as_slice().into()).await.expect("it is accepted");
    }
    let known = scene.store.enqueue(batch.as_slice().into()).await.expect("its jobs are known");
    assert_eq!(known, [Enqueued::Existing(State::Ready); 3]);
    let mixed = [batch[0].clone(), job(Options::new())];
    scene.store.enqueue(mixed.into()).await.expect("one of them is new");
    let taken = with(batch[0].clone(), |job| job.payload = "other".into());
    let refused = scene.store.enqueue([job(Options::new()), taken].into()).await;
    assert!(matches!(refused, Err(StoreError::IdTaken { .. })), "{refused:?}");
    let caps = Caps { payload: 3, ..Caps::default() };
    define(&scene, QueueConfig { caps, ..QueueConfig::default() }).await;
    let large = with(job(Options::new()), |job| job.payload = "four".into());
    scene.store.enqueue([large].into()).await.expect_err("it is too large");
    assert_counted(&scene, &[(Count::Accepted, 4)]).await;
}

/// A job that meets the holder of its key is not accepted, and not counted.
pub async fn a_duplicate_is_not_counted(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    let unique = || job(Options::new().unique(Unique::key("x")));
    let answers = scene.store.enqueue([unique(), unique()].into()).await.expect("one of them is accepted");
    assert!(answers[1].is_duplicate());
    scene.store.enqueue([unique()].into()).await.expect("it is answered");
    scene.store.enqueue([unique(), job(Options::new())].into()).await.expect("one of them is accepted");
    assert_counted(&scene, &[(Count::Accepted, 2)]).await;
    let claimed = scene.claim(scene.lease().await, 5).await;
    let ends: Vec<_> = claimed.iter().map(|job| settlement(job, completed())).collect();
    scene.store.settle(ends.into()).await.expect("settling is answered");
    assert_counted(&scene, &[(Count::Accepted, 2), (Count::Started, 2), (Count::Completed, 2)]).await;
}

/// An attempt that is taken back is counted, as what it was; and so is its late end.
pub async fn what_is_taken_back_is_counted(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    let begun = scene.running(Options::new()).await;
    scene.begin(&begun).await;
    scene.reap_one(h).await;
    let seen = [(Count::Accepted, 1), (Count::Started, 1), (Count::Stalled, 1)];
    assert_counted(&scene, &seen).await;
    let late = settlement(&begun, completed());
    let answer = one(scene.store.settle_late([late].into()).await.expect("settling is answered"));
    assert_eq!(answer, Settled::Applied(State::Completed));
    assert_counted(&scene, &[&seen[..], &[(Count::Completed, 1)]].concat()).await;
    scene.running(Options::new()).await;
    scene.reap_one(h).await;
    let tally = counted(&scene).await;
    assert_eq!((tally.of(Count::Returned), tally.of(Count::Stalled)), (1, 1), "it had not begun");
    assert_eq!((tally.runs().total(), tally.attempts_ended()), (3, 3));
}

/// What is written for a stale fence is not written, and not counted.
pub async fn a_stale_fence_counts_nothing(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    let job = scene.running(Options::new()).await;
    for fence in forgeries(job.fence) {
        for outcome in [completed(), failed(), failed_for_good()] {
            let forged = windlass_core::store::Settlement { fence, ..settlement(&job, outcome) };
            assert_eq!(scene.settle_raw(forged).await, Settled::Fenced);
        }
    }
    assert_counted(&scene, &[(Count::Accepted, 1), (Count::Started, 1)]).await;
    let end = settlement(&job, completed());
    let twice = scene.store.settle([end.clone(), end.clone()].into()).await.expect("settling is answered");
    assert_eq!(twice, [Settled::Applied(State::Completed), Settled::Fenced]);
    assert_eq!(scene.settle_raw(end).await, Settled::Fenced);
    assert_counted(&scene, &[(Count::Accepted, 1), (Count::Started, 1), (Count::Completed, 1)]).await;
}

/// Starts are counted by the time that jobs waited, ends by the time that attempts ran.
pub async fn times_are_counted(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    scene.add_many(2).await;
    h.advance(seconds(20)).await;
    scene.add(Options::new().delay(seconds(5))).await;
    h.advance(seconds(10)).await;
    let claimed = scene.claim(scene.lease().await, 3).await;
    h.advance(seconds(20)).await;
    scene.settle(&claimed[0], completed()).await;
    scene.settle(&claimed[1], failed()).await;
    h.advance(seconds(1)).await;
    scene.settle(&claimed[2], Outcome::Completed { output: Some("1".into()) }).await;
    let tally = counted(&scene).await;
    let bucket = |time| usize::from(Bucket::of(time).number());
    let waits = tally.waits();
    assert_eq!(
        (waits.counts()[bucket(seconds(30))], waits.counts()[bucket(seconds(5))]),
        (2, 1),
        "{waits:?}"
    );
    assert_eq!(tally.runs().counts()[bucket(seconds(20))], 3, "{tally:?}");
    let completed = tally.spread(|count| count == Count::Completed);
    assert_eq!(
        (completed.total(), completed.quantile(0.5).and_then(Quantile::at_most)),
        (2, Some(Duration::from_millis(32_768)))
    );
}

/// A queue that keeps nothing of what has ended counts it all the same.
pub async fn ends_that_are_not_kept_are_counted(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    let retention = Retention { completed: Keep::NONE, dead: Keep::NONE, cancelled: Keep::NONE };
    define(&scene, QueueConfig { retention, ..QueueConfig::default() }).await;
    scene.add_many(4).await;
    let claimed = scene.claim(scene.lease().await, 4).await;
    scene.settle(&claimed[0], completed()).await;
    let outcomes = [completed(), failed_for_good(), Outcome::Cancelled];
    let ends: Vec<_> =
        claimed[1..].iter().zip(outcomes).map(|(job, outcome)| settlement(job, outcome)).collect();
    scene.store.settle(ends.into()).await.expect("settling is answered");
    let seen = [
        (Count::Accepted, 4),
        (Count::Started, 4),
        (Count::Completed, 2),
        (Count::Failed, 1),
        (Count::Cancelled, 1),
    ];
    assert_counted(&scene, &seen).await;
    assert_eq!(counted(&scene).await.runs().total(), 4);
    assert_eq!(scene.store.remove(&name(QUEUE)).await.expect("it is answered"), Removed::Done);
    assert_eq!(counted(&scene).await.of(Count::Completed), 2, "tallies stay when their queue is removed");
}

/// Queues are apart, and so are kinds.
pub async fn queues_and_kinds_are_apart(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    let of = |queue: &str, kind: &str| {
        NewJob::new(kind, "{}", Options::new().queue(queue)).expect("clauses write proper jobs")
    };
    let batch = [of("a", "x"), of("a", "y"), of("b", "x"), of("a", "x"), of("b", KIND)];
    scene.store.enqueue(batch.into()).await.expect("proper jobs are accepted");
    let mut asked = request(scene.lease().await, 9);
    asked.queues = ["a", "b"].map(|queue| crate::scene::share(queue, 9)).to_vec();
    asked.kinds = ["x", "y"].map(name).to_vec();
    let claimed = scene.ask(&asked).await.0;
    let ends: Vec<_> = claimed.iter().map(|job| settlement(job, completed())).collect();
    scene.store.settle(ends.into()).await.expect("settling is answered");
    for (queue, kind, accepted, ended) in
        [("a", "x", 2, 2), ("a", "y", 1, 1), ("b", "x", 1, 1), ("b", KIND, 1, 0), ("b", "y", 0, 0)]
    {
        let tally = of_kind(&scene, queue, kind).await;
        let seen = [Count::Accepted, Count::Started, Count::Completed].map(|count| tally.of(count));
        assert_eq!(seen, [accepted, ended, ended], "{queue} {kind}");
    }
    let now = scene.store.now().await.expect("a store has a clock");
    let queues = ["b", "c", "a"].map(name).to_vec();
    let window = Window { queues, from: now.minus(HOUR), until: now.plus(HOUR), interval: Interval::Minute };
    let both = tallies(&scene).tallies(&window).await.expect("tallies can be read");
    assert_eq!(both.iter().map(|row| row.tally.of(Count::Accepted)).sum::<u64>(), 5);
    assert!(both.is_sorted_by_key(|row| (row.queue.clone(), row.at, row.kind.clone())), "{both:?}");
}

/// What follows an attempt is counted with its end; what a refused follow-up refuses is not.
pub async fn follow_ups_are_counted(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    let records = scene.store.records().expect("the store keeps records");
    let running = scene.running(Options::new()).await;
    let taken = with(job(Options::new()), |job| (job.id, job.payload) = (running.id, "other".into()));
    for (jobs, is_refused) in [(vec![taken], true), (vec![job(Options::new()), job(Options::new())], false)] {
        let end = settlement(&running, completed());
        let item = AttemptWrite {
            queue: end.queue,
            id: end.id,
            fence: end.fence,
            transition: Some(end.transition),
            then: FollowUps { jobs, records: Vec::new() },
        };
        records.write_fenced(Right::Fence, [item].into()).await.expect("it is answered");
        let expected = match is_refused {
            true => vec![(Count::Accepted, 1), (Count::Started, 1)],
            false => vec![(Count::Accepted, 3), (Count::Started, 1), (Count::Completed, 1)],
        };
        assert_counted(&scene, &expected).await;
    }
    let more = FollowUps { jobs: vec![job(Options::new())], records: Vec::new() };
    records.write(CallId::new(), &name(QUEUE), more).await.expect("it is accepted");
    assert_eq!(counted(&scene).await.of(Count::Accepted), 4);
}

/// Of many calls at once none is lost.
pub async fn calls_at_once_are_all_counted(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    let calls: Vec<_> = (0..6)
        .map(|_| {
            let store = scene.store.clone();
            tokio::spawn(async move {
                for _ in 0..5 {
                    store.enqueue(jobs(8).into()).await.expect("proper jobs are accepted");
                }
            })
        })
        .collect();
    for call in calls {
        call.await.expect("no call panics");
    }
    let handed_out = claim_at_once(&[&scene; 4], |lease| request(lease, 7)).await;
    assert_eq!(handed_out.len(), 240);
    h.advance(TTL).await;
    let lost = scene.lost().await;
    let taken_back: Vec<_> = lost.iter().map(crate::scene::taken_back).collect();
    let reapers: Vec<_> = (0..3)
        .map(|_| {
            let (store, batch) = (scene.store.clone(), taken_back.clone());
            tokio::spawn(async move { store.reap(batch.into()).await.expect("reaping is answered") })
        })
        .collect();
    for reaper in reapers {
        reaper.await.expect("no reaper panics");
    }
    assert_counted(&scene, &[(Count::Accepted, 240), (Count::Started, 240), (Count::Returned, 240)]).await;
}
