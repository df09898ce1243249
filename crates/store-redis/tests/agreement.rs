//! Random work by several workers; after it every key of every queue agrees with the jobs' records: nothing stands in an
//! order without a job, no job is missing in one, and what is counted is there.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::follow_ups::FollowUps;
use windlass_core::options::Due;
use windlass_core::outcome::Failure;
use windlass_core::queue::{Keep, KeyRules, QueueConfig, Rate, Retention, Shape};
use windlass_core::record::{Expect, RecordKey, RecordWrite};
use windlass_core::store::{
    AttemptWrite, Begin, ClaimAnswer, ClaimRequest, Jobs, Leases, Maintenance, NewLease, Progress,
    QueueShare, Queues, Records, Renewal, Right, Settlement,
};
use windlass_core::unique::Unique;
use windlass_core::{ClaimedJob, JobId, LeaseId, Name, NewJob, Options, Outcome, judge};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

const CHECK: &str = include_str!("agreement/check.lua");
const TTL: Duration = Duration::from_secs(30);
const QUEUES: [&str; 3] = ["a", "b", "c"];
const KINDS: [&str; 2] = ["k", "l"];
const SEEDS: u64 = 6;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Workers that do anything at any time.
struct Play {
    store: RedisStore,
    clock: ManualClock,
    random: fastrand::Rng,
    leases: Vec<LeaseId>,
    ids: Vec<JobId>,
    running: Vec<ClaimedJob>,
}

impl Play {
    fn pick(&mut self, most: usize) -> Vec<JobId> {
        let count = self.random.usize(1..=most);
        let recent = self.ids.len().saturating_sub(400);
        (0..count).filter_map(|_| self.random.choice(&self.ids[recent..]).copied()).collect()
    }

    fn job(&mut self) -> NewJob {
        let random = &mut self.random;
        let mut options = Options::new().queue(QUEUES[random.usize(..3)]);
        if random.u8(..4) == 0 {
            options = options.priority(random.i16(-2..3));
        }
        if random.u8(..4) == 0 {
            options = options.delay(Duration::from_millis(random.u64(..9_000)));
        }
        if random.u8(..4) == 0 {
            options = options.expires_in(Duration::from_millis(random.u64(..9_000)));
        }
        let length = match random.u16(..3_000) {
            0..4 => 300_000,
            4..500 => 2_000,
            _ => 5,
        };
        if random.u8(..4) == 0 {
            options = options.unique(unique(random)).delay(Duration::from_millis(random.u64(..3_000)));
        }
        let payload = vec![7; length];
        let mut job = NewJob::new(KINDS[random.usize(..2)], payload, options).unwrap();
        if random.u8(..8) == 0 {
            job.due = Due::Held;
        }
        // At times an id that was there before, and may be free again.
        match self.random.choice(&self.ids) {
            Some(id) if self.random.u8(..20) == 0 => job.with_id(*id),
            _ => job,
        }
    }

    async fn enqueue(&mut self) {
        let most = if self.random.u8(..10) == 0 { 1_500 } else { 30 };
        let count = self.random.usize(1..most);
        let queue = (self.random.u8(..2) == 0).then(|| name(QUEUES[self.random.usize(..3)]));
        let mut jobs: Vec<_> = (0..count).map(|_| self.job()).collect();
        for job in &mut jobs {
            job.queue = queue.clone().unwrap_or_else(|| job.queue.clone());
            self.give_key(job);
        }
        // Refused as a whole where an id is taken by another job.
        if self.store.enqueue(jobs.as_slice().into()).await.is_ok() {
            self.ids.extend(jobs.iter().map(|job| job.id));
        }
    }

    fn give_key(&mut self, job: &mut NewJob) {
        if job.queue.as_str() == QUEUES[1] && self.random.bool() {
            job.key = Some(name(["x", "yy", "z:z"][self.random.usize(..3)]));
        }
    }

