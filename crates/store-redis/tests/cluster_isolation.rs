//! A Cluster of which one node is gone or hangs, and nobody takes over: its queues stand still, and the others go on as if
//! nothing were. The times are those of a busy machine, and far below what waiting for the node would take.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::{Duration, Instant};

use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Filter, Inspect, Jobs, Leases, Maintenance, NewLease, QueueShare, Queues,
    Renewal, Settled, Settlement, SickQueue,
};
use windlass_core::{
    ClaimedJob, Fence, LeaseId, Name, NewJob, Options, Outcome, State, StoreErrorKind, judge,
};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::{RedisCluster, RedisServer, RedisSettings};

const TTL: Duration = Duration::from_secs(60);
/// Of a lease that is to be lost where it cannot be renewed.
const SHORT_TTL: Duration = Duration::from_secs(10);
const ROUNDS: usize = 100;
/// One try at a node that is away takes 2 s where it is waited for: a hundred of them are three minutes.
const ROUNDS_MAX: Duration = Duration::from_secs(60);

struct Scene {
    cluster: RedisCluster,
    store: RedisStore,
    /// A queue on the node that will be gone, and one on another.
    bad: Name,
    good: Name,
}

impl Scene {
    /// `is_home`: whether the node that will be gone has the names of queues and the records of leases.
    async fn new(is_home: bool) -> Self {
        let settings = RedisSettings::default().set("cluster-require-full-coverage", "no");
        let cluster = RedisCluster::start_with(&settings.set("cluster-replica-no-failover", "yes"));
        let options = RedisOptions::parse(&cluster.url()).unwrap();
        let store = RedisStore::open_with(options).await.unwrap();
        let owner = |tag: &str| cluster.primary_of(cluster.slot_of(&format!("wl:{{{tag}}}:queues")));
        let home = owner("windlass");
        let queue = |is_home: bool, not: Option<usize>| {
            let names = (0..1_000).map(|number| Name::new(format!("q{number}")).unwrap());
            let place = |name: &Name| owner(&format!("windlass:{name}"));
            let mut found = names.map(|name| (place(&name), name));
            found.find(|(place, _)| (*place == home) == is_home && Some(*place) != not).unwrap()
        };
        let (place, bad) = queue(is_home, None);
        let (_, good) = queue(false, Some(place));
        Self { cluster, store, bad, good }
    }

    fn node(&self) -> &RedisServer {
        let slot = self.cluster.slot_of(&format!("wl:{{windlass:{}}}:meta", self.bad));
        &self.cluster.nodes()[self.cluster.primary_of(slot)]
    }

    async fn open(&self, ttl: Duration) -> LeaseId {
        let (id, queues) = (LeaseId::new(), vec![self.bad.clone(), self.good.clone()]);
        self.store.open(&NewLease { id, worker: "w".into(), ttl, queues, kinds: Vec::new() }).await.unwrap();
        id
    }

    async fn enqueue(&self, queue: &Name) {
        let job = NewJob::new("k", "", Options::new().queue(queue.as_str())).unwrap();
        self.store.enqueue([job].into()).await.unwrap();
    }

    async fn claim(&self, lease: LeaseId) -> (Vec<ClaimedJob>, Vec<SickQueue>) {
        let share = |queue: &Name| QueueShare { queue: queue.clone(), limit: 9 };
        let request = ClaimRequest {
            lease,
            nonce: Fence::nonce(),
            queues: vec![share(&self.bad), share(&self.good)],
            kinds: vec![Name::new("k").unwrap()],
            limit: 9,
            at_once: 9,
            bytes: usize::MAX,
        };
        match self.store.claim(request.clone()).await.unwrap() {
            ClaimAnswer::Jobs { jobs, sick, .. } => (jobs, sick),
            ClaimAnswer::LeaseLost => panic!("the lease lives"),
        }
    }

    async fn settle(&self, jobs: &[ClaimedJob]) {
        let done = jobs.iter().map(|job| Settlement {
            queue: job.queue.clone(),
            id: job.id,
            fence: job.fence,
            transition: judge(&job.facts, Outcome::Completed { output: None }, 0.5),
        });
        let settled = self.store.settle(done.collect::<Vec<_>>().into()).await.unwrap();
        assert!(settled.iter().all(|each| *each == Settled::Applied(State::Completed)), "{settled:?}");
    }

