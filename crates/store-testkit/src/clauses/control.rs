//! What a queue hands out: pauses, and the concurrency and the rate of a queue, for all workers together.

use std::time::Duration;

use windlass_core::bell::Topic;
use windlass_core::clock::Timestamp;
use windlass_core::job::{ClaimedJob, NewJob};
use windlass_core::queue::{KeyRules, Pause, Pauses, QueueConfig, Rate, Shape};
use windlass_core::store::{ClaimAnswer, ClaimRequest, Settled};
use windlass_core::{JobId, LeaseId, Options, State, StoreError};

use super::at_once::{both, pair};
use super::wakeup::assert_rung;
use crate::Harness;
use crate::scene::{
    KIND, QUEUE, Scene, completed, failed, ids, job, name, one, request, seconds, settlement, share,
    taken_back,
};

async fn define(scene: &Scene, config: QueueConfig) {
    scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
}

fn paused(until: Option<Timestamp>) -> QueueConfig {
    let pause = Pause { by: "ada".into(), why: "the mail server is ill".into(), until };
    QueueConfig { pauses: Pauses { queue: Some(pause), ..Pauses::default() }, ..QueueConfig::default() }
}

fn concurrency(jobs: u32) -> QueueConfig {
    QueueConfig { concurrency: Some(jobs), ..QueueConfig::default() }
}

fn rate(rate: Rate) -> QueueConfig {
    QueueConfig { rate: Some(rate), ..QueueConfig::default() }
}

async fn now(scene: &Scene) -> Timestamp {
    scene.store.now().await.expect("the time can be asked for")
}

/// A paused queue hands out nothing. What runs may end, what is scheduled becomes ready, other queues go on.
pub async fn a_paused_queue_gives_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let running = scene.running(Options::new()).await;
    let ready = scene.add(Options::new()).await;
    let scheduled = scene.add(Options::new().delay(seconds(5))).await;
    let other = scene.add(Options::new().queue("a")).await;
    define(&scene, paused(None)).await;
    let lease = scene.lease().await;
    let queues = vec![share(QUEUE, 9), share("a", 9)];
    let both = ClaimRequest { queues, ..request(lease, 9) };
    assert_eq!(ids(&scene.ask(&both).await.0), [other]);
    assert_eq!(scene.settle(&running, completed()).await, State::Completed);
    let added = scene.add(Options::new()).await;
    h.advance(seconds(5)).await;
    assert_eq!(scene.ask(&both).await, (Vec::new(), None), "and nothing says when to come back");
    assert_eq!(scene.state(scheduled).await, State::Ready, "its time has come all the same");
    let record = scene.get(ready).await;
    assert_eq!((record.counters.attempt, record.fence), (0, 0), "it was not touched");
    define(&scene, QueueConfig::default()).await;
    assert_eq!(ids(&scene.claim(lease, 9).await), [ready, added, scheduled]);
}

/// A pause with an end is over when its time has come, and the claim tells when that is.
pub async fn a_pause_ends_by_itself(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let id = scene.add(Options::new()).await;
    let until = now(&scene).await.plus(seconds(20));
    define(&scene, paused(Some(until))).await;
    let (jobs, next) = scene.ask(&request(scene.lease().await, 9)).await;
    let next = next.expect("the claim tells when the pause ends");
    assert!(jobs.is_empty() && next <= seconds(20) && next > seconds(10), "{next:?}");
    h.advance(seconds(20)).await;
    assert_eq!(scene.ask(&request(scene.lease().await, 9)).await.1, None);
    assert_eq!(scene.state(id).await, State::Running);
}

/// Jobs of a paused kind are passed over, and those of other kinds have their turn.
pub async fn a_paused_kind_is_passed_over(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let of = |kind: &str| NewJob::new(kind, "{}", Options::new()).expect("a proper job");
    let jobs = [of("x"), of(KIND), of("x"), of("y"), of(KIND)];
    for job in &jobs {
        scene.enqueue(job.clone()).await;
    }
    let kinds = [(name("x"), Pause::default())].into();
    let pauses = Pauses { kinds, ..Pauses::default() };
    define(&scene, QueueConfig { pauses, ..QueueConfig::default() }).await;
    let lease = scene.lease().await;
    let all = ClaimRequest { kinds: ["x", KIND, "y"].map(name).to_vec(), ..request(lease, 9) };
    let only = ClaimRequest { kinds: vec![name("x")], ..all.clone() };
    assert_eq!(scene.ask(&only).await, (Vec::new(), None));
    assert_eq!(ids(&scene.ask(&all).await.0), [jobs[1].id, jobs[3].id, jobs[4].id]);
    define(&scene, QueueConfig::default()).await;
    assert_eq!(ids(&scene.ask(&all).await.0), [jobs[0].id, jobs[2].id]);
}

