//! Rules of queues: the scripts decide as the reference does, what they keep stays small and goes with the queue, and what is
//! wrong with it harms nothing else.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "harness/two_queues.rs"]
mod two_queues;

use std::sync::Arc;
use std::time::Duration;

use two_queues::{Scene, TTL, ids, name};
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Pause, Pauses, QueueConfig, Rate, Removed, Shape};
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, NewLease, QueueShare, Queues, Settlement, SharedStore,
};
use windlass_core::{ClaimedJob, Fence, JobId, LeaseId, NewJob, Options, Outcome, judge};
use windlass_store_memory::MemoryStore;

const SEEDS: u64 = 12;

fn rate(rate: Rate) -> QueueConfig {
    QueueConfig { rate: Some(rate), ..QueueConfig::default() }
}

/// The reference and the store under test, on one clock.
struct Pair {
    scene: Scene,
    stores: [SharedStore; 2],
    leases: [LeaseId; 2],
    /// What runs in each, in the same order.
    running: [Vec<ClaimedJob>; 2],
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
        Self { scene, stores, leases, running: [Vec::new(), Vec::new()] }
    }

    async fn define(&self, config: &QueueConfig) {
        for store in &self.stores {
            store.define(&name("bad"), config).await.unwrap();
        }
    }

    async fn add(&self, count: usize, options: Options) {
        let job = |place| {
            let kind = if place % 3 == 0 { "l" } else { "k" };
            NewJob::new(kind, "payload", options.clone().queue("bad")).unwrap()
        };
        let jobs: Vec<_> = (0..count).map(job).collect();
        for store in &self.stores {
            store.enqueue(jobs.as_slice().into()).await.unwrap();
        }
    }

    /// What both hand out, which is the same, and when to come again.
    async fn claim(&mut self, limit: u32, at_once: u32) -> (Vec<JobId>, Option<Duration>) {
        let nonce = Fence::nonce();
        let mut answers = Vec::new();
        for side in 0..2 {
            let request = ClaimRequest {
                lease: self.leases[side],
                nonce,
                queues: vec![QueueShare { queue: name("bad"), limit }],
                kinds: vec![name("k"), name("l")],
                limit,
                at_once,
                bytes: usize::MAX,
            };
            let ClaimAnswer::Jobs { jobs, next_due, .. } = self.stores[side].claim(request).await.unwrap()
            else {
                panic!("the lease lives")
            };
            answers.push((ids(&jobs), next_due));
            self.running[side].extend(jobs);
        }
        assert_eq!(answers[0], answers[1]);
        answers.remove(1)
    }

    async fn settle(&mut self, count: usize) {
        for (store, running) in self.stores.iter().zip(&mut self.running) {
            let count = count.min(running.len());
            let ended: Vec<_> = running
                .drain(..count)
                .map(|job| {
                    let transition = judge(&job.facts, Outcome::Completed { output: None }, 0.5);
                    Settlement { queue: job.queue, id: job.id, fence: job.fence, transition }
                })
                .collect();
            store.settle(ended.as_slice().into()).await.unwrap();
        }
    }

    /// How many entries there are, how many permits they have together, and how many META says.
    fn spent(&self) -> (usize, u64, u64) {
        let script = "local sum, entries = 0, redis.call('ZRANGE', KEYS[1], 0, -1) \
             for _, entry in ipairs(entries) do sum = sum + struct.unpack('>I8', entry, 9) end \
             return { #entries, sum, redis.call('HGET', KEYS[2], 'spent') or '0' }";
        let [spent, meta] = ["spent", "meta"].map(|key| self.scene.key(key));
        let found = self.scene.server.command(&["EVAL", script, "2", &spent, &meta]);
        let found: Vec<u64> = found.lines().map(|line| line.trim().parse().unwrap()).collect();
        (usize::try_from(found[0]).unwrap(), found[1], found[2])
    }
}

fn random_rate(random: &mut fastrand::Rng) -> Rate {
    let per = match random.u8(..4) {
        0 => Duration::from_millis(random.u64(1..5)),
        1 => Duration::from_micros(random.u64(1_000..5_000_000)),
        _ => Duration::from_secs(random.u64(1..20)),
    };
    let most = if random.bool() { 5 } else { 40 };
    let rate = Rate::new(random.u32(1..most), per);
    let shaped = match random.u8(..3) {
        0 => rate.shape(Shape::Fixed),
        1 => rate.shape(Shape::Bucket { burst: random.u32(1..most) }),
        _ => rate,
    };
    if shaped.check().is_ok() { shaped } else { rate }
}