    /// What an attempt writes: its end, mostly, and something that follows.
    fn following(&mut self, job: &ClaimedJob) -> AttemptWrite {
        let Settlement { queue, id, fence, transition } = settlement(job, self.outcome());
        let mut jobs: Vec<_> = (0..self.random.usize(..3)).map(|_| self.job()).collect();
        for job in &mut jobs {
            if self.random.u8(..3) > 0 {
                job.queue = queue.clone();
            }
            self.give_key(job);
        }
        self.ids.extend(jobs.iter().map(|job| job.id));
        let mut records: Vec<_> = (0..self.random.usize(..3)).map(|_| self.record()).collect();
        records.sort_by(|one, other| one.key.cmp(&other.key));
        records.dedup_by(|one, other| one.key == other.key);
        let transition = (self.random.u8(..5) > 0).then_some(transition);
        AttemptWrite { queue, id, fence, transition, then: FollowUps { jobs, records } }
    }

    fn record(&mut self) -> RecordWrite {
        let random = &mut self.random;
        let key = RecordKey::new(format!("k{}", random.u8(..30))).unwrap();
        let write = match random.u8(..4) {
            0 => RecordWrite::remove(key),
            1 => RecordWrite::put(key, vec![b'v'; 2_000]),
            _ => RecordWrite::put(key, "short"),
        };
        let write = if random.bool() { write.ttl(Duration::from_millis(random.u64(..5_000))) } else { write };
        if random.u8(..6) == 0 { write.expect(Expect::Absent) } else { write }
    }

    async fn follow(&mut self) {
        self.random.shuffle(&mut self.running);
        let keep = self.random.usize(..=self.running.len() / 2);
        let ended = self.running.split_off(keep);
        let items: Vec<_> = ended.iter().map(|job| self.following(job)).collect();
        for right in [Right::Fence, Right::Late] {
            self.store.write_fenced(right, items.as_slice().into()).await.unwrap();
        }
        // What was refused, or goes on, may end in other ways.
        self.running.extend(ended.into_iter().take(30));
    }

    async fn claim(&mut self) {
        let place = self.random.usize(..self.leases.len());
        let share = |queue| QueueShare { queue: name(queue), limit: 200 };
        let request = ClaimRequest {
            lease: self.leases[place],
            nonce: windlass_core::Fence::nonce(),
            queues: QUEUES.into_iter().map(share).collect(),
            kinds: KINDS[..self.random.usize(1..=2)].iter().map(|kind| name(kind)).collect(),
            limit: self.random.u32(1..120),
            at_once: self.random.u32(1..120),
            bytes: if self.random.bool() { usize::MAX } else { 10_000 },
        };
        match self.store.claim(request.clone()).await.unwrap() {
            ClaimAnswer::Jobs { jobs, .. } => self.running.extend(jobs),
            ClaimAnswer::LeaseLost => self.leases[place] = open(&self.store).await,
        }
    }

    fn outcome(&mut self) -> Outcome {
        let failure = Failure::error("no");
        let after = Duration::from_millis(self.random.u64(..5_000));
        match self.random.u8(..9) {
            0..3 => Outcome::Completed { output: self.random.bool().then(|| "out".into()) },
            3 => Outcome::Retry { failure },
            4 => Outcome::RetryAfter { after, failure },
            5 => Outcome::Fail { failure },
            6 => Outcome::Snooze { after },
            7 => Outcome::Discard { why: "why".to_owned() },
            _ => Outcome::Returned,
        }
    }

    async fn settle(&mut self) {
        self.random.shuffle(&mut self.running);
        let keep = self.random.usize(..=self.running.len() / 2);
        let ended = self.running.split_off(keep);
        let settlements: Vec<_> = ended.iter().map(|job| settlement(job, self.outcome())).collect();
        self.store.settle(settlements.as_slice().into()).await.unwrap();
        // Some were reaped meanwhile, and come to their end all the same.
        self.store.settle_late(settlements.as_slice().into()).await.unwrap();
        // Those that somebody asked to stop hear of it here, or never.
        for lease in self.leases.clone() {
            if self.random.bool() {
                assert!(matches!(
                    self.store.renew(lease, TTL, 9).await,
                    Ok(Renewal::Lost | Renewal::Renewed { .. })
                ));
            }
        }
    }