/// A definition is changed only if it is the one that the caller has read.
pub async fn a_definition_is_compared_before_it_changes(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let redefine = async |before: &QueueConfig, config: &QueueConfig| {
        scene.store.redefine(&name("a"), before, config).await.expect("redefining is answered")
    };
    let (default, limited) = (QueueConfig::default(), concurrency(3));
    assert!(!redefine(&limited, &paused(None)).await, "the queue has no definition");
    assert!(redefine(&default, &limited).await);
    assert!(!redefine(&default, &paused(None)).await, "another caller was first");
    let queues = scene.store.queues(None, 9).await.expect("queues can be listed");
    assert_eq!(queues.iter().map(|queue| &queue.config).collect::<Vec<_>>(), [&limited]);
    assert!(redefine(&limited, &default).await);
    assert!(redefine(&default, &rate(Rate::new(5, seconds(60)))).await);
    let bad = scene.store.redefine(&name("a"), &default, &concurrency(0)).await;
    assert!(matches!(bad, Err(StoreError::Queue(_))), "{bad:?}");
}

/// Definitions that make no sense are refused and change nothing.
pub async fn bad_rules_are_refused(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let bucket = Rate::new(1, seconds(1)).shape(Shape::Bucket { burst: 0 });
    for bad in
        [concurrency(0), rate(Rate::new(0, seconds(1))), rate(Rate::new(1, Duration::ZERO)), rate(bucket)]
    {
        let answer = scene.store.define(&name(QUEUE), &bad).await;
        assert!(matches!(answer, Err(StoreError::Queue(_))), "{answer:?}");
    }
    assert!(scene.store.queues(None, 9).await.expect("queues can be listed").is_empty());
}

/// No more jobs of a queue run than it permits, whichever leases have them. Each end makes room, of whatever kind it is.
pub async fn concurrency_is_that_of_all_workers(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, concurrency(3)).await;
    scene.add_many(12).await;
    let (first, second) = (scene.lease().await, scene.lease().await);
    let two = scene.claim(first, 2).await;
    let one_more = scene.claim(second, 9).await;
    assert_eq!((two.len(), one_more.len()), (2, 1));
    assert_eq!(scene.ask(&request(first, 9)).await, (Vec::new(), None), "the queue is full");
    assert_eq!(scene.settle(&two[0], failed()).await, State::Scheduled);
    assert_eq!(scene.claim(second, 9).await.len(), 1, "an attempt has ended");
    assert_eq!(scene.settle(&two[1], completed()).await, State::Completed);
    assert_eq!(scene.claim(first, 9).await.len(), 1);
    define(&scene, concurrency(1)).await;
    assert_eq!(scene.settle(&one_more[0], completed()).await, State::Completed);
    assert_eq!(scene.claim(first, 9).await, [], "two run, and one may");
    define(&scene, QueueConfig::default()).await;
    assert_eq!(scene.claim(first, 9).await.len(), 7, "no limit, and the one that failed waits for its time");
    assert_eq!(scene.count(QUEUE, State::Running).await, 9);
    scene.assert_counts().await;
}

/// A worker that dies keeps its places until its jobs are taken back, and no longer.
pub async fn a_reaped_job_makes_room(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, concurrency(2)).await;
    scene.add_many(4).await;
    let lost = scene.claim(scene.lease().await, 9).await;
    assert_eq!(lost.len(), 2);
    scene.begin(&lost[0]).await;
    h.advance(crate::scene::TTL).await;
    let lease = scene.lease().await;
    assert_eq!(scene.claim(lease, 9).await, [], "they are not taken back yet");
    for job in scene.lost().await {
        let answer = one(scene.store.reap([taken_back(&job)].into()).await.expect("reaping is answered"));
        assert!(matches!(answer, Settled::Applied(_)));
    }
    assert_eq!(scene.claim(lease, 9).await.len(), 2);
    let late = settlement(&lost[0], completed());
    scene.store.settle_late([late].into()).await.expect("settling is answered");
    assert_eq!(scene.claim(lease, 9).await, [], "what ends late had given its place back already");
}

