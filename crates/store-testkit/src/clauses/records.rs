//! Records of a queue: values under keys, with versions and a time to live.

use std::time::Duration;

use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Change, Expect, KEY_MAX, Record, RecordKey, RecordWrite, VALUE_MAX, Version};
use windlass_core::store::{Enqueued, PAGE_BYTES, Records, StoreResult};
use windlass_core::{CallId, JobId, Options, State, StoreError};

use super::capacity::room_for;
use super::keys::define;
use crate::Harness;
use crate::scene::{QUEUE, Scene, assert_after, completed, job, name, one, seconds};

pub(super) fn key(text: &str) -> RecordKey {
    RecordKey::new(text).expect("clauses write proper keys")
}

pub(super) fn put(text: &str, value: &str) -> RecordWrite {
    RecordWrite::put(key(text), value.to_owned())
}

/// The part of the store that is tested here.
pub(super) fn records(scene: &Scene) -> &dyn Records {
    scene.store.records().expect("the store keeps records")
}

pub(super) fn together(records: impl Into<Vec<RecordWrite>>) -> FollowUps {
    FollowUps { jobs: Vec::new(), records: records.into() }
}

async fn write(scene: &Scene, writes: impl Into<Vec<RecordWrite>>) -> StoreResult<Vec<Enqueued>> {
    records(scene).write(CallId::new(), &name(QUEUE), together(writes)).await
}

/// Writes what must be written, and answers the version of the first put.
pub(super) async fn written(scene: &Scene, writes: impl Into<Vec<RecordWrite>>) -> Option<Version> {
    let writes = writes.into();
    let version = writes.first().and_then(RecordWrite::version);
    assert_eq!(write(scene, writes).await.expect("records can be written"), []);
    version
}

pub(super) async fn find(scene: &Scene, text: &str) -> Option<Record> {
    one(records(scene).read(&name(QUEUE), [key(text)].into()).await.expect("records can be read"))
}

/// The value under a key of the scene's queue, as text.
pub(super) async fn value(scene: &Scene, text: &str) -> Option<String> {
    let value = find(scene, text).await?.value;
    Some(String::from_utf8(value.to_vec()).expect("clauses write texts"))
}

async fn listed(scene: &Scene, prefix: &str, limit: u32) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = records(scene).list(&name(QUEUE), prefix, after.as_ref(), limit).await;
        let page = page.expect("records can be listed");
        assert!(page.records.len() <= limit as usize);
        found.extend(page.records.iter().map(|record| record.key.to_string()));
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

fn conflict(answer: StoreResult<Vec<Enqueued>>) -> (String, Option<Version>) {
    match answer {
        Err(StoreError::Conflict { key, found }) => (key.to_string(), found),
        other => panic!("a record is not as expected, but the write answers {other:?}"),
    }
}

