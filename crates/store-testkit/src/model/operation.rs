//! What a run consists of, and how a seed becomes a run. Operations name jobs, leases and attempts by small
//! numbers, so that they still make sense when others before them are left out.

use std::time::Duration;

use fastrand::Rng;
use windlass_core::follow_ups::FollowUps;
use windlass_core::job::NewJob;
use windlass_core::options::Due;
use windlass_core::outcome::{Cause, Failure};
use windlass_core::queue::{JobDefaults, Keep, KeyRules, Pause, Pauses, QueueConfig, Rate, Retention, Shape};
use windlass_core::record::{Change, Expect, RecordKey, RecordWrite, Version};
use windlass_core::retry::{Jitter, Policy};
use windlass_core::size::Caps;
use windlass_core::store::{Filter, QueueShare, Right};
use windlass_core::unique::Unique;
use windlass_core::{Bytes, JobId, Name, Options, Outcome, State};

use crate::scene::{name, seconds};

/// Ids that a run can use.
pub(super) const JOBS: usize = 40;
/// Leases that a run can use.
pub(super) const LEASES: usize = 4;
/// Queues that a run can use.
pub(super) const QUEUES: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
pub(super) enum Operation {
    Enqueue {
        jobs: Vec<NewJob>,
        /// The call before once more, instead of these.
        is_repeat: bool,
    },
    Claim {
        lease: usize,
        queues: Vec<QueueShare>,
        kinds: Vec<Name>,
        limit: u32,
        at_once: u32,
        bytes: usize,
        /// Of the nonce.
        is_odd: bool,
    },
    Begin {
        attempt: usize,
        is_forged: bool,
    },
    Settle(Vec<Settling>),
    SettleLate(Settling),
    /// Asks what hangs on a lease by the nonce of an attempt.
    Held {
        lease: usize,
        attempt: usize,
    },
    Progress {
        attempt: usize,
        is_forged: bool,
        bytes: Bytes,
    },
    /// Changes records of a queue, and hands jobs in with that.
    Write {
        queue: Name,
        what: FollowUps,
    },
    /// Writes follow-ups of an attempt, with its end or without.
    Follow {
        right: Right,
        settling: Settling,
        ends: bool,
        then: FollowUps,
    },
    Open {
        lease: usize,
        ttl: Duration,
    },
    Renew {
        lease: usize,
        ttl: Duration,
    },
    Close {
        lease: usize,
    },
    /// Reads what is lost and takes it back, as a reaper does.
    ReapLost,
    /// Tries to take an attempt back without looking.
    ReapHastily {
        attempt: usize,
    },
    Sweep,
    Cancel(Vec<usize>),
    Withdraw(Vec<usize>),
    Retry(Vec<usize>),
    Delete(Vec<usize>),
    Define {
        queue: Name,
        config: Box<QueueConfig>,
    },
    Remove(Name),
    Promote,
    Prune,
    List {
        filter: Filter,
        limit: u32,
    },
    Advance(Duration),
}

/// The outcome of an attempt, with the judge's dice.
#[derive(Debug, Clone)]
pub(super) struct Settling {
    pub(super) attempt: usize,
    pub(super) is_forged: bool,
    pub(super) outcome: Outcome,
    pub(super) dice: f64,
}

/// What an id names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// One job in the whole store.
    OfStore,
    /// One job in each queue, so a run keeps every id to one queue.
    OfQueue,
}

/// The id of a job of a run.
pub(super) fn job_id(index: usize) -> JobId {
    let mut bytes = [0x70; 16];
    bytes[15] = u8::try_from(index).expect("there are few jobs in a run");
    JobId::from_bytes(bytes)
}

/// The operations of a seed. One of the queues begins as one that keeps none, one as one of which few jobs may run or
/// start, and one with keys; each of them in some runs with aged priority.
pub(super) fn script(seed: u64, steps: usize, ids: Ids) -> Vec<Operation> {
    let mut rng = Rng::with_seed(seed);
    let retention = Retention { completed: Keep::NONE, dead: Keep::NONE, cancelled: Keep::NONE };
    let aging = |one_of| seed.is_multiple_of(one_of).then(|| seconds(2));
    let none = QueueConfig { retention, aging: aging(3), ..QueueConfig::default() };
    let first = Operation::Define { queue: name("c"), config: Box::new(none) };
    let (few, slow) = ((seed.is_multiple_of(2)).then_some(2), (!seed.is_multiple_of(2)).then(bucket));
    let few = QueueConfig { concurrency: few, rate: slow, aging: aging(5), ..QueueConfig::default() };
    let second = Operation::Define { queue: name("b"), config: Box::new(few) };
    let keys = match seed % 3 {
        0 => KeyRules { concurrency: Some(1), ..KeyRules::default() },
        1 => KeyRules { rate: Some(bucket()), ..KeyRules::default() },
        _ => KeyRules::default(),
    };
    let keyed = QueueConfig { keys: Some(keys), aging: aging(2), ..QueueConfig::default() };
    let third = Operation::Define { queue: name("a"), config: Box::new(keyed) };
    [first, second, third].into_iter().chain((0..steps).map(|_| operation(&mut rng, ids))).collect()
}

