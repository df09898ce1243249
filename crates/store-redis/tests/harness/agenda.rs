//! A server of its own, stores on a clock that a test moves, and what maintenance has written down.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::outcome::Failure;
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Jobs, Leases, Maintenance, NewLease, QueueShare, Settlement,
};
use windlass_core::{ClaimedJob, Fence, LeaseId, Name, NewJob, Options, Outcome, judge};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

pub(crate) struct Scene {
    pub(crate) server: RedisServer,
    pub(crate) clock: ManualClock,
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn job(queue: &str, options: Options) -> NewJob {
    NewJob::new("k", "", options.queue(queue)).unwrap()
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let server = RedisServer::start(&RedisSettings::default());
        let scene = Self { server, clock: ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000)) };
        // Every script is known to the server from here on, so that each counts once.
        let store = scene.open().await;
        store.enqueue([job("warm", Options::new().delay(Duration::from_secs(1)))].into()).await.unwrap();
        for _ in 0..2 {
            scene.round(&store).await;
            scene.clock.advance(Duration::from_secs(2));
        }
        scene.server.command(&["FLUSHDB"]);
        scene
    }

    /// What another process is.
    pub(crate) async fn open(&self) -> RedisStore {
        let options = RedisOptions::parse(&self.server.url()).unwrap().clock(Arc::new(self.clock.clone()));
        RedisStore::open_with(options).await.unwrap()
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("wl:{{windlass}}:{name}")
    }

    pub(crate) fn queue_key(&self, queue: &str, name: &str) -> String {
        format!("wl:{{windlass:{queue}}}:{name}")
    }

    /// Names of queues that were used once, and hold nothing.
    pub(crate) fn register(&self, count: usize, prefix: &str) {
        let fill = "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], 0, ARGV[2] .. i) end return 1";
        self.server.command(&["EVAL", fill, "1", &self.key("queues"), &count.to_string(), prefix]);
    }

    /// The members of an order beside the names of queues, in byte order.
    pub(crate) fn members(&self, key: &str) -> Vec<String> {
        let found = self.server.command(&["ZRANGE", &self.key(key), "0", "-1"]);
        let mut members: Vec<_> = found.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        members.sort_unstable();
        members
    }

    /// One round of everything that a worker does for others.
    pub(crate) async fn round(&self, store: &RedisStore) {
        store.lost(500).await.unwrap();
        store.sweep(500).await.unwrap();
        store.promote(500).await.unwrap();
        store.tidy(500).await.unwrap();
        store.prune(500).await.unwrap();
    }

    /// How many scripts the server runs meanwhile.
    pub(crate) async fn scripts(&self, mut work: impl AsyncFnMut()) -> u64 {
        self.server.command(&["CONFIG", "RESETSTAT"]);
        work().await;
        let stats = self.server.command(&["INFO", "commandstats"]);
        let calls = |verb: &str| {
            let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{verb}:calls=")));
            line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
        };
        calls("evalsha") + calls("eval")
    }

    /// Rounds for an hour and a half at most, a minute apart, until a job is promoted.
    pub(crate) async fn until_promoted(&self, store: &RedisStore) {
        for _ in 0..90 {
            if store.promote(9).await.unwrap().promoted > 0 {
                return;
            }
            self.clock.advance(Duration::from_secs(60));
        }
        panic!("no round has promoted it");
    }

    pub(crate) async fn lease(&self, store: &RedisStore, queues: &[&str]) -> LeaseId {
        self.lease_for(store, queues, Duration::from_secs(60)).await
    }

    pub(crate) async fn lease_for(&self, store: &RedisStore, queues: &[&str], ttl: Duration) -> LeaseId {
        let (id, queues) = (LeaseId::new(), queues.iter().map(|queue| name(queue)).collect());
        store.open(&NewLease { id, worker: "w".into(), ttl, queues, kinds: Vec::new() }).await.unwrap();
        id
    }

    pub(crate) async fn claim(&self, store: &RedisStore, lease: LeaseId, queue: &str) -> Vec<ClaimedJob> {
        let request = ClaimRequest {
            lease,
            nonce: Fence::nonce(),
            queues: vec![QueueShare { queue: name(queue), limit: 9 }],
            kinds: vec![name("k")],
            limit: 9,
            at_once: 9,
            bytes: usize::MAX,
        };
        match store.claim(request).await.unwrap() {
            ClaimAnswer::Jobs { jobs, .. } => jobs,
            ClaimAnswer::LeaseLost => panic!("the lease lives"),
        }
    }

    /// Lets the jobs of a queue fail, so that they are tried again later.
    pub(crate) async fn fail(&self, store: &RedisStore, lease: LeaseId, queue: &str) {
        let jobs = self.claim(store, lease, queue).await;
        let settlements = jobs.iter().map(|job| Settlement {
            queue: job.queue.clone(),
            id: job.id,
            fence: job.fence,
            transition: judge(&job.facts, Outcome::Retry { failure: Failure::error("no") }, 0.5),
        });
        store.settle(settlements.collect()).await.unwrap();
    }

    /// Takes lost jobs back. Answers how many there were.
    pub(crate) async fn reap(&self, store: &RedisStore) -> usize {
        let lost = store.lost(9).await.unwrap();
        let settlements = lost.iter().map(|job| Settlement {
            queue: job.queue.clone(),
            id: job.id,
            fence: job.fence,
            transition: judge(&job.facts, job.outcome(), 0.5),
        });
        store.reap(settlements.collect()).await.unwrap();
        lost.len()
    }
}
