//! Figures, not assertions: what the server pays for a job, and how long the longest script holds it where there is much
//! of something. `cargo bench -p windlass-store-redis`, or only some of it: `… -- kinds payloads due rules jobs keys gates`.
//!
//! Each case runs a few times; the least disturbed one is printed, since the server's log counts the time in which a
//! script stood still because other programs ran. On a busy machine look at the time in which the server ran, which
//! counts what it did to hear the call and to answer as well.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use windlass_core::job::NewJob;
use windlass_core::queue::{KeyRules, Pause, Pauses, QueueConfig, Rate, Shape};
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Jobs, Leases, Maintenance, NewLease, QueueShare, Queues, Settlement,
};
use windlass_core::unique::Unique;
use windlass_core::{ClaimedJob, Fence, LeaseId, Name, Options, Outcome, judge};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

const ROUNDS: usize = 5;
const SPAN: Duration = Duration::from_secs(3_600);

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// An empty server with a lease on its one queue.
struct Scene {
    server: RedisServer,
    store: RedisStore,
    lease: LeaseId,
}

impl Scene {
    async fn new() -> Self {
        let settings =
            RedisSettings::default().set("slowlog-log-slower-than", 0).set("slowlog-max-len", 10_000);
        let server = RedisServer::start(&settings);
        let store = RedisStore::open_with(RedisOptions::parse(&server.url()).unwrap()).await.unwrap();
        let lease = LeaseId::new();
        let (ttl, queues) = (Duration::from_secs(600), vec![name("q")]);
        store
            .open(&NewLease { id: lease, worker: "worker".into(), ttl, queues, kinds: Vec::new() })
            .await
            .unwrap();
        Self { server, store, lease }
    }

    async fn add(&self, jobs: impl Iterator<Item = NewJob>) {
        let jobs: Vec<_> = jobs.collect();
        for jobs in jobs.chunks(1_000) {
            self.store.enqueue(jobs.into()).await.unwrap();
        }
    }

    async fn claim(&self, kinds: &[Name], limit: u32, bytes: usize) -> Vec<ClaimedJob> {
        let request = ClaimRequest {
            lease: self.lease,
            nonce: Fence::nonce(),
            queues: vec![QueueShare { queue: name("q"), limit }],
            kinds: kinds.to_vec(),
            limit,
            at_once: limit,
            bytes,
        };
        match self.store.claim(request.clone()).await.unwrap() {
            ClaimAnswer::Jobs { jobs, .. } => jobs,
            ClaimAnswer::LeaseLost => panic!("the lease lives"),
        }
    }

    async fn settle(&self, jobs: &[ClaimedJob], outcome: impl Fn() -> Outcome) {
        let settlement = |job: &ClaimedJob| {
            let transition = judge(&job.facts, outcome(), 0.5);
            Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
        };
        let settlements: Vec<_> = jobs.iter().map(settlement).collect();
        self.store.settle(settlements.as_slice().into()).await.unwrap();
    }

    fn forget(&self) {
        self.server.command(&["SLOWLOG", "RESET"]);
    }

    /// The times of the scripts since then, in microseconds, each with the commands before it in its transaction.
    fn scripts(&self) -> Vec<u64> {
        // As `redis-cli` writes an entry: number, time, micros, and then the command. The newest comes first.
        let log = self.server.command(&["SLOWLOG", "GET", "10000"]);
        let lines: Vec<_> = log.lines().collect();
        let mut scripts = Vec::new();
        for pair in lines.windows(2) {
            let micros = || pair[0].trim().parse::<u64>().unwrap();
            match (pair[1], scripts.last_mut()) {
                ("EVALSHA" | "EVAL", _) => scripts.push(micros()),
                ("HSET" | "HSETNX", Some(script)) => *script += micros(),
                _ => {}
            }
        }
        scripts
    }