fn random_config(random: &mut fastrand::Rng, now: Timestamp) -> QueueConfig {
    let mut pause = || Pause {
        until: random.bool().then(|| now.plus(Duration::from_micros(random.u64(..4_000_000)))),
        ..Pause::default()
    };
    let (queue, kind) = (pause(), pause());
    let kinds = [(name("l"), kind)].into_iter().filter(|_| random.u8(..4) == 0).collect();
    QueueConfig {
        pauses: Pauses { queue: (random.u8(..5) == 0).then_some(queue), kinds, ..Pauses::default() },
        concurrency: (random.u8(..3) == 0).then(|| random.u32(1..9)),
        rate: (random.u8(..4) > 0).then(|| random_rate(random)),
        ..QueueConfig::default()
    }
}

/// All shapes of rates, one after the other, with pauses and concurrency, at odd instants.
#[tokio::test]
async fn rules_leave_what_the_reference_leaves() {
    for seed in 0..SEEDS {
        let (mut random, mut pair) = (fastrand::Rng::with_seed(seed), Pair::new().await);
        let mut taken = 0;
        for step in 0..250 {
            match random.u8(..20) {
                0 => {
                    let config = random_config(&mut random, pair.stores[0].now().await.unwrap());
                    pair.define(&config).await;
                }
                1..4 => pair.add(random.usize(1..20), Options::new()).await,
                4 => pair.add(2, Options::new().delay(Duration::from_micros(random.u64(..3_000_000)))).await,
                5..8 => pair.settle(random.usize(..9)).await,
                8..13 => {
                    let most = [2_000, 100_000, 3_000_000][random.usize(..3)];
                    pair.scene.clock.advance(Duration::from_micros(random.u64(..most)));
                }
                _ => {
                    let (limit, at_once) = (random.u32(..30), random.u32(..30));
                    taken += pair.claim(limit, at_once).await.0.len();
                }
            }
            if step % 10 == 9 {
                let (_, sum, said) = pair.spent();
                assert_eq!(sum, said, "seed {seed}, step {step}");
            }
        }
        assert!(taken > 20, "seed {seed} took {taken} jobs");
    }
}

/// What is kept of a sliding rate is bounded by its steps, and goes when it has come back.
#[tokio::test]
async fn few_entries_are_kept_of_a_rate() {
    let mut pair = Pair::new().await;
    pair.define(&rate(Rate::new(1_000, Duration::from_secs(1)))).await;
    pair.add(300, Options::new()).await;
    for _ in 0..300 {
        assert_eq!(pair.claim(1, 1).await.0.len(), 1);
        pair.scene.clock.advance(Duration::from_micros(100));
    }
    let (entries, sum, _) = pair.spent();
    assert!(entries <= 31 && sum == 300, "{entries} entries of {sum} permits");
    pair.scene.clock.advance(Duration::from_secs(2));
    assert_eq!(pair.claim(9, 9).await, (Vec::new(), None));
    assert_eq!(pair.spent(), (0, 0, 0));
}

/// More entries than one script removes are removed by several, in one claim.
#[tokio::test]
async fn many_permits_come_back_at_once() {
    let scene = Scene::new().await;
    scene.store.define(&name("bad"), &rate(Rate::new(9, TTL))).await.unwrap();
    scene.add("bad", Options::new()).await;
    let script = "for i = 1, 5000 do redis.call('ZADD', KEYS[1], i, struct.pack('>I8I8', i, 1)) end \
         return redis.call('HSET', KEYS[2], 'spent', 5000)";
    scene.server.command(&["EVAL", script, "2", &scene.key("spent"), &scene.key("meta")]);
    assert_eq!(scene.claim(9).await.jobs.len(), 1);
    assert_eq!(scene.server.command(&["ZCARD", &scene.key("spent")]), "1");
    assert_eq!(scene.server.command(&["HGET", &scene.key("meta"), "spent"]), "1");
}

/// Nothing of a rate outlives its queue, and a queue without jobs is gone although it was spent.
#[tokio::test]
async fn a_removed_queue_has_spent_nothing() {
    let mut pair = Pair::new().await;
    for shape in [Shape::Sliding, Shape::Bucket { burst: 2 }] {
        let config = rate(Rate::new(2, Duration::from_secs(600)).shape(shape));
        for _ in 0..2 {
            pair.define(&config).await;
            pair.add(3, Options::new()).await;
            assert_eq!(pair.claim(9, 9).await.0.len(), 2);
            pair.define(&QueueConfig::default()).await;
            assert_eq!(pair.claim(9, 9).await.0.len(), 1);
            let running: Vec<_> = pair.running[0].iter().map(|job| job.id).collect();
            pair.settle(9).await;
            for store in &pair.stores {
                store.delete(running.as_slice().into()).await.unwrap();
                assert_eq!(store.remove(&name("bad")).await.unwrap(), Removed::Done);
            }
            assert_eq!(pair.scene.server.command(&["EXISTS", &pair.scene.key("spent")]), "0");
        }
    }
}

