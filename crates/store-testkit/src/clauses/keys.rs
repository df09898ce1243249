//! Keys of jobs: turns between keys, and what holds for each of them, for all workers together.

use windlass_core::bell::Topic;
use windlass_core::job::{ClaimedJob, NewJob};
use windlass_core::queue::{KeyRules, Pause, Pauses, QueueConfig, Rate, Shape};
use windlass_core::store::{ClaimAnswer, ClaimRequest, Settled};
use windlass_core::{JobId, LeaseId, Options, State, StoreError};

use super::at_once::{both, pair};
use super::wakeup::assert_rung;
use crate::Harness;
use crate::scene::{
    KIND, QUEUE, Scene, TTL, completed, failed, ids, job, name, one, request, seconds, share, taken_back,
};

pub(super) async fn define(scene: &Scene, config: QueueConfig) {
    scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
}

pub(super) fn keys(rules: KeyRules) -> QueueConfig {
    QueueConfig { keys: Some(rules), ..QueueConfig::default() }
}

fn at_most(concurrency: u32) -> QueueConfig {
    keys(KeyRules { concurrency: Some(concurrency), ..KeyRules::default() })
}

fn of(key: &str) -> Options {
    Options::new().key(key)
}

/// Adds one job after the other, with these keys; `-` is none.
async fn add(scene: &Scene, keys: &str) -> Vec<JobId> {
    let mut added = Vec::new();
    for key in keys.chars() {
        let options = if key == '-' { Options::new() } else { of(&key.to_string()) };
        added.push(scene.add(options).await);
    }
    added
}

/// A claim that gives jobs with a key first, unless it is told otherwise.
fn keyed(lease: LeaseId, limit: u32) -> ClaimRequest {
    let request = request(lease, limit);
    ClaimRequest { nonce: request.nonce | 1, ..request }
}

/// The keys of claimed jobs, in their order; `-` for none.
fn keys_of(jobs: &[ClaimedJob]) -> String {
    jobs.iter().map(|job| job.key.as_ref().map_or("-", |key| key.as_str())).collect()
}

async fn claim(scene: &Scene, limit: u32) -> Vec<ClaimedJob> {
    scene.ask(&keyed(scene.lease().await, limit)).await.0
}

/// A job says its key to those who look and to its worker.
pub async fn a_key_reads_back(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, keys(KeyRules::default())).await;
    let key = "tenant:7_x.Y-9";
    let id = scene.add(of(key).priority(3).tag("t")).await;
    assert_eq!(scene.get(id).await.key, Some(name(key)));
    let job = one(claim(&scene, 9).await);
    assert_eq!((job.id, &job.key), (id, &Some(name(key))));
    scene.settle(&job, completed()).await;
    assert_eq!(scene.get(id).await.key, Some(name(key)));
    scene.assert_counts().await;
}

/// A queue without rules for keys takes no job that has one: no claim would look for it.
pub async fn a_queue_without_keys_refuses_them(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let batch = [job(Options::new()), job(of("a"))];
    for _ in 0..2 {
        let answer = scene.store.enqueue(batch.as_slice().into()).await;
        assert!(matches!(&answer, Err(StoreError::NoKeys { queue }) if *queue == name(QUEUE)), "{answer:?}");
        assert_eq!(scene.find(batch[0].id).await, None, "nothing was stored");
        define(&scene, QueueConfig { concurrency: Some(5), ..QueueConfig::default() }).await;
    }
    define(&scene, keys(KeyRules::default())).await;
    scene.enqueue(batch[1].clone()).await;
    scene.assert_counts().await;
}

/// A queue that had keys goes on with them, whatever its definition says later, until it is removed.
pub async fn a_queue_keeps_its_keys(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, at_most(1)).await;
    let first = add(&scene, "aa").await;
    define(&scene, QueueConfig::default()).await;
    assert_eq!(ids(&claim(&scene, 9).await), first, "without a limit by now");
    let more = add(&scene, "b-").await;
    let found = claim(&scene, 9).await;
    assert_eq!(ids(&found), more);
    for id in first.into_iter().chain(more) {
        let record = scene.get(id).await;
        if record.state == State::Running {
            scene.cancel(id).await;
        }
    }
}

