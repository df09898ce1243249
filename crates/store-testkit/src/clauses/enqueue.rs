//! A job is accepted: as a whole, in order, once per id, within its queue's caps.

use futures_util::FutureExt;
use windlass_core::clock::Timestamp;
use windlass_core::job::{Counters, NewJob, Trace};
use windlass_core::options::Due;
use windlass_core::queue::QueueConfig;
use windlass_core::retry::Policy;
use windlass_core::size::Caps;
use windlass_core::store::{Enqueued, Filter};
use windlass_core::{Bytes, JobId, Options, State, StoreError, StoreErrorKind};

use crate::Harness;
use crate::scene::{KIND, QUEUE, Scene, completed, job, jobs, name, seconds};

/// Everything that was said about a job reads back, and nothing has happened to it yet.
pub async fn a_new_job_reads_back(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let new = job(Options::new()
        .queue("mail")
        .priority(-7)
        .delay(seconds(5))
        .expires_in(seconds(90))
        .timeout(seconds(40))
        .retry(Policy::exponential(9, seconds(3)).ambiguous(2))
        .max_stalls(6)
        .meta("tenant", "ä\0\"\\")
        .trace(Trace::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None).expect("a trace"))
        .tag("b")
        .tag("a"));
    scene.enqueue(new.clone()).await;
    let record = scene.get(new.id).await;
    assert_eq!((record.id, &record.queue, &record.kind), (new.id, &new.queue, &new.kind));
    assert_eq!((&record.payload, &record.spec, &record.tags), (&new.payload, &new.spec, &new.tags));
    assert_eq!((record.priority, record.spec.timeout, record.spec.stalls_max), (-7, Some(seconds(40)), 6));
    assert_eq!((record.state, record.reason, record.counters), (State::Scheduled, None, Counters::default()));
    assert_eq!((record.output, record.progress, record.finished_at), (None, None, None));
    assert_eq!((record.fence, record.cancel_requested, record.attempts.len()), (0, false, 0));
    assert_eq!(record.due_at, record.enqueued_at.plus(seconds(5)));
    assert_eq!(record.expires_at, Some(record.enqueued_at.plus(seconds(90))));
}

/// A job without a time is ready at once, and so is one whose time is past; it is never due before it was
/// accepted.
pub async fn a_job_without_a_time_is_ready(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut past = job(Options::new());
    past.due = Due::At(Timestamp::from_micros(1));
    for new in [job(Options::new()), past, job(Options::new().delay(seconds(0)))] {
        let record = scene.get(scene.enqueue(new).await).await;
        assert_eq!(record.state, State::Ready);
        assert_eq!(record.due_at, record.enqueued_at);
        assert_eq!(record.expires_at, None);
    }
}

/// An instant of the store's clock in the future is kept as it was given.
pub async fn a_job_for_an_instant_is_scheduled(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let now = scene.get(scene.add(Options::new()).await).await.enqueued_at;
    let mut new = job(Options::new());
    new.due = Due::At(now.plus(seconds(600)));
    let record = scene.get(scene.enqueue(new).await).await;
    assert_eq!((record.state, record.due_at), (State::Scheduled, now.plus(seconds(600))));
}

/// The farthest times do not overflow.
pub async fn endless_durations_are_kept(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let endless = std::time::Duration::MAX;
    let id = scene.add(Options::new().delay(endless).expires_in(endless).timeout(endless)).await;
    let record = scene.get(id).await;
    assert_eq!(record.state, State::Scheduled);
    assert!(record.due_at > record.enqueued_at.plus(seconds(1 << 32)));
    assert!(record.spec.timeout > Some(seconds(1 << 32)));
}

