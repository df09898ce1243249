//! What a failover may take from the servers, one key at a time: the store finds its way back.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::job::Unreadable;
use windlass_core::outcome::Reason;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Filter, Inspect, Jobs, Leases, Maintenance, NewLease, QueueShare, Queues,
    Renewal, Settled, Settlement,
};
use windlass_core::{ClaimedJob, Fence, LeaseId, Name, NewJob, Options, Outcome, State, judge};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

const TTL: Duration = Duration::from_secs(60);

struct Scene {
    server: RedisServer,
    store: RedisStore,
    clock: ManualClock,
    lease: LeaseId,
    jobs: Vec<ClaimedJob>,
}

fn queues() -> Vec<Name> {
    ["a", "b"].map(|queue| Name::new(queue).unwrap()).to_vec()
}

async fn open(server: &RedisServer, clock: &ManualClock) -> RedisStore {
    let options = RedisOptions::parse(&server.url()).unwrap().clock(Arc::new(clock.clone()));
    RedisStore::open_with(options).await.unwrap()
}

async fn claim(store: &RedisStore, lease: LeaseId) -> ClaimAnswer {
    let request = ClaimRequest {
        lease,
        nonce: windlass_core::Fence::nonce(),
        queues: queues().into_iter().map(|queue| QueueShare { queue, limit: 9 }).collect(),
        kinds: vec![Name::new("k").unwrap()],
        limit: 9,
        at_once: 9,
        bytes: usize::MAX,
    };
    store.claim(request.clone()).await.unwrap()
}

impl Scene {
    /// A job runs in each of two queues, under one lease.
    async fn new() -> Self {
        let server = RedisServer::start(&RedisSettings::default());
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
        let store = open(&server, &clock).await;
        let lease = LeaseId::new();
        store
            .open(&NewLease { id: lease, worker: "w".into(), ttl: TTL, queues: queues(), kinds: Vec::new() })
            .await
            .unwrap();
        for queue in queues() {
            let job = NewJob::new("k", "", Options::new().queue(queue.as_str())).unwrap();
            store.enqueue([job].into()).await.unwrap();
        }
        let ClaimAnswer::Jobs { jobs, .. } = claim(&store, lease).await else { panic!("the lease lives") };
        assert_eq!(jobs.len(), 2);
        Self { server, store, clock, lease, jobs }
    }

    async fn renew(&self) -> Renewal {
        self.store.renew(self.lease, TTL, 9).await.unwrap()
    }

    fn lives(&self) -> Renewal {
        Renewal::Renewed { cancel: Vec::new(), lost: Vec::new() }
    }

    async fn lost(&self) -> usize {
        self.store.lost(9).await.unwrap().len()
    }
}

#[tokio::test]
async fn a_lease_that_one_queue_has_lost_lives_on_in_the_others() {
    let scene = Scene::new().await;
    assert_eq!(scene.renew().await, scene.lives());
    // As on a server whose clock was ahead.
    let expire = "return redis.call('ZADD', KEYS[1], 1, redis.call('ZRANGE', KEYS[1], 0, 0)[1])";
    scene.server.command(&["EVAL", expire, "1", "wl:{windlass:a}:leases"]);
    assert_eq!(scene.lost().await, 1);
    let [a, b] = <[Name; 2]>::try_from(queues()).unwrap();
    for _ in 0..2 {
        let lost = Renewal::Renewed { cancel: Vec::new(), lost: vec![a.clone()] };
        assert_eq!(scene.renew().await, lost, "named each time");
    }
    assert_eq!(scene.lost().await, 1, "nothing else is taken back");
    for queue in [&a, &b] {
        let job = NewJob::new("k", "", Options::new().queue(queue.as_str())).unwrap();
        scene.store.enqueue([job].into()).await.unwrap();
    }
    let ClaimAnswer::Jobs { jobs, sick, .. } = claim(&scene.store, scene.lease).await else {
        panic!("the lease lives")
    };
    assert_eq!((jobs.len(), &jobs[0].queue, sick), (1, &b, Vec::new()));
    scene.server.command(&["EVAL", expire, "1", "wl:{windlass:b}:leases"]);
    assert_eq!(scene.renew().await, Renewal::Lost, "it lives nowhere");
    assert_eq!(claim(&scene.store, scene.lease).await, ClaimAnswer::LeaseLost);
}