/// Keys take turns: one with many jobs does not hold up one with few.
pub async fn keys_take_turns(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, keys(KeyRules::default())).await;
    let added = add(&scene, "aaaabbc").await;
    let mut order = Vec::new();
    for _ in 0..7 {
        order.extend(claim(&scene, 1).await);
    }
    assert_eq!(keys_of(&order), "abcabaa");
    let first_of =
        |key: &str| order.iter().filter(|job| job.key == Some(name(key))).map(|job| job.id).collect();
    let of_a: Vec<JobId> = first_of("a");
    assert_eq!(of_a, added[..4], "in their order");
    assert_eq!(claim(&scene, 1).await, []);
}

/// A claim of several jobs takes an equal part of each key, and the rest from those that have more.
pub async fn a_claim_takes_parts(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, keys(KeyRules::default())).await;
    add(&scene, "aaaaaaaabc").await;
    assert_eq!(keys_of(&claim(&scene, 6).await), "aabcaa");
    assert_eq!(keys_of(&claim(&scene, 9).await), "aaaa");
    add(&scene, "ccbbaa").await;
    assert_eq!(keys_of(&claim(&scene, 2).await), "ab");
    assert_eq!(keys_of(&claim(&scene, 2).await), "ca", "those that have had less come first");
    assert_eq!(keys_of(&claim(&scene, 9).await), "bc");
}

/// A key that comes late begins where the others are, and neither waits for them nor catches up.
pub async fn a_new_key_begins_where_the_others_are(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, keys(KeyRules::default())).await;
    add(&scene, "bbbbbbbb").await;
    assert_eq!(keys_of(&claim(&scene, 4).await), "bbbb");
    add(&scene, "aaaa").await;
    let mut order = Vec::new();
    for _ in 0..6 {
        order.extend(claim(&scene, 1).await);
    }
    assert_eq!(keys_of(&order), "ababab");
}

/// A heavier key has its turn more often, and gives more to a claim of many.
pub async fn a_heavier_key_has_more_turns(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let weights = [(name("b"), 3)].into();
    define(&scene, keys(KeyRules { weights, ..KeyRules::default() })).await;
    add(&scene, &"a".repeat(20)).await;
    add(&scene, &"b".repeat(40)).await;
    let mut order = Vec::new();
    for _ in 0..12 {
        order.extend(claim(&scene, 1).await);
    }
    let found = keys_of(&order);
    assert_eq!(found.matches('b').count(), 9, "{found}");
    let found = keys_of(&claim(&scene, 8).await);
    assert_eq!((found.matches('a').count(), found.matches('b').count()), (2, 6), "{found}");
}

/// Priority decides among the jobs of one key, and not between keys.
pub async fn priority_is_within_a_key(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, keys(KeyRules::default())).await;
    let low = scene.add(of("a")).await;
    let high = scene.add(of("a").priority(9)).await;
    let other = scene.add(of("b").priority(-9)).await;
    let mut order = Vec::new();
    for _ in 0..3 {
        order.extend(claim(&scene, 1).await);
    }
    assert_eq!(ids(&order), [high, other, low]);
}

/// Jobs without a key go first in one half of the claims, and last in the other.
pub async fn jobs_without_a_key_have_half_of_the_claims(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, keys(KeyRules::default())).await;
    add(&scene, "--aab").await;
    let lease = scene.lease().await;
    let with = |nonce, limit| ClaimRequest { nonce, ..request(lease, limit) };
    assert_eq!(keys_of(&scene.ask(&with(10, 1)).await.0), "-");
    assert_eq!(keys_of(&scene.ask(&with(11, 1)).await.0), "a");
    assert_eq!(keys_of(&scene.ask(&with(13, 9)).await.0), "ba-");
    add(&scene, "a-").await;
    assert_eq!(keys_of(&scene.ask(&with(12, 9)).await.0), "-a");
}

