//! Stores in namespaces of one server or Cluster, on a clock that stands still until a test moves it.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass_core::Name;
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::store::SharedStore;
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::{Exception, Harness, async_trait};

pub(crate) struct Namespaces {
    url: String,
    /// Tells the namespaces of this process from others'.
    name: String,
    made: AtomicUsize,
    clock: ManualClock,
}

impl Namespaces {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            name: format!("test-{}-{:x}", std::process::id(), fastrand::u32(..)),
            made: AtomicUsize::new(0),
            clock: ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000)),
        }
    }

    async fn open(&self, namespace: &str) -> SharedStore {
        let options = RedisOptions::parse(&self.url).unwrap().namespace(namespace).unwrap();
        Arc::new(RedisStore::open_with(options.clock(Arc::new(self.clock.clone()))).await.unwrap())
    }
}

#[async_trait]
impl Harness for Namespaces {
    async fn fresh(&self) -> SharedStore {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.open(&format!("{}-{number}", self.name)).await
    }

    async fn another(&self, of: &SharedStore) -> Option<SharedStore> {
        let place = of.about().place;
        let (_, namespace) = place.rsplit_once(' ')?;
        Some(self.open(namespace).await)
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn use_rule(&self, of: &SharedStore, queue: &Name, rule: u32) -> bool {
        let place = of.about().place;
        let (_, namespace) = place.rsplit_once(' ').unwrap();
        let key = format!("wl:{{{namespace}:{queue}}}:meta");
        let script = "redis.call('HINCRBY', KEYS[1], 'version', 1) \
             return redis.call('HSET', KEYS[1], 'config', '{}', 'rules', ARGV[1])";
        let (_, rest) = self.url.split_once("://").unwrap();
        let (host, port) = rest.split([',', '/', '?']).next().unwrap().rsplit_once(':').unwrap();
        let mut client = Command::new("redis-cli");
        client.args(["-c", "-e", "-h", host, "-p", port, "EVAL", script, "1", &key, &rule.to_string()]);
        assert!(client.stdout(Stdio::null()).status().unwrap().success());
        true
    }

    fn cannot(&self) -> Vec<Exception> {
        vec![Exception {
            clause: "enqueue::an_id_is_taken_in_every_queue",
            reason: "queues live on different servers of a Cluster, so an id is unique within its queue",
        }]
    }
}