#[tokio::test]
async fn the_record_of_a_lease_comes_back_with_the_next_renewal() {
    let scene = Scene::new().await;
    let before = scene.store.leases(9).await.unwrap();
    scene.server.command(&[
        "DEL",
        "wl:{windlass}:leases",
        "wl:{windlass}:lease-expiry",
        "wl:{windlass}:lease-order",
    ]);
    assert_eq!(scene.store.leases(9).await.unwrap(), []);
    assert_eq!(scene.renew().await, scene.lives());
    assert_eq!(scene.store.leases(9).await.unwrap(), before);
}

#[tokio::test]
async fn copies_of_a_lease_that_nobody_knows_of_are_reaped_and_swept() {
    let scene = Scene::new().await;
    scene.server.command(&[
        "DEL",
        "wl:{windlass}:leases",
        "wl:{windlass}:lease-expiry",
        "wl:{windlass}:lease-order",
    ]);
    scene.clock.advance(TTL);
    assert_eq!(scene.lost().await, 2, "they are found by the queues");
    assert_eq!(scene.store.sweep(9).await.unwrap().leases, 0);
    assert_eq!(scene.server.command(&["ZCARD", "wl:{windlass:a}:leases"]), "1", "a job hangs on it");
    let back = scene.jobs.iter().map(|job| Settlement {
        queue: job.queue.clone(),
        id: job.id,
        fence: job.fence,
        transition: judge(&job.facts, Outcome::Stalled { worker: "w".into() }, 0.5),
    });
    scene.store.reap(back.collect::<Vec<_>>().into()).await.unwrap();
    assert_eq!(scene.lost().await, 0);
    scene.store.sweep(9).await.unwrap();
    assert_eq!(scene.server.command(&["EXISTS", "wl:{windlass:a}:leases", "wl:{windlass:b}:leases"]), "0");
}

#[tokio::test]
async fn a_registry_that_was_lost_is_filled_by_whoever_writes_next() {
    let scene = Scene::new().await;
    scene.server.command(&["DEL", "wl:{windlass}:queues"]);
    assert_eq!(scene.store.queues(None, 9).await.unwrap(), []);
    // Another process has not entered anything yet.
    let other = open(&scene.server, &scene.clock).await;
    let lease =
        NewLease { id: LeaseId::new(), worker: "v".into(), ttl: TTL, queues: queues(), kinds: Vec::new() };
    other.open(&lease).await.unwrap();
    assert_eq!(scene.store.queues(None, 9).await.unwrap().len(), 2);
    assert_eq!(scene.store.list(&Filter::default(), None, 9).await.unwrap().jobs.len(), 2);
}

#[tokio::test]
async fn a_job_that_does_not_read_takes_no_other_along() {
    let scene = Scene::new().await;
    let job = |queue, length| NewJob::new("k", vec![1; length], Options::new().queue(queue)).unwrap();
    scene.store.enqueue([job("a", 5)].into()).await.unwrap();
    scene.store.enqueue([job("b", 5), job("b", 2_000), job("b", 5)].into()).await.unwrap();
    scene.server.command(&["DEL", "wl:{windlass:b}:bodies"]);
    let request = ClaimRequest {
        lease: scene.lease,
        nonce: windlass_core::Fence::nonce(),
        queues: queues().into_iter().map(|queue| QueueShare { queue, limit: 9 }).collect(),
        kinds: vec![Name::new("k").unwrap()],
        limit: 9,
        at_once: 9,
        bytes: usize::MAX,
    };
    let answer = scene.store.claim(request.clone()).await.unwrap();
    let ClaimAnswer::Jobs { jobs, unreadable, sick, .. } = answer else { panic!("the lease lives") };
    assert_eq!((jobs.len(), unreadable.len(), sick), (3, 1, Vec::new()));
    let lost = &unreadable[0];
    assert!(matches!(&lost.unreadable, Some(Unreadable::Broken(why)) if why.contains("payload")), "{lost:?}");
    assert_eq!(lost.fence, Fence { number: 1, nonce: request.nonce });
    let dead = Settlement {
        queue: lost.queue.clone(),
        id: lost.id,
        fence: lost.fence,
        transition: judge(&lost.facts, lost.outcome(), 0.5),
    };
    assert_eq!(scene.store.settle([dead].into()).await.unwrap(), [Settled::Applied(State::Dead)]);
    let record = scene.store.get([lost.id].into()).await.unwrap().remove(0).unwrap();
    assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::Unreadable)));
    assert!(record.unreadable.is_some() && record.last_error().is_some_and(|text| text.contains("payload")));
}

