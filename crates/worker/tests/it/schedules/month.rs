//! A month on a clock that the test moves, with four workers of which some die with a tick in hand, calls that fail, ticks that
//! are deleted, and a clock that is set: one job for each slot, none missing, none early.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::schedule::{CatchUp, NOMINAL, SCHEDULE, Schedule};
use windlass_core::store::{ClaimRequest, NewLease, QueueShare};
use windlass_core::{Fence, LeaseId, Name};
use windlass_worker::{Client, Pruner, Reaper, Ticker};

use super::{HOUR, MINUTE, Report, at, made, scene, ticks, work};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A worker that claims ticks and dies.
async fn die_with_ticks(client: &Client) {
    let lease = LeaseId::new();
    let (queues, kinds) = (vec![name("reports")], vec![name("windlass.tick")]);
    let ttl = Duration::from_secs(30);
    let new = NewLease { id: lease, worker: "dies".into(), queues, kinds: kinds.clone(), ttl };
    client.store().open(&new).await.unwrap();
    let request = ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: vec![QueueShare { queue: name("reports"), limit: 2 }],
        kinds,
        limit: 2,
        at_once: 2,
        bytes: usize::MAX,
    };
    client.store().claim(request).await.unwrap();
}

fn schedules() -> Vec<(&'static str, Schedule)> {
    vec![
        ("hourly", Schedule::cron("0 * * * *").tz("Europe/Madrid")),
        ("nightly", Schedule::cron("30 2 * * *").tz("Europe/Madrid")),
        ("quarters", Schedule::every(15 * MINUTE)),
        ("workdays", Schedule::cron("0 9 * * MON-FRI").tz("America/New_York").except(["2026-10-12"])),
    ]
}

/// What the schedule says between two instants.
fn wanted(schedule: &Schedule, from: Timestamp, to: Timestamp) -> BTreeSet<String> {
    let recurrence = schedule.recurrence().unwrap();
    let mut slots = BTreeSet::new();
    let mut slot = from;
    while let Some(next) = recurrence.next_after(slot).filter(|next| *next <= to) {
        slots.insert(next.to_string());
        slot = next;
    }
    slots
}

async fn assert_one_job_for_each_slot(client: &Client, from: Timestamp, to: Timestamp) {
    let jobs = made(client).await;
    for (id, schedule) in schedules() {
        let of_schedule: Vec<_> = jobs.iter().filter(|job| job.spec.meta[SCHEDULE] == id).collect();
        let slots: BTreeSet<String> = of_schedule.iter().map(|job| job.spec.meta[NOMINAL].clone()).collect();
        assert_eq!(slots, wanted(&schedule, from, to), "{id}: none missing, none too many");
        assert_eq!(slots.len(), of_schedule.len(), "{id}: none twice");
        for job in of_schedule {
            let nominal = job.spec.meta[NOMINAL].as_str();
            assert!(job.enqueued_at.to_string().as_str() >= nominal, "{id}: {nominal} came early");
        }
    }
}

async fn set_all(client: &Client) {
    for (id, schedule) in schedules() {
        let draft = client.schedule(id).when(schedule.catch_up(CatchUp::All(1_000)));
        draft.enqueue(Report::default()).await.unwrap();
    }
}

/// Four workers at once, and what keeps the store in order.
async fn round(clients: &[Client], ticker: &Ticker) {
    let [first, second, third, fourth] = [0, 1, 2, 3].map(|at| Box::pin(work(&clients[at])));
    tokio::join!(first, second, third, fourth);
    let store = || Arc::clone(clients[0].store());
    Reaper::new(store()).run_once().await.unwrap();
    Pruner::new(store()).run_once().await.unwrap();
    ticker.run_once().await.unwrap();
}

async fn stage() -> (Vec<Client>, ManualClock, Ticker) {
    let (client, clock) = scene().await;
    set_all(&client).await;
    let ticker = Ticker::new(&client);
    let others = (0..3).map(|_| Client::new(Arc::clone(client.store())));
    let clients = std::iter::once(client.clone()).chain(others).collect();
    (clients, clock, ticker)
}

#[tokio::test]
async fn one_job_for_each_slot_of_a_month() {
    let (clients, clock, ticker) = stage().await;
    let (begin, end) = (at("2026-10-01T00:00:30Z"), at("2026-10-31T00:00:00Z"));
    let mut dice = dice(7);
    let mut now = begin;
    while now < end {
        // Mostly minutes; now and then no worker is there for hours.
        let step = if dice(200) == 0 { 5 * HOUR } else { Duration::from_secs(120 + dice(2_400)) };
        now = now.plus(step).min(end);
        clock.advance(step);
        clock.set(now);
        match dice(10) {
            0 | 1 => die_with_ticks(&clients[1]).await,
            2 => {
                if let Some(tick) = ticks(&clients[0]).await.first() {
                    clients[0].delete(tick.id).await.unwrap();
                }
            }
            3 => set_all(&clients[2]).await,
            _ => {}
        }
        round(&clients, &ticker).await;
    }
    finish(&clients, &clock, &ticker, end).await;
    assert_one_job_for_each_slot(&clients[0], begin, end).await;
}

/// Takes back what the dead held, and lets ticks that rest after a stall come, without reaching the next slot.
async fn finish(clients: &[Client], clock: &ManualClock, ticker: &Ticker, end: Timestamp) {
    for second in (30..14 * 60).step_by(30) {
        clock.advance(Duration::from_secs(30));
        clock.set(end.plus(Duration::from_secs(second)));
        round(clients, ticker).await;
    }
}

#[tokio::test]
async fn a_clock_that_jumps_two_hours_brings_no_slot_twice_and_loses_none() {
    let (clients, clock, ticker) = stage().await;
    let begin = at("2026-10-01T00:00:30Z");
    let mut latest = begin;
    for (step, jump) in [(8, 2), (8, -2), (3, -2), (9, 2), (12, 0)] {
        for _ in 0..step {
            clock.advance(15 * MINUTE);
            latest = latest.max(now(&clients[0]).await);
            round(&clients, &ticker).await;
        }
        let before = now(&clients[0]).await;
        clock.set(if jump >= 0 { before.plus(2 * HOUR) } else { before.minus(2 * HOUR) });
        if jump == 0 {
            clock.set(before);
        }
        latest = latest.max(now(&clients[0]).await);
        round(&clients, &ticker).await;
    }
    assert_one_job_for_each_slot(&clients[0], begin, latest).await;
}

async fn now(client: &Client) -> Timestamp {
    client.store().now().await.unwrap()
}

/// Numbers below the one that is given, the same ones for the same seed.
fn dice(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    }
}