fn operation(rng: &mut Rng, ids: Ids) -> Operation {
    match rng.u32(..100) {
        0..22 => Operation::Enqueue {
            jobs: (0..pick(rng, [1, 1, 2, 5])).map(|_| new_job(rng, ids)).collect(),
            is_repeat: rng.u32(..10) == 0,
        },
        22..38 => claim(rng),
        38..43 => Operation::Begin { attempt: rng.usize(..8), is_forged: rng.u32(..5) == 0 },
        43..58 => Operation::Settle((0..pick(rng, [1, 1, 3])).map(|_| settling(rng)).collect()),
        58..61 => Operation::SettleLate(settling(rng)),
        61 => Operation::Held { lease: rng.usize(..LEASES), attempt: rng.usize(..8) },
        62..65 => Operation::Progress {
            attempt: rng.usize(..8),
            is_forged: rng.u32(..5) == 0,
            bytes: Bytes::from(vec![b'p'; pick(rng, [0, 3, 40])]),
        },
        65..69 => Operation::Open { lease: rng.usize(..LEASES), ttl: seconds(pick(rng, [0, 4, 30, 60])) },
        69..72 => Operation::Renew { lease: rng.usize(..LEASES), ttl: seconds(pick(rng, [2, 8, 40])) },
        72 => Operation::Close { lease: rng.usize(..LEASES) },
        73..76 => Operation::ReapLost,
        76 => Operation::ReapHastily { attempt: rng.usize(..8) },
        77 => Operation::Sweep,
        78..81 => Operation::Cancel(some_jobs(rng)),
        81 => Operation::Withdraw(some_jobs(rng)),
        82..85 => Operation::Retry(some_jobs(rng)),
        85..87 => Operation::Delete(some_jobs(rng)),
        87 => Operation::Define { queue: queue(rng), config: Box::new(config(rng)) },
        88..90 => Operation::Promote,
        90 => Operation::Prune,
        91 => Operation::List { filter: filter(rng), limit: pick(rng, [0, 1, 3, 50]) },
        92 => Operation::Remove(queue(rng)),
        93 => write(rng, ids),
        94..96 => follow(rng, ids),
        _ => Operation::Advance(seconds(pick(rng, [1, 1, 2, 3, 5, 11]))),
    }
}

fn write(rng: &mut Rng, ids: Ids) -> Operation {
    let queue = queue(rng);
    let mut what = follow_ups(rng, ids);
    what.jobs.retain(|job| job.queue == queue);
    Operation::Write { queue, what }
}

fn follow(rng: &mut Rng, ids: Ids) -> Operation {
    let right = pick(rng, [Right::Fence, Right::Fence, Right::Fence, Right::LostLease, Right::Late]);
    Operation::Follow { right, settling: settling(rng), ends: rng.u32(..4) > 0, then: follow_ups(rng, ids) }
}

/// Jobs that are the same under their id each time: a store that keeps queues apart drops another one under a taken id.
fn follow_ups(rng: &mut Rng, ids: Ids) -> FollowUps {
    let jobs = (0..pick(rng, [0, 0, 1, 2])).map(|_| new_job_as_ever(rng, ids)).collect();
    let mut records: Vec<RecordWrite> = (0..pick(rng, [0, 1, 1, 2])).map(|_| record(rng)).collect();
    records.dedup_by(|a, b| a.key == b.key);
    FollowUps { jobs, records }
}

fn record(rng: &mut Rng) -> RecordWrite {
    let key = RecordKey::new(pick(rng, ["x", "y", "y/z"])).expect("the script writes proper keys");
    // Few, so that expectations are met now and then.
    let version = Version(rng.u64(..4));
    let ttl = pick(rng, [None, None, Some(0), Some(3), Some(12)]).map(seconds);
    let change = match rng.u32(..5) {
        0 => Change::Remove,
        _ => Change::Put { version, value: vec![b'v'; pick(rng, [0, 3, 60])].into(), ttl },
    };
    let expect = match rng.u32(..4) {
        0 => Expect::Absent,
        1 => Expect::Version(Version(rng.u64(..4))),
        _ => Expect::Any,
    };
    RecordWrite { key, expect, change }
}

