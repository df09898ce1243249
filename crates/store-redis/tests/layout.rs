//! Where keys lie on a Cluster: all of a queue together, the queues spread over all primaries, and no name that leads
//! elsewhere.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_core::job::NewJob;
use windlass_core::queue::QueueConfig;
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Filter, Inspect, Jobs, Leases, Maintenance, NewLease, QueueShare, Queues,
    Settlement,
};
use windlass_core::{LeaseId, Name, Options, Outcome, StoreError, judge};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::RedisCluster;

const QUEUES: usize = 60;

fn name(text: impl AsRef<str>) -> Name {
    Name::new(text).unwrap()
}

fn queue(number: usize) -> Name {
    name(format!("mail:{number}"))
}

fn job(queue: &Name, options: Options) -> NewJob {
    NewJob::new("send", vec![7; 2_000], options.queue(queue.as_str())).unwrap()
}

/// Lets every verb touch every queue.
async fn use_everything(store: &RedisStore) {
    let queues: Vec<_> = (0..QUEUES).map(queue).collect();
    let lease = NewLease {
        id: LeaseId::new(),
        worker: "w".into(),
        ttl: Duration::from_secs(60),
        queues: queues.clone(),
        kinds: Vec::new(),
    };
    store.open(&lease).await.unwrap();
    let all: Vec<_> =
        queues.iter().flat_map(|queue| [job(queue, Options::new()), job(queue, Options::new())]).collect();
    store.enqueue(all.as_slice().into()).await.unwrap();
    for queue in &queues {
        store.define(queue, &QueueConfig::default()).await.unwrap();
        let later =
            job(queue, Options::new().delay(Duration::from_secs(9)).expires_in(Duration::from_secs(99)));
        store.enqueue([later.clone()].into()).await.unwrap();
        store.retry([later.id].into()).await.unwrap();
        store.cancel([later.id].into()).await.unwrap();
    }
    let request = ClaimRequest {
        lease: lease.id,
        nonce: windlass_core::Fence::nonce(),
        queues: queues.iter().map(|queue| QueueShare { queue: queue.clone(), limit: 2 }).collect(),
        kinds: vec![name("send")],
        limit: 1_000,
        at_once: 1_000,
        bytes: usize::MAX,
    };
    let ClaimAnswer::Jobs { jobs, .. } = store.claim(request.clone()).await.unwrap() else {
        panic!("the lease lives")
    };
    assert_eq!(jobs.len(), 2 * QUEUES);
    store.cancel([jobs[0].id].into()).await.unwrap();
    store.renew(lease.id, Duration::from_secs(60), 9).await.unwrap();
    // One of each queue stays running, so that keys of the lease are there.
    let settlements: Vec<_> = jobs
        .iter()
        .step_by(2)
        .map(|job| {
            let transition = judge(&job.facts, Outcome::Completed { output: Some(vec![1].into()) }, 0.5);
            Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
        })
        .collect();
    store.settle(settlements.as_slice().into()).await.unwrap();
    store.promote(1_000).await.unwrap();
    store.prune(1_000).await.unwrap();
    assert_eq!(store.list(&Filter::default(), None, 1_000).await.unwrap().jobs.len(), 3 * QUEUES);
    assert_eq!(store.queues(None, 1_000).await.unwrap().len(), QUEUES);
}

#[tokio::test]
async fn queues_spread_over_the_primaries_and_each_lies_in_one_slot() {
    let cluster = RedisCluster::start();
    let options = RedisOptions::parse(&cluster.url()).unwrap().namespace("spread").unwrap();
    let store = RedisStore::open_with(options).await.unwrap();
    use_everything(&store).await;

    let mut queues_of = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for place in cluster.primaries() {
        for key in cluster.nodes()[place].command(&["KEYS", "*"]).lines() {
            let tag = key
                .strip_prefix("wl:{")
                .and_then(|rest| rest.split_once("}:"))
                .map(|(tag, _)| tag.to_owned());
            let tag = tag.unwrap_or_else(|| panic!("{key} carries no tag"));
            if tag != "spread" {
                let queue = tag.strip_prefix("spread:").unwrap_or_else(|| panic!("{key} is of no queue"));
                queues_of.entry(place).or_insert_with(BTreeSet::new).insert(queue.to_owned());
                seen.insert(queue.to_owned());
            }
        }
    }
    let expected: BTreeSet<_> = (0..QUEUES).map(|number| queue(number).to_string()).collect();
    assert_eq!(seen, expected);
    assert_eq!(queues_of.values().map(BTreeSet::len).sum::<usize>(), QUEUES, "a queue lies on two primaries");
    assert_eq!(queues_of.len(), 3, "{queues_of:?}");
    for (place, queues) in &queues_of {
        assert!(queues.len() >= QUEUES / 6, "node {place} has {} of {QUEUES} queues", queues.len());
    }
}

#[test]
fn a_namespace_that_forges_a_key_is_refused() {
    for namespace in ["a:b", "{a}", "a}b", "a{", "", "a b", "a\n", "ä", &"x".repeat(129)] {
        let options = RedisOptions::parse("redis://localhost").unwrap().namespace(namespace);
        assert!(matches!(options, Err(StoreError::Address(_))), "{namespace:?} was accepted");
    }
    for url in [
        "redis://localhost?namespace=a:b",
        "redis://localhost?namespace=%7Ba%7D",
        "redis://localhost?namespace=",
    ] {
        assert!(RedisOptions::parse(url).is_err(), "{url} was accepted");
    }
}
