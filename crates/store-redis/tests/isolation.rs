//! One sick queue harms no other, and what is wrong with it is named.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "harness/two_queues.rs"]
mod two_queues;

use std::sync::Arc;
use std::time::Duration;

use two_queues::{Scene, TTL, ids, job, name, settlement};
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{
    Enqueued, Filter, Inspect, Jobs, Leases, Maintenance, NewLease, Queues, Renewal, Settled, Settlement,
    Sharing, Store,
};
use windlass_core::{CallId, LeaseId, Options, Outcome, State, StoreErrorKind, judge};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

/// Does to queue `good` all that can be done while something is wrong with a key of the other one.
async fn use_good_beside(scene: &Scene, key: &str) {
    scene.spoil(key);
    // Whether this one is accepted depends on the key.
    let _ = scene.store.enqueue([job("bad", Options::new())].into()).await;
    let first = scene.add("good", Options::new()).await;
    let later = scene.add("good", Options::new().delay(Duration::from_secs(1))).await;
    let claimed = scene.claim(9).await;
    let good: Vec<_> = claimed.jobs.iter().filter(|job| job.queue == name("good")).collect();
    assert_eq!((good.len(), good[0].id), (1, first), "{key}");
    assert!(claimed.sick.iter().all(|sick| sick.queue == name("bad")), "{key}: {:?}", claimed.sick);
    scene.clock.advance(Duration::from_secs(1));
    assert_eq!(scene.store.promote(9).await.unwrap().promoted, 1, "{key}");
    scene.store.tidy(9).await.unwrap();
    assert_eq!(scene.get(later).await.state, State::Ready, "{key}");
    let renewed = scene.store.renew(scene.lease, TTL, 9).await.unwrap();
    assert!(matches!(renewed, Renewal::Renewed { .. }), "{key}: {renewed:?}");
    scene.clock.advance(TTL);
    let lost = scene.store.lost(9).await.unwrap();
    let place = lost.iter().position(|job| job.id == first).unwrap_or_else(|| panic!("{key}: {lost:?}"));
    let reaped = scene.store.reap(lost.iter().map(settlement).collect::<Vec<_>>().into()).await.unwrap();
    assert_eq!(reaped[place], Settled::Applied(State::Ready), "{key}");
    scene.store.sweep(9).await.unwrap();
    scene.store.prune(9).await.unwrap();
    let listed = scene.store.list(&Filter::default(), None, 9).await.unwrap().jobs;
    assert_eq!(listed.iter().filter(|job| job.queue == name("good")).count(), 2, "{key}");
    let queues = scene.store.queues(None, 9).await.unwrap();
    assert!(queues.iter().any(|queue| queue.name == name("good") && queue.counts.total() == 2), "{key}");
    let is_named = queues.iter().any(|queue| queue.name == name("bad") && queue.unreadable.is_some());
    assert_eq!(is_named, key == "meta", "{key}: {queues:?}");
}

#[tokio::test]
async fn wrong_content_in_one_queue_harms_no_other() {
    let server = Arc::new(RedisServer::start(&RedisSettings::default()));
    assert_eq!(Scene::on(Arc::clone(&server)).await.store.about().sharing, Sharing::Queue);
    for key in [
        "meta",
        "jobs",
        "scheduled",
        "expiring",
        "completed",
        "dead",
        "cancelled",
        "leases",
        "transfers",
        "received",
        "line:k",
        "ready:k",
        "blocks",
        "live",
        "stale",
        "attempts",
        "outputs",
        "progress",
        "bodies",
        "kinds",
        "parked:k",
    ] {
        use_good_beside(&Scene::on(Arc::clone(&server)).await, key).await;
    }
}

#[tokio::test]
async fn a_sick_queue_is_named_and_not_asked_again_at_once() {
    let scene = Scene::new().await;
    scene.add("bad", Options::new()).await;
    scene.spoil("line:k");
    let first = scene.claim(9).await.sick;
    assert_eq!((first.len(), first[0].kind), (1, StoreErrorKind::Fatal), "{first:?}");
    assert!(first[0].what.contains("WRONGTYPE"), "{first:?}");
    scene.server.command(&["CONFIG", "RESETSTAT"]);
    // On a busy machine the pause may be over before the next claim; it grows each time the queue is asked in vain.
    let mut asked = 0;
    loop {
        let again = scene.claim(9).await.sick;
        assert_eq!((again.len(), &again[0].what), (1, &first[0].what), "as it was found");
        match again[0].kind {
            StoreErrorKind::Fatal => asked += 1,
            // It was not asked, so nothing was taken there.
            kind => break assert_eq!(kind, StoreErrorKind::Unavailable),
        }
    }
    let stats = scene.server.command(&["INFO", "errorstats"]);
    let counted = stats.lines().find_map(|line| line.strip_prefix("errorstat_WRONGTYPE:count="));
    assert_eq!(counted.map_or("0", str::trim), asked.to_string(), "{stats}");
    scene.server.command(&["DEL", &scene.key("line:k")]);
    // It is asked again by itself; so long nothing else waits.
    loop {
        scene.add("good", Options::new()).await;
        let claimed = scene.claim(9).await;
        assert!(!claimed.jobs.is_empty());
        if claimed.sick.is_empty() {
            break;
        }
    }
}