/// Retry policies from the edge of what can be said read back, and do not stand in the way of a claim.
pub async fn wild_policies_are_kept(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let endless = std::time::Duration::MAX;
    let policies = [
        Policy::exponential(u32::MAX, endless).factor(f64::MAX).cap(endless).ambiguous(u32::MAX),
        Policy::polynomial(1, endless, f64::MAX).cap(endless),
        Policy::exponential(1, seconds(1)).factor(1.0 + f64::EPSILON),
        Policy::polynomial(1, seconds(1), f64::MIN_POSITIVE),
    ];
    for policy in &policies {
        let id = scene.add(Options::new().retry(policy.clone()).max_stalls(u32::MAX)).await;
        let record = scene.get(id).await;
        assert_eq!((&record.spec.retry, record.spec.stalls_max), (policy, u32::MAX));
    }
    let claimed = scene.claim(scene.lease().await, 9).await;
    assert_eq!(claimed.iter().map(|job| job.facts.spec.retry.clone()).collect::<Vec<_>>(), policies);
}

/// A batch is accepted in the order in which it was given.
pub async fn a_batch_keeps_its_order(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let first = scene.add_many(20).await;
    let second = scene.add_many(20).await;
    let listed = scene.list(&Filter::default()).await;
    let expected: Vec<JobId> = first.into_iter().chain(second).rev().collect();
    assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), expected);
}

/// A batch of thousands is one call, and an empty one is nothing.
pub async fn a_batch_may_be_large_or_empty(h: &impl Harness) {
    let scene = Scene::new(h).await;
    assert_eq!(scene.store.enqueue([].into()).await.expect("an empty batch is fine"), []);
    let all = scene.add_many(3_000).await;
    assert_eq!(scene.count(QUEUE, State::Ready).await, 3_000);
    let claimed = scene.claim(scene.lease().await, 3_000).await;
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), all);
}

/// The same job under the same id is answered with its state, whatever became of it, and changes nothing.
pub async fn a_repeat_changes_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let new = job(Options::new());
    let again = async || scene.store.enqueue([new.clone()].into()).await.expect("a repeat is answered");
    scene.enqueue(new.clone()).await;
    let before = scene.get(new.id).await;
    h.advance(seconds(3)).await;
    assert_eq!(again().await, [Enqueued::Existing(State::Ready)]);
    assert_eq!(scene.get(new.id).await, before);
    let claimed = scene.claim_one(scene.lease().await).await;
    assert_eq!(again().await, [Enqueued::Existing(State::Running)]);
    scene.settle(&claimed, completed()).await;
    assert_eq!(again().await, [Enqueued::Existing(State::Completed)]);
    assert_eq!(scene.list(&Filter::default()).await.len(), 1);
    scene.assert_counts().await;
}

/// A repeat may differ in what does not make a job another one.
pub async fn a_repeat_may_have_other_options(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let new = job(Options::new().priority(3));
    scene.enqueue(new.clone()).await;
    let other = job(Options::new().priority(9).delay(seconds(9)).tag("t")).with_id(new.id);
    let answers = scene.store.enqueue([other].into()).await.expect("a repeat is answered");
    assert_eq!(answers, [Enqueued::Existing(State::Ready)]);
    assert_eq!(scene.get(new.id).await.priority, 3);
}

/// An id that stands twice in one batch is treated as in two calls.
pub async fn an_id_may_stand_twice_in_a_batch(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let (new, between) = (job(Options::new()), job(Options::new()));
    let batch = [new.clone(), between.clone(), new.clone()];
    let answers = scene.store.enqueue(batch.clone().into()).await.expect("a repeat is answered");
    assert_eq!(answers, [Enqueued::New, Enqueued::New, Enqueued::Existing(State::Ready)]);
    assert_eq!(scene.list(&Filter::default()).await.len(), 2);

    let (new, other) =
        (job(Options::new()), NewJob::new("other", "{}", Options::new()).expect("a proper job"));
    let error = scene
        .store
        .enqueue([new.clone(), other.with_id(new.id)].into())
        .await
        .expect_err("the batch is refused");
    assert!(matches!(error, StoreError::IdTaken { id } if id == new.id), "{error}");
    assert_eq!(scene.find(new.id).await, None);
    scene.assert_counts().await;
}

/// Another kind or payload under a taken id refuses the whole batch, and nothing of it is stored.
pub async fn a_taken_id_refuses_the_batch(h: &impl Harness) {
    let other_kind = NewJob::new("other", "{}", Options::new());
    let other_payload = NewJob::new(KIND, "[]", Options::new());
    refuses_under_a_taken_id(h, [other_kind, other_payload].map(|other| other.expect("a proper job"))).await;
}

