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
use windlass_core::unique::Unique;
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

/// One script looks at few gates that have many jobs of other kinds in front: the claim goes on behind them, in another.
#[tokio::test]
async fn a_kind_is_found_behind_many_gates_of_others() {
    let (mut pair, gates) = (Pair::new().await, 400);
    pair.define(&keys(KeyRules::default())).await;
    let job = |kind: &str, key: String| NewJob::new(kind, "", Options::new().queue("bad").key(key)).unwrap();
    let mut jobs: Vec<_> = (0..gates * 101).map(|i| job("l", format!("a{:03}", i % gates))).collect();
    jobs.extend((0..3).map(|i| job("k", format!("b{i}"))));
    for store in &pair.stores {
        for some in jobs.chunks(1_000) {
            store.enqueue(some.into()).await.unwrap();
        }
    }
    let rare: Vec<_> = jobs[jobs.len() - 3..].iter().map(|job| job.id).collect();
    assert_eq!(pair.claim(2, 2, &["k"]).await.0, rare[..2]);
    assert_eq!(pair.claim(2, 2, &["k"]).await.0, rare[2..]);
    assert_eq!(pair.claim(2, 2, &["k"]).await.0, []);
    assert_eq!(pair.claim(40, 40, &["k", "l"]).await.0.len(), 40);
}

/// Those of the level 0 that are fresh stand apart from all others of their kind, and count as a level all the same.
#[tokio::test]
async fn many_levels_give_what_the_reference_gives() {
    for seed in 0..SEEDS {
        let (mut random, mut pair) = (fastrand::Rng::with_seed(seed), Pair::new().await);
        let aging = Some(Duration::from_millis(1 << random.u32(..5)));
        pair.define(&QueueConfig { aging, ..QueueConfig::default() }).await;
        // As many as a claim looks at with the level 0, or more; that is the highest, the lowest, or between.
        let (lowest, count) = ([1, -100, -30][random.usize(..3)], 99 + random.i16(0..20));
        for _ in 0..2 {
            let mut levels: Vec<_> = (lowest..lowest + count).chain([0, 0]).collect();
            random.shuffle(&mut levels);
            let job = |level| NewJob::new("k", "", Options::new().queue("bad").priority(level)).unwrap();
            let jobs: Vec<_> = levels.into_iter().map(job).collect();
            for store in &pair.stores {
                store.enqueue(jobs.as_slice().into()).await.unwrap();
            }
            pair.scene.clock.advance(Duration::from_millis(random.u64(..200)));
        }
        let mut taken = 0;
        loop {
            let given = pair.claim(random.u32(1..40), 40, &["k", "l"]).await.0.len();
            taken += given;
            if given == 0 {
                break;
            }
            if random.u8(..3) == 0 {
                pair.settle(random.usize(..9), &Outcome::Returned).await;
            }
        }
        assert!(taken > 200, "seed {seed} took {taken} jobs");
    }
}

/// Jobs in a row that are alike are accepted together where all is new, and one by one where something is not.
#[tokio::test]
async fn calls_of_alike_jobs_are_answered_as_the_reference_answers() {
    for seed in 0..SEEDS {
        let (mut random, mut pair) = (fastrand::Rng::with_seed(seed), Pair::new().await);
        pair.define(&keys(KeyRules::default())).await;
        let mut next = 0;
        for _ in 0..12 {
            let mut jobs = Vec::new();
            for _ in 0..random.usize(1..5) {
                let (sort, lifetime, is_repeated) = (random.u8(..6), random.u8(..4), random.u8(..4) == 0);
                for _ in 0..random.usize(1..150) {
                    next += 1;
                    let number = if is_repeated { random.u32(..=next) } else { next };
                    let unique = Unique::key(number.to_string());
                    let unique = match lifetime {
                        0 => unique.until_start(),
                        1 => unique.for_window(Duration::from_secs(9)),
                        _ => unique,
                    };
                    let options = Options::new().queue("bad");
                    let options = match sort {
                        0 => options,
                        1 => options.unique(unique).key("a"),
                        2 => options.unique(unique).delay(3_600 * TTL),
                        3 => options.unique(unique).priority(1),
                        _ => options.unique(unique),
                    };
                    jobs.push(NewJob::new("k", "payload", options).unwrap());
                }
            }
            let mut answers = Vec::new();
            for store in &pair.stores {
                answers.push(store.enqueue(jobs.as_slice().into()).await.unwrap());
            }
            assert_eq!(answers[0], answers[1], "seed {seed}");
            pair.scene.clock.advance(Duration::from_millis(random.u64(..900)));
            pair.claim(random.u32(..90), 90, &["k"]).await;
            pair.settle(random.usize(..50), &Outcome::Completed { output: None }).await;
        }
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