fn pick<T: Copy, const N: usize>(rng: &mut Rng, values: [T; N]) -> T {
    values[rng.usize(..N)]
}

fn queue(rng: &mut Rng) -> Name {
    name(pick(rng, QUEUES))
}

fn kind(rng: &mut Rng) -> Name {
    name(pick(rng, ["k", "l", "m"]))
}

fn some_jobs(rng: &mut Rng) -> Vec<usize> {
    (0..pick(rng, [1, 1, 1, 2, 4])).map(|_| rng.usize(..JOBS)).collect()
}

/// Mostly what its id always is, so that a repeat is one; now and then another job under the same id.
fn new_job(rng: &mut Rng, ids: Ids) -> NewJob {
    let index = rng.usize(..JOBS);
    let other = usize::from(index < JOBS / 2 && rng.u32(..10) == 0);
    numbered_job(rng, ids, index, other)
}

/// One under an id that is never another job's, with a payload that every cap of a run permits: a store that keeps queues apart
/// tests a job for another queue before it knows whether it is there already.
fn new_job_as_ever(rng: &mut Rng, ids: Ids) -> NewJob {
    let index = rng.usize(JOBS / 2..JOBS);
    numbered_job(rng, ids, if index % 4 == 3 { index - 1 } else { index }, 0)
}

fn numbered_job(rng: &mut Rng, ids: Ids, index: usize, other: usize) -> NewJob {
    let (other_queue, other_payload) = if ids == Ids::OfStore { (other, 0) } else { (0, other) };
    let queue = ["a", "a", "b", "c"][(index + other_queue) % 4];
    let kind = ["k", "k", "l", "m", "l"][index % 5];
    let mut options = Options::new()
        .queue(queue)
        .priority(pick(rng, [0, 0, 0, 1, -1, 3, -2, i16::MIN, i16::MAX]))
        .max_stalls(rng.u32(..3))
        .retry(policy(rng));
    if rng.u32(..3) == 0 {
        options = options.delay(seconds(rng.u64(..8)));
    }
    if rng.u32(..4) == 0 {
        options = options.expires_in(seconds(rng.u64(..12)));
    }
    if rng.bool() {
        options = options.tag(pick(rng, ["s", "t"])).timeout(seconds(9));
    }
    // Mostly where the queue has keys at first: elsewhere the whole call is refused.
    if rng.u32(..if queue == "a" { 2 } else { 40 }) == 0 {
        options = options.key(pick(rng, ["x", "y"]));
    }
    if rng.u32(..3) == 0 {
        options = options.unique(unique(rng)).delay(seconds(pick(rng, [0, 0, 2, 6])));
    }
    let payload = vec![b'x'; [0, 3, 10, 30][(index + other_payload) % 4]];
    let mut job = NewJob::new(kind, payload, options).expect("the script writes proper jobs");
    if rng.u32(..8) == 0 {
        job.due = Due::Held;
    }
    job.with_id(job_id(index))
}

/// Not for a slot: the stores agree on how much time has passed, not on what time it is.
fn unique(rng: &mut Rng) -> Unique {
    let unique = Unique::key(pick(rng, ["u", "v"])).across_kinds();
    let unique = match rng.u32(..5) {
        0 => unique.until_start(),
        1 => unique.for_window(seconds(pick(rng, [1, 7]))),
        _ => unique,
    };
    match rng.u32(..4) {
        0 => unique.replace(),
        1 => unique.debounce(pick(rng, [None, Some(seconds(7))])),
        _ => unique,
    }
}

fn policy(rng: &mut Rng) -> Policy {
    let delay = seconds(pick(rng, [0, 1, 4]));
    let jitter = pick(rng, [Jitter::None, Jitter::Equal, Jitter::Full, Jitter::Decorrelated]);
    Policy::exponential(rng.u32(1..5), delay).jitter(jitter).ambiguous(rng.u32(..2)).cap(seconds(9))
}

fn claim(rng: &mut Rng) -> Operation {
    let mut queues = QUEUES.to_vec();
    rng.shuffle(&mut queues);
    queues.truncate(rng.usize(..4).max(1));
    let share = |rng: &mut Rng, queue| QueueShare { queue: name(queue), limit: pick(rng, [0, 1, 3, 9, 9]) };
    Operation::Claim {
        lease: rng.usize(..LEASES),
        queues: queues.into_iter().map(|queue| share(rng, queue)).collect(),
        kinds: (0..pick(rng, [1, 2, 3, 3, 3])).map(|_| kind(rng)).collect(),
        limit: pick(rng, [0, 1, 2, 5, 9]),
        at_once: pick(rng, [0, 2, 9, 9]),
        bytes: pick(rng, [0, 20, 50, usize::MAX, usize::MAX]),
        is_odd: rng.bool(),
    }
}