/// Claims that come at once never take more together than the queue permits, and in the end all jobs run.
pub async fn claims_at_once_heed_the_concurrency(h: &impl Harness) {
    let (here, there) = pair(h).await;
    define(&here, concurrency(3)).await;
    let added = here.add_many(40).await;
    let leases = [here.lease().await, there.lease().await];
    let work = |scene: &Scene, lease: LeaseId| {
        let store = scene.store.clone();
        async move {
            let mut done: Vec<JobId> = Vec::new();
            for _ in 0..400 {
                let answer = store.claim(request(lease, 2)).await.expect("a claim is answered");
                let ClaimAnswer::Jobs { jobs, .. } = answer else { panic!("the lease lives") };
                let queues = store.queues(None, 9).await.expect("queues can be listed");
                let running = queues[0].counts.of(State::Running);
                assert!(running <= 3, "{running} jobs run");
                for job in jobs {
                    let answer = store.settle([settlement(&job, completed())].into()).await;
                    assert_eq!(answer.expect("settling is answered"), [Settled::Applied(State::Completed)]);
                    done.push(job.id);
                }
                if queues[0].counts.open() == 0 {
                    break;
                }
            }
            done
        }
    };
    let (mine, yours) = both(work(&here, leases[0]), work(&there, leases[1])).await;
    let mut done = [mine, yours].concat();
    done.sort_unstable();
    let mut added = added;
    added.sort_unstable();
    assert_eq!(done, added);
}

/// A queue with rules gives no jobs to wait for a slot; one without does.
pub async fn a_queue_with_rules_gives_what_can_begin(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(9).await;
    for _ in 0..9 {
        scene.add(Options::new().queue("a")).await;
    }
    define(&scene, concurrency(100)).await;
    let queues = vec![share(QUEUE, 9), share("a", 9)];
    let ahead = ClaimRequest { queues, at_once: 2, ..request(scene.lease().await, 6) };
    let of = |jobs: &[ClaimedJob], queue: &str| jobs.iter().filter(|job| job.queue.as_str() == queue).count();
    let (jobs, _) = scene.ask(&ahead).await;
    assert_eq!((of(&jobs, QUEUE), of(&jobs, "a")), (2, 4));
    let turned = ClaimRequest { queues: vec![share("a", 1), share(QUEUE, 9)], ..ahead.clone() };
    let (jobs, _) = scene.ask(&turned).await;
    assert_eq!((of(&jobs, QUEUE), of(&jobs, "a")), (1, 1), "one of the two has a job");
    let none = ClaimRequest { at_once: 0, ..ahead };
    let (jobs, _) = scene.ask(&none).await;
    assert_eq!((of(&jobs, QUEUE), of(&jobs, "a")), (0, 4));
}

/// A sliding rate holds over all leases and in any span. What is kept back is not touched, and the claim tells when to come.
pub async fn a_sliding_rate_holds_in_any_span(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, rate(Rate::new(4, seconds(60)))).await;
    let added = scene.add_many(10).await;
    let later = scene.add(Options::new().delay(seconds(50))).await;
    assert_eq!(scene.claim(scene.lease().await, 3).await.len(), 3);
    h.advance(seconds(30)).await;
    let (jobs, next) = scene.ask(&request(scene.lease().await, 9)).await;
    assert_eq!(jobs.len(), 1);
    let next = next.expect("the claim tells when there is a permit");
    assert!(next > seconds(5) && next <= seconds(30), "{next:?}");
    let (jobs, next) = scene.ask(&request(scene.lease().await, 9)).await;
    assert!(jobs.is_empty() && next.is_some_and(|next| next <= seconds(30)), "{jobs:?} {next:?}");
    let record = scene.get(added[4]).await;
    assert_eq!((record.state, record.counters.attempt, record.fence), (State::Ready, 0, 0));
    h.advance(seconds(31)).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await.len(), 3, "three permits are back");
    assert_eq!(scene.state(later).await, State::Ready, "its time has come meanwhile");
    h.advance(seconds(30)).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await.len(), 1, "and then the fourth");
}

/// A fixed rate begins anew with each slot of the clock.
pub async fn a_fixed_rate_begins_anew(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, rate(Rate::new(2, seconds(3_600)).shape(Shape::Fixed))).await;
    scene.add_many(6).await;
    for round in 0..2 {
        let (jobs, next) = scene.ask(&request(scene.lease().await, 9)).await;
        assert_eq!(jobs.len(), 2, "round {round}");
        let next = next.expect("the claim tells when the next slot begins");
        assert!(next <= seconds(3_600), "{next:?}");
        if next > seconds(30) {
            h.advance(next - seconds(20)).await;
            assert_eq!(scene.claim(scene.lease().await, 9).await, [], "the slot lasts");
        }
        h.advance(next).await;
    }
}