    /// The time in which the server ran, in nanoseconds: what it waited for the machine does not count.
    fn ran(&self) -> u64 {
        let times = std::fs::read_to_string(format!("/proc/{}/schedstat", self.server.pid())).unwrap();
        times.split(' ').next().unwrap().parse().unwrap()
    }

    /// Notes what the server took for each of so many jobs since the last time.
    fn note(&self, rows: &mut [(&str, f64)], row: usize, jobs: usize, since: &mut u64) {
        let now = self.ran();
        rows[row].1 = rows[row].1.min((now - *since) as f64 / 1_000.0 / jobs as f64);
        *since = self.ran();
    }
}

fn job(kind: &str, length: usize, options: Options) -> NewJob {
    NewJob::new(kind, vec![b'x'; length], options.queue("q")).unwrap()
}

/// Prints the longest and the number of scripts, of the round in which the longest was shortest.
fn print_longest(case: &str, rounds: &[Vec<u64>]) {
    let best = rounds.iter().min_by_key(|scripts| scripts.iter().max()).unwrap();
    let longest = *best.iter().max().unwrap() as f64 / 1_000.0;
    println!("{case}: longest script {longest:.1} ms of {} scripts", best.len());
}

async fn many_kinds() {
    let kinds: Vec<_> = (0..1_000).map(|number| name(&format!("kind-{number}"))).collect();
    for ready in [1_000, 20, 0] {
        let (mut rounds, mut ran) = (Vec::new(), u64::MAX);
        for _ in 0..ROUNDS {
            let scene = Scene::new().await;
            let spread = |place: usize| job(kinds[place % ready].as_str(), 10, Options::new());
            scene.add((0..if ready == 0 { 0 } else { 4_000 }).map(spread)).await;
            // So that the script is known.
            scene.claim(&kinds, 1, usize::MAX).await;
            scene.forget();
            for _ in 0..4 {
                let since = scene.ran();
                scene.claim(&kinds, 500, usize::MAX).await;
                ran = ran.min(scene.ran() - since);
            }
            rounds.push(scene.scripts());
        }
        print_longest(&format!("claims of 500 over 1,000 kinds, {ready} of them ready"), &rounds);
        println!("  the server ran for {:.1} ms", ran as f64 / 1_000_000.0);
    }
}

async fn large_payloads() {
    for (count, length) in [(16, 1 << 20), (160, 100 << 10), (3_276, 5 << 10), (16_384, 1 << 10)] {
        let (mut entering, mut leaving) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let scene = Scene::new().await;
            scene.forget();
            for _ in 0..count {
                scene.add(std::iter::once(job("k", length, Options::new()))).await;
            }
            entering.push(scene.scripts());
            scene.claim(&[name("l")], 1, usize::MAX).await;
            scene.forget();
            let jobs = scene.claim(&[name("k")], count, 16 << 20).await;
            assert_eq!(jobs.len(), count as usize);
            leaving.push(scene.scripts());
        }
        let what = format!("{count} payloads of {} KiB", length >> 10);
        let mut together = Vec::new();
        for _ in 0..ROUNDS {
            let scene = Scene::new().await;
            scene.add(std::iter::once(job("k", length, Options::new()))).await;
            scene.forget();
            let jobs: Vec<_> = (0..count.min(1_000)).map(|_| job("k", length, Options::new())).collect();
            scene.store.enqueue(jobs.as_slice().into()).await.unwrap();
            together.push(scene.scripts());
        }
        print_longest(&format!("{what}, at most 1,000 of them enqueued by one call"), &together);
        print_longest(&format!("{what}, enqueued one by one"), &entering);
        print_longest(&format!("{what}, one claim"), &leaving);
    }
}

