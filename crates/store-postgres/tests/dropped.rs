//! Calls whose futures are dropped at any moment leave no transaction open and the store whole.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use windlass_core::job::ClaimedJob;
use windlass_core::judge::judge;
use windlass_core::queue::QueueConfig;
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Filter, Inspect, Jobs, Leases, Maintenance, NewLease, Progress, QueueShare,
    Queues, Settlement, StoreResult,
};
use windlass_core::{JobId, LeaseId, Name, NewJob, Options, Outcome, State, StoreErrorKind};
use windlass_store_postgres::PostgresStore;
use windlass_store_testkit::servers::{PostgresServer, Settings};

const CALLERS: u32 = 16;
const TTL: Duration = Duration::from_secs(600);

/// What callers know of the store.
struct Stage {
    store: PostgresStore,
    lease: LeaseId,
    ids: Mutex<Vec<JobId>>,
    claimed: Mutex<Vec<ClaimedJob>>,
    left: AtomicU32,
    finished: AtomicU32,
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

impl Stage {
    async fn new(store: PostgresStore, drops: u32) -> Self {
        let stage = Self {
            store,
            lease: LeaseId::new(),
            ids: Mutex::default(),
            claimed: Mutex::default(),
            left: AtomicU32::new(drops),
            finished: AtomicU32::new(0),
        };
        stage.store.open(&stage.new_lease(stage.lease)).await.unwrap();
        stage
    }

    fn new_lease(&self, id: LeaseId) -> NewLease {
        NewLease {
            id,
            worker: "w".to_owned(),
            ttl: TTL,
            queues: vec![name("a"), name("b")],
            kinds: Vec::new(),
        }
    }

    fn some_ids(&self) -> Vec<JobId> {
        let ids = self.ids.lock().unwrap();
        (0..fastrand::usize(1..4)).filter_map(|_| fastrand::choice(ids.iter()).copied()).collect()
    }

    fn new_jobs(&self) -> Vec<NewJob> {
        let options = || match fastrand::u8(0..4) {
            0 => Options::new().queue("b").delay(Duration::from_millis(fastrand::u64(1..50))),
            1 => Options::new().queue("b").expires_in(Duration::from_millis(fastrand::u64(1..50))),
            _ => Options::new().queue("a"),
        };
        let jobs: Vec<_> =
            (0..fastrand::usize(1..4)).map(|_| NewJob::new("k", "payload", options()).unwrap()).collect();
        self.ids.lock().unwrap().extend(jobs.iter().map(|job| job.id));
        jobs
    }

    fn claim(&self) -> ClaimRequest {
        let queues = ["a", "b"].map(|queue| QueueShare { queue: name(queue), limit: 3 });
        ClaimRequest {
            lease: self.lease,
            nonce: windlass_core::Fence::nonce(),
            queues: queues.into(),
            kinds: vec![name("k")],
            limit: 4,
            at_once: 4,
            bytes: 1 << 20,
        }
    }

    fn some_claimed(&self) -> Vec<ClaimedJob> {
        let mut claimed = self.claimed.lock().unwrap();
        let from = claimed.len().saturating_sub(fastrand::usize(1..4));
        claimed.split_off(from)
    }

    /// Any call there is.
    fn call(self: &Arc<Self>) -> Pin<Box<dyn Future<Output = StoreResult<()>> + Send>> {
        let stage = Arc::clone(self);
        Box::pin(async move {
            let store = &stage.store;
            match fastrand::u8(0..24) {
                0..=4 => store.enqueue(stage.new_jobs().into()).await.map(drop),
                5..=9 => store.claim(stage.claim()).await.map(|answer| {
                    let ClaimAnswer::Jobs { jobs, .. } = answer else { panic!("the lease is lost") };
                    stage.claimed.lock().unwrap().extend(jobs);
                }),
                10..=12 => store.settle(settlements(&stage.some_claimed()).into()).await.map(drop),
                13 => {
                    let jobs = stage.some_claimed();
                    let report = |job: &ClaimedJob| Progress {
                        queue: job.queue.clone(),
                        id: job.id,
                        fence: job.fence,
                        progress: "half".into(),
                    };
                    store.progress(jobs.iter().map(report).collect::<Vec<_>>().into()).await.map(drop)
                }
                14 => store.get(stage.some_ids().into()).await.map(drop),
                15 => store.cancel(stage.some_ids().into()).await.map(drop),
                16 => store.retry(stage.some_ids().into()).await.map(drop),
                17 => store.delete(stage.some_ids().into()).await.map(drop),
                18 => store.list(&Filter::default(), None, 10).await.map(drop),
                19 => {
                    let id = LeaseId::new();
                    store.open(&stage.new_lease(id)).await?;
                    store.close(id).await
                }
                20 => store.renew(stage.lease, TTL, 10).await.map(drop),
                21 => {
                    store.lost(10).await?;
                    store.sweep(10).await?;
                    store.leases(10).await.map(drop)
                }
                22 => {
                    store.promote(10).await?;
                    store.tidy(10).await?;
                    store.prune(10).await.map(drop)
                }
                _ => {
                    store.define(&name("b"), &QueueConfig::default()).await?;
                    store.queues(None, 10).await.map(drop)
                }
            }
        })
    }

