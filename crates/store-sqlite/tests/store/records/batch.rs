//! Calls of many items: each is whole or nothing, and they take effect one after the other although they are written
//! together.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use windlass_core::bell::Topic;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::record::{Expect, RecordWrite};
use windlass_core::store::{AttemptWrite, Filter, Inspect, Jobs, Queues, Records, Wakeup};
use windlass_core::unique::Unique;
use windlass_core::{ClaimedJob, JobId, NewJob, Options, State};
use windlass_store_sqlite::SqliteStore;

use super::{end, find, jobs, only, put, words, write_fenced};
use crate::{claim, job, lease, name, open};

/// A store with so many running jobs.
async fn running(path: &Path, count: u32) -> (SqliteStore, Vec<ClaimedJob>) {
    let store = open(path).await;
    let new: Vec<_> = (0..count).map(|number| job(number.to_string())).collect();
    store.enqueue(new.into()).await.unwrap();
    let claimed = claim(&store, lease(&store).await, count).await;
    assert_eq!(claimed.len(), count as usize);
    (store, claimed)
}

async fn states(store: &SqliteStore, ids: &[JobId]) -> Vec<Option<State>> {
    let found = store.get(ids.into()).await.unwrap();
    found.into_iter().map(|job| job.map(|job| job.state)).collect()
}

async fn counts(store: &SqliteStore) -> (u64, u64, u64) {
    let counts = store.queues(None, 1).await.unwrap()[0].counts;
    (counts.of(State::Ready), counts.of(State::Running), counts.of(State::Completed))
}

#[tokio::test]
async fn a_refusal_in_the_middle_concerns_one_item_only() {
    let directory = tempfile::tempdir().unwrap();
    let (store, running) = running(&directory.path().join("jobs.db"), 40).await;
    let taken = job("taken");
    store.enqueue([taken.clone()].into()).await.unwrap();
    let next: Vec<_> = (0..40).map(|number| job(format!("next {number}"))).collect();
    let items: Vec<_> = (0..40)
        .map(|at| {
            let mut then = jobs([next[at].clone()]);
            then.records = vec![put(&at.to_string(), "done")];
            match at {
                17 => then.jobs.push(job("another").with_id(taken.id)),
                // Of one key, the first that comes has it.
                20 | 30 => then.records.push(put("one", at.to_string()).expect(Expect::Absent)),
                _ => {}
            }
            end(&running[at], then)
        })
        .collect();
    let before = store.gauges();
    let answers = write_fenced(&store, items).await;
    assert_eq!(store.gauges().commits - before.commits, 1, "the call has one transaction");
    for (at, word) in words(&answers).into_iter().enumerate() {
        let expected = match at {
            17 => "taken",
            30 => "conflict",
            _ => "completed",
        };
        assert_eq!(word, expected, "item {at}");
        let (is_done, [of_job, of_next]) =
            (expected == "completed", [running[at].id, next[at].id].map(|id| vec![id]));
        let state = if is_done { State::Completed } else { State::Running };
        assert_eq!(states(&store, &of_job).await, [Some(state)], "item {at}");
        assert_eq!(states(&store, &of_next).await, [is_done.then_some(State::Ready)], "item {at}");
        assert_eq!(find(&store, &at.to_string()).await.is_some(), is_done, "item {at}");
    }
    assert_eq!(find(&store, "one").await.unwrap().value, "20");
    assert_eq!(counts(&store).await, (39, 2, 38));
}

#[tokio::test]
async fn what_was_undone_does_not_ring() {
    let directory = tempfile::tempdir().unwrap();
    let (store, running) = running(&directory.path().join("jobs.db"), 1).await;
    let taken = job("taken");
    store.enqueue([taken.clone()].into()).await.unwrap();
    let mut finish = store.bell().listen(Topic::Finish);
    let item = end(&running[0], jobs([job("next"), job("another").with_id(taken.id)]));
    assert_eq!(words(&write_fenced(&store, [item]).await), ["taken"]);
    assert!(tokio::time::timeout(Duration::ZERO, finish.rung()).await.is_err());
    assert_eq!(counts(&store).await, (1, 1, 0));
}

#[tokio::test]
async fn an_attempt_may_stand_there_several_times() {
    let directory = tempfile::tempdir().unwrap();
    let (store, running) = running(&directory.path().join("jobs.db"), 1).await;
    let step = |text: &str| AttemptWrite {
        transition: None,
        ..end(&running[0], only([put("step", text.to_owned())]))
    };
    let last = end(&running[0], jobs([job("next")]));
    let answers = write_fenced(&store, [step("1"), step("2"), last.clone(), step("3"), last]).await;
    assert_eq!(words(&answers), ["goes on", "goes on", "completed", "fenced", "fenced"]);
    assert_eq!(find(&store, "step").await.unwrap().value, "2");
    assert_eq!(counts(&store).await, (1, 0, 1));
}

/// Two running jobs, the second of which holds a unique key.
async fn holder_of_key(path: &Path) -> (SqliteStore, [ClaimedJob; 2]) {
    let store = open(path).await;
    store.enqueue([job("plain"), unique("holder")].into()).await.unwrap();
    let claimed = claim(&store, lease(&store).await, 2).await;
    (store, claimed.try_into().unwrap())
}

fn unique(payload: &'static str) -> NewJob {
    NewJob::new("greet", payload, Options::new().unique(Unique::key("k"))).unwrap()
}

