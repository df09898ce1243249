//! Keys of jobs: the scripts hand out what the reference does, keep little of a key and nothing of one that has no jobs, and
//! what is wrong with one harms no other.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "harness/two_queues.rs"]
mod two_queues;

use std::sync::Arc;
use std::time::Duration;

use two_queues::{Scene, TTL, ids, name};
use windlass_core::clock::Timestamp;
use windlass_core::queue::{KeyRules, Pause, Pauses, QueueConfig, Rate, Removed, Shape};
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Jobs, Maintenance, NewLease, QueueShare, Queues, Settlement, SharedStore,
};
use windlass_core::{ClaimedJob, Fence, JobId, LeaseId, NewJob, Options, Outcome, judge};
use windlass_store_memory::MemoryStore;

const SEEDS: u64 = 10;
const KEYS: [&str; 6] = ["a", "b", "c:c", "d", "e", "f"];

fn keys(rules: KeyRules) -> QueueConfig {
    QueueConfig { keys: Some(rules), ..QueueConfig::default() }
}

/// The reference and the store under test, on one clock.
struct Pair {
    scene: Scene,
    stores: [SharedStore; 2],
    leases: [LeaseId; 2],
    /// What runs in each, in the same order.
    running: [Vec<ClaimedJob>; 2],
    waiting: Vec<JobId>,
}

impl Pair {
    async fn new() -> Self {
        let scene = Scene::new().await;
        let clock = Arc::new(scene.clock.clone());
        let stores: [SharedStore; 2] =
            [Arc::new(MemoryStore::with_clock(clock)), Arc::new(scene.store.clone())];
        let leases = [LeaseId::new(), LeaseId::new()];
        for (store, id) in stores.iter().zip(leases) {
            let (ttl, queues) = (1_000_000 * TTL, vec![name("bad")]);
            store.open(&NewLease { id, worker: "w".into(), ttl, queues, kinds: Vec::new() }).await.unwrap();
        }
        Self { scene, stores, leases, running: [Vec::new(), Vec::new()], waiting: Vec::new() }
    }

    async fn define(&self, config: &QueueConfig) {
        for store in &self.stores {
            store.define(&name("bad"), config).await.unwrap();
        }
    }

    async fn add(&mut self, random: &mut fastrand::Rng, count: usize, options: &Options) {
        let job = |_| {
            let kind = if random.u8(..3) == 0 { "l" } else { "k" };
            let mut options = options.clone().queue("bad").priority(random.i16(-1..2));
            if random.u8(..5) > 0 {
                // The first keys have most jobs.
                let most = random.usize(1..=KEYS.len());
                options = options.key(KEYS[random.usize(..most)]);
            }
            NewJob::new(kind, "payload", options).unwrap()
        };
        let jobs: Vec<_> = (0..count).map(job).collect();
        for store in &self.stores {
            store.enqueue(jobs.as_slice().into()).await.unwrap();
        }
        self.waiting.extend(jobs.iter().map(|job| job.id));
    }

    /// What both hand out, which is the same, and when to come again.
    async fn claim(&mut self, limit: u32, at_once: u32, kinds: &[&str]) -> (Vec<JobId>, Option<Duration>) {
        let nonce = Fence::nonce();
        let mut answers = Vec::new();
        for side in 0..2 {
            let request = ClaimRequest {
                lease: self.leases[side],
                nonce,
                queues: vec![QueueShare { queue: name("bad"), limit }],
                kinds: kinds.iter().map(|kind| name(kind)).collect(),
                limit,
                at_once,
                bytes: usize::MAX,
            };
            let ClaimAnswer::Jobs { jobs, next_due, limited, .. } =
                self.stores[side].claim(request).await.unwrap()
            else {
                panic!("the lease lives")
            };
            answers.push((ids(&jobs), next_due, limited));
            self.running[side].extend(jobs);
        }
        assert_eq!(answers[0], answers[1]);
        let (ids, next_due, _) = answers.remove(1);
        (ids, next_due)
    }