/// A record has the key, the value and the version that it was written with, whatever bytes these are.
pub async fn a_record_reads_back(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let keys = ["a", "a b/c", "\u{1b}[31m\n", "ключ\u{202e}", "%_\\'\"*?[", &"x".repeat(KEY_MAX)];
    let values = [b"".as_slice(), b"\0\xff\xfe", b"{}", b"\\x00", &[7; 5_000], b"'"];
    for (text, bytes) in keys.into_iter().zip(values) {
        let write = RecordWrite::put(key(text), bytes.to_vec());
        let version = written(&scene, [write]).await;
        let record = find(&scene, text).await.expect("it was written");
        assert_eq!((record.key, Some(record.version)), (key(text), version));
        assert_eq!((&record.value[..], record.expires_at), (bytes, None));
        let now = scene.store.now().await.expect("a store has a clock");
        assert_after(now, record.written_at, Duration::ZERO);
    }
    for version in [0, 1, u64::MAX, 1 << 63] {
        let mut write = put("a", "x");
        if let Change::Put { version: of_write, .. } = &mut write.change {
            *of_write = Version(version);
        }
        written(&scene, [write]).await;
        assert_eq!(find(&scene, "a").await.map(|record| record.version), Some(Version(version)));
    }
    assert_eq!(find(&scene, "b").await, None);
    let several = records(&scene).read(&name(QUEUE), [key("b"), key("a"), key("a")].into()).await;
    let several = several.expect("records can be read");
    assert_eq!(several.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(written(&scene, []).await, None, "there may be nothing to write");
}

/// Keys of two queues are apart.
pub async fn a_record_is_of_its_queue(h: &impl Harness) {
    let scene = Scene::new(h).await;
    written(&scene, [put("k", "here")]).await;
    let (there, call) = (name("other"), CallId::new());
    records(&scene).write(call, &there, together([put("k", "there")])).await.expect("it is written");
    let other = one(records(&scene).read(&there, [key("k")].into()).await.expect("it is read"));
    assert_eq!(other.expect("it was written").value, "there");
    assert_eq!(value(&scene, "k").await.as_deref(), Some("here"));
    let removal = together([RecordWrite::remove(key("k"))]);
    records(&scene).write(CallId::new(), &there, removal).await.expect("it is removed");
    assert_eq!(value(&scene, "k").await.as_deref(), Some("here"));
}

/// A write that expects something else than what is there changes nothing, and says what is there.
pub async fn an_expectation_guards_a_record(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let first = written(&scene, [put("k", "1").expect(Expect::Absent)]).await;
    assert_eq!(conflict(write(&scene, [put("k", "x").expect(Expect::Absent)]).await), ("k".into(), first));
    let other = Expect::Version(Version::new());
    assert_eq!(conflict(write(&scene, [put("k", "x").expect(other)]).await), ("k".into(), first));
    assert_eq!(conflict(write(&scene, [put("none", "x").expect(other)]).await), ("none".into(), None));
    let removal = RecordWrite::remove(key("k"));
    assert_eq!(conflict(write(&scene, [removal.clone().expect(other)]).await).1, first);
    assert_eq!(conflict(write(&scene, [removal.clone().expect(Expect::Absent)]).await).1, first);
    assert_eq!(value(&scene, "k").await.as_deref(), Some("1"), "nothing was written");
    let expected = Expect::Version(first.expect("it was put"));
    let second = written(&scene, [put("k", "2").expect(expected)]).await;
    assert_ne!(first, second);
    assert_eq!(conflict(write(&scene, [put("k", "3").expect(expected)]).await), ("k".into(), second));
    let expected = Expect::Version(second.expect("it was put"));
    written(&scene, [removal.clone().expect(expected)]).await;
    assert_eq!(find(&scene, "k").await, None);
    assert_eq!(conflict(write(&scene, [removal.clone().expect(expected)]).await), ("k".into(), None));
    written(&scene, [removal]).await;
    written(&scene, [put("k", "4").expect(Expect::Absent)]).await;
    assert_eq!(value(&scene, "k").await.as_deref(), Some("4"));
}

/// A put that finds its own version was made before: a repeat after a lost answer conflicts with nothing.
pub async fn a_repeated_put_is_known(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let first = put("k", "1").expect(Expect::Absent);
    for _ in 0..3 {
        written(&scene, [first.clone()]).await;
    }
    let expected = Expect::Version(first.version().expect("it is put"));
    let second = put("k", "2").expect(expected);
    for _ in 0..3 {
        written(&scene, [second.clone()]).await;
    }
    assert_eq!(conflict(write(&scene, [first]).await).1, second.version());
    assert_eq!(value(&scene, "k").await.as_deref(), Some("2"));
}

/// Several records are changed together or not at all.
pub async fn a_write_is_whole_or_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    written(&scene, [put("a", "1"), put("b", "1"), put("gone", "1")]).await;
    let writes = [
        put("a", "2"),
        RecordWrite::remove(key("gone")),
        put("b", "2").expect(Expect::Absent),
        put("c", "2"),
    ];
    assert_eq!(conflict(write(&scene, writes.clone()).await).0, "b");
    for (text, expected) in [("a", Some("1")), ("b", Some("1")), ("gone", Some("1")), ("c", None)] {
        assert_eq!(value(&scene, text).await.as_deref(), expected, "{text}");
    }
    let writes = writes.map(|write| write.expect(Expect::Any));
    written(&scene, writes).await;
    for (text, expected) in [("a", Some("2")), ("b", Some("2")), ("gone", None), ("c", Some("2"))] {
        assert_eq!(value(&scene, text).await.as_deref(), expected, "{text}");
    }
}