    async fn report(&self) {
        let reports = self.running.iter().take(5).map(|job| Progress {
            queue: job.queue.clone(),
            id: job.id,
            fence: job.fence,
            progress: "half".into(),
        });
        self.store.progress(reports.collect::<Vec<_>>().into()).await.unwrap();
        let begun = self.running.iter().skip(3).take(20).map(|job| Begin {
            queue: job.queue.clone(),
            id: job.id,
            fence: job.fence,
        });
        self.store.begin(begun.collect::<Vec<_>>().into()).await.unwrap();
    }

    async fn reap(&self) {
        let lost = self.store.lost(100).await.unwrap();
        let settlements = lost.iter().map(|job| Settlement {
            queue: job.queue.clone(),
            id: job.id,
            fence: job.fence,
            transition: judge(&job.facts, job.outcome(), 0.5),
        });
        self.store.reap(settlements.collect::<Vec<_>>().into()).await.unwrap();
        self.store.sweep(10).await.unwrap();
    }

    async fn define(&mut self) {
        let mut keep = |count| Keep { count: self.random.bool().then_some(count), age: None };
        let retention = Retention { completed: keep(0), dead: keep(3), cancelled: keep(0) };
        let queue = name(QUEUES[self.random.usize(..3)]);
        let concurrency = (self.random.u8(..3) == 0).then_some(150);
        let per = Duration::from_millis(self.random.u64(500..4_000));
        let rate = (self.random.u8(..3) == 0).then(|| Rate::new(100, per));
        let config = QueueConfig { retention, concurrency, rate, ..QueueConfig::default() };
        let keys = keys(&mut self.random);
        // The other queues take no job with a key.
        let config =
            if queue.as_str() == QUEUES[1] { QueueConfig { keys: Some(keys), ..config } } else { config };
        self.store.define(&queue, &config).await.unwrap();
    }

    async fn step(&mut self) {
        // No two steps in one instant, as on a clock that goes.
        self.clock.advance(Duration::from_micros(1));
        match self.random.u8(..28) {
            0..5 => self.enqueue().await,
            5..10 => self.claim().await,
            10..14 => self.settle().await,
            14 => {
                let ids = self.pick(60);
                self.store.cancel(ids.as_slice().into()).await.unwrap();
            }
            15 => {
                let ids = self.pick(60);
                self.store.retry(ids.as_slice().into()).await.unwrap();
            }
            16 => {
                let ids = self.pick(60);
                self.store.delete(ids.as_slice().into()).await.unwrap();
            }
            17 => self.clock.advance(Duration::from_millis(self.random.u64(..4_000))),
            18 => {
                self.store.promote(self.random.u32(1..300)).await.unwrap();
                self.store.tidy(9).await.unwrap();
            }
            19 => drop(self.store.prune(self.random.u32(1..300)).await.unwrap()),
            20 => self.reap().await,
            21 | 23 if self.random.u8(..3) > 0 => self.report().await,
            22 => self.define().await,
            24..28 => self.follow().await,
            _ if self.random.u8(..6) == 0 => {
                let place = self.random.usize(..self.leases.len());
                self.store.close(self.leases[place]).await.unwrap();
            }
            _ => {}
        }
    }
}

fn keys(random: &mut fastrand::Rng) -> KeyRules {
    let rate = Rate::new(random.u32(1..40), Duration::from_millis(random.u64(500..4_000)));
    let bucket = rate.shape(Shape::Bucket { burst: 9 });
    KeyRules {
        concurrency: random.bool().then(|| random.u32(1..60)),
        rate: random.bool().then(|| if random.bool() { rate } else { bucket }),
        weights: [(name("yy"), random.u32(1..5))].into(),
    }
}