async fn many_due_jobs() {
    let (mut claims, mut sweeps) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let scene = Scene::new().await;
        let delayed = || job("k", 10, Options::new().delay(Duration::from_secs(20)));
        scene.add((0..200_000).map(|_| delayed())).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        scene.claim(&[name("l")], 1, usize::MAX).await;
        scene.forget();
        for _ in 0..50 {
            assert_eq!(scene.claim(&[name("k")], 64, usize::MAX).await.len(), 64);
        }
        claims.push(scene.scripts());
        scene.forget();
        scene.store.promote(1_000).await.unwrap();
        sweeps.push(scene.scripts());
    }
    print_longest("50 claims of 64 while 200,000 are due", &claims);
    print_longest("a sweep while they are due", &sweeps);
}

async fn server_time_per_job() {
    let names = ["enqueue, 1,000 a call", "enqueue, one a call", "claim, 400 a call", "settle, 400 a call"];
    let more = [
        "claim, one a call",
        "settle, one a call",
        "settle to retry",
        "claim of retried",
        "enqueue, delayed",
        "promote",
    ];
    let mut rows: Vec<_> = names.into_iter().chain(more).map(|name| (name, f64::MAX)).collect();
    for _ in 0..3 * ROUNDS {
        let scene = Scene::new().await;
        let (kinds, completed) = ([name("k")], || Outcome::Completed { output: None });
        scene.add(std::iter::once(job("k", 12, Options::new()))).await;
        let jobs = scene.claim(&kinds, 9, usize::MAX).await;
        scene.settle(&jobs, completed).await;
        let mut since = scene.ran();
        scene.add((0..20_000).map(|_| job("k", 12, Options::new()))).await;
        scene.note(&mut rows, 0, 20_000, &mut since);
        for _ in 0..300 {
            scene.add(std::iter::once(job("k", 12, Options::new()))).await;
        }
        scene.note(&mut rows, 1, 300, &mut since);
        let mut claimed = Vec::new();
        for _ in 0..25 {
            claimed.push(scene.claim(&kinds, 400, usize::MAX).await);
        }
        scene.note(&mut rows, 2, 10_000, &mut since);
        for jobs in &claimed {
            scene.settle(jobs, completed).await;
        }
        scene.note(&mut rows, 3, 10_000, &mut since);
        let mut claimed = Vec::new();
        for _ in 0..300 {
            claimed.push(scene.claim(&kinds, 1, usize::MAX).await);
        }
        scene.note(&mut rows, 4, 300, &mut since);
        for jobs in &claimed {
            scene.settle(jobs, completed).await;
        }
        scene.note(&mut rows, 5, 300, &mut since);
        let jobs = scene.claim(&kinds, 2_000, usize::MAX).await;
        since = scene.ran();
        scene.settle(&jobs, || Outcome::Returned).await;
        scene.note(&mut rows, 6, jobs.len(), &mut since);
        scene.claim(&kinds, 2_000, usize::MAX).await;
        scene.note(&mut rows, 7, jobs.len(), &mut since);
        let delay = Options::new().delay(Duration::from_millis(500));
        scene.add((0..2_000).map(|_| job("k", 12, delay.clone()))).await;
        scene.note(&mut rows, 8, 2_000, &mut since);
        tokio::time::sleep(Duration::from_millis(600)).await;
        since = scene.ran();
        scene.store.promote(2_000).await.unwrap();
        scene.note(&mut rows, 9, 2_000, &mut since);
    }
    for (what, micros) in rows {
        println!("{what}: {micros:.2} us of the server per job");
    }
}

fn own_key(number: usize) -> Options {
    Options::new().unique(Unique::key(number.to_string()))
}