/// A bucket gives a burst after a rest, and then one job at a time.
pub async fn a_bucket_fills_evenly(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, rate(Rate::new(6, seconds(600)).shape(Shape::Bucket { burst: 3 }))).await;
    scene.add_many(12).await;
    let (jobs, next) = scene.ask(&request(scene.lease().await, 9)).await;
    assert_eq!(jobs.len(), 3);
    let next = next.expect("the claim tells when there is a permit");
    assert!(next > seconds(50) && next <= seconds(100), "{next:?}");
    assert_eq!(scene.claim(scene.lease().await, 9).await, []);
    h.advance(seconds(100)).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await.len(), 1);
    h.advance(seconds(200)).await;
    assert_eq!(scene.claim(scene.lease().await, 1).await.len(), 1);
    assert_eq!(scene.claim(scene.lease().await, 9).await.len(), 1);
    h.advance(seconds(5_000)).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await.len(), 3, "no more than the burst");
}

/// A look at a queue says how many jobs its rate permits, and when there are more.
pub async fn a_queue_shows_what_its_rate_permits(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let shown = async || {
        let queues = scene.store.queues(None, 9).await.expect("queues can be listed");
        let now = scene.store.now().await.expect("a store tells the time");
        queues[0].permits.map(|permits| (permits.jobs, permits.more_at.map(|at| at.since(now))))
    };
    scene.add_many(30).await;
    assert_eq!(shown().await, None, "it has no rate");
    let bucket = Rate::new(6, seconds(6_000)).shape(Shape::Bucket { burst: 5 });
    for rated in [Rate::new(5, seconds(1_000)), bucket] {
        define(&scene, rate(rated)).await;
        assert_eq!(shown().await, Some((5, None)), "{rated:?}");
        assert_eq!(scene.claim(scene.lease().await, 3).await.len(), 3);
        let Some((2, Some(more_in))) = shown().await else { panic!("{:?} of {rated:?}", shown().await) };
        assert!(more_in > seconds(900) && more_in <= seconds(1_002), "{more_in:?} of {rated:?}");
        h.advance(seconds(1_002)).await;
        let back = if rated == bucket { 3 } else { 5 };
        assert_eq!(shown().await.map(|(jobs, _)| jobs), Some(back), "{rated:?}");
        assert_eq!(scene.claim(scene.lease().await, 9).await.len(), back as usize, "and so many start");
        assert_eq!(shown().await.map(|(jobs, _)| jobs), Some(0), "{rated:?}");
    }
    let hour = Rate::new(5, seconds(3_600)).shape(Shape::Fixed);
    define(&scene, rate(hour)).await;
    scene.claim(scene.lease().await, 2).await;
    let (left, more_in) = shown().await.expect("it has a rate");
    assert!(left >= 3 && more_in.is_none_or(|more_in| more_in <= seconds(3_600)), "{left} {more_in:?}");
}

/// A claim tells of limits that leave far more than it asks for, of the queue and of the keys that were asked.
pub async fn limits_that_are_far_are_told(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = scene.lease().await;
    let told = async |config: QueueConfig, keyed: bool| {
        define(&scene, config).await;
        for number in 0..4 {
            let options = if keyed { Options::new().key(format!("k{number}")) } else { Options::new() };
            scene.add(options).await;
        }
        let ClaimAnswer::Jobs { jobs, limited, ample, .. } =
            scene.store.claim(request(lease, 4)).await.expect("a claim is answered")
        else {
            panic!("the lease lives")
        };
        for job in &jobs {
            scene.settle(job, completed()).await;
        }
        (jobs.len(), limited.len(), ample.len())
    };
    assert_eq!(told(concurrency(400), false).await, (4, 1, 1));
    assert_eq!(told(concurrency(20), false).await, (4, 1, 0), "others could start at most 16");
    assert_eq!(told(rate(Rate::new(20, seconds(600))), false).await, (4, 1, 0));
    assert_eq!(told(QueueConfig::default(), false).await, (4, 0, 0), "it has none");
    let of_keys = |most| {
        let keys = KeyRules { concurrency: Some(most), ..KeyRules::default() };
        QueueConfig { keys: Some(keys), ..QueueConfig::default() }
    };
    assert_eq!(told(of_keys(100), true).await, (4, 1, 1));
    assert_eq!(told(of_keys(2), true).await, (4, 1, 0));
}

