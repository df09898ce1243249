//! Records and follow-ups where this store can fail in its own way: a program that ends between posting and delivering, keys
//! of another type, values that do not read, payloads that are written before the script, queues that hold nothing else.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Expect, RecordKey, RecordWrite};
use windlass_core::store::{
    AttemptWrite, AttemptWritten, ClaimAnswer, ClaimRequest, Jobs, Leases, Maintenance, NewLease, QueueShare,
    Queues, Records, Right,
};
use windlass_core::{CallId, ClaimedJob, LeaseId, Name, NewJob, Options, Outcome, State, StoreError, judge};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

struct Scene {
    server: RedisServer,
    clock: ManualClock,
    store: RedisStore,
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn key(text: &str) -> RecordKey {
    RecordKey::new(text).unwrap()
}

fn put(text: &str, value: &str) -> RecordWrite {
    RecordWrite::put(key(text), value.to_owned())
}

fn job(queue: &str, payload: usize) -> NewJob {
    NewJob::new("k", vec![b'x'; payload], Options::new().queue(queue)).unwrap()
}

fn jobs(jobs: impl Into<Vec<NewJob>>) -> FollowUps {
    FollowUps { jobs: jobs.into(), records: Vec::new() }
}

impl Scene {
    async fn new() -> Self {
        let server = RedisServer::start(&RedisSettings::default());
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
        let store = open(&server, &clock).await;
        Self { server, clock, store }
    }

    fn key(queue: &str, name: &str) -> String {
        format!("wl:{{windlass:{queue}}}:{name}")
    }

    fn command(&self, words: &[&str]) -> String {
        self.server.command(words)
    }

    async fn running(&self) -> ClaimedJob {
        self.store.enqueue([job("q", 1)].into()).await.unwrap();
        let queues = vec![name("q")];
        let ttl = Duration::from_secs(3_600);
        let lease = NewLease { id: LeaseId::new(), worker: "w".into(), ttl, queues, kinds: Vec::new() };
        self.store.open(&lease).await.unwrap();
        let request = ClaimRequest {
            lease: lease.id,
            nonce: windlass_core::Fence::nonce(),
            queues: vec![QueueShare { queue: name("q"), limit: 1 }],
            kinds: vec![name("k")],
            limit: 1,
            at_once: 1,
            bytes: 1 << 20,
        };
        match self.store.claim(request).await.unwrap() {
            ClaimAnswer::Jobs { mut jobs, .. } => jobs.remove(0),
            ClaimAnswer::LeaseLost => panic!("the lease lives"),
        }
    }

    async fn end(&self, job: &ClaimedJob, then: FollowUps) -> AttemptWritten {
        let transition = Some(judge(&job.facts, Outcome::Completed { output: None }, 0.5));
        let item = AttemptWrite { queue: job.queue.clone(), id: job.id, fence: job.fence, transition, then };
        self.store.write_fenced(Right::Fence, [item].into()).await.unwrap().remove(0)
    }

    async fn write(&self, records: impl Into<Vec<RecordWrite>>) -> Result<(), StoreError> {
        let what = FollowUps { jobs: Vec::new(), records: records.into() };
        self.store.write(CallId::new(), &name("q"), what).await.map(drop)
    }

    async fn value(&self, text: &str) -> Option<Vec<u8>> {
        let found = self.store.read(&name("q"), [key(text)].into()).await.unwrap().remove(0);
        found.map(|record| record.value.to_vec())
    }