/// A record whose time is over is not there, whether or not it was removed yet.
pub async fn a_record_expires(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let old = written(&scene, [put("k", "1").ttl(seconds(10)), put("stays", "1")]).await;
    let record = find(&scene, "k").await.expect("its time is not over");
    assert_after(record.expires_at.expect("it has an end"), record.written_at, seconds(10));
    h.advance(seconds(10)).await;
    assert_eq!(find(&scene, "k").await, None);
    assert_eq!(listed(&scene, "", 10).await, ["stays"]);
    let expected = Expect::Version(old.expect("it was put"));
    assert_eq!(conflict(write(&scene, [put("k", "x").expect(expected)]).await), ("k".into(), None));
    written(&scene, [put("k", "2").expect(Expect::Absent).ttl(seconds(10))]).await;
    h.advance(seconds(6)).await;
    written(&scene, [put("k", "3").ttl(seconds(10))]).await;
    h.advance(seconds(6)).await;
    assert_eq!(value(&scene, "k").await.as_deref(), Some("3"), "a write begins its time anew");
    written(&scene, [put("k", "4")]).await;
    h.advance(seconds(60)).await;
    assert_eq!(value(&scene, "k").await.as_deref(), Some("4"), "it stays now");
    written(&scene, [put("never", "1").ttl(Duration::MAX), put("at once", "1").ttl(Duration::ZERO)]).await;
    assert_eq!(listed(&scene, "", 10).await, ["k", "never", "stays"]);
    while scene.store.tidy(100).await.expect("tidying is answered") > 0 {}
    assert_eq!(listed(&scene, "", 10).await, ["k", "never", "stays"]);
}

/// A list has the records of a prefix, by the bytes of their keys, in pages.
pub async fn a_list_goes_by_prefix(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let keys = ["a", "a/", "a/1", "a/10", "a/2", "a0", "B", "ä", "a/%", "a/_", "a\u{ff}", "a\u{10ffff}"];
    for text in keys {
        written(&scene, [put(text, text)]).await;
    }
    let mut sorted = keys;
    sorted.sort_unstable();
    for limit in [1, 2, 5, 100] {
        assert_eq!(listed(&scene, "", limit).await, sorted);
        assert_eq!(listed(&scene, "a/", limit).await, ["a/", "a/%", "a/1", "a/10", "a/2", "a/_"]);
        assert_eq!(listed(&scene, "a/%", limit).await, ["a/%"], "no character is a wildcard");
        assert_eq!(listed(&scene, "a\u{10ffff}", limit).await, ["a\u{10ffff}"]);
        assert_eq!(listed(&scene, "none", limit).await, Vec::<String>::new());
    }
    let page = records(&scene).list(&name(QUEUE), "a/", Some(&key("a/10")), 1).await.expect("it is read");
    assert_eq!((page.records[0].value.as_ref(), page.next), (b"a/2".as_slice(), Some(key("a/2"))));
    let none = records(&scene).list(&name(QUEUE), "", None, 0).await.expect("a limit of 0 is answered");
    assert_eq!((none.records.len(), none.next), (0, None));
}

/// A page of large records ends early, and the next one goes on.
pub async fn a_page_of_large_records_ends_early(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let count = PAGE_BYTES / VALUE_MAX * 2;
    for i in 0..count {
        written(&scene, [RecordWrite::put(key(&format!("{i:02}")), vec![b'x'; VALUE_MAX])]).await;
    }
    let page = records(&scene).list(&name(QUEUE), "", None, 100).await.expect("records can be listed");
    assert!(!page.records.is_empty() && page.records.len() < count, "{}", page.records.len());
    assert_eq!(listed(&scene, "", 100).await.len(), count);
    let totals = records(&scene).totals(&name(QUEUE)).await.expect("records can be counted");
    assert_eq!((totals.count, totals.bytes), (count as u64, (count * VALUE_MAX) as u64));
}

/// How much a queue remembers can be seen.
pub async fn totals_tell_how_much_there_is(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let totals = async || {
        let totals = records(&scene).totals(&name(QUEUE)).await.expect("records can be counted");
        assert!(!totals.has_more);
        (totals.count, totals.bytes)
    };
    assert_eq!(totals().await, (0, 0));
    written(&scene, [put("a", "123"), put("b", ""), put("c", "1").ttl(seconds(5))]).await;
    assert_eq!(totals().await, (3, 4));
    written(&scene, [put("a", "12345"), RecordWrite::remove(key("b"))]).await;
    assert_eq!(totals().await, (2, 6));
    h.advance(seconds(5)).await;
    assert_eq!(totals().await, (1, 5));
}

