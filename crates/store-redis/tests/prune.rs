//! Pruning a long history while jobs run: in steps so short that nobody waits for one.
//!
//! `WINDLASS_PRUNE_JOBS=1500000` makes the history that long, and the test then demands more.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Filter, Inspect, Jobs, Leases, Maintenance, NewLease, QueueShare, Queues,
    Settlement,
};
use windlass_core::{LeaseId, Name, NewJob, Options, Outcome, State, judge};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

/// How long a script may take, in microseconds.
const LONG_MICROS: u64 = 20_000;

/// Copies of one completed job, as if each had been accepted, run and completed: ARGV 1 how many.
const COPY: &str = r"
local p, n = 'wl:{prune:q}:', tonumber(ARGV[1])
local template = redis.call('GET', 'template')
if not template then
  template = redis.call('HVALS', p .. 'jobs')[1]
  redis.call('SET', 'template', template)
end
local meta = redis.call('HMGET', p .. 'meta', 'seq', 'block')
local seq, block = tonumber(meta[1]), tonumber(meta[2])
local long_ago = struct.unpack('>I8', template, 2) - 2 * 3600 * 1000000
local sub, pack = string.sub, struct.pack
for from = 1, n, 128 do
  local ids, jobs, ends, outputs = {}, {}, {}, {}
  block = block + 1
  for i = from, math.min(from + 127, n) do
    seq = seq + 1
    local id, seq8 = pack('>I8I8', seq, i * 7919), pack('>I8', seq)
    ids[#ids + 1] = id
    jobs[#jobs + 1] = id
    jobs[#jobs + 1] = 'b' .. pack('>I8', long_ago + i) .. sub(template, 10, 49) .. seq8 .. sub(template, 58, 67)
      .. pack('>I4', block) .. sub(template, 72)
    ends[#ends + 1] = long_ago + i
    ends[#ends + 1] = seq8 .. id
    outputs[#outputs + 1] = id
    outputs[#outputs + 1] = 'an output of a few words'
  end
  redis.call('HSET', p .. 'jobs', unpack(jobs))
  redis.call('ZADD', p .. 'completed', unpack(ends))
  redis.call('HSET', p .. 'outputs', unpack(outputs))
  redis.call('APPEND', p .. 'block:' .. block, table.concat(ids))
  redis.call('ZADD', p .. 'blocks', seq - #ids + 1, block)
  redis.call('HINCRBY', p .. 'live', block, #ids)
end
redis.call('HSET', p .. 'meta', 'seq', string.format('%.0f', seq), 'block', block)
redis.call('HINCRBY', p .. 'meta', 'c4', n)
return n";

fn queue() -> Name {
    Name::new("q").unwrap()
}

async fn lease(store: &RedisStore) -> LeaseId {
    let lease = NewLease {
        id: LeaseId::new(),
        worker: "w".into(),
        ttl: Duration::from_secs(600),
        queues: vec![queue()],
        kinds: Vec::new(),
    };
    store.open(&lease).await.unwrap();
    lease.id
}

/// Lets so many jobs be accepted, run and completed.
async fn run_jobs(store: &RedisStore, lease: LeaseId, count: usize) {
    let jobs: Vec<_> =
        (0..count).map(|_| NewJob::new("k", vec![b'x'; 200], Options::new().queue("q")).unwrap()).collect();
    store.enqueue(jobs.as_slice().into()).await.unwrap();
    let request = ClaimRequest {
        lease,
        nonce: windlass_core::Fence::nonce(),
        queues: vec![QueueShare { queue: queue(), limit: count as u32 }],
        kinds: vec![Name::new("k").unwrap()],
        limit: count as u32,
        at_once: count as u32,
        bytes: usize::MAX,
    };
    let ClaimAnswer::Jobs { jobs, .. } = store.claim(request.clone()).await.unwrap() else {
        panic!("the lease lives")
    };
    assert_eq!(jobs.len(), count);
    let settlements: Vec<_> = jobs
        .iter()
        .map(|job| {
            let transition = judge(&job.facts, Outcome::Completed { output: Some("done".into()) }, 0.5);
            Settlement { queue: queue(), id: job.id, fence: job.fence, transition }
        })
        .collect();
    store.settle(settlements.as_slice().into()).await.unwrap();
}

/// Lets the server go before everything else on this machine, where that is allowed: the slow log counts the time in
/// which a script stood still because others ran.
fn hurry(server: &RedisServer) {
    let pid = server.pid().to_string();
    let _ = std::process::Command::new("chrt").args(["--fifo", "--all-tasks", "--pid", "10", &pid]).output();
}

/// The slow log's times of scripts, in microseconds.
fn slow_scripts(server: &RedisServer) -> Vec<u64> {
    // As `redis-cli` writes an entry: number, time, micros, and then the command.
    let log = server.command(&["SLOWLOG", "GET", "10000"]);
    let lines: Vec<_> = log.lines().collect();
    let is_script = |place: usize| lines[place].eq_ignore_ascii_case("EVALSHA");
    (1..lines.len())
        .filter(|&place| is_script(place))
        .filter_map(|place| lines[place - 1].trim().parse().ok())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_history_is_pruned_while_jobs_run() {
    let asked = std::env::var("WINDLASS_PRUNE_JOBS").ok().map(|text| text.parse::<usize>().unwrap());
    let history = asked.unwrap_or(30_000);
    let settings =
        RedisSettings::default().set("slowlog-log-slower-than", 5_000).set("slowlog-max-len", 10_000);
    let server = RedisServer::start(&settings);
    hurry(&server);
    let options = RedisOptions::parse(&server.url()).unwrap().namespace("prune").unwrap();
    let store = RedisStore::open_with(options).await.unwrap();
    let hour = Duration::from_secs(3_600);
    let retention = Retention { completed: Keep::age(hour), ..Retention::default() };
    store.define(&queue(), &QueueConfig { retention, ..QueueConfig::default() }).await.unwrap();
    let lease_id = lease(&store).await;
    run_jobs(&store, lease_id, 1).await;
    for step in (0..history).step_by(10_000) {
        server.command(&["EVAL", COPY, "0", &(history - step).min(10_000).to_string()]);
    }
    assert_eq!(completed(&store).await, history as u64 + 1);
    server.command(&["SLOWLOG", "RESET"]);
    server.command(&["CONFIG", "RESETSTAT"]);

    let is_over = Arc::new(AtomicBool::new(false));
    let (runner, until) = (store.clone(), Arc::clone(&is_over));
    let running = tokio::spawn(async move {
        let (mut jobs, mut longest) = (0, Duration::ZERO);
        while !until.load(Ordering::Relaxed) {
            let began = Instant::now();
            run_jobs(&runner, lease_id, 100).await;
            longest = longest.max(began.elapsed());
            jobs += 100;
        }
        (jobs, longest)
    });
    let (began, mut pruned) = (Instant::now(), 0);
    loop {
        let gone = store.prune(500).await.unwrap();
        pruned += gone as usize;
        if gone < 500 {
            break;
        }
    }
    let took = began.elapsed();
    is_over.store(true, Ordering::Relaxed);
    let (jobs, longest) = running.await.unwrap();

    assert_eq!(pruned, history, "what is old goes, and nothing else");
    assert_eq!(completed(&store).await, jobs + 1);
    assert_eq!(store.prune(500).await.unwrap(), 0);
    let page = store.list(&Filter::default(), None, 10).await.unwrap();
    assert_eq!(page.jobs.len(), 10.min(jobs as usize + 1));
    for gone in ["blocks", "live"] {
        let kept = server
            .command(&[if gone == "live" { "HLEN" } else { "ZCARD" }, &format!("wl:{{prune:q}}:{gone}")]);
        // The oldest holds the job that was copied.
        assert!(
            kept.trim().parse::<u64>().unwrap() <= jobs / 128 + 3,
            "{gone}: {kept} blocks of {jobs} jobs"
        );
    }
    let slow = slow_scripts(&server);
    let slowest = slow.iter().copied().max().unwrap_or(0);
    let scripts: u64 = calls(&server);
    println!(
        "pruned {pruned} in {took:?} beside {jobs} jobs (longest round of 100: {longest:?}); of {scripts} scripts {} took \
         more than 5 ms, the longest {slowest} us",
        slow.len()
    );
    // What the machine does for others meanwhile may hold up any script, but not many.
    let long = slow.iter().filter(|micros| **micros > LONG_MICROS).count() as u64;
    assert!(
        long <= 1 + scripts / 1_000,
        "{long} of {scripts} scripts took more than {LONG_MICROS} us: {slow:?}"
    );
}

/// How many scripts the server has run.
fn calls(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let scripts = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    scripts.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}

async fn completed(store: &RedisStore) -> u64 {
    store.queues(None, 1).await.unwrap()[0].counts.of(State::Completed)
}