/// The memory that a waiting job takes, of many.
async fn memory(options: impl Fn(usize) -> Options) -> u64 {
    let scene = Scene::new().await;
    let used = || {
        let info = scene.server.command(&["INFO", "memory"]);
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    scene.add(std::iter::once(job("mail.send", 10, Options::new()))).await;
    let before = used();
    scene.add((0..100_000).map(|number| job("mail.send", 10, options(number)))).await;
    (used() - before) / 100_000
}

/// As [`server_time_per_job`], for jobs with a unique key of their own, and for those that meet its holder.
async fn server_time_per_key() {
    let names = ["enqueue", "enqueue, held", "replace", "claim", "settle", "enqueue, windows"];
    let mut rows = names.map(|name| (name, f64::MAX));
    for _ in 0..3 * ROUNDS {
        let scene = Scene::new().await;
        let keyed = |number: usize| job("k", 12, Options::new().unique(Unique::key(number.to_string())));
        let replacing =
            |number: usize| job("k", 12, Options::new().unique(Unique::key(number.to_string()).replace()));
        let windowed = |number: usize| {
            job("k", 12, Options::new().unique(Unique::key(number.to_string()).for_window(SPAN)))
        };
        scene.add(std::iter::once(keyed(0))).await;
        let mut since = scene.ran();
        scene.add((0..10_000).map(keyed)).await;
        scene.note(&mut rows, 0, 10_000, &mut since);
        scene.add((0..10_000).map(keyed)).await;
        scene.note(&mut rows, 1, 10_000, &mut since);
        scene.add((0..10_000).map(replacing)).await;
        scene.note(&mut rows, 2, 10_000, &mut since);
        let mut claimed = Vec::new();
        for _ in 0..25 {
            claimed.push(scene.claim(&[name("k")], 400, usize::MAX).await);
        }
        scene.note(&mut rows, 3, 10_000, &mut since);
        for jobs in &claimed {
            scene.settle(jobs, || Outcome::Completed { output: None }).await;
        }
        scene.note(&mut rows, 4, 10_000, &mut since);
        scene.add((10_000..20_000).map(windowed)).await;
        scene.note(&mut rows, 5, 10_000, &mut since);
    }
    let windows = |number: usize| Options::new().unique(Unique::key(number.to_string()).for_window(SPAN));
    let (plain, keyed) = (memory(|_| Options::new()).await, memory(own_key).await);
    let windowed = memory(windows).await;
    println!("a waiting job takes {plain} B, with a key {keyed} B, with one for a window {windowed} B");
    for (what, micros) in rows {
        println!("with a key, {what}: {micros:.2} us of the server per job");
    }
}

/// What the rules of a queue cost its claims, beside one that has none.
async fn claims_by_rules() {
    let (second, many) = (Duration::from_secs(1), 1_000_000);
    let rate = |rate: Rate| QueueConfig { rate: Some(rate), ..QueueConfig::default() };
    let kinds = [(name("l"), Pause::default())].into();
    let bucket = Rate::new(10_000, second).shape(Shape::Bucket { burst: 10_000 });
    let cases = [
        ("no rules", QueueConfig::default()),
        (
            "a paused kind",
            QueueConfig { pauses: Pauses { kinds, ..Pauses::default() }, ..QueueConfig::default() },
        ),
        ("a concurrency", QueueConfig { concurrency: Some(many), ..QueueConfig::default() }),
        ("a sliding rate", rate(Rate::new(many, second))),
        ("a bucket", rate(bucket)),
    ];
    let mut rows = cases.each_ref().map(|(case, _)| (*case, f64::MAX));
    for _ in 0..3 * ROUNDS {
        for (row, (_, config)) in cases.iter().enumerate() {
            let (scene, asked) = (Scene::new().await, [name("k"), name("l")]);
            scene.store.define(&name("q"), config).await.unwrap();
            scene.add((0..601).map(|_| job("k", 12, Options::new()))).await;
            assert_eq!(scene.claim(&asked, 1, usize::MAX).await.len(), 1);
            let mut since = scene.ran();
            for _ in 0..600 {
                scene.claim(&asked, 1, usize::MAX).await;
            }
            scene.note(&mut rows, row, 600, &mut since);
        }
    }
    for (case, micros) in rows {
        println!("claim, one a call, of a queue with {case}: {micros:.2} us of the server");
    }
}

/// As [`server_time_per_job`], for jobs of many keys that they take turns by, two of each.
async fn server_time_per_turn() {
    let mut rows = ["enqueue", "claim", "settle"].map(|name| (name, f64::MAX));
    let config = QueueConfig { keys: Some(KeyRules::default()), ..QueueConfig::default() };
    for _ in 0..ROUNDS {
        let scene = Scene::new().await;
        scene.store.define(&name("q"), &config).await.unwrap();
        let turning = |number: usize| job("k", 12, Options::new().key(format!("key-{}", number % 10_000)));
        let mut since = scene.ran();
        scene.add((0..20_000).map(turning)).await;
        scene.note(&mut rows, 0, 20_000, &mut since);
        let claimed = scene.claim(&[name("k")], 20_000, usize::MAX).await;
        scene.note(&mut rows, 1, 20_000, &mut since);
        for jobs in claimed.chunks(400) {
            scene.settle(jobs, || Outcome::Completed { output: None }).await;
        }
        scene.note(&mut rows, 2, 20_000, &mut since);
    }
    for (what, micros) in rows {
        println!("in turn by 10,000 keys, {what}: {micros:.2} us of the server per job");
    }
}

/// As [`server_time_per_job`], for jobs of 1,000 keys that they take turns by; then claims that look at many gates in vain.
async fn server_time_per_gate() {
    let mut rows = ["enqueue", "claim", "settle", "claim, one a call"].map(|name| (name, f64::MAX));
    let (gated, rules) =
        (|number: usize| Options::new().key((number % 1_000).to_string()), KeyRules::default());
    let rules = KeyRules { concurrency: Some(1_000), rate: Some(Rate::new(10_000, SPAN)), ..rules };
    let config = QueueConfig { keys: Some(rules), ..QueueConfig::default() };
    let mut in_vain = Vec::new();
    for _ in 0..ROUNDS {
        let scene = Scene::new().await;
        scene.store.define(&name("q"), &config).await.unwrap();
        scene.add(std::iter::once(job("k", 12, gated(0)))).await;
        scene.claim(&[name("k")], 1, usize::MAX).await;
        let mut since = scene.ran();
        scene.add((0..10_000).map(|number| job("k", 12, gated(number)))).await;
        scene.note(&mut rows, 0, 10_000, &mut since);
        let mut claimed = Vec::new();
        for _ in 0..24 {
            claimed.push(scene.claim(&[name("k")], 400, usize::MAX).await);
        }
        scene.note(&mut rows, 1, 9_600, &mut since);
        for jobs in &claimed {
            scene.settle(jobs, || Outcome::Completed { output: None }).await;
        }
        scene.note(&mut rows, 2, 9_600, &mut since);
        for _ in 0..400 {
            assert_eq!(scene.claim(&[name("k")], 1, usize::MAX).await.len(), 1);
        }
        scene.note(&mut rows, 3, 400, &mut since);
        scene.add((0..100_000).map(|number| job("k", 12, gated(number)))).await;
        scene.forget();
        for _ in 0..4 {
            assert_eq!(scene.claim(&[name("l")], 9, usize::MAX).await, []);
        }
        in_vain.push(scene.scripts());
    }
    for (what, micros) in rows {
        println!("behind gates, {what}: {micros:.2} us of the server per job");
    }
    print_longest("claims of a kind that no job behind 1,000 gates has", &in_vain);
}

#[tokio::main]
async fn main() {
    let asked: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_asked = |part: &str| asked.is_empty() || asked.iter().any(|word| word == part);
    if is_asked("kinds") {
        many_kinds().await;
    }
    if is_asked("payloads") {
        large_payloads().await;
    }
    if is_asked("due") {
        many_due_jobs().await;
    }
    if is_asked("rules") {
        claims_by_rules().await;
    }
    if is_asked("jobs") {
        server_time_per_job().await;
    }
    if is_asked("keys") {
        server_time_per_key().await;
    }
    if is_asked("gates") {
        server_time_per_turn().await;
        server_time_per_gate().await;
    }
}