    async fn settle(&mut self, count: usize, outcome: &Outcome) {
        for (store, running) in self.stores.iter().zip(&mut self.running) {
            let count = count.min(running.len());
            let ended = running.drain(..count).map(|job| {
                let transition = judge(&job.facts, outcome.clone(), 0.5);
                Settlement { queue: job.queue, id: job.id, fence: job.fence, transition }
            });
            let ended: Vec<_> = ended.collect();
            store.settle(ended.as_slice().into()).await.unwrap();
        }
    }

    /// Cancels a job in both, and answers the same.
    async fn cancel(&mut self, random: &mut fastrand::Rng) {
        let Some(&id) = random.choice(&self.waiting) else { return };
        let mut answers = Vec::new();
        for store in &self.stores {
            answers.push(store.cancel([id].into()).await.unwrap());
        }
        assert_eq!(answers[0], answers[1]);
    }
}

fn random_rate(random: &mut fastrand::Rng) -> Rate {
    let rate = Rate::new(random.u32(1..9), Duration::from_micros(random.u64(1_000..4_000_000)));
    match random.u8(..3) {
        0 => rate.shape(Shape::Fixed),
        1 if rate.shape(Shape::Bucket { burst: 1 }).check().is_ok() => {
            rate.shape(Shape::Bucket { burst: random.u32(1..9) })
        }
        _ => rate,
    }
}

fn random_config(random: &mut fastrand::Rng, now: Timestamp) -> QueueConfig {
    let until = random.bool().then(|| now.plus(Duration::from_micros(random.u64(..4_000_000))));
    let pause = || Pause { until, ..Pause::default() };
    let paused = [(name("b"), pause())].into_iter().filter(|_| random.u8(..4) == 0).collect();
    let kinds = [(name("l"), pause())].into_iter().filter(|_| random.u8(..6) == 0).collect();
    let rules = KeyRules {
        concurrency: random.bool().then(|| random.u32(1..5)),
        rate: random.bool().then(|| random_rate(random)),
        weights: [(name("a"), random.u32(1..4)), (name("d"), random.u32(1..9))].into(),
    };
    QueueConfig {
        pauses: Pauses { queue: (random.u8(..9) == 0).then(pause), kinds, keys: paused },
        concurrency: (random.u8(..4) == 0).then(|| random.u32(1..30)),
        rate: (random.u8(..6) == 0).then(|| random_rate(random)),
        keys: (random.u8(..9) > 0).then_some(rules),
        ..QueueConfig::default()
    }
}

/// Turns, weights, limits and pauses of keys, at odd instants.
#[tokio::test]
async fn gates_give_what_the_reference_gives() {
    for seed in 0..SEEDS {
        let (mut random, mut pair) = (fastrand::Rng::with_seed(seed), Pair::new().await);
        let mut taken = 0;
        pair.define(&keys(KeyRules::default())).await;
        for _ in 0..250 {
            match random.u8(..24) {
                0 => {
                    let config = random_config(&mut random, pair.stores[0].now().await.unwrap());
                    pair.define(&config).await;
                }
                1..4 => {
                    let count = random.usize(1..20);
                    pair.add(&mut random, count, &Options::new()).await;
                }
                4 => {
                    let options = Options::new().delay(Duration::from_micros(random.u64(..3_000_000)));
                    pair.add(&mut random, 3, &options).await;
                }
                5..8 => pair.settle(random.usize(..9), &Outcome::Completed { output: None }).await,
                8 => pair.settle(3, &Outcome::Returned).await,
                9 => {
                    pair.settle(3, &Outcome::Snooze { after: Duration::from_millis(random.u64(..900)) })
                        .await;
                }
                10..12 => pair.cancel(&mut random).await,
                12..16 => {
                    let most = [2_000, 100_000, 3_000_000][random.usize(..3)];
                    pair.scene.clock.advance(Duration::from_micros(random.u64(..most)));
                }
                _ => {
                    let (limit, at_once) = (random.u32(..30), random.u32(..30));
                    let kinds = if random.u8(..4) == 0 { &["k"][..] } else { &["k", "l"] };
                    taken += pair.claim(limit, at_once, kinds).await.0.len();
                }
            }
        }
        assert!(taken > 20, "seed {seed} took {taken} jobs");
    }
}