/// A rate may change while jobs wait, and begins anew then. One that stays as it was counts on, whatever else changes.
pub async fn a_rate_may_change(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(30).await;
    define(&scene, rate(Rate::new(2, seconds(3_600)))).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await.len(), 2);
    define(&scene, QueueConfig { concurrency: Some(99), ..rate(Rate::new(2, seconds(3_600))) }).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await, [], "two in an hour");
    define(&scene, rate(Rate::new(5, seconds(600)))).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await.len(), 5, "nothing waits for the hour");
    define(&scene, rate(Rate::new(1, seconds(600)).shape(Shape::Bucket { burst: 3 }))).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await.len(), 3);
    define(&scene, rate(Rate::new(1, seconds(1)).shape(Shape::Bucket { burst: 2 }))).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await.len(), 2, "the bucket is full");
    define(&scene, QueueConfig::default()).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await.len(), 9);
}

/// Claims that come at once never take more together than the rate permits.
pub async fn claims_at_once_heed_the_rate(h: &impl Harness) {
    let (here, there) = pair(h).await;
    for round in 0..5 {
        define(&here, rate(Rate::new(7 + round, seconds(3_000)))).await;
        here.add_many(20).await;
        let claim = |scene: &Scene, lease: LeaseId| {
            let store = scene.store.clone();
            async move {
                let mut taken = 0;
                for _ in 0..6 {
                    match store.claim(request(lease, 3)).await.expect("a claim is answered") {
                        ClaimAnswer::Jobs { jobs, .. } => taken += jobs.len(),
                        ClaimAnswer::LeaseLost => panic!("the lease lives"),
                    }
                }
                taken
            }
        };
        let leases = [here.lease().await, there.lease().await];
        let (mine, yours) = both(claim(&here, leases[0]), claim(&there, leases[1])).await;
        let left = here.claim(here.lease().await, 99).await.len();
        assert_eq!(mine + yours + left, 7 + round as usize, "round {round}");
    }
}

/// All rules of a queue hold together.
pub async fn rules_hold_together(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let both = QueueConfig {
        concurrency: Some(3),
        rate: Some(Rate::new(5, seconds(600))),
        ..QueueConfig::default()
    };
    define(&scene, both.clone()).await;
    scene.add_many(9).await;
    let lease = scene.lease().await;
    let first = scene.claim(lease, 9).await;
    assert_eq!(first.len(), 3);
    for job in &first {
        scene.settle(job, completed()).await;
    }
    assert_eq!(scene.claim(lease, 9).await.len(), 2, "five in ten minutes");
    define(&scene, QueueConfig { pauses: paused(None).pauses, ..both.clone() }).await;
    h.advance(seconds(601)).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await, []);
    define(&scene, both).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await.len(), 1, "two run still");
}

/// A worker that waits hears of a definition that changes, and of a place that is free in a queue that was full.
pub async fn those_who_wait_hear_of_room(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, concurrency(1)).await;
    scene.add_many(2).await;
    let running = scene.claim_one(scene.lease().await).await;
    let mut listener = scene.store.bell().listen(Topic::Work);
    scene.settle(&running, completed()).await;
    assert_rung(&mut listener, "a job of a full queue has ended").await;
    let mut listener = scene.store.bell().listen(Topic::Work);
    define(&scene, concurrency(2)).await;
    assert_rung(&mut listener, "a definition has changed").await;
}

/// A job of a queue with rules is handed out with all it needs, and in the order of its queue.
pub async fn order_and_content_are_as_ever(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, QueueConfig { rate: Some(Rate::new(100, seconds(60))), ..concurrency(50) }).await;
    let low = scene.add(Options::new().priority(-1)).await;
    let jobs: Vec<_> = (0..5).map(|_| job(Options::new().tag("t"))).collect();
    scene.store.enqueue(jobs.clone().into()).await.expect("proper jobs are accepted");
    let high = scene.add(Options::new().priority(3)).await;
    let claimed = scene.claim(scene.lease().await, 9).await;
    let order: Vec<_> = [high].into_iter().chain(jobs.iter().map(|job| job.id)).chain([low]).collect();
    assert_eq!(ids(&claimed), order);
    assert_eq!((&claimed[1].payload, &claimed[1].tags), (&jobs[0].payload, &jobs[0].tags));
    scene.assert_counts().await;
}