    async fn state(&self, id: windlass_core::JobId) -> Option<State> {
        self.store.get([id].into()).await.unwrap().remove(0).map(|job| job.state)
    }
}

async fn open(server: &RedisServer, clock: &ManualClock) -> RedisStore {
    let options = RedisOptions::parse(&server.url()).unwrap().clock(Arc::new(clock.clone()));
    RedisStore::open_with(options).await.unwrap()
}

fn assert_completed(answer: AttemptWritten) {
    assert!(matches!(answer, AttemptWritten::Applied(State::Completed)), "{answer:?}");
}

#[tokio::test]
async fn what_a_program_did_not_deliver_maintenance_delivers() {
    let scene = Scene::new().await;
    let (running, next) = (scene.running().await, job("other", 9));
    // The target takes nothing, as if its server were away, or the program had ended after the script.
    let meta = Scene::key("other", "meta");
    scene.command(&["SET", &meta, "of another type"]);
    assert_completed(scene.end(&running, jobs([next.clone()])).await);
    assert_eq!(scene.state(running.id).await, Some(State::Completed));
    assert_eq!(scene.command(&["XLEN", &Scene::key("q", "transfers")]), "1");
    scene.command(&["DEL", &meta]);
    let other = open(&scene.server, &scene.clock).await;
    other.promote(100).await.unwrap();
    other.tidy(100).await.unwrap();
    assert_eq!(scene.state(next.id).await, Some(State::Ready));
    assert_eq!(scene.command(&["XLEN", &Scene::key("q", "transfers")]), "0");
}

#[tokio::test]
async fn transfers_that_wait_are_delivered_first() {
    let scene = Scene::new().await;
    let (first, second) = (scene.running().await, scene.running().await);
    let next = [job("other", 9), job("other", 9)];
    let meta = Scene::key("other", "meta");
    scene.command(&["SET", &meta, "of another type"]);
    assert_completed(scene.end(&first, jobs([next[0].clone()])).await);
    scene.command(&["DEL", &meta]);
    assert_completed(scene.end(&second, jobs([next[1].clone()])).await);
    for job in &next {
        assert_eq!(scene.state(job.id).await, Some(State::Ready));
    }
}

#[tokio::test]
async fn a_job_whose_id_is_taken_elsewhere_is_dropped() {
    let scene = Scene::new().await;
    let (running, there) = (scene.running().await, job("other", 9));
    scene.store.enqueue([there.clone()].into()).await.unwrap();
    let next = job("other", 10).with_id(there.id);
    assert_completed(scene.end(&running, jobs([next])).await);
    let found = scene.store.get([there.id].into()).await.unwrap().remove(0).unwrap();
    assert_eq!(found.payload, there.payload);
    assert_eq!(scene.command(&["XLEN", &Scene::key("q", "transfers")]), "0");
}

#[tokio::test]
async fn long_payloads_come_whole_or_leave_nothing() {
    let scene = Scene::new().await;
    let running = scene.running().await;
    let long = [job("q", 300 << 10), job("q", 5_000), job("other", 300 << 10)];
    let mut then = jobs(long.clone());
    scene.write([put("k", "there")]).await.unwrap();
    then.records = vec![put("k", "other").expect(Expect::Absent)];
    let refused = scene.end(&running, then.clone()).await;
    assert!(matches!(refused, AttemptWritten::Refused(StoreError::Conflict { .. })), "{refused:?}");
    assert_eq!(scene.command(&["HLEN", &Scene::key("q", "bodies")]), "0");
    // One is there already: the script has to compare it.
    scene.store.enqueue([long[0].clone()].into()).await.unwrap();
    then.records = vec![put("k", "other")];
    assert_completed(scene.end(&running, then).await);
    for job in &long {
        let found = scene.store.get([job.id].into()).await.unwrap().remove(0).unwrap();
        assert!(found.payload == job.payload, "the payload is another one");
    }
    assert_eq!(scene.value("k").await.unwrap(), b"other");
}

#[tokio::test]
async fn records_with_jobs_of_long_payloads_are_written_together() {
    let scene = Scene::new().await;
    let long = job("q", 400 << 10);
    let what = |expect| FollowUps { jobs: vec![long.clone()], records: vec![put("k", "v").expect(expect)] };
    scene.write([put("k", "before")]).await.unwrap();
    let refused = scene.store.write(CallId::new(), &name("q"), what(Expect::Absent)).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    assert_eq!(scene.command(&["EXISTS", &Scene::key("q", "bodies"), &Scene::key("q", "jobs")]), "0");
    scene.store.write(CallId::new(), &name("q"), what(Expect::Any)).await.unwrap();
    assert_eq!(
        (scene.state(long.id).await, scene.value("k").await),
        (Some(State::Ready), Some(b"v".to_vec()))
    );
}

#[tokio::test]
async fn expired_records_are_removed_and_with_the_last_one_the_queue() {
    let scene = Scene::new().await;
    let many: Vec<_> = (0..90).map(|i| put(&format!("many/{i}"), "v").ttl(Duration::from_secs(5))).collect();
    let long = RecordWrite::put(key("long"), vec![b'x'; 5_000]).ttl(Duration::from_secs(5));
    scene.write(many).await.unwrap();
    scene.write([long, put("stays", "v")]).await.unwrap();
    let counts = || {
        let hashes = ["records", "record-values"].map(|key| scene.command(&["HLEN", &Scene::key("q", key)]));
        let orders =
            ["record-keys", "record-expiry"].map(|key| scene.command(&["ZCARD", &Scene::key("q", key)]));
        [hashes, orders].concat()
    };
    scene.store.promote(100).await.unwrap();
    assert_eq!(counts(), ["92", "1", "92", "91"]);
    scene.clock.advance(Duration::from_secs(70));
    scene.store.promote(100).await.unwrap();
    assert_eq!(counts(), ["1", "0", "1", "0"]);
    assert_eq!(scene.value("stays").await.unwrap(), b"v");
    // Idle queues are visited about once an hour, and one that remembers something stays known.
    let names = || scene.command(&["ZRANGE", "wl:{windlass}:queues", "0", "-1"]);
    for _ in 0..3 {
        scene.clock.advance(Duration::from_secs(2 * 3_600));
        scene.store.promote(100).await.unwrap();
    }
    assert_eq!(names(), "q");
    assert_eq!(scene.store.queues(None, 10).await.unwrap(), []);
    scene.write([RecordWrite::remove(key("stays"))]).await.unwrap();
    for _ in 0..3 {
        scene.clock.advance(Duration::from_secs(2 * 3_600));
        scene.store.promote(100).await.unwrap();
    }
    assert_eq!(names(), "");
    assert_eq!(scene.command(&["KEYS", "wl:{windlass:q}*"]), "");
}

#[tokio::test]
async fn a_removed_queue_that_remembers_something_is_still_visited() {
    let scene = Scene::new().await;
    scene.store.define(&name("q"), &Default::default()).await.unwrap();
    scene.write([put("k", "v").ttl(Duration::from_secs(5))]).await.unwrap();
    scene.store.remove(&name("q")).await.unwrap();
    assert_eq!(scene.value("k").await.unwrap(), b"v");
    scene.store.promote(100).await.unwrap();
    scene.clock.advance(Duration::from_secs(2 * 3_600));
    scene.store.promote(100).await.unwrap();
    assert_eq!(scene.command(&["EXISTS", &Scene::key("q", "records")]), "0");
}

#[tokio::test]
async fn a_record_that_does_not_read_harms_no_other() {
    let scene = Scene::new().await;
    scene.write([put("a", "1"), put("b", "1"), put("c", "1")]).await.unwrap();
    scene.command(&["HSET", &Scene::key("q", "records"), "b", "cut"]);
    let error = scene.store.read(&name("q"), [key("b")].into()).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
    assert_eq!(scene.value("a").await.unwrap(), b"1");
    let page = scene.store.list(&name("q"), "", None, 10).await.unwrap();
    assert_eq!(page.records.iter().map(|record| record.key.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    let refused = scene.write([put("b", "2").expect(Expect::Absent)]).await;
    assert!(matches!(refused, Err(StoreError::Conflict { found: None, .. })), "{refused:?}");
    assert_eq!(scene.store.totals(&name("q")).await.unwrap().count, 2);
    scene.write([put("b", "2")]).await.unwrap();
    assert_eq!(scene.value("b").await.unwrap(), b"2");
}

#[tokio::test]
async fn a_key_of_another_type_refuses_what_needs_it_and_nothing_else() {
    let scene = Scene::new().await;
    let running = scene.running().await;
    for name in ["records", "record-keys", "record-expiry", "record-values", "transfers"] {
        let key = Scene::key("q", name);
        scene.command(&["SET", &key, "of another type"]);
        let then = FollowUps { jobs: vec![job("q", 1), job("other", 1)], records: vec![put("k", "v")] };
        let transition = Some(judge(&running.facts, Outcome::Completed { output: None }, 0.5));
        let (queue, id, fence) = (running.queue.clone(), running.id, running.fence);
        let item = AttemptWrite { queue, id, fence, transition, then: then.clone() };
        assert!(scene.store.write_fenced(Right::Fence, [item].into()).await.is_err(), "{name}");
        assert_eq!(scene.state(running.id).await, Some(State::Running), "{name}");
        assert_eq!(scene.state(then.jobs[0].id).await, None, "{name}");
        if name != "transfers" {
            assert!(scene.write([put("k", "v")]).await.is_err(), "{name}");
            scene.store.promote(10).await.unwrap();
        }
        scene.command(&["DEL", &key]);
    }
    assert_completed(scene.end(&running, jobs([])).await);
}

#[tokio::test]
async fn pages_go_on_where_many_records_are_gone() {
    let scene = Scene::new().await;
    for hundred in 0..15 {
        let write = |i| put(&format!("{:04}", hundred * 100 + i), "v").ttl(Duration::from_secs(5));
        scene.write((0..100).map(write).collect::<Vec<_>>()).await.unwrap();
    }
    scene.write([put("0500", "stays"), put("1499", "stays")]).await.unwrap();
    scene.clock.advance(Duration::from_secs(6));
    let page = scene.store.list(&name("q"), "", None, 2).await.unwrap();
    assert_eq!(page.records.iter().map(|record| record.key.as_str()).collect::<Vec<_>>(), ["0500", "1499"]);
    assert_eq!(page.next, None);
    let page = scene.store.list(&name("q"), "", None, 1).await.unwrap();
    let page = scene.store.list(&name("q"), "", page.next.as_ref(), 1).await.unwrap();
    assert_eq!(page.records[0].key.as_str(), "1499");
    let totals = scene.store.totals(&name("q")).await.unwrap();
    assert_eq!((totals.count, totals.bytes, totals.has_more), (2, 10, false));
}

/// An attempt that is put back, and whose follow-up replaces its own job by their unique key: the job says the new content.
#[tokio::test]
async fn what_follows_meets_jobs_as_the_end_left_them() {
    let scene = Scene::new().await;
    let unique = windlass_core::unique::Unique::key("u").replace();
    let options = || Options::new().queue("q").unique(unique.clone());
    scene.store.enqueue([NewJob::new("k", "first", options().priority(9)).unwrap()].into()).await.unwrap();
    let running = scene.running().await;
    assert_eq!(running.payload, "first");
    let failure = windlass_core::outcome::Failure::error("no");
    let transition = Some(judge(&running.facts, Outcome::Retry { failure }, 0.5));
    let next = NewJob::new("k", "second", options()).unwrap();
    let (queue, id, fence) = (running.queue.clone(), running.id, running.fence);
    let item = AttemptWrite { queue, id, fence, transition, then: jobs([next.clone()]) };
    let answer = scene.store.write_fenced(Right::Fence, [item].into()).await.unwrap().remove(0);
    assert!(matches!(answer, AttemptWritten::Applied(State::Scheduled)), "{answer:?}");
    let found = scene.store.get([running.id].into()).await.unwrap().remove(0).unwrap();
    assert_eq!((found.state, found.payload), (State::Scheduled, "second".into()));
    assert_eq!(scene.state(next.id).await, None);
}
