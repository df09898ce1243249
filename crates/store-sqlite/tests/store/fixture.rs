//! Files that earlier programs left behind: `tests/fixtures/layout-N.db`, one per layout since the first, never written
//! anew. After a new migration, `WINDLASS_FIXTURE=layout-N.db cargo test -p windlass-store-sqlite fixture` writes the
//! next one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::follow_ups::FollowUps;
use windlass_core::queue::{KeyRules, QueueConfig, Rate, Shape};
use windlass_core::record::{Change, Expect, RecordKey, RecordWrite, Version};
use windlass_core::store::{
    Amended, ClaimAnswer, ClaimRequest, Enqueued, Jobs, Leases, NewLease, QueueShare, Queues, Records,
};
use windlass_core::unique::Unique;
use windlass_core::{CallId, JobId, LeaseId, NewJob, Options, State, StoreError};
use windlass_store_sqlite::SqliteStore;
use windlass_store_sqlite::migrate::MIGRATIONS;
use windlass_store_testkit::fixture;

use crate::{name, open, request};

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// In a queue of their own, which the jobs of the test kit do not come to.
fn unique(word: &str, unique: Unique) -> NewJob {
    let options = Options::new().queue("unique").unique(unique);
    NewJob::new("work", "", options).unwrap().with_id(JobId::from_key("fixture", word))
}

fn until_end(word: &str) -> NewJob {
    unique(word, Unique::key("end"))
}

fn windowed(word: &str) -> NewJob {
    unique(word, Unique::key("window").for_window(Duration::from_secs(100 * 365 * 86_400)))
}

/// Leaves a key that a waiting job holds, and one that outlives its job.
async fn write_keys(store: &SqliteStore) {
    let (holder, gone) = (until_end("holder"), windowed("gone"));
    assert_eq!(store.enqueue([holder, gone.clone()].into()).await.unwrap(), [Enqueued::New; 2]);
    assert_eq!(store.delete([gone.id].into()).await.unwrap(), [Amended::Done(State::Ready)]);
}

async fn check_keys(store: &SqliteStore) {
    let (holder, gone) = (until_end("holder"), windowed("gone"));
    let record = store.get([holder.id].into()).await.unwrap().pop().unwrap().unwrap();
    assert_eq!((record.unreadable, record.unique), (None, holder.unique));
    let answers = store.enqueue([until_end("next"), windowed("next")].into()).await.unwrap();
    let met = |id, state| Enqueued::Duplicate { id, state };
    assert_eq!(answers, [met(holder.id, Some(State::Ready)), met(gone.id, None)]);
    assert_eq!(store.cancel([holder.id].into()).await.unwrap(), [Amended::Done(State::Cancelled)]);
    assert_eq!(store.enqueue([until_end("next")].into()).await.unwrap(), [Enqueued::New]);
}

const KEYED: &str = "keyed";

fn keyed(word: &str, key: &str) -> NewJob {
    let options = Options::new().queue(KEYED).key(key);
    NewJob::new("work", "", options).unwrap().with_id(JobId::from_key("keyed", word))
}

fn one_of_each(key_rate: Option<Rate>) -> QueueConfig {
    let keys = KeyRules { concurrency: Some(1), rate: key_rate, ..KeyRules::default() };
    QueueConfig { keys: Some(keys), capacity: Some(4), ..QueueConfig::default() }
}

/// A lease on that queue, and what it is given. It outlives the file: its jobs are not those that the test kit takes back.
async fn claim_keyed(store: &SqliteStore) -> Vec<JobId> {
    let (id, queues) = (LeaseId::new(), vec![name(KEYED)]);
    let ttl = Duration::from_secs(100 * 365 * 86_400);
    let lease = NewLease { id, worker: "gone".into(), ttl, queues, kinds: Vec::new() };
    store.open(&lease).await.unwrap();
    let queues = vec![QueueShare { queue: name(KEYED), limit: 9 }];
    let request = ClaimRequest { queues, kinds: vec![name("work")], nonce: 1, ..request(id, 9) };
    match store.claim(request).await.unwrap() {
        ClaimAnswer::Jobs { jobs, .. } => jobs.into_iter().map(|job| job.id).collect(),
        ClaimAnswer::LeaseLost => panic!("the lease was lost"),
    }
}

