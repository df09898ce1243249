//! A namespace with a lease on two queues, one of which something is wrong with.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::job::LostJob;
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Enqueued, Jobs, Leases, NewLease, QueueShare, Settlement, SickQueue,
};
use windlass_core::{ClaimedJob, Fence, JobId, JobRecord, LeaseId, Name, NewJob, Options, judge};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

pub(crate) const TTL: Duration = Duration::from_secs(60);

/// A namespace of its own, with a lease on two queues.
pub(crate) struct Scene {
    pub(crate) server: Arc<RedisServer>,
    pub(crate) namespace: String,
    pub(crate) store: RedisStore,
    pub(crate) clock: ManualClock,
    pub(crate) lease: LeaseId,
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn job(queue: &str, options: Options) -> NewJob {
    NewJob::new("k", "payload", options.queue(queue)).unwrap()
}

/// What a claim answered.
pub(crate) struct Claimed {
    pub(crate) jobs: Vec<ClaimedJob>,
    pub(crate) unreadable: Vec<LostJob>,
    pub(crate) sick: Vec<SickQueue>,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::on(Arc::new(RedisServer::start(&RedisSettings::default()))).await
    }

    pub(crate) async fn on(server: Arc<RedisServer>) -> Self {
        let namespace = format!("isolation-{:x}", fastrand::u64(..));
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
        let options = RedisOptions::parse(&server.url()).unwrap().namespace(&namespace).unwrap();
        let store = RedisStore::open_with(options.clock(Arc::new(clock.clone()))).await.unwrap();
        let queues = vec![name("bad"), name("good")];
        let lease = LeaseId::new();
        store
            .open(&NewLease { id: lease, worker: "w".into(), ttl: TTL, queues, kinds: Vec::new() })
            .await
            .unwrap();
        Self { server, namespace, store, clock, lease }
    }

    pub(crate) async fn add(&self, queue: &str, options: Options) -> JobId {
        let job = job(queue, options);
        assert_eq!(self.store.enqueue([job.clone()].into()).await.unwrap(), [Enqueued::New]);
        job.id
    }

    pub(crate) async fn claim(&self, limit: u32) -> Claimed {
        self.claim_kinds(limit, &["k"]).await
    }

    pub(crate) async fn claim_kinds(&self, limit: u32, kinds: &[&str]) -> Claimed {
        let request = ClaimRequest {
            lease: self.lease,
            nonce: Fence::nonce(),
            queues: ["bad", "good"].map(|queue| QueueShare { queue: name(queue), limit }).to_vec(),
            kinds: kinds.iter().map(|kind| name(kind)).collect(),
            limit,
            at_once: limit,
            bytes: usize::MAX,
        };
        match self.store.claim(request.clone()).await.unwrap() {
            ClaimAnswer::Jobs { jobs, unreadable, sick, .. } => Claimed { jobs, unreadable, sick },
            ClaimAnswer::LeaseLost => panic!("the lease lives"),
        }
    }

    /// A key of queue `bad`.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("wl:{{{}:bad}}:{name}", self.namespace)
    }

    /// Puts another kind of content under a key of queue `bad`.
    pub(crate) fn spoil(&self, name: &str) {
        self.server.command(&["DEL", &self.key(name)]);
        self.server.command(&["SET", &self.key(name), "in the way"]);
    }

    /// Puts a byte into the record of a job in queue `bad`, at a place that counts from 1. Answers the one that was there.
    pub(crate) fn put(&self, id: JobId, place: usize, byte: u8) -> u8 {
        let script = "local record, place = redis.call('HGET', KEYS[1], id), tonumber(ARGV[2]) \
             redis.call('HSET', KEYS[1], id, string.sub(record, 1, place - 1) .. string.char(ARGV[3]) \
               .. string.sub(record, place + 1)) \
             return string.byte(record, place)";
        self.eval(script, id, &[&place.to_string(), &byte.to_string()]).parse().unwrap()
    }

    /// The record of a job in queue `bad` as it is stored, in hexadecimal digits.
    pub(crate) fn record(&self, id: JobId) -> String {
        let script = "return (string.gsub(redis.call('HGET', KEYS[1], id), '.', function(c) \
             return string.format('%02x', string.byte(c)) end))";
        self.eval(script, id, &[])
    }

    /// Runs a script on the records of queue `bad`, about a job.
    pub(crate) fn eval(&self, script: &str, id: JobId, more: &[&str]) -> String {
        let read =
            "local id = string.gsub(ARGV[1], '%x%x', function(x) return string.char(tonumber(x, 16)) end) ";
        let (script, key) = (format!("{read}{script}"), self.key("jobs"));
        let id: String = id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        self.server.command(&[&["EVAL", &script, "1", &key, &id], more].concat())
    }

    /// Lets this program know the form of what is parked in queue `bad`, as a newer one would.
    pub(crate) fn know_parked(&self) {
        let script = "for _, kind in ipairs({ 'k', 'l' }) do \
             for _, member in ipairs(redis.call('ZRANGE', KEYS[1] .. kind, 0, -1)) do \
               redis.call('ZADD', KEYS[1] .. kind, 65, member) end end";
        self.server.command(&["EVAL", script, "1", &self.key("parked:")]);
    }

    pub(crate) async fn get(&self, id: JobId) -> JobRecord {
        self.store.get([id].into()).await.unwrap().remove(0).unwrap()
    }
}

pub(crate) fn settlement(job: &LostJob) -> Settlement {
    let transition = judge(&job.facts, job.outcome(), 0.5);
    Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
}

pub(crate) fn ids(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}