#[tokio::test]
async fn one_queue_that_fails_does_not_keep_a_lease_from_being_renewed_in_others() {
    let scene = Scene::new().await;
    let queues: Vec<_> = (0..40).map(|place| Name::new(format!("q{place:02}")).unwrap()).collect();
    let lease = NewLease {
        id: LeaseId::new(),
        worker: "w".into(),
        ttl: TTL,
        queues: queues.clone(),
        kinds: Vec::new(),
    };
    scene.store.open(&lease).await.unwrap();
    scene.server.command(&["SET", "wl:{windlass:q00}:leases", "in the way"]);
    scene.clock.advance(TTL / 2);
    assert_eq!(scene.store.renew(lease.id, TTL, 9).await.unwrap(), scene.lives(), "it may come back in time");
    scene.clock.advance(TTL / 2);
    for queue in &queues[1..] {
        let alive = scene.server.command(&[
            "ZCOUNT",
            &format!("wl:{{windlass:{queue}}}:leases"),
            &format!("({}", scene.clock.now().as_micros()),
            "+inf",
        ]);
        assert_eq!(alive, "1", "{queue}");
    }
}

#[tokio::test]
async fn a_page_of_large_jobs_ends_early_and_goes_on() {
    let scene = Scene::new().await;
    let large = || NewJob::new("k", vec![1; 900_000], Options::new().queue("large")).unwrap();
    for _ in 0..5 {
        scene.store.enqueue([large(), large(), large(), large()].into()).await.unwrap();
    }
    let (mut sizes, mut after) = (Vec::new(), None);
    loop {
        let page = scene.store.list(&Filter::default(), after.as_ref(), 100).await.unwrap();
        sizes.push(page.jobs.len());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((sizes[0], sizes.iter().sum::<usize>()), (19, 22), "16 MiB, and the rest: {sizes:?}");
}

#[tokio::test]
async fn heavy_ends_are_pruned_in_several_steps_and_all_go() {
    let scene = Scene::new().await;
    let queue = Name::new("heavy").unwrap();
    let jobs: Vec<_> =
        (0..60).map(|_| NewJob::new("k", vec![1; 200_000], Options::new().queue("heavy")).unwrap()).collect();
    for some in jobs.chunks(10) {
        scene.store.enqueue(some.into()).await.unwrap();
    }
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    scene.store.cancel(ids.as_slice().into()).await.unwrap();
    let retention = Retention { cancelled: Keep::NONE, ..Retention::default() };
    let config = QueueConfig { retention, ..QueueConfig::default() };
    scene.store.define(&queue, &config).await.unwrap();
    scene.server.command(&["CONFIG", "RESETSTAT"]);
    assert_eq!(scene.store.prune(500).await.unwrap(), 60);
    let stats = scene.server.command(&["INFO", "commandstats"]);
    let scripts: u64 = ["evalsha", "eval"].iter().map(|verb| calls(&stats, verb)).sum();
    assert!(
        (3..10).contains(&scripts),
        "60 jobs of 25 each, above what one script may weigh: {scripts} scripts"
    );
    assert_eq!(
        scene.server.command(&["EXISTS", "wl:{windlass:heavy}:jobs", "wl:{windlass:heavy}:bodies"]),
        "0"
    );
}

fn calls(stats: &str, verb: &str) -> u64 {
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{verb}:calls=")));
    line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}