/// Entries without their sum are those of a queue that was removed by a program which did not know them; a sum without
/// entries would never come back.
#[tokio::test]
async fn what_is_left_of_another_queue_counts_for_nothing() {
    for lost in ["HDEL meta spent", "DEL spent"] {
        let mut pair = Pair::new().await;
        pair.define(&rate(Rate::new(2, Duration::from_secs(600)))).await;
        pair.add(9, Options::new()).await;
        assert_eq!(pair.claim(9, 9).await.0.len(), 2);
        let words: Vec<_> = lost.split(' ').collect();
        let key = pair.scene.key(words[1]);
        pair.scene.server.command(&[&[words[0], &key], &words[2..]].concat());
        assert_eq!(pair.scene.claim(9).await.jobs.len(), 2, "{lost}");
        assert_eq!(pair.scene.claim(9).await.jobs.len(), 0, "{lost}");
        let (_, sum, said) = pair.spent();
        assert_eq!((sum, said), (2, 2), "{lost}");
    }
}

/// A queue whose rules cannot be told hands out nothing, and is named.
#[tokio::test]
async fn rules_that_do_not_read_keep_the_queue_closed() {
    for wrong in ["{not", "7", r#"{"concurrency":"many"}"#, "spent"] {
        let scene = Scene::new().await;
        scene.store.define(&name("bad"), &rate(Rate::new(9, TTL))).await.unwrap();
        let bad = scene.add("bad", Options::new()).await;
        assert_eq!(ids(&scene.claim(9).await.jobs), [bad]);
        scene.add("bad", Options::new()).await;
        let good = scene.add("good", Options::new()).await;
        match wrong {
            "spent" => scene.spoil("spent"),
            config => drop(scene.server.command(&["HSET", &scene.key("meta"), "config", config])),
        }
        let claimed = scene.claim(9).await;
        assert_eq!(ids(&claimed.jobs), [good], "{wrong}");
        assert_eq!(claimed.sick.iter().map(|sick| &sick.queue).collect::<Vec<_>>(), [&name("bad")]);
    }
}

/// A definition is the same if it says the same, whatever its text looks like.
#[tokio::test]
async fn a_definition_in_another_form_is_the_same() {
    let scene = Scene::new().await;
    let (queue, limited) = (name("bad"), QueueConfig { concurrency: Some(7), ..QueueConfig::default() });
    scene.store.define(&queue, &limited).await.unwrap();
    let other_form = r#"{ "rate": null, "pauses": {"queue": null}, "concurrency": 7 }"#;
    scene.server.command(&["HSET", &scene.key("meta"), "config", other_form]);
    assert!(!scene.store.redefine(&queue, &QueueConfig::default(), &limited).await.unwrap());
    scene.add("bad", Options::new()).await;
    assert_eq!(scene.claim(9).await.jobs.len(), 1, "and the script reads it");
    let more = QueueConfig { concurrency: Some(8), ..QueueConfig::default() };
    assert!(scene.store.redefine(&queue, &limited, &more).await.unwrap());
    assert_eq!(scene.store.queues(None, 9).await.unwrap()[0].config, more);
}

/// On a server whose memory is full what was accepted goes its way, also by a rate.
#[tokio::test]
async fn a_full_server_hands_out_what_a_rate_permits() {
    let mut pair = Pair::new().await;
    for shape in [Shape::Sliding, Shape::Fixed, Shape::Bucket { burst: 4 }] {
        let config = rate(Rate::new(4, Duration::from_secs(1)).shape(shape));
        pair.define(&QueueConfig { concurrency: Some(4), ..config }).await;
        pair.add(8, Options::new()).await;
        pair.scene.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        for _ in 0..2 {
            pair.scene.clock.advance(Duration::from_secs(60));
            assert_eq!(pair.claim(3, 9).await.0.len(), 3);
            assert_eq!(pair.claim(3, 9).await.0.len(), 1);
            pair.settle(9).await;
        }
        pair.scene.server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    }
}