    /// Makes calls and drops them after a few polls or microseconds.
    async fn drop_calls(self: Arc<Self>) {
        while self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
        {
            let mut call = self.call();
            let answer = if fastrand::bool() {
                let mut polls_left = fastrand::u8(0..3);
                std::future::poll_fn(move |context| match call.as_mut().poll(context) {
                    Poll::Ready(answer) => Poll::Ready(Some(answer)),
                    Poll::Pending if polls_left == 0 => Poll::Ready(None),
                    Poll::Pending => {
                        polls_left -= 1;
                        Poll::Pending
                    }
                })
                .await
            } else {
                tokio::time::timeout(Duration::from_micros(fastrand::u64(..3_000)), call).await.ok()
            };
            if let Some(answer) = answer {
                self.finished.fetch_add(1, Ordering::Relaxed);
                check(answer);
            }
            if fastrand::u8(0..16) == 0 {
                // No caller is to be more than a few calls ahead of the store.
                check(self.store.get([JobId::new()].into()).await.map(drop));
            }
        }
    }
}

fn check(answer: StoreResult<()>) {
    if let Err(error) = answer {
        assert!(error.kind() == StoreErrorKind::Unavailable, "{error:?}");
    }
}

fn settlements(jobs: &[ClaimedJob]) -> Vec<Settlement> {
    let outcome = || match fastrand::u8(0..3) {
        0 => Outcome::Returned,
        1 => Outcome::Stalled { worker: "w".to_owned() },
        _ => Outcome::Completed { output: None },
    };
    let settle = |job: &ClaimedJob| Settlement {
        queue: job.queue.clone(),
        id: job.id,
        fence: job.fence,
        transition: judge(&job.facts, outcome(), 0.0),
    };
    jobs.iter().map(settle).collect()
}

/// Waits until the server says so.
async fn until(server: &PostgresServer, sql: &str, answer: &str) {
    let started = Instant::now();
    while server.psql(sql) != answer {
        assert!(started.elapsed() < Duration::from_secs(60), "{sql}: {}", server.psql(sql));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_calls_leave_no_transaction_open_and_the_store_whole() {
    let drops = std::env::var("WINDLASS_DROPS").map_or(5_000, |text| text.parse().unwrap());
    let server = PostgresServer::start(&Settings::default());
    let stage = Arc::new(Stage::new(PostgresStore::open(&server.url()).await.unwrap(), drops).await);
    let is_over = AtomicBool::new(false);
    let watch = async {
        while !is_over.load(Ordering::Relaxed) {
            assert_eq!(
                server.psql("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in tr%'"),
                "0"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let callers = async {
        let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(Arc::clone(&stage).drop_calls())).collect();
        for caller in callers {
            caller.await.unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    };
    futures_util::future::join(watch, callers).await;
    let (lease, finished) = (stage.lease, stage.finished.load(Ordering::Relaxed));
    drop(stage);
    // What was handed in is finished, then the store takes leave.
    until(&server, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'windlass'", "0").await;
    assert_eq!(server.psql("SELECT sum(deadlocks) FROM pg_stat_database"), "0");

    let store = PostgresStore::open(&server.url()).await.unwrap();
    let found = whole(&store, &server).await;
    store.close(lease).await.unwrap();
    let mut taken_back = 0;
    loop {
        let lost = store.lost(1_000).await.unwrap();
        if lost.is_empty() {
            break;
        }
        let settle = |job: &windlass_core::job::LostJob| Settlement {
            queue: job.queue.clone(),
            id: job.id,
            fence: job.fence,
            transition: judge(&job.facts, job.outcome(), 0.0),
        };
        taken_back += store.reap(lost.iter().map(settle).collect::<Vec<_>>().into()).await.unwrap().len();
    }
    assert_eq!(server.psql("SELECT count(*) FROM windlass.running"), "0", "jobs of dropped claims come back");
    assert_eq!(whole(&store, &server).await, found);
    println!("{drops} calls, {finished} of them not dropped in time; {found} jobs, {taken_back} taken back");
}

/// Every job stands in one place, and is counted there. Answers how many there are.
async fn whole(store: &PostgresStore, server: &PostgresServer) -> u64 {
    let astray = "SELECT count(*) FROM (SELECT seq FROM windlass.jobs) AS j FULL JOIN (
            SELECT seq FROM windlass.waiting UNION ALL SELECT seq FROM windlass.running
            UNION ALL SELECT seq FROM windlass.ended
        ) AS p ON p.seq = j.seq
        WHERE p.seq IS NULL OR j.seq IS NULL";
    assert_eq!(server.psql(astray), "0", "jobs that stand nowhere, or places without a job");
    let twice = "SELECT count(*) FROM (
            SELECT seq FROM windlass.waiting UNION ALL SELECT seq FROM windlass.running
            UNION ALL SELECT seq FROM windlass.ended
        ) AS p GROUP BY seq HAVING count(*) > 1";
    assert_eq!(server.psql(twice), "", "jobs that stand in two places");
    let mut all = 0;
    for queue in store.queues(None, 10).await.unwrap() {
        for state in State::ALL {
            let filter = Filter { queue: Some(queue.name.clone()), state: Some(state), ..Filter::default() };
            let (mut listed, mut after) = (0, None);
            loop {
                let page = store.list(&filter, after.as_ref(), 1_000).await.unwrap();
                listed += page.jobs.len() as u64;
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(queue.counts.of(state), listed, "{} jobs in {}", state, queue.name);
            all += listed;
        }
    }
    all
}
