//! One server of a Cluster hangs: what the others gave to the same claim is not lost with it.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::{Duration, Instant};

use windlass_core::store::{ClaimAnswer, ClaimRequest, Jobs, Leases, NewLease, QueueShare};
use windlass_core::{Fence, LeaseId, Name, NewJob, Options, Outcome, StoreErrorKind};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::RedisCluster;

fn slot(cluster: &RedisCluster, queue: &str) -> u16 {
    cluster.slot_of(&format!("wl:{{hang:{queue}}}:meta"))
}

/// Two queues that live on different primaries; the names of the namespace are with the first.
fn queues(cluster: &RedisCluster) -> [String; 2] {
    let home = cluster.primary_of(cluster.slot_of("wl:{hang}:queues"));
    let find = |is_home: bool| {
        let mut names = (0..).map(|number| format!("q{number}"));
        names.find(|name| (cluster.primary_of(slot(cluster, name)) == home) == is_home).unwrap()
    };
    [find(true), find(false)]
}

fn claim(lease: LeaseId, queues: [&Name; 2]) -> ClaimRequest {
    ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: queues.map(|queue| QueueShare { queue: queue.clone(), limit: 9 }).to_vec(),
        kinds: vec![Name::new("k").unwrap()],
        limit: 9,
        at_once: 9,
        bytes: usize::MAX,
    }
}

#[tokio::test]
async fn a_claim_that_meets_a_server_that_hangs_tells_what_others_gave() {
    let cluster = RedisCluster::start();
    let [well, ill] = queues(&cluster).map(|name| Name::new(name).unwrap());
    let options = RedisOptions::parse(&cluster.url()).unwrap().namespace("hang").unwrap();
    let job = |queue: &Name| NewJob::new("k", "", Options::new().queue(queue.as_str())).unwrap();
    let hanging = &cluster.nodes()[cluster.primary_of(slot(&cluster, ill.as_str()))];
    // In its turn before the other one, it may have taken jobs; after it, it was only to be moved along.
    for (queues, kind) in
        [([&ill, &well], StoreErrorKind::Unknown), ([&well, &ill], StoreErrorKind::Unavailable)]
    {
        let store = RedisStore::open_with(options.clone()).await.unwrap();
        let lease = NewLease {
            id: LeaseId::new(),
            worker: "w".into(),
            ttl: Duration::from_secs(60),
            queues: vec![well.clone(), ill.clone()],
            kinds: Vec::new(),
        };
        store.open(&lease).await.unwrap();
        // Both servers know the script from here on.
        store.claim(claim(lease.id, queues)).await.unwrap();
        let (here, there) = (job(&well), job(&ill));
        store.enqueue([here.clone()].into()).await.unwrap();
        store.enqueue([there.clone()].into()).await.unwrap();
        hanging.pause();
        let (request, began) = (claim(lease.id, queues), Instant::now());
        let answer = store.claim(request.clone()).await.unwrap();
        let took = began.elapsed();
        hanging.resume();
        // A queue that no other one waits for has two seconds.
        assert!(took < Duration::from_secs(2), "the claim waited for the server that hangs: {took:?}");
        let ClaimAnswer::Jobs { jobs, sick, .. } = answer else { panic!("the lease lives") };
        assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [here.id]);
        assert_eq!(sick.iter().map(|sick| (&sick.queue, sick.kind)).collect::<Vec<_>>(), [(&ill, kind)]);
        // What it took unheard is found by the nonce, once the node has come to it.
        let count = usize::from(kind == StoreErrorKind::Unknown);
        let held = until(async || {
            let held = store.held(lease.id, request.nonce, [ill.clone()].into(), 9).await;
            held.ok().filter(|held| held.len() == count)
        });
        let held = held.await;
        assert!(held.iter().all(|job| job.id == there.id && job.outcome() == Outcome::Returned), "{held:?}");
        store.close(lease.id).await.unwrap();
        store.delete([there.id].into()).await.unwrap();
    }
}

/// A node that hung may be taken for dead by the others for a while.
async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the node has come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