/// What is too much or too large is refused as a whole, with its reason.
pub async fn too_much_is_refused(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let large = RecordWrite::put(key("large"), vec![0; VALUE_MAX + 1]);
    let many: Vec<_> = (0..101).map(|i| put(&i.to_string(), "")).collect();
    for writes in [vec![put("a", "1"), large], many, vec![put("a", "1"), put("a", "2")]] {
        let answer = write(&scene, writes).await;
        assert!(matches!(answer, Err(StoreError::FollowUps(_))), "{answer:?}");
    }
    assert_eq!(find(&scene, "a").await, None);
    let elsewhere = FollowUps { jobs: vec![job(Options::new().queue("other"))], records: Vec::new() };
    let answer = records(&scene).write(CallId::new(), &name(QUEUE), elsewhere).await;
    assert!(matches!(answer, Err(StoreError::FollowUps(_))), "{answer:?}");
    let full: Vec<_> = (0..100).map(|i| RecordWrite::put(key(&i.to_string()), vec![1; 9_000])).collect();
    written(&scene, full).await;
    assert_eq!(listed(&scene, "", 1_000).await.len(), 100);
}

/// Records belong to no job and to no definition: they stay when the queue is removed, and make none appear.
pub async fn records_outlive_their_queue(h: &impl Harness) {
    let scene = Scene::new(h).await;
    written(&scene, [put("k", "1")]).await;
    let queues = scene.store.queues(None, 10).await.expect("queues can be listed");
    assert_eq!(queues, [], "records alone do not make a queue");
    let id = scene.finished(Options::new(), completed()).await;
    scene.delete(id).await;
    define(&scene, room_for(5)).await;
    scene.store.remove(&name(QUEUE)).await.expect("a removal is answered");
    assert_eq!(value(&scene, "k").await.as_deref(), Some("1"));
    scene.assert_counts().await;
}

/// Of many that write after the same version one succeeds.
pub async fn of_many_writers_one_succeeds(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut version = written(&scene, [put("k", "0")]).await.expect("it was put");
    for round in 0..5 {
        let writers = (0..16).map(|i| {
            let store = scene.store.clone();
            let write = put("k", &format!("{round} {i}")).expect(Expect::Version(version));
            tokio::spawn(async move {
                let records = store.records().expect("the store keeps records");
                let answer = records.write(CallId::new(), &name(QUEUE), together([write.clone()])).await;
                match answer {
                    Ok(_) => write.version(),
                    Err(StoreError::Conflict { .. }) => None,
                    Err(other) => panic!("{other}"),
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let mut winners = Vec::new();
        for writer in writers {
            winners.extend(writer.await.expect("no writer panics"));
        }
        version = one(winners);
        assert_eq!(find(&scene, "k").await.map(|record| record.version), Some(version));
    }
}

/// Jobs and records are written together or not at all, and a repeat of the call writes nothing.
pub async fn jobs_come_with_records(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let with =
        |id: JobId, write| FollowUps { jobs: vec![job(Options::new()).with_id(id)], records: vec![write] };
    let write = async |call, what| records(&scene).write(call, &name(QUEUE), what).await;
    let (call, id, first) = (CallId::new(), JobId::new(), put("k", "1").expect(Expect::Absent));
    assert_eq!(write(call, with(id, first.clone())).await.expect("both are new"), [Enqueued::New]);
    assert_eq!((scene.state(id).await, value(&scene, "k").await.as_deref()), (State::Ready, Some("1")));
    scene.delete(id).await;
    written(&scene, [put("k", "2")]).await;
    assert_eq!(write(call, with(id, first)).await.expect("it is a repeat"), [Enqueued::Repeated]);
    assert_eq!((scene.find(id).await, value(&scene, "k").await.as_deref()), (None, Some("2")));
    let refused = JobId::new();
    let answer = write(CallId::new(), with(refused, put("k", "3").expect(Expect::Absent))).await;
    assert_eq!(conflict(answer).0, "k");
    assert_eq!(scene.find(refused).await, None, "the job was not stored without its record");
    define(&scene, room_for(1)).await;
    scene.add(Options::new()).await;
    let full = write(CallId::new(), with(refused, put("k", "4"))).await;
    assert!(matches!(full, Err(StoreError::QueueFull { .. })), "{full:?}");
    assert_eq!(value(&scene, "k").await.as_deref(), Some("2"), "the record was not written without its job");
    scene.assert_counts().await;
}