fn unique(random: &mut fastrand::Rng) -> Unique {
    let unique = Unique::key(random.u8(..20).to_string()).across_kinds();
    let unique = match random.u8(..4) {
        0 => unique.until_start(),
        1 => unique.for_window(Duration::from_millis(random.u64(1..5_000))),
        _ => unique,
    };
    match random.u8(..3) {
        0 => unique.replace(),
        1 => unique.debounce(random.bool().then_some(Duration::from_secs(3))),
        _ => unique,
    }
}

fn settlement(job: &ClaimedJob, outcome: Outcome) -> Settlement {
    let transition = judge(&job.facts, outcome, 0.5);
    Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
}

async fn open(store: &RedisStore) -> LeaseId {
    let queues = QUEUES.map(name).to_vec();
    let lease = NewLease { id: LeaseId::new(), worker: "w".into(), ttl: TTL, queues, kinds: Vec::new() };
    store.open(&lease).await.unwrap();
    lease.id
}

#[tokio::test]
async fn every_key_agrees_with_the_records() {
    let server = RedisServer::start(&RedisSettings::default());
    for seed in 0..SEEDS {
        server.command(&["FLUSHALL"]);
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
        let options = RedisOptions::parse(&server.url()).unwrap().clock(Arc::new(clock.clone()));
        let store = RedisStore::open_with(options).await.unwrap();
        let leases = vec![open(&store).await, open(&store).await];
        let random = fastrand::Rng::with_seed(seed);
        let keyed = QueueConfig { keys: Some(KeyRules::default()), ..QueueConfig::default() };
        store.define(&name(QUEUES[1]), &keyed).await.unwrap();
        let mut play = Play { store, clock, random, leases, ids: Vec::new(), running: Vec::new() };
        for step in 0..120 {
            play.step().await;
            if step % 10 == 9 {
                for queue in QUEUES {
                    assert_eq!(wrong(&server, queue), "", "seed {seed}, step {step}, queue {queue}");
                }
            }
        }
    }
    for (command, key, words) in [
        ("HINCRBY", "meta", &["c2", "1"][..]),
        ("HINCRBY", "meta", &["c0", "1"]),
        ("HINCRBY", "live", &["9999", "1"]),
        ("ZADD", "scheduled", &["1", "12345678abcdefghabcdefgh"]),
        ("ZADD", "ready:k", &["0", "1234567812345678abcdefghabcdefgh"]),
        ("RPUSH", "line:k", &["1234567812345678abcdefghabcdefgh"]),
        ("SADD", "running:00", &["abcdefghabcdefgh"]),
        ("HSET", "progress", &["abcdefghabcdefgh", "half"]),
        ("HSET", "uniques", &["0123456701234567", "abcdefghabcdefgh12345678"]),
        ("ZADD", "windows", &["1", "7654321076543210"]),
        ("HINCRBY", "meta", &["spent", "1"]),
        ("HINCRBY", "meta", &["behind", "1"]),
        ("ZADD", "behind:q", &["0", "1234567812345678abcdefghabcdefghk"]),
        ("HINCRBY", "busy", &["q", "1"]),
        ("HSET", "permits", &["q", "12345678"]),
        ("HSET", "records", &["q", "12345678123456781234567812340"]),
        ("HSET", "record-values", &["r", "value"]),
        ("ZADD", "record-keys", &["0", "s"]),
        ("ZADD", "record-expiry", &["1", "t"]),
    ] {
        let before = wrong(&server, "c").lines().count();
        let key = format!("wl:{{windlass:c}}:{key}");
        server.command(&[&[command, &key], words].concat());
        assert!(wrong(&server, "c").lines().count() > before, "{command} {key} is not noticed");
    }
}

/// What does not agree in a queue.
fn wrong(server: &RedisServer, queue: &str) -> String {
    server.command(&["EVAL", CHECK, "1", &format!("wl:{{windlass:{queue}}}:meta")])
}