/// An id names one job in the whole store: a job of another queue under it refuses the batch as well.
///
/// A store that spreads queues over servers cannot know what the others hold. The model test then keeps every id
/// to one queue.
pub async fn an_id_is_taken_in_every_queue(h: &impl Harness) {
    let other_queue = NewJob::new(KIND, "{}", Options::new().queue("other"));
    refuses_under_a_taken_id(h, [other_queue.expect("a proper job")]).await;
}

async fn refuses_under_a_taken_id<const N: usize>(h: &impl Harness, others: [NewJob; N]) {
    let scene = Scene::new(h).await;
    let new = NewJob::new(KIND, "{}", Options::new()).expect("a proper job");
    scene.enqueue(new.clone()).await;
    let before = scene.get(new.id).await;
    for other in others {
        let mut batch = jobs(3);
        batch.insert(2, other.with_id(new.id));
        let error = scene.store.enqueue(batch.as_slice().into()).await.expect_err("the batch is refused");
        assert!(matches!(error, StoreError::IdTaken { id } if id == new.id), "{error}");
        assert_eq!(error.kind(), StoreErrorKind::Refused);
        assert_eq!(scene.list(&Filter::default()).await.len(), 1, "nothing of a refused batch is stored");
    }
    assert_eq!(scene.get(new.id).await, before);
    scene.assert_counts().await;
}

/// A payload above the cap of its queue refuses the whole batch; at the cap it is accepted.
pub async fn a_payload_above_the_cap_refuses_the_batch(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let config = QueueConfig { caps: Caps { payload: 8, ..Caps::default() }, ..QueueConfig::default() };
    scene.store.define(&name("small"), &config).await.expect("a queue can be defined");
    let sized = |bytes: usize, queue: &str| {
        NewJob::new("work", vec![b'x'; bytes], Options::new().queue(queue)).expect("a proper job")
    };
    scene.enqueue(sized(8, "small")).await;
    let default_cap = Caps::default().payload;
    scene.enqueue(sized(default_cap, QUEUE)).await;
    for large in [sized(9, "small"), sized(default_cap + 1, QUEUE), sized(5 << 20, QUEUE)] {
        let (id, size) = (large.id, large.payload.len());
        let batch = [job(Options::new()), large, job(Options::new())];
        let error = scene.store.enqueue(batch.clone().into()).await.expect_err("the batch is refused");
        match &error {
            StoreError::TooLarge { id: refused, error } => {
                assert_eq!((*refused, error.what, error.size), (id, "payload", size));
            }
            other => panic!("a payload above the cap is answered with {other}"),
        }
        assert_eq!(error.kind(), StoreErrorKind::Refused);
    }
    assert_eq!(scene.list(&Filter::default()).await.len(), 2, "nothing of a refused batch is stored");
    scene.assert_counts().await;
}

/// A repeat is answered even if the cap was lowered meanwhile.
pub async fn a_repeat_above_a_lowered_cap_is_answered(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let new = NewJob::new("work", vec![b'x'; 100], Options::new()).expect("a proper job");
    scene.enqueue(new.clone()).await;
    let config = QueueConfig { caps: Caps { payload: 8, ..Caps::default() }, ..QueueConfig::default() };
    scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
    let answers = scene.store.enqueue([new].into()).await.expect("a repeat is answered");
    assert_eq!(answers, [Enqueued::Existing(State::Ready)]);
}