/// No more jobs of a key run than the rules for keys say, whichever leases have them; other keys are not held up.
pub async fn a_key_has_its_concurrency(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, at_most(2)).await;
    add(&scene, "aaaaabb").await;
    let first = claim(&scene, 3).await;
    assert_eq!(keys_of(&first), "aab");
    assert_eq!(keys_of(&claim(&scene, 9).await), "b");
    assert_eq!(claim(&scene, 9).await, [], "two of each run");
    add(&scene, "ac").await;
    assert_eq!(keys_of(&claim(&scene, 9).await), "c");
    assert_eq!(scene.settle(&first[0], failed()).await, State::Scheduled);
    assert_eq!(keys_of(&claim(&scene, 9).await), "a", "an attempt has ended");
    assert_eq!(scene.settle(&first[1], completed()).await, State::Completed);
    assert_eq!(keys_of(&claim(&scene, 9).await), "a");
    define(&scene, at_most(3)).await;
    assert_eq!(keys_of(&claim(&scene, 9).await), "a", "there is room for one more");
    scene.assert_counts().await;
}

/// A worker that dies keeps the places of its keys until its jobs are taken back, and no longer.
pub async fn a_reaped_job_makes_room_for_its_key(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, at_most(1)).await;
    add(&scene, "aab").await;
    assert_eq!(keys_of(&claim(&scene, 9).await), "ab");
    h.advance(TTL).await;
    assert_eq!(claim(&scene, 9).await, [], "they are not taken back yet");
    for lost in scene.lost().await {
        let answer = one(scene.store.reap([taken_back(&lost)].into()).await.expect("reaping is answered"));
        assert!(matches!(answer, Settled::Applied(_)));
    }
    assert_eq!(keys_of(&claim(&scene, 9).await), "ab");
    assert_eq!(claim(&scene, 9).await, []);
}