/// Leaves a gate that is closed by a job that runs, one that is closed by its rate, and one that is open.
async fn write_gates(store: &SqliteStore) {
    let rate = Rate::new(1, Duration::from_secs(366 * 86_400)).shape(Shape::Bucket { burst: 1 });
    store.define(&name(KEYED), &one_of_each(None)).await.unwrap();
    let (runs, waits) = (keyed("runs", "a"), keyed("waits", "a"));
    store.enqueue([runs.clone(), waits].into()).await.unwrap();
    assert_eq!(claim_keyed(store).await, [runs.id]);
    store.define(&name(KEYED), &one_of_each(Some(rate))).await.unwrap();
    let (spent, kept_back) = (keyed("spent", "b"), keyed("kept back", "b"));
    store.enqueue([spent.clone(), kept_back].into()).await.unwrap();
    assert_eq!(claim_keyed(store).await, [spent.id]);
    store.enqueue([keyed("open", "c")].into()).await.unwrap();
}

async fn check_gates(store: &SqliteStore) {
    let record = store.get([keyed("waits", "a").id].into()).await.unwrap().pop().unwrap().unwrap();
    assert_eq!((record.unreadable, record.key), (None, Some(name("a"))));
    assert_eq!(claim_keyed(store).await, [keyed("open", "c").id], "the others are kept back");
    let full = [keyed("more", "d"), keyed("and more", "e"), keyed("too many", "f")];
    assert!(matches!(store.enqueue(full.into()).await, Err(StoreError::QueueFull { waiting: 2, .. })));
    store.define(&name(KEYED), &QueueConfig::default()).await.unwrap();
    let left = [keyed("waits", "a").id, keyed("kept back", "b").id];
    assert_eq!(claim_keyed(store).await, left, "nothing keeps them back by now");
}

fn remembered(word: &str) -> RecordWrite {
    let version = Version(u64::MAX - word.len() as u64);
    let change = Change::Put { version, value: word.to_owned().into(), ttl: None };
    RecordWrite { key: RecordKey::new(word).unwrap(), expect: Expect::Any, change }
}

/// Leaves a record that stays, and one whose time is over.
async fn write_records(store: &SqliteStore) {
    let records = vec![remembered("stays"), remembered("is over").ttl(Duration::from_micros(1))];
    let what = FollowUps { records, jobs: Vec::new() };
    Records::write(store, CallId::new(), &name("remembers"), what).await.unwrap();
}

async fn check_records(store: &SqliteStore) {
    let page = Records::list(store, &name("remembers"), "", None, 9).await.unwrap();
    let found: Vec<_> =
        page.records.iter().map(|each| (each.key.as_str(), &each.value[..], Some(each.version))).collect();
    assert_eq!(found, [("stays", &b"stays"[..], remembered("stays").version())]);
    let removal = RecordWrite::remove(page.records[0].key.clone());
    let expected = removal.expect(Expect::Version(page.records[0].version));
    let what = FollowUps { records: vec![expected], jobs: Vec::new() };
    Records::write(store, CallId::new(), &name("remembers"), what).await.unwrap();
    assert_eq!(Records::totals(store, &name("remembers")).await.unwrap().count, 0);
}

/// The layout since which there is what a migration is about.
fn since(migration: &str) -> i64 {
    MIGRATIONS.iter().find(|step| step.name == migration).unwrap().version
}

#[tokio::test]
async fn what_this_program_leaves_is_worked_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let store = Arc::new(open(&path).await);
    write_keys(&store).await;
    write_gates(&store).await;
    write_records(&store).await;
    fixture::write(store).await;
    // Opened once more, so that all of it is in the one file.
    drop(open(&path).await);
    if let Some(name) = std::env::var_os("WINDLASS_FIXTURE") {
        let to = kept().join(name);
        assert!(!to.exists(), "{} is kept as it is", to.display());
        rusqlite::Connection::open(&path).unwrap().execute("VACUUM INTO ?1", [to.to_str().unwrap()]).unwrap();
    }
    let store = Arc::new(open(&path).await);
    fixture::check(store.clone()).await;
    check_keys(&store).await;
    check_gates(&store).await;
    check_records(&store).await;
    fixture::drain(store).await;
}

#[tokio::test]
async fn what_earlier_programs_left_is_worked_off() {
    let mut files = 0;
    for file in fs::read_dir(kept()).unwrap() {
        let (file, folder) = (file.unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().join("jobs.db");
        fs::copy(file.path(), &path).unwrap();
        let store = Arc::new(open(&path).await);
        fixture::check(store.clone()).await;
        let layout = file.file_name().into_string().unwrap();
        let layout: i64 = layout.trim_start_matches("layout-").trim_end_matches(".db").parse().unwrap();
        if layout >= since("unique keys") {
            check_keys(&store).await;
        }
        if layout >= since("keys of jobs") {
            check_gates(&store).await;
        }
        if layout >= since("records") {
            check_records(&store).await;
        }
        fixture::drain(store).await;
        files += 1;
    }
    assert!(files > 0, "a file of every layout is kept");
}
