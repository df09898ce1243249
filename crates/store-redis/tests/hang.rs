//! One server of a Cluster hangs: what the others gave to the same claim is not lost with it.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use windlass_core::outcome::Ending;
use windlass_core::store::{ClaimRequest, Jobs, Leases, NewLease, QueueShare};
use windlass_core::{LeaseId, Name, NewJob, Options, State, StoreErrorKind};
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

#[tokio::test]
async fn a_claim_that_meets_a_server_that_hangs_puts_back_what_others_gave() {
    let cluster = RedisCluster::start();
    let [well, ill] = queues(&cluster);
    let options = RedisOptions::parse(&cluster.url()).unwrap().namespace("hang").unwrap();
    let store = RedisStore::open_with(options.timeout(Duration::from_secs(2)).unwrap()).await.unwrap();
    let names = [&well, &ill].map(|name| Name::new(name).unwrap()).to_vec();
    let lease = NewLease {
        id: LeaseId::new(),
        worker: "w".into(),
        ttl: Duration::from_secs(60),
        queues: names.clone(),
    };
    store.open(&lease).await.unwrap();
    let job = |queue: &str| NewJob::new("k", "", Options::new().queue(queue)).unwrap();
    let (here, there) = (job(&well), job(&ill));
    store.enqueue(std::slice::from_ref(&here)).await.unwrap();
    store.enqueue(std::slice::from_ref(&there)).await.unwrap();

    let hanging = &cluster.nodes()[cluster.primary_of(slot(&cluster, &ill))];
    hanging.pause();
    let request = ClaimRequest {
        lease: lease.id,
        nonce: windlass_core::Fence::nonce(),
        queues: names.into_iter().map(|queue| QueueShare { queue, limit: 9 }).collect(),
        kinds: vec![Name::new("k").unwrap()],
        limit: 9,
        bytes: usize::MAX,
    };
    let error = store.claim(&request).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unknown, "{error}");
    let record = store.get(&[here.id]).await.unwrap().remove(0).unwrap();
    hanging.resume();
    assert_eq!((record.state, record.counters.attempt, record.fence), (State::Ready, 0, 1));
    assert_eq!(record.attempts[0].ending, Some(Ending::Returned));
}
