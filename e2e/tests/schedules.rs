//! Schedules in real processes: workers whose clocks disagree, that are killed and stopped, make one job for each slot, none early;
//! and so do workers whose clock is set by hours, forward and back.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use windlass::core::clock::Timestamp;
use windlass::core::schedule::nominal_of;
use windlass::core::store::{Filter, PAGE_MAX};
use windlass::schedule::{CatchUp, Schedule};
use windlass::{Client, Job, JobRecord, Options};
use windlass_e2e::clocks::Clocks;
use windlass_e2e::fleet::{Fleet, WorkerProcess, WorkerSettings};
use windlass_e2e::jobs::Plain;
use windlass_e2e::witness::Ledger;
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::{PostgresServer, RedisServer, RedisSettings, Settings};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
const LEASE: Duration = Duration::from_millis(1_500);
const HOUR: i64 = 3_600;
/// By how many seconds the clocks of four workers are off.
const SKEWS: [i64; 4] = [0, 2 * HOUR, -2 * HOUR, 26 * HOUR];

fn plain(word: &str) -> windlass::worker::With<Plain> {
    // Random kills hit the same job more often than life would.
    Plain { word: word.into(), millis: 1 }.with(Options::new().max_stalls(1_000))
}

fn start(fleet: &Fleet, label: String, clocks: &Clocks) -> WorkerProcess {
    let extra = ["--poll-ms", "300"].map(ToOwned::to_owned).to_vec();
    let environment = clocks.environment();
    fleet.start(&WorkerSettings { label, lease: LEASE, extra, environment, ..WorkerSettings::default() })
}

async fn made(client: &Client, id: &str) -> Option<u64> {
    Some(client.schedule(id).get().await.ok()??.record.state.made)
}

async fn until_made(client: &Client, id: &str, wanted: u64) {
    let mut before = 0;
    // That may take long; only standing still is a failure.
    while before < wanted {
        before =
            eventually("jobs of slots come", async || made(client, id).await.filter(|made| *made > before))
                .await;
    }
}

/// The jobs of a schedule, oldest slot first.
async fn jobs(client: &Client, id: &str) -> Vec<(Timestamp, JobRecord)> {
    let (mut jobs, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.store().list(&Filter::default(), cursor.as_ref(), PAGE_MAX).await.unwrap();
        jobs.extend(page.jobs);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    jobs.retain(|job| job.spec.meta.get("windlass.schedule").is_some_and(|of| of == id));
    let mut jobs: Vec<_> = jobs.into_iter().map(|job| (nominal_of(&job.spec).unwrap(), job)).collect();
    jobs.sort_by_key(|(slot, _)| *slot);
    jobs
}

/// Each slot from the first to the last has one job, which was made no earlier than the slot by the clock of the store.
async fn check(client: &Client, id: &str, period: Duration) -> Vec<Timestamp> {
    let jobs = jobs(client, id).await;
    let slots: Vec<Timestamp> = jobs.iter().map(|(slot, _)| *slot).collect();
    let wanted: Vec<Timestamp> =
        (0..).map(|number| slots[0].plus(period * number)).take(slots.len()).collect();
    assert_eq!(slots, wanted, "none missing, none twice");
    assert_eq!(made(client, id).await, Some(slots.len() as u64));
    for (slot, job) in &jobs {
        assert!(job.enqueued_at >= *slot, "it came early: {job:?}");
    }
    slots
}

/// Four workers with other clocks make a job for each second, while they are killed and stopped one after the other.
async fn skewed(fleet: Fleet) {
    let client = fleet.client().await;
    let clocks = SKEWS.map(|skew| {
        let clocks = Clocks::new(fleet.folder(), &format!("clock{skew}"));
        clocks.set(skew);
        clocks
    });
    let second = Duration::from_secs(1);
    let seconds = Schedule::every(second).catch_up(CatchUp::All(1_000));
    client.schedule("seconds").when(seconds).enqueue(plain("second")).await.unwrap();
    let place = |number: usize| start(&fleet, format!("worker{number}"), &clocks[number % clocks.len()]);
    let mut processes: Vec<_> = (0..clocks.len()).map(|number| (number, place(number))).collect();
    let mut stopped: Option<(usize, WorkerProcess)> = None;
    let faults = setting("WINDLASS_SCHEDULE_FAULTS", 6);
    for fault in 1..=faults {
        until_made(&client, "seconds", u64::from(fault) * 2).await;
        let (number, victim) = processes.remove(fastrand::usize(..processes.len()));
        // One that was stopped the time before goes on, and finds that others have gone on without it.
        if let Some((number, process)) = stopped.take() {
            process.resume();
            processes.push((number, process));
        }
        if fault.is_multiple_of(2) {
            fleet.pause(&victim, &client).await;
            stopped = Some((number, victim));
        } else {
            victim.kill();
            processes.push((number, place(number + clocks.len())));
        }
    }
    if let Some((_, process)) = &stopped {
        process.resume();
    }
    until_made(&client, "seconds", u64::from(faults) * 2 + 3).await;
    client.schedule("seconds").pause().await.unwrap();
    let slots = check(&client, "seconds", second).await;
    println!("{} slots, {faults} faults, clocks off by {SKEWS:?} s: each slot once", slots.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_whose_clocks_disagree_on_postgres() {
    let server = PostgresServer::start(&Settings::default());
    skewed(Fleet::on(WORKER, server.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_whose_clocks_disagree_on_redis() {
    let server = RedisServer::start(&RedisSettings::default());
    skewed(Fleet::on(WORKER, server.url())).await;
}

/// The file is the store whose clock is the machine's: all workers have the same one, and it is set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_by_two_hours_brings_no_slot_twice_and_loses_none() {
    let quarter = Duration::from_secs(900);
    let fleet = Fleet::new(WORKER);
    let clocks = Clocks::new(fleet.folder(), "clock");
    // This process only looks: the clock of its store is the real one.
    let client = fleet.client().await;
    let quarters = Schedule::every(quarter).catch_up(CatchUp::All(1_000));
    client.schedule("quarters").when(quarters).enqueue(plain("quarter")).await.unwrap();
    let _workers = ["one", "two"].map(|label| start(&fleet, label.into(), &clocks));
    let until_seen = async || {
        let done = || Ledger::read(&fleet.witness()).total("done");
        let goal = done() + 20;
        for _ in 0..20 {
            client.enqueue(Plain { word: "beside".into(), millis: 1 }).await.unwrap();
        }
        eventually("jobs complete", async || (done() >= goal).then_some(())).await;
    };
    let steps = setting("WINDLASS_CLOCK_STEPS", 4).div_ceil(4);
    let mut furthest = 0;
    for step in 0..i64::from(steps) {
        let begin = 2 * HOUR * step;
        for offset in [begin, begin + 2 * HOUR, begin, begin - 2 * HOUR] {
            clocks.set(offset);
            // Jobs of the machine's clock complete by the one that was set.
            if offset > furthest {
                let before = made(&client, "quarters").await.unwrap();
                until_made(&client, "quarters", before + 8).await;
                furthest = offset;
            }
            until_seen().await;
        }
    }
    clocks.set(furthest);
    until_seen().await;
    client.schedule("quarters").pause().await.unwrap();
    let slots = check(&client, "quarters", quarter).await;
    // Eight quarters for each step forward, and what real time brings.
    let forward = 8 * u64::from(steps);
    assert!((forward..=forward + 2).contains(&(slots.len() as u64)), "{} of {forward}", slots.len());
}