/// Claims that come at once never take more jobs of a key together than may run, and in the end all jobs run.
pub async fn claims_at_once_heed_the_keys(h: &impl Harness) {
    let (here, there) = pair(h).await;
    define(&here, at_most(1)).await;
    let mut added = add(&here, &"abc".repeat(8)).await;
    let leases = [here.lease().await, there.lease().await];
    let work = |scene: &Scene, lease: LeaseId| {
        let store = scene.store.clone();
        async move {
            let mut done: Vec<JobId> = Vec::new();
            for _ in 0..400 {
                let answer = store.claim(keyed(lease, 2)).await.expect("a claim is answered");
                let ClaimAnswer::Jobs { jobs, .. } = answer else { panic!("the lease lives") };
                let queues = store.queues(None, 9).await.expect("queues can be listed");
                let running = queues[0].counts.of(State::Running);
                assert!(running <= 3, "{running} jobs of three keys run");
                assert!(jobs.len() < 2 || jobs[0].key != jobs[1].key, "two of one key: {jobs:?}");
                for job in jobs {
                    let settlement = crate::scene::settlement(&job, completed());
                    let answer = store.settle([settlement].into()).await;
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
    added.sort_unstable();
    assert_eq!(done, added);
}

/// No more jobs of a key start than its rate permits. The claim tells when to come back, and other keys go on.
pub async fn a_key_has_its_rate(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let rate = Some(Rate::new(2, seconds(60)));
    define(&scene, keys(KeyRules { rate, ..KeyRules::default() })).await;
    let added = add(&scene, "aaab").await;
    let (jobs, next) = scene.ask(&keyed(scene.lease().await, 9)).await;
    assert_eq!(keys_of(&jobs), "aab");
    let next = next.expect("the claim tells when there is a permit");
    assert!(next > seconds(30) && next <= seconds(61), "{next:?}");
    add(&scene, "bb").await;
    let (jobs, next) = scene.ask(&keyed(scene.lease().await, 9)).await;
    assert_eq!(keys_of(&jobs), "b");
    assert!(next.is_some_and(|next| next <= seconds(61)), "{next:?}");
    let record = scene.get(added[2]).await;
    assert_eq!((record.state, record.counters.attempt, record.fence), (State::Ready, 0, 0));
    h.advance(seconds(61)).await;
    assert_eq!(keys_of(&claim(&scene, 9).await), "ab");
}

/// A bucket per key; another rate begins anew, one that stays as it was counts on.
pub async fn a_rate_of_keys_may_change(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let bucket = |per, burst| {
        let rate = Some(Rate::new(1, seconds(per)).shape(Shape::Bucket { burst }));
        keys(KeyRules { rate, ..KeyRules::default() })
    };
    define(&scene, bucket(3_600, 2)).await;
    add(&scene, "aaaaaaab").await;
    assert_eq!(keys_of(&claim(&scene, 9).await), "aab");
    define(&scene, QueueConfig { concurrency: Some(99), ..bucket(3_600, 2) }).await;
    assert_eq!(claim(&scene, 9).await, [], "one in an hour");
    define(&scene, bucket(600, 3)).await;
    assert_eq!(keys_of(&claim(&scene, 9).await), "aaa");
    h.advance(seconds(601)).await;
    assert_eq!(keys_of(&claim(&scene, 9).await), "a");
}

/// A paused key is passed over until its pause ends, by itself or by another definition.
pub async fn a_paused_key_is_passed_over(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let until = scene.store.now().await.expect("the time can be asked for").plus(seconds(20));
    let pause = |until| Pause { until, ..Pause::default() };
    let pauses = Pauses {
        keys: [(name("a"), pause(None)), (name("b"), pause(Some(until)))].into(),
        ..Pauses::default()
    };
    define(&scene, QueueConfig { pauses, ..keys(KeyRules::default()) }).await;
    add(&scene, "aabbc").await;
    let (jobs, next) = scene.ask(&keyed(scene.lease().await, 9)).await;
    assert_eq!(keys_of(&jobs), "c");
    assert!(next.is_some_and(|next| next <= seconds(20) && next > seconds(10)), "{next:?}");
    h.advance(seconds(20)).await;
    assert_eq!(keys_of(&claim(&scene, 9).await), "bb");
    define(&scene, keys(KeyRules::default())).await;
    assert_eq!(keys_of(&claim(&scene, 9).await), "aa");
}

/// The rules of the queue hold for jobs with and without a key together.
pub async fn rules_of_the_queue_hold_too(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let config = QueueConfig { concurrency: Some(4), rate: Some(Rate::new(5, seconds(600))), ..at_most(2) };
    define(&scene, config).await;
    add(&scene, "aaab----").await;
    let first = claim(&scene, 9).await;
    assert_eq!(keys_of(&first), "aab-");
    scene.settle(&first[0], completed()).await;
    scene.settle(&first[3], completed()).await;
    assert_eq!(keys_of(&claim(&scene, 9).await), "a", "five in ten minutes");
    let ahead = ClaimRequest { at_once: 0, ..keyed(scene.lease().await, 9) };
    assert_eq!(scene.ask(&ahead).await.0, []);
}

/// Turns alone hold nothing back: such a queue gives jobs to wait for a slot. One with limits does not, and is named.
pub async fn limits_are_named(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, keys(KeyRules::default())).await;
    add(&scene, "aab-").await;
    let limited = async |request: ClaimRequest| match scene.store.claim(request).await {
        Ok(ClaimAnswer::Jobs { jobs, limited, .. }) => (keys_of(&jobs), limited),
        other => panic!("a claim is answered, but not as {other:?}"),
    };
    let lease = scene.lease().await;
    let queues = vec![share(QUEUE, 9), share("a", 9)];
    let ahead = ClaimRequest { queues, at_once: 0, ..keyed(lease, 2) };
    assert_eq!(limited(ahead.clone()).await, ("ab".to_owned(), Vec::new()));
    define(&scene, at_most(9)).await;
    assert_eq!(limited(ahead.clone()).await, (String::new(), vec![name(QUEUE)]));
    assert_eq!(limited(ClaimRequest { at_once: 1, ..ahead }).await, ("a".to_owned(), vec![name(QUEUE)]));
}

/// Jobs of kinds that a claim does not ask for are passed over, within a key and between keys.
pub async fn other_kinds_are_passed_over(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, keys(KeyRules::default())).await;
    let new = |kind: &str, key| NewJob::new(kind, "{}", of(key)).expect("a proper job");
    let jobs = [new("x", "a"), new(KIND, "a"), new("x", "b"), new(KIND, "c")];
    for job in &jobs {
        scene.enqueue(job.clone()).await;
    }
    assert_eq!(ids(&claim(&scene, 1).await), [jobs[1].id]);
    assert_eq!(ids(&claim(&scene, 1).await), [jobs[3].id], "nothing of b is asked for");
    let all = ClaimRequest { kinds: vec![name("x"), name(KIND)], ..keyed(scene.lease().await, 9) };
    assert_eq!(ids(&scene.ask(&all).await.0), [jobs[2].id, jobs[0].id]);
}

/// Jobs with a key go the ways of all jobs: they are scheduled, expire, are cancelled, retried and removed.
pub async fn a_job_with_a_key_has_its_life(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, at_most(1)).await;
    let later = scene.add(of("a").delay(seconds(5))).await;
    let short = scene.add(of("a").expires_in(seconds(5))).await;
    let first = scene.add(of("a")).await;
    let gone = scene.add(of("b")).await;
    scene.delete(gone).await;
    scene.cancel(first).await;
    h.advance(seconds(5)).await;
    let job = one(claim(&scene, 9).await);
    assert_eq!(job.id, later);
    assert_eq!(scene.state(short).await, State::Dead);
    scene.retry(first).await;
    assert_eq!(claim(&scene, 9).await, [], "one of its key runs");
    assert_eq!(scene.settle(&job, windlass_core::Outcome::Returned).await, State::Ready);
    let again = one(claim(&scene, 9).await);
    assert_eq!(again.id, later, "it keeps its place");
    assert_eq!(scene.settle(&again, failed()).await, State::Scheduled);
    assert_eq!(ids(&claim(&scene, 9).await), [first]);
    scene.assert_counts().await;
}

/// A worker that waits hears when a job ends whose key had as many as may run.
pub async fn those_who_wait_hear_of_a_free_key(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, at_most(1)).await;
    add(&scene, "aa").await;
    let running = one(claim(&scene, 9).await);
    let mut listener = scene.store.bell().listen(Topic::Work);
    scene.settle(&running, completed()).await;
    assert_rung(&mut listener, "a job of a key has ended").await;
    assert_eq!(keys_of(&claim(&scene, 9).await), "a");
}