/// The names of all keys of the queue that are about gates.
fn kept(scene: &Scene) -> Vec<String> {
    let found = scene.server.command(&["KEYS", "*"]);
    let about = ["behind:", "open", "closed", "busy", "permits", "permits-back"].map(|key| scene.key(key));
    let is_about = |line: &&str| about.iter().any(|key| line.starts_with(key.as_str()));
    found.lines().filter(is_about).map(str::to_owned).collect()
}

/// A key that has no job and has spent nothing leaves nothing, and neither does a queue that is removed.
#[tokio::test]
async fn nothing_is_kept_of_a_key_without_jobs() {
    let (mut random, mut pair) = (fastrand::Rng::with_seed(7), Pair::new().await);
    let rules = KeyRules { concurrency: Some(3), rate: Some(Rate::new(9, TTL)), ..KeyRules::default() };
    pair.define(&keys(rules)).await;
    pair.add(&mut random, 60, &Options::new()).await;
    assert!(!kept(&pair.scene).is_empty());
    for _ in 0..60 {
        pair.claim(9, 9, &["k", "l"]).await;
        pair.settle(9, &Outcome::Completed { output: None }).await;
        pair.scene.clock.advance(TTL / 4);
    }
    pair.scene.clock.advance(2 * TTL);
    assert_eq!(pair.claim(9, 9, &["k", "l"]).await.0, []);
    assert_eq!(kept(&pair.scene), Vec::<String>::new());
    // What is spent and closed goes with the queue.
    pair.waiting.clear();
    pair.add(&mut random, 30, &Options::new()).await;
    pair.claim(9, 9, &["k", "l"]).await;
    pair.settle(99, &Outcome::Completed { output: None }).await;
    for store in &pair.stores {
        let all = store.list(&windlass_core::store::Filter::default(), None, 500).await.unwrap().jobs;
        let all: Vec<_> = all.iter().map(|job| job.id).collect();
        store.delete(all.as_slice().into()).await.unwrap();
        assert_eq!(store.remove(&name("bad")).await.unwrap(), Removed::Done);
    }
    assert_eq!(kept(&pair.scene), Vec::<String>::new());
}

/// A form that this program does not know is passed over behind its gate, and stands there when another program knows it.
#[tokio::test]
async fn a_job_of_an_unknown_form_holds_up_none_of_its_key() {
    let scene = Scene::new().await;
    scene.store.define(&name("bad"), &keys(KeyRules::default())).await.unwrap();
    let strange = scene.add("bad", Options::new().key("a").tag("t")).await;
    let other = scene.add("bad", Options::new().key("a")).await;
    let before = scene.put(strange, 1, 240 + 2);
    assert_eq!(ids(&scene.claim(9).await.jobs), [other]);
    assert_eq!(scene.claim(9).await.jobs, []);
    scene.put(strange, 1, before);
    let jobs = scene.claim(9).await.jobs;
    assert_eq!((ids(&jobs), jobs[0].key.clone()), (vec![strange], Some(name("a"))));
}

/// A call for several queues is refused before anything of it is stored, and accepted as a whole.
#[tokio::test]
async fn keys_travel_to_other_queues() {
    let scene = Scene::new().await;
    let job = |queue: &str, key: &str| {
        NewJob::new("k", vec![7; 2_000], Options::new().queue(queue).key(key).tag("t")).unwrap()
    };
    let jobs = [job("good", "a"), job("bad", "b")];
    scene.store.define(&name("good"), &keys(KeyRules::default())).await.unwrap();
    let refused = scene.store.enqueue(jobs.as_slice().into()).await.unwrap_err();
    assert!(refused.to_string().starts_with("queue bad takes no jobs with a key"), "{refused}");
    assert_eq!(scene.store.get([jobs[0].id].into()).await.unwrap(), [None]);
    scene.store.define(&name("bad"), &keys(KeyRules::default())).await.unwrap();
    scene.store.enqueue(jobs.as_slice().into()).await.unwrap();
    let mut claimed = scene.claim(9).await.jobs;
    claimed.sort_by_key(|claimed| jobs.iter().position(|job| job.id == claimed.id));
    let found: Vec<_> = claimed.iter().map(|job| job.key.clone()).collect();
    assert_eq!(found, [Some(name("a")), Some(name("b"))]);
    assert_eq!(claimed[0].tags, [name("t")]);
    scene.store.promote(9).await.unwrap();
}
