//! Removal of queues: what is left on the server, and what programs do that knew the queue before.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use windlass_core::queue::{QueueConfig, Removed};
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Filter, Inspect, Jobs, Leases, NewLease, QueueShare, Queues, Settlement,
};
use windlass_core::{ClaimedJob, Fence, LeaseId, Name, NewJob, Options, Outcome, judge};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

const TTL: Duration = Duration::from_secs(600);

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn job(queue: &str, kind: &str) -> NewJob {
    NewJob::new(kind, "payload", Options::new().queue(queue)).unwrap()
}

async fn open(server: &RedisServer) -> RedisStore {
    RedisStore::open_with(RedisOptions::parse(&server.url()).unwrap()).await.unwrap()
}

async fn lease(store: &RedisStore, queue: &str) -> LeaseId {
    let (id, queues) = (LeaseId::new(), vec![name(queue)]);
    store.open(&NewLease { id, worker: "w".into(), ttl: TTL, queues, kinds: Vec::new() }).await.unwrap();
    id
}

async fn claim(store: &RedisStore, lease: LeaseId, queue: &str, kinds: &[String]) -> Vec<ClaimedJob> {
    let request = ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: vec![QueueShare { queue: name(queue), limit: 100 }],
        kinds: kinds.iter().map(|kind| name(kind)).collect(),
        limit: 100,
        at_once: 100,
        bytes: usize::MAX,
    };
    match store.claim(request).await.unwrap() {
        ClaimAnswer::Jobs { jobs, .. } => jobs,
        ClaimAnswer::LeaseLost => panic!("the lease lives"),
    }
}

/// The keys of a queue, without those that the server removes by itself.
fn keys(server: &RedisServer, queue: &str) -> Vec<String> {
    let prefix = format!("wl:{{windlass:{queue}}}:");
    let found = server.command(&["KEYS", &format!("{prefix}*")]);
    let mut keys: Vec<_> = found
        .lines()
        .filter_map(|key| key.strip_prefix(&prefix))
        .filter(|key| !key.starts_with("call:"))
        .map(str::to_owned)
        .collect();
    keys.sort();
    keys
}

fn names(server: &RedisServer) -> Vec<String> {
    server.command(&["ZRANGE", "wl:{windlass}:queues", "0", "-1"]).lines().map(str::to_owned).collect()
}

/// Deletes all jobs of a queue.
async fn empty(store: &RedisStore, queue: &str) {
    let filter = Filter { queue: Some(name(queue)), ..Filter::default() };
    loop {
        let page = store.list(&filter, None, 1_000).await.unwrap();
        let ids: Vec<_> = page.jobs.iter().map(|job| job.id).collect();
        store.delete(ids.as_slice().into()).await.unwrap();
        if page.next.is_none() {
            return;
        }
    }
}

/// More kinds and blocks than one script forgets, jobs of every form and state, places of jobs that have gone.
#[tokio::test]
async fn a_removed_queue_leaves_no_keys_but_living_leases() {
    let server = RedisServer::start(&RedisSettings::default());
    let store = open(&server).await;
    let kinds: Vec<_> = (0..600).map(|number| format!("kind-{number}")).collect();
    let jobs: Vec<_> = kinds.iter().map(|kind| job("q", kind)).collect();
    store.enqueue(jobs.as_slice().into()).await.unwrap();
    let other =
        |options: Options, bytes| NewJob::new("kind-1", vec![b'x'; bytes], options.queue("q")).unwrap();
    let delayed = Options::new().delay(TTL).expires_in(2 * TTL);
    let windowed = Options::new().unique(windlass_core::unique::Unique::key("u").for_window(TTL));
    let others = [other(delayed, 9), other(Options::new().priority(3), 5_000), other(windowed, 9)];
    store.enqueue(others.into()).await.unwrap();
    store.define(&name("q"), &QueueConfig::default()).await.unwrap();
    let first = lease(&store, "q").await;
    let claimed = claim(&store, first, "q", &kinds).await;
    store.cancel([claimed[0].id].into()).await.unwrap();
    let failure = || windlass_core::outcome::Failure::error("no");
    for (place, job) in claimed.iter().enumerate() {
        let outcome = match place % 3 {
            0 => Outcome::Completed { output: Some("out".into()) },
            1 => Outcome::Fail { failure: failure() },
            _ => Outcome::Retry { failure: failure() },
        };
        let transition = judge(&job.facts, outcome, 0.5);
        let settlement = Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition };
        store.settle([settlement].into()).await.unwrap();
    }
    let Removed::NotEmpty(counts) = store.remove(&name("q")).await.unwrap() else { panic!("it has jobs") };
    assert_eq!(counts.total(), 603);
    assert_eq!(server.command(&["EXISTS", "wl:{windlass}:leaving"]), "0", "it does not leave");
    empty(&store, "q").await;
    assert_eq!(store.remove(&name("q")).await.unwrap(), Removed::Done);
    assert_eq!((keys(&server, "q"), names(&server)), (vec!["leases".to_owned()], Vec::new()));
    store.close(first).await.unwrap();
    assert_eq!(keys(&server, "q"), [""; 0]);
    assert_eq!(server.command(&["EXISTS", "wl:{windlass}:leaving"]), "0");
}

/// Nothing is left of a queue either that was never defined.
#[tokio::test]
async fn a_queue_without_definition_is_missing_and_forgotten() {
    let server = RedisServer::start(&RedisSettings::default());
    let store = open(&server).await;
    store.enqueue([job("q", "k")].into()).await.unwrap();
    empty(&store, "q").await;
    assert_eq!(names(&server), ["q"]);
    assert_eq!(store.remove(&name("q")).await.unwrap(), Removed::Missing);
    assert_eq!((keys(&server, "q"), names(&server)), (Vec::new(), Vec::new()));
}

/// Each of these is the first write of a program that entered the queue before it was removed by another.
#[tokio::test]
async fn a_program_that_knew_the_queue_enters_it_anew() {
    let server = RedisServer::start(&RedisSettings::default());
    let (knowing, removing) = (open(&server).await, open(&server).await);
    for queue in ["q", "r"] {
        knowing.enqueue([job(queue, "k")].into()).await.unwrap();
    }
    for (step, expected) in
        [("one", &["q"][..]), ("define", &["q"]), ("home", &["q", "r"]), ("target", &["q", "r"])]
    {
        for queue in ["q", "r"] {
            empty(&removing, queue).await;
            assert!(!matches!(removing.remove(&name(queue)).await.unwrap(), Removed::NotEmpty(_)));
        }
        assert_eq!(names(&server), [""; 0]);
        match step {
            "one" => drop(knowing.enqueue([job("q", "k")].into()).await.unwrap()),
            "define" => knowing.define(&name("q"), &QueueConfig::default()).await.unwrap(),
            "home" => drop(knowing.enqueue([job("q", "k"), job("r", "k")].into()).await.unwrap()),
            _ => drop(knowing.enqueue([job("r", "k"), job("q", "k")].into()).await.unwrap()),
        }
        assert_eq!(names(&server), expected, "{step}");
        let listed = removing.queues(None, 9).await.unwrap();
        assert_eq!(listed.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>(), expected, "{step}");
    }
}