/// A call of many keys is accepted, and each job has its turn.
pub async fn many_keys_are_served(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, at_most(1)).await;
    let jobs: Vec<_> = (0..300).map(|number| job(of(&format!("key-{:03}", number % 150)))).collect();
    scene.store.enqueue(jobs.as_slice().into()).await.expect("proper jobs are accepted");
    let first = claim(&scene, 400).await;
    assert_eq!(ids(&first), jobs[..150].iter().map(|job| job.id).collect::<Vec<_>>(), "one of each key");
    assert_eq!(claim(&scene, 400).await, []);
    for job in &first {
        scene.settle(job, completed()).await;
    }
    assert_eq!(claim(&scene, 400).await.len(), 150);
}

/// Rules for keys that make no sense are refused and change nothing.
pub async fn bad_rules_for_keys_are_refused(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let weight = |weight| KeyRules { weights: [(name("a"), weight)].into(), ..KeyRules::default() };
    let rate = KeyRules { rate: Some(Rate::new(0, seconds(1))), ..KeyRules::default() };
    for bad in [at_most(0), keys(weight(0)), keys(weight(1_001)), keys(rate)] {
        let answer = scene.store.define(&name(QUEUE), &bad).await;
        assert!(matches!(answer, Err(StoreError::Queue(_))), "{answer:?}");
    }
    assert!(scene.store.queues(None, 9).await.expect("queues can be listed").is_empty());
}