#[tokio::test]
async fn a_lease_opens_where_it_can_and_elsewhere_with_a_renewal() {
    let scene = Scene::new().await;
    scene.spoil("leases");
    let queues = vec![name("bad"), name("good")];
    let lease = NewLease { id: LeaseId::new(), worker: "w".into(), ttl: TTL, queues, kinds: Vec::new() };
    scene.store.open(&lease).await.unwrap();
    let good = scene.add("good", Options::new()).await;
    let scene = Scene { lease: lease.id, ..scene };
    let claimed = scene.claim(9).await;
    assert_eq!((ids(&claimed.jobs), claimed.sick.len()), (vec![good], 1));
    let lives = Renewal::Renewed { cancel: Vec::new(), lost: Vec::new() };
    assert_eq!(scene.store.renew(lease.id, TTL, 9).await.unwrap(), lives, "what never lived is not lost");
    scene.server.command(&["DEL", &scene.key("leases")]);
    assert_eq!(scene.store.renew(lease.id, TTL, 9).await.unwrap(), lives);
    let bad = scene.add("bad", Options::new()).await;
    loop {
        let claimed = scene.claim(9).await;
        if claimed.sick.is_empty() {
            assert_eq!(ids(&claimed.jobs), [bad]);
            break;
        }
    }
    scene.spoil("leases");
    let alone = NewLease { id: LeaseId::new(), queues: vec![name("bad")], ..lease };
    assert!(scene.store.open(&alone).await.is_err(), "there is no copy at all");
}

#[tokio::test]
async fn a_definition_that_does_not_read_harms_nothing_and_removes_nothing() {
    let scene = Scene::new().await;
    let retention = Retention { completed: Keep::NONE, cancelled: Keep::NONE, ..Retention::default() };
    let config = QueueConfig { retention, ..QueueConfig::default() };
    for queue in ["bad", "good"] {
        scene.store.define(&name(queue), &config).await.unwrap();
    }
    scene.server.command(&["HSET", &scene.key("meta"), "config", "{\"retention\": 7}", "version", "9"]);
    let jobs = [scene.add("bad", Options::new()).await, scene.add("good", Options::new()).await];
    let done: Vec<_> = scene
        .claim(9)
        .await
        .jobs
        .iter()
        .map(|job| Settlement {
            queue: job.queue.clone(),
            id: job.id,
            fence: job.fence,
            transition: judge(&job.facts, Outcome::Completed { output: None }, 0.5),
        })
        .collect();
    assert_eq!(
        scene.store.settle(done.as_slice().into()).await.unwrap(),
        [Settled::Applied(State::Completed); 2]
    );
    let kept = scene.store.get(jobs.into()).await.unwrap();
    assert_eq!(kept.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    let more = scene.add("bad", Options::new()).await;
    scene.store.cancel([more].into()).await.unwrap();
    assert_eq!(scene.store.prune(9).await.unwrap(), 0);
    let queues = scene.store.queues(None, 9).await.unwrap();
    let unreadable: Vec<_> = queues.iter().map(|queue| queue.unreadable.is_some()).collect();
    assert_eq!(unreadable, [true, false]);
}

/// A call over several queues is answered when all of its jobs can be read, by whoever asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_accepted_can_be_found() {
    let scene = Scene::new().await;
    let options = RedisOptions::parse(&scene.server.url()).unwrap().namespace(&scene.namespace).unwrap();
    let other = RedisStore::open_with(options).await.unwrap();
    let producers = (0..8).map(|_| {
        let (store, other) = (scene.store.clone(), other.clone());
        tokio::spawn(async move {
            for _ in 0..20 {
                let jobs = ["a", "b", "c"].map(|queue| job(queue, Options::new()));
                store.enqueue(jobs.clone().into()).await.unwrap();
                let found = other.get(jobs.each_ref().map(|job| job.id).into()).await.unwrap();
                assert!(found.iter().all(Option::is_some), "{found:?}");
            }
        })
    });
    for producer in producers.collect::<Vec<_>>() {
        producer.await.unwrap();
    }
}

#[tokio::test]
async fn what_cannot_be_delivered_is_unknown_and_a_repeat_waits_for_it() {
    let scene = Scene::new().await;
    let jobs = ["good", "bad"].map(|queue| job(queue, Options::new()));
    // The check finds nothing wrong with it, the delivery does.
    scene.spoil("received");
    let call = CallId::new();
    let error = scene.store.enqueue_once(call, jobs.clone().into()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unknown, "{error}");
    let error = scene.store.enqueue_once(call, jobs.clone().into()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    scene.server.command(&["DEL", &scene.key("received")]);
    assert_eq!(scene.store.enqueue_once(call, jobs.clone().into()).await.unwrap(), [Enqueued::Repeated; 2]);
    let found = scene.store.get(jobs.each_ref().map(|job| job.id).into()).await.unwrap();
    assert!(found.iter().all(Option::is_some), "{found:?}");
    scene.store.delete(jobs.each_ref().map(|job| job.id).into()).await.unwrap();
    assert_eq!(scene.store.enqueue_once(call, jobs.clone().into()).await.unwrap(), [Enqueued::Repeated; 2]);
}