    /// The other queue is used as ever, and the lease lives there however long it takes.
    async fn use_good(&self, lease: LeaseId, ttl: Duration) {
        let (began, mut renewed) = (Instant::now(), Instant::now());
        for round in 0..ROUNDS {
            self.enqueue(&self.good).await;
            let (jobs, sick) = self.claim(lease).await;
            assert!(jobs.iter().any(|job| job.queue == self.good), "round {round}: {sick:?}");
            assert!(sick.iter().all(|sick| sick.queue == self.bad), "round {round}: {sick:?}");
            self.settle(&jobs).await;
            if renewed.elapsed() > ttl / 8 {
                renewed = Instant::now();
                let answer = self.store.renew(lease, ttl, 9).await.unwrap();
                let Renewal::Renewed { lost, .. } = answer else { panic!("the lease lives where it can") };
                assert!(lost.iter().all(|queue| *queue == self.bad), "{lost:?}");
            }
        }
        assert!(began.elapsed() < ROUNDS_MAX, "{ROUNDS} rounds took {:?}", began.elapsed());
    }
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_dead_node_stops_its_own_queues_only() {
    for is_home in [false, true] {
        let scene = Scene::new(is_home).await;
        let lease = scene.open(SHORT_TTL).await;
        for queue in [&scene.bad, &scene.good] {
            scene.enqueue(queue).await;
        }
        let (jobs, sick) = scene.claim(lease).await;
        assert_eq!((jobs.len(), sick.len()), (2, 0));
        let node = scene.node();
        node.kill();
        scene.settle(&jobs[1..]).await;
        scene.use_good(lease, SHORT_TTL).await;
        let lost = until("the copy that cannot be renewed is lost", async || {
            scene.enqueue(&scene.good).await;
            match scene.store.renew(lease, SHORT_TTL, 9).await.unwrap() {
                Renewal::Renewed { lost, .. } => (!lost.is_empty()).then_some(lost),
                Renewal::Lost => panic!("it lives where it can"),
            }
        });
        assert_eq!(lost.await, std::slice::from_ref(&scene.bad));
        let (_, sick) = scene.claim(lease).await;
        assert_eq!(sick, [], "what is lost is not asked for");

        // Sweeps and looks go on with what is there.
        scene.store.promote(99).await.unwrap();
        scene.store.tidy(99).await.unwrap();
        scene.store.lost(99).await.unwrap();
        scene.store.prune(99).await.unwrap();
        assert!(!scene.store.list(&Filter::default(), None, 99).await.unwrap().jobs.is_empty());
        let queues = scene.store.queues(None, 99).await.unwrap();
        let named: Vec<_> = queues.iter().filter(|queue| queue.unreadable.is_some()).collect();
        assert_eq!((queues.len(), named.len(), &named[0].name), (2, 1, &scene.bad));

        // Another worker begins where it can, and comes to the rest when the node is back.
        let lease = scene.open(TTL).await;
        scene.use_good(lease, TTL).await;
        let (_, sick) = scene.claim(lease).await;
        assert_eq!((sick.len(), sick[0].kind), (1, StoreErrorKind::Unavailable), "{sick:?}");
        node.restart();
        scene.cluster.until_well();
        until("the lease is written where it was missing", async || {
            let renewed = scene.store.renew(lease, TTL, 9).await.unwrap();
            assert_eq!(renewed, Renewal::Renewed { cancel: Vec::new(), lost: Vec::new() });
            scene.claim(lease).await.1.is_empty().then_some(())
        })
        .await;
        scene.enqueue(&scene.bad).await;
        let (jobs, _) = scene.claim(lease).await;
        assert!(jobs.iter().any(|job| job.queue == scene.bad));
    }
}

#[tokio::test]
async fn a_node_that_hangs_takes_little_of_the_time() {
    let scene = Scene::new(false).await;
    let lease = scene.open(TTL).await;
    scene.enqueue(&scene.bad).await;
    scene.use_good(lease, TTL).await;
    let node = scene.node();
    node.pause();
    scene.use_good(lease, TTL).await;
    node.resume();
}