fn settling(rng: &mut Rng) -> Settling {
    let failure = Failure {
        cause: pick(rng, [Cause::Error, Cause::Panic, Cause::Timeout, Cause::Codec]),
        text: "it went wrong\0 in many words ".repeat(rng.usize(..4)),
    };
    let after = seconds(rng.u64(..6));
    let outcome = match rng.u32(..14) {
        0..4 => {
            Outcome::Completed { output: rng.bool().then(|| Bytes::from(vec![b'o'; pick(rng, [0, 5, 40])])) }
        }
        4..7 => Outcome::Retry { failure },
        7 => Outcome::RetryAfter { after, failure },
        8 => Outcome::Ambiguous { failure },
        9 => Outcome::Fail { failure },
        10 => Outcome::Snooze { after },
        11 => Outcome::Discard { why: "not wanted".into() },
        12 => Outcome::Cancelled,
        _ => Outcome::Returned,
    };
    Settling { attempt: rng.usize(..8), is_forged: rng.u32(..10) == 0, outcome, dice: rng.f64() }
}

fn config(rng: &mut Rng) -> QueueConfig {
    let mut keep = || Keep {
        age: rng.bool().then(|| seconds(pick(rng, [0, 4, 15]))),
        count: rng.bool().then(|| pick(rng, [0, 1, 4])),
    };
    let retention = Retention { completed: keep(), dead: keep(), cancelled: keep() };
    let caps = Caps {
        payload: pick(rng, [10, 1 << 20]),
        output: pick(rng, [10, 1 << 20]),
        error: pick(rng, [0, 40, 1 << 16]),
    };
    let kinds = [(name("k"), Pause::default())].into_iter().filter(|_| rng.u32(..4) == 0).collect();
    let keys = [(name("y"), Pause::default())].into_iter().filter(|_| rng.u32(..6) == 0).collect();
    QueueConfig {
        retention,
        caps,
        pauses: Pauses { queue: (rng.u32(..6) == 0).then(Pause::default), kinds, keys },
        concurrency: (rng.u32(..3) == 0).then(|| rng.u32(1..4)),
        rate: (rng.u32(..4) == 0).then(bucket),
        capacity: (rng.u32(..6) == 0).then(|| rng.u64(1..12)),
        aging: rng.bool().then(|| seconds(pick(rng, [1, 2, 7, 86_400]))),
        keys: rng.bool().then(|| key_rules(rng)),
        defaults: JobDefaults::default(),
        masked: false,
    }
}

/// Neither fixed nor sliding rates: the stores agree on how much time has passed, not on what time it is.
fn bucket() -> Rate {
    Rate::new(1, seconds(2)).shape(Shape::Bucket { burst: 2 })
}

fn key_rules(rng: &mut Rng) -> KeyRules {
    KeyRules {
        concurrency: rng.bool().then(|| rng.u32(1..3)),
        rate: (rng.u32(..4) == 0).then(bucket),
        weights: [(name("y"), rng.u32(1..5))].into_iter().filter(|_| rng.u32(..4) == 0).collect(),
    }
}

fn filter(rng: &mut Rng) -> Filter {
    Filter {
        queue: rng.bool().then(|| queue(rng)),
        kind: rng.bool().then(|| kind(rng)),
        state: rng.bool().then(|| pick(rng, State::ALL)),
        tag: rng.bool().then(|| name(pick(rng, ["s", "t"]))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// How many ids the runs of some seeds give to more than one queue, and how many to more than one payload.
    fn shared_ids(ids: Ids) -> (usize, usize) {
        let (mut queues, mut payloads) = (0, 0);
        for seed in 0..10 {
            let mut seen: HashMap<JobId, Vec<NewJob>> = HashMap::new();
            for operation in script(seed, 120, ids) {
                if let Operation::Enqueue { jobs, .. } = operation {
                    jobs.into_iter().for_each(|job| seen.entry(job.id).or_default().push(job));
                }
            }
            queues += seen.values().filter(|jobs| jobs.iter().any(|job| job.queue != jobs[0].queue)).count();
            payloads +=
                seen.values().filter(|jobs| jobs.iter().any(|job| job.payload != jobs[0].payload)).count();
        }
        (queues, payloads)
    }

    #[test]
    fn ids_of_a_queue_stay_there_and_are_still_taken_by_others() {
        let (queues, payloads) = shared_ids(Ids::OfStore);
        assert!(queues > 0 && payloads == 0, "{queues} {payloads}");
        let (queues, payloads) = shared_ids(Ids::OfQueue);
        assert!(queues == 0 && payloads > 0, "{queues} {payloads}");
    }
}
