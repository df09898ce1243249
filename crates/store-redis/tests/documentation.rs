//! What `docs/operations/redis.md` says about rights and keys, tried on a server.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::process::Command;
use std::time::Duration;

use windlass_core::follow_ups::FollowUps;
use windlass_core::queue::{QueueConfig, Rate};
use windlass_core::record::{RecordKey, RecordWrite};
use windlass_core::store::{
    AttemptWrite, AttemptWritten, Begin, ClaimAnswer, ClaimRequest, EndPlace, Filter, Inspect, Jobs, Leases,
    Maintenance, NewLease, QueueShare, Queues, Records, Right, Settlement, Store,
};
use windlass_core::{CallId, JobId, LeaseId, Name, NewJob, Options, Outcome, StoreError, judge};
use windlass_store_redis::RedisStore;
use windlass_store_testkit::servers::{Aof, RedisServer, RedisSettings};

const PAGE: &str = include_str!("../../../docs/operations/redis.md");

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// What the page gives a user, after its password.
fn rules() -> &'static str {
    let rules = PAGE.split_once("ACL SETUSER worker on >secret ").unwrap().1;
    rules.split_once('\n').unwrap().0
}

fn claim(lease: LeaseId, queues: &[Name]) -> ClaimRequest {
    ClaimRequest {
        lease,
        nonce: windlass_core::Fence::nonce(),
        queues: queues.iter().map(|queue| QueueShare { queue: queue.clone(), limit: 9 }).collect(),
        kinds: vec![name("k")],
        limit: 9,
        at_once: 9,
        bytes: 1 << 20,
    }
}

/// The life of jobs in two queues, and everything else that programs do.
async fn live(store: &RedisStore) {
    let queues = [name("default"), name("other")];
    let (lease, ttl) = (LeaseId::new(), Duration::from_secs(60));
    store
        .open(&NewLease { id: lease, worker: "w".into(), ttl, queues: queues.to_vec(), kinds: Vec::new() })
        .await
        .unwrap();
    let job = |queue: &Name, payload: usize| {
        NewJob::new("k", vec![b'x'; payload], Options::new().queue(queue.as_str())).unwrap()
    };
    let later = NewJob::new("k", "", Options::new().delay(ttl).expires_in(2 * ttl).priority(3)).unwrap();
    store.enqueue([job(&queues[0], 10), job(&queues[1], 5_000), later.clone()].into()).await.unwrap();
    let limited =
        QueueConfig { concurrency: Some(50), rate: Some(Rate::new(50, ttl)), ..QueueConfig::default() };
    store.define(&queues[0], &Default::default()).await.unwrap();
    assert!(store.redefine(&queues[0], &Default::default(), &limited).await.unwrap());
    store.now().await.unwrap();
    store.ended(&queues[0], windlass_core::State::Dead, EndPlace::START, 9).await.unwrap();
    let request = claim(lease, &queues);
    let ClaimAnswer::Jobs { jobs, .. } = store.claim(request.clone()).await.unwrap() else {
        panic!("the lease lives")
    };
    assert_eq!(jobs.len(), 2);
    assert_eq!(store.held(lease, request.nonce, queues.clone().into(), 9).await.unwrap().len(), 2);
    for (job, outcome) in
        jobs.iter().zip([Outcome::Completed { output: Some("1".into()) }, Outcome::Returned])
    {
        store.begin([Begin { queue: job.queue.clone(), id: job.id, fence: job.fence }].into()).await.unwrap();
        let transition = judge(&job.facts, outcome, 0.5);
        let settlement = Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition };
        store.settle([settlement.clone()].into()).await.unwrap();
        store.settle_late([settlement].into()).await.unwrap();
    }
    let ids = [later.id, jobs[0].id, jobs[1].id];
    store.retry(ids.into()).await.unwrap();
    store.cancel(ids.into()).await.unwrap();
    store.renew(lease, ttl, 10).await.unwrap();
    store.lost(10).await.unwrap();
    store.promote(10).await.unwrap();
    store.tidy(10).await.unwrap();
    store.prune(10).await.unwrap();
    assert_eq!(Inspect::list(store, &Filter::default(), None, 10).await.unwrap().jobs.len(), 3);
    assert_eq!(store.queues(None, 10).await.unwrap().len(), 2);
    assert_eq!(store.leases(10).await.unwrap().len(), 1);
    assert!(store.get(ids.into()).await.unwrap().iter().all(Option::is_some));
    store.delete((&ids[..1]).into()).await.unwrap();
    let long = [job(&queues[0], 300 << 10), job(&queues[0], 300 << 10), job(&queues[1], 300 << 10)];
    for call in [&long[..1], &long[1..]] {
        store.enqueue(call.into()).await.unwrap();
    }
    store.delete(long.each_ref().map(|job| job.id).into()).await.unwrap();
    let unique = windlass_core::unique::Unique::key("u").for_window(ttl).replace();
    let keyed = [&queues[0], &queues[0], &queues[1]].map(|queue| {
        let options = Options::new().queue(queue.as_str()).unique(unique.clone());
        NewJob::new("k", "p", options).unwrap()
    });
    for call in [&keyed[..2], &keyed[..]] {
        store.enqueue(call.into()).await.unwrap();
    }
    store.delete(keyed.each_ref().map(|job| job.id).into()).await.unwrap();
    remember(store, &queues[0]).await;
    store.close(lease).await.unwrap();
    store.sweep(10).await.unwrap();
}