/// Payloads are bytes: none is changed, whether read, listed or claimed, and there may be none.
pub async fn payload_bytes_are_kept(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let payloads = [
        Bytes::new(),
        Bytes::from_static(b"\0"),
        Bytes::from_static(b"\xff\xfe not UTF-8 \xc3"),
        Bytes::from_static(b"\\x00 \\000 '' \"\""),
        Bytes::from_static(b"{\"a\": \"\\u0000\"}"),
        Bytes::from(every_byte.repeat(20)),
        Bytes::from(every_byte),
    ];
    let mut batch = Vec::new();
    for payload in &payloads {
        batch.push(NewJob::new(KIND, payload.clone(), Options::new()).expect("a proper job"));
    }
    scene.store.enqueue(batch.as_slice().into()).await.expect("proper jobs are accepted");
    for new in &batch {
        assert_eq!(scene.get(new.id).await.payload, new.payload);
        let repeat = scene.store.enqueue([new.clone()].into()).await.expect("a repeat is answered");
        assert_eq!(repeat, [Enqueued::Existing(State::Ready)]);
    }
    let listed = scene.list(&Filter::default()).await;
    assert_eq!(listed.iter().rev().map(|job| job.payload.clone()).collect::<Vec<_>>(), payloads);
    let claimed = scene.claim(scene.lease().await, 99).await;
    assert_eq!(claimed.iter().map(|job| job.payload.clone()).collect::<Vec<_>>(), payloads);
}

/// Names may use the whole alphabet and their whole length, and differ by case.
pub async fn names_use_their_whole_alphabet(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let long = "x".repeat(128);
    for text in ["a", "A", "A.b:c-d_9", "0", ":", long.as_str()] {
        let new = NewJob::new(text, "{}", Options::new().queue(text).tag(text)).expect("a proper job");
        let record = scene.get(scene.enqueue(new).await).await;
        assert_eq!((record.queue.as_str(), record.kind.as_str()), (text, text));
        assert_eq!(record.tags, [name(text)]);
        let filter =
            Filter { queue: Some(name(text)), kind: Some(name(text)), tag: Some(name(text)), state: None };
        assert_eq!(scene.list(&filter).await.len(), 1, "{text}");
    }
}

/// The id of a job that was removed is free again.
pub async fn the_id_of_a_removed_job_is_free(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let new = job(Options::new());
    scene.enqueue(new.clone()).await;
    scene.delete(new.id).await;
    let other = NewJob::new("other", "other", Options::new()).expect("a proper job").with_id(new.id);
    scene.enqueue(other).await;
    assert_eq!(scene.get(new.id).await.kind, name("other"));
}

/// What the store does not have is answered as missing, in the order of the question.
pub async fn unknown_ids_are_missing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let id = scene.add(Options::new()).await;
    let answers =
        scene.store.get([JobId::new(), id, JobId::new(), id].into()).await.expect("jobs can be read");
    assert_eq!(answers.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false, true]);
}

/// Of many that hand in the same job at once, one stores it and the others find it.
pub async fn of_many_at_once_one_is_new(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for _ in 0..10 {
        let new = job(Options::new());
        let repeats: Vec<_> = (0..6)
            .map(|_| {
                let (store, new) = (scene.store.clone(), new.clone());
                tokio::spawn(async move { store.enqueue([new].into()).await.expect("a repeat is answered") })
            })
            .collect();
        let mut answers = Vec::new();
        for repeat in repeats {
            answers.extend(repeat.await.expect("no enqueue panics"));
        }
        assert_eq!(answers.iter().filter(|answer| **answer == Enqueued::New).count(), 1, "{answers:?}");
    }
    assert_eq!(scene.list(&Filter::default()).await.len(), 10);
    scene.assert_counts().await;
}

/// A call whose future is dropped takes effect as a whole or not at all.
pub async fn a_dropped_call_is_whole_or_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for round in 0..20 {
        let batch = jobs(10);
        // Polled once and then dropped, wherever it was.
        let _ = scene.store.enqueue(batch.as_slice().into()).now_or_never();
        let found = scene.store.get(batch.iter().map(|job| job.id).collect::<Vec<_>>().into()).await;
        let found = found.expect("jobs can be read").into_iter().flatten().count();
        assert!(found == 0 || found == 10, "round {round}: {found} of 10 were stored");
    }
    // The same jobs, handed in again, complete what was dropped.
    let batch = jobs(10);
    let _ = scene.store.enqueue(batch.as_slice().into()).now_or_never();
    scene.store.enqueue(batch.as_slice().into()).await.expect("a repeat is answered");
    let found = scene.store.get(batch.iter().map(|job| job.id).collect::<Vec<_>>().into()).await;
    assert_eq!(found.expect("jobs can be read").into_iter().flatten().count(), 10);
}
