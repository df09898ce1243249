//! A server whose memory is full: nothing new is accepted, and everything that was accepted still goes its way.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use windlass_core::job::NewJob;
use windlass_core::outcome::Failure;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{
    Amended, ClaimAnswer, ClaimRequest, Jobs, Leases, Maintenance, NewLease, Progress, QueueShare, Queues,
    Renewal, Settled, Settlement,
};
use windlass_core::{ClaimedJob, LeaseId, Name, Options, Outcome, State, StoreErrorKind, judge};
use windlass_store_redis::RedisStore;
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

const TTL: Duration = Duration::from_secs(60);

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn job(queue: &str) -> NewJob {
    NewJob::new("k", vec![7; 2_000], Options::new().queue(queue)).unwrap()
}

async fn open(store: &RedisStore) -> LeaseId {
    let queues = vec![name("q"), name("r")];
    let lease = NewLease { id: LeaseId::new(), worker: "w".into(), ttl: TTL, queues, kinds: Vec::new() };
    store.open(&lease).await.unwrap();
    lease.id
}

async fn claim(store: &RedisStore, lease: LeaseId, limit: u32) -> Vec<ClaimedJob> {
    let share = |queue| QueueShare { queue: name(queue), limit };
    let request = ClaimRequest {
        lease,
        nonce: windlass_core::Fence::nonce(),
        queues: vec![share("q"), share("r")],
        kinds: vec![name("k")],
        limit,
        at_once: limit,
        bytes: usize::MAX,
    };
    match store.claim(request.clone()).await.unwrap() {
        ClaimAnswer::Jobs { jobs, .. } => jobs,
        ClaimAnswer::LeaseLost => panic!("the lease lives"),
    }
}

fn settlement(job: &ClaimedJob, outcome: Outcome) -> Settlement {
    let transition = judge(&job.facts, outcome, 0.5);
    Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
}

/// How many payloads stand apart in queue `q`, and how many contents of transfers.
fn apart(redis: &RedisServer) -> [String; 2] {
    let length = |key| redis.command(&["HLEN", &format!("wl:{{windlass:q}}:{key}")]);
    ["bodies", "contents"].map(|key| length(key).trim().to_owned())
}

#[tokio::test]
async fn a_full_server_accepts_nothing_and_finishes_what_it_has() {
    let redis = RedisServer::start(&RedisSettings::default());
    let store = RedisStore::open(&redis.url()).await.unwrap();
    let long = || NewJob::new("k", vec![7; 400_000], Options::new().queue("q")).unwrap();
    let jobs: Vec<_> = (0..19).map(|_| job("q")).chain([long()]).collect();
    store.enqueue(jobs.as_slice().into()).await.unwrap();
    let soon = NewJob::new("k", "p", Options::new().queue("r").delay(Duration::from_millis(1))).unwrap();
    store.enqueue([soon].into()).await.unwrap();
    let old = open(&store).await;
    let running = claim(&store, old, 3).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);

    let several: Vec<_> = (0..3).map(|_| job("q")).chain([job("s")]).collect();
    for refused in [vec![job("q")], vec![long()], several.clone(), vec![long(), job("s")]] {
        let error = store.enqueue(refused.as_slice().into()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("refused: the server's memory is full (maxmemory)"), "{error}");
        let ids: Vec<_> = refused.iter().map(|job| job.id).collect();
        assert!(
            store.get(ids.as_slice().into()).await.unwrap().iter().all(Option::is_none),
            "nothing of it was stored"
        );
        assert_eq!(apart(&redis), ["20", "0"]);
    }
    for there in [&jobs[..1], &jobs[19..]] {
        let repeat = store.enqueue(there.into()).await.expect("what is there already is answered");
        assert_eq!(repeat.len(), 1);
    }

    assert!(matches!(store.renew(old, TTL, 9).await.unwrap(), Renewal::Renewed { .. }));
    let report =
        Progress { queue: name("q"), id: running[0].id, fence: running[0].fence, progress: "half".into() };
    assert!(matches!(store.progress([report].into()).await.unwrap()[..], [Settled::Applied(_)]));
    let outcomes = [
        Outcome::Completed { output: None },
        Outcome::Returned,
        Outcome::RetryAfter { after: TTL, failure: Failure::error("no") },
    ];
    let settlements: Vec<_> =
        running.iter().zip(outcomes).map(|(job, outcome)| settlement(job, outcome)).collect();
    let settled = store.settle(settlements.as_slice().into()).await.unwrap();
    let states = [State::Completed, State::Ready, State::Scheduled].map(Settled::Applied);
    assert_eq!(settled, states);
    assert_eq!(store.cancel([running[2].id].into()).await.unwrap(), [Amended::Done(State::Cancelled)]);
    assert_eq!(store.retry([running[2].id].into()).await.unwrap(), [Amended::Done(State::Ready)]);

    let new = open(&store).await;
    store.promote(100).await.unwrap();
    let rest = claim(&store, new, 100).await;
    assert_eq!(rest.len(), 20, "all but the one that is done");
    assert_eq!(store.cancel([rest[0].id].into()).await.unwrap(), [Amended::Done(State::Running)]);
    let settlements: Vec<_> =
        rest.iter().map(|job| settlement(job, Outcome::Completed { output: None })).collect();
    assert!(
        store
            .settle(settlements.as_slice().into())
            .await
            .unwrap()
            .iter()
            .all(|one| *one == Settled::Applied(State::Completed))
    );
    store.close(new).await.unwrap();
    store.close(old).await.unwrap();
    store.sweep(9).await.unwrap();

    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    let keeps_none = QueueConfig {
        retention: Retention { completed: Keep::NONE, ..Retention::default() },
        ..QueueConfig::default()
    };
    store.define(&name("q"), &keeps_none).await.unwrap();
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(store.prune(100).await.unwrap(), 20, "room can be made");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    store.enqueue(several.as_slice().into()).await.unwrap();
}