#[tokio::test]
async fn a_unique_job_meets_the_holder_that_ends_after_it_and_no_other() {
    for ends_first in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let (store, [plain, holder]) = holder_of_key(&directory.path().join("jobs.db")).await;
        let next = unique("next");
        let mut items = [end(&plain, jobs([next.clone()])), end(&holder, jobs([job("other")]))];
        if ends_first {
            items.reverse();
        }
        assert_eq!(words(&write_fenced(&store, items).await), ["completed"; 2]);
        assert_eq!(states(&store, &[next.id]).await, [ends_first.then_some(State::Ready)]);
    }
}

#[tokio::test]
async fn a_job_under_the_id_of_an_attempt_is_new_after_its_end_only() {
    for ends_first in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let (store, running) = running(&directory.path().join("jobs.db"), 2).await;
        let retention = Retention { completed: Keep::NONE, ..Retention::default() };
        let config = QueueConfig { retention, ..QueueConfig::default() };
        store.define(&name("default"), &config).await.unwrap();
        // What its id was before, so that it refuses nothing where that is still there.
        let same = job(running[1].payload.clone()).with_id(running[1].id);
        let mut items = [end(&running[0], jobs([same])), end(&running[1], jobs([]))];
        if ends_first {
            items.reverse();
        }
        assert_eq!(words(&write_fenced(&store, items).await), ["completed"; 2]);
        assert_eq!(states(&store, &[running[1].id]).await, [ends_first.then_some(State::Ready)]);
        assert_eq!(
            Inspect::list(&store, &Filter::default(), None, 9).await.unwrap().jobs.len(),
            usize::from(ends_first)
        );
    }
}

#[tokio::test]
async fn a_job_that_replaces_another_is_seen_by_those_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let (store, running) = running(&directory.path().join("jobs.db"), 2).await;
    let replacing = |payload| {
        let options = Options::new().unique(Unique::key("k").replace());
        NewJob::new("greet", payload, options).unwrap()
    };
    let (first, second) = (replacing("1"), replacing("2"));
    store.enqueue([first.clone()].into()).await.unwrap();
    // The same id with what the first said is another job by then.
    let again = NewJob::new("greet", "1", Options::new()).unwrap().with_id(first.id);
    let items = [end(&running[0], jobs([second])), end(&running[1], jobs([again]))];
    assert_eq!(words(&write_fenced(&store, items).await), ["completed", "taken"]);
    assert_eq!(store.get([first.id].into()).await.unwrap()[0].as_ref().unwrap().payload, "2");
}

/// Copies of the file and its log, taken at any moment, are what a program leaves that is killed then: the file itself does
/// not change before the log is copied into it, which takes far more than is written here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_killed_leaves_the_whole_of_an_item_or_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let (store, running) = running(&path, 600).await;
    let next: HashMap<JobId, NewJob> = running.iter().map(|job| (job.id, self::job("next"))).collect();
    let items: Vec<AttemptWrite> = running
        .iter()
        .map(|attempt| {
            let mut then = jobs([next[&attempt.id].clone()]);
            then.records = vec![RecordWrite::put(super::key(&attempt.id.to_string()), "done")];
            end(attempt, then)
        })
        .collect();
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for some in items.chunks(6) {
                assert_eq!(words(&write_fenced(&store, some).await), ["completed"; 6]);
            }
        }
    });
    let (mut copies, mut done) = (Vec::new(), Vec::new());
    while copies.is_empty() || (!writer.is_finished() && copies.len() < 50) {
        let copy = directory.path().join(format!("copy-{}.db", copies.len()));
        fs::copy(&path, &copy).unwrap();
        fs::copy(directory.path().join("jobs.db-wal"), copy.with_extension("db-wal")).unwrap();
        copies.push(copy);
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
    let keys: Vec<_> = running.iter().map(|attempt| super::key(&attempt.id.to_string())).collect();
    for copy in copies.iter().step_by(copies.len().div_ceil(20)) {
        let left = open(copy).await;
        let records = Records::read(&left, &name("default"), keys.as_slice().into()).await.unwrap();
        let is_done: Vec<_> = records.iter().map(Option::is_some).collect();
        let of_attempts: Vec<_> = running.iter().map(|attempt| attempt.id).collect();
        let state = |&is_done| Some(if is_done { State::Completed } else { State::Running });
        assert_eq!(states(&left, &of_attempts).await, is_done.iter().map(state).collect::<Vec<_>>());
        let of_next: Vec<_> = running.iter().map(|attempt| next[&attempt.id].id).collect();
        let state = |is_done: &bool| is_done.then_some(State::Ready);
        assert_eq!(states(&left, &of_next).await, is_done.iter().map(state).collect::<Vec<_>>());
        let ends = is_done.iter().filter(|is_done| **is_done).count() as u64;
        assert_eq!(counts(&left).await, (ends, 600 - ends, ends));
        done.push(ends);
    }
    assert!(done.is_sorted(), "{done:?}");
}

#[tokio::test]
async fn checkpoints_at_once_share_commits() {
    let directory = tempfile::tempdir().unwrap();
    let (store, running) = running(&directory.path().join("jobs.db"), 200).await;
    let before = store.gauges();
    let steps = running.iter().map(|attempt| {
        let then = only([put(&attempt.id.to_string(), "1")]);
        write_fenced(&store, vec![AttemptWrite { transition: None, ..end(attempt, then) }])
    });
    for answers in futures_util::future::join_all(steps).await {
        assert_eq!(words(&answers), ["goes on"]);
    }
    let commits = store.gauges().commits - before.commits;
    assert!(commits <= 20, "200 calls at once took {commits} commits");
    assert_eq!(Records::totals(&store, &name("default")).await.unwrap().count, 200);
}
