//! A clock that is set, forward or back, ends no living lease and lets no dead one live on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::outcome::Outcome;
use windlass_core::store::{Jobs, Leases, Renewal, Settled, Settlement};
use windlass_core::{JobId, LeaseId, State, judge};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

use super::{claim, completed, job, lease_for};

const TTL: Duration = Duration::from_secs(30);
const HOURS: [i64; 2] = [2, -2];

async fn open(path: &Path, clock: &ManualClock) -> SqliteStore {
    SqliteStore::open_with(SqliteOptions::file(path).clock(Arc::new(clock.clone()))).await.unwrap()
}

fn set(clock: &ManualClock, hours: i64) {
    clock.set(Timestamp::from_micros(clock.now().as_micros() + hours * 3_600_000_000));
}

async fn lost(store: &SqliteStore) -> Vec<JobId> {
    store.lost(100).await.unwrap().iter().map(|job| job.id).collect()
}

async fn lives(store: &SqliteStore, lease: LeaseId) -> bool {
    matches!(store.renew(lease, TTL, 10).await.unwrap(), Renewal::Renewed { .. })
}

#[tokio::test]
async fn a_step_loses_nothing_that_lives() {
    for hours in HOURS {
        let directory = tempfile::tempdir().unwrap();
        let clock = ManualClock::default();
        let store = open(&directory.path().join("jobs.db"), &clock).await;
        store.enqueue([job("x")].into()).await.unwrap();
        let lease = lease_for(&store, TTL).await;
        let jobs = claim(&store, lease, 1).await;
        clock.advance(TTL - Duration::from_secs(1));
        set(&clock, hours);
        assert_eq!(lost(&store).await, [], "{hours} h: its own reaper finds nothing");
        assert!(!store.leases(1).await.unwrap()[0].is_lost);
        let stalled = Settlement {
            transition: judge(&jobs[0].facts, Outcome::Returned, 0.5),
            ..completed(&jobs).remove(0)
        };
        assert_eq!(store.reap([stalled].into()).await.unwrap(), [Settled::Fenced], "{hours} h");
        assert!(lives(&store, lease).await, "{hours} h: the renewal comes in time");
        let settled = store.settle(completed(&jobs).into()).await.unwrap();
        assert_eq!(settled, [Settled::Applied(State::Completed)]);
        let record = store.get([jobs[0].id].into()).await.unwrap().remove(0).unwrap();
        assert_eq!((record.counters.stalls, record.counters.attempt), (0, 1), "{hours} h");
    }
}

#[tokio::test]
async fn a_dead_worker_is_lost_one_term_after_a_step() {
    for hours in HOURS {
        let directory = tempfile::tempdir().unwrap();
        let clock = ManualClock::default();
        let store = open(&directory.path().join("jobs.db"), &clock).await;
        store.enqueue([job("x"), job("y")].into()).await.unwrap();
        let gone = claim(&store, lease_for(&store, TTL).await, 1).await;
        clock.advance(TTL);
        let dies = claim(&store, lease_for(&store, TTL).await, 1).await;
        clock.advance(TTL / 2);
        set(&clock, hours);
        assert_eq!(lost(&store).await, [gone[0].id], "{hours} h: what was lost before stays lost");
        clock.advance(TTL);
        assert_eq!(lost(&store).await.len(), 2, "{hours} h: {} is lost too", dies[0].id);
    }
}

#[tokio::test]
async fn a_process_that_notices_late_revives_nothing() {
    for hours in HOURS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jobs.db");
        let clock = ManualClock::default();
        let (first, second) = (open(&path, &clock).await, open(&path, &clock).await);
        first.enqueue([job("x")].into()).await.unwrap();
        let lease = lease_for(&first, TTL).await;
        claim(&first, lease, 1).await;
        set(&clock, hours);
        assert_eq!(lost(&first).await, []);
        clock.advance(TTL);
        assert_eq!(lost(&first).await.len(), 1);
        // It has not looked since before the step.
        second.enqueue([job("y")].into()).await.unwrap();
        assert_eq!(lost(&second).await.len(), 1, "{hours} h");
        assert!(!lives(&second, lease).await, "{hours} h: a lease that has run out stays so");
    }
}

#[tokio::test]
async fn each_of_two_processes_may_be_the_one_that_notices() {
    for hours in HOURS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jobs.db");
        let clock = ManualClock::default();
        let (first, second) = (open(&path, &clock).await, open(&path, &clock).await);
        let (one, two) = (lease_for(&first, TTL).await, lease_for(&second, TTL).await);
        for store in [&first, &second, &first] {
            clock.advance(TTL / 2);
            set(&clock, hours);
            assert_eq!(lost(store).await, []);
            for (store, lease) in [(&second, two), (&first, one)] {
                assert!(lives(store, lease).await, "{hours} h");
            }
        }
    }
}

#[tokio::test]
async fn a_clock_set_back_between_two_looks_keeps_no_lease_alive_for_hours() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let clock = ManualClock::default();
    {
        let store = open(&path, &clock).await;
        store.enqueue([job("x")].into()).await.unwrap();
        claim(&store, lease_for(&store, TTL).await, 1).await;
    }
    set(&clock, -2);
    let store = open(&path, &clock).await;
    store.sweep(10).await.unwrap();
    clock.advance(TTL);
    assert_eq!(lost(&store).await.len(), 1);
}

#[tokio::test]
async fn a_step_is_heeded_also_when_the_first_write_after_it_fails() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let clock = ManualClock::default();
    let store = open(&path, &clock).await;
    let lease = lease_for(&store, TTL).await;
    set(&clock, 2);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("ALTER TABLE windlass_jobs RENAME COLUMN kind TO hidden").unwrap();
    store.enqueue([job("x")].into()).await.unwrap_err();
    connection.execute_batch("ALTER TABLE windlass_jobs RENAME COLUMN hidden TO kind").unwrap();
    assert!(lives(&store, lease).await);
}