/// Records, and what follows an attempt that is over.
async fn remember(store: &RedisStore, queue: &Name) {
    let key = RecordKey::new("k").unwrap();
    let (timed, long) = (RecordWrite::put(key.clone(), "v").ttl(Duration::ZERO), vec![0; 5_000]);
    for write in [timed, RecordWrite::put(key.clone(), long), RecordWrite::remove(key.clone())] {
        let then = FollowUps { jobs: Vec::new(), records: vec![write] };
        store.write(CallId::new(), queue, then.clone()).await.unwrap();
        store.read(queue, [key.clone()].into()).await.unwrap();
        Records::list(store, queue, "", None, 10).await.unwrap();
        store.totals(queue).await.unwrap();
        let fence = windlass_core::Fence { number: 1, nonce: 1 };
        let item = AttemptWrite { queue: queue.clone(), id: JobId::new(), fence, transition: None, then };
        assert!(matches!(
            store.write_fenced(Right::Fence, [item].into()).await.unwrap()[..],
            [AttemptWritten::Fenced]
        ));
    }
}

#[tokio::test]
async fn a_user_with_the_rights_of_the_page_can_do_everything() {
    let settings = RedisSettings::default().aof(Aof::Always).user("worker", "secret", rules());
    let server = RedisServer::start(&settings);
    let store = RedisStore::open(&server.url()).await.unwrap();
    assert_eq!(store.about().durability.to_string(), "survives a power cut", "the settings can be read");
    live(&store).await;
    // As `redis-cli` writes an entry: the name of a field, then its value.
    let log = server.command(&["ACL", "LOG"]);
    let lines: Vec<_> = log.lines().collect();
    let refused: Vec<_> = lines.windows(2).filter(|pair| pair[0] == "object").map(|pair| pair[1]).collect();
    assert_eq!(refused, ["acl|getuser"], "the server refused nothing but what the page says");

    let foreign = format!("{}?namespace=other", server.url());
    let error = RedisStore::open(&foreign).await.expect_err("these keys are not its own");
    assert!(matches!(&error, StoreError::Address(what) if what.contains("permission")), "{error}");
    assert_eq!(server.command(&["KEYS", "wl:{other*"]), "");
}

#[tokio::test]
async fn the_commands_of_the_page_show_and_remove_what_they_say() {
    let server = RedisServer::start(&RedisSettings::default());
    let store = RedisStore::open(&server.url()).await.unwrap();
    live(&store).await;
    let trial = RedisStore::open(&format!("{}?namespace=trial", server.url())).await.unwrap();
    live(&trial).await;

    let port = server.port().to_string();
    let blocks = PAGE.split("\n```sh\n").skip(1).map(|rest| rest.split_once("\n```").unwrap().0);
    for line in blocks.flat_map(str::lines).filter(|line| line.starts_with("redis-cli ")) {
        let line = line.replace("redis-cli ", &format!("redis-cli -e -p {port} "));
        let said = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert!(said.status.success(), "{line}: {}", String::from_utf8_lossy(&said.stderr));
    }
    assert_eq!(server.command(&["KEYS", "wl:{trial*"]), "", "nothing of a removed namespace is left");
    assert_ne!(server.command(&["HGET", "wl:{windlass:default}:meta", "version"]), "");
    assert_eq!(server.command(&["ZRANGE", "wl:{windlass}:queues", "0", "-1"]), "default\nother");
}
