//! Payloads that are many bytes go past the script that accepts their jobs: they are there with their jobs, and nowhere
//! without them.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "harness/two_queues.rs"]
mod two_queues;

use std::collections::HashMap;

use two_queues::{Scene, name};
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::size::Caps;
use windlass_core::store::{Enqueued, Jobs, Queues, Settlement};
use windlass_core::{CallId, ClaimedJob, NewJob, Options, Outcome, State, StoreError, StoreErrorKind, judge};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

/// A job of queue `bad` with so many bytes, of its own.
fn job(length: usize) -> NewJob {
    let payload: Vec<u8> = (0..length).map(|_| fastrand::u8(..)).collect();
    NewJob::new("k", payload, Options::new().queue("bad")).unwrap()
}

/// More than a script is given.
fn jobs() -> Vec<NewJob> {
    (0..40).map(|place| job(if place % 10 == 0 { 9 } else { 20 << 10 })).collect()
}

impl Scene {
    /// How many payloads stand apart in queue `bad`, and how many contents of transfers.
    fn apart(&self) -> (usize, usize) {
        let length = |key| self.server.command(&["HLEN", &self.key(key)]).trim().parse().unwrap();
        (length("bodies"), length("contents"))
    }

    /// Claims all, and compares their payloads with what was handed in.
    async fn claim_and_compare(&self, jobs: &[NewJob]) -> Vec<ClaimedJob> {
        let mut expected: HashMap<_, _> = jobs.iter().map(|job| (job.id, &job.payload)).collect();
        let mut claimed = Vec::new();
        while claimed.len() < jobs.len() {
            let found = self.claim(1_000).await.jobs;
            assert!(!found.is_empty(), "{} of {} are there", claimed.len(), jobs.len());
            claimed.extend(found);
        }
        for job in &claimed {
            assert!(expected.remove(&job.id) == Some(&job.payload), "{} has its payload", job.id);
        }
        claimed
    }
}

fn completed(job: &ClaimedJob) -> Settlement {
    let transition = judge(&job.facts, Outcome::Completed { output: None }, 0.5);
    Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
}

#[tokio::test]
async fn long_payloads_are_there_with_their_jobs() {
    let scene = Scene::new().await;
    let (jobs, few) = (jobs(), [job(2_000), job(3)]);
    assert_eq!(scene.store.enqueue(jobs.as_slice().into()).await.unwrap(), [Enqueued::New; 40]);
    scene.store.enqueue(few.clone().into()).await.unwrap();
    assert_eq!(scene.apart(), (37, 0));
    let again = scene.store.enqueue(jobs.as_slice().into()).await.unwrap();
    assert_eq!(again, [Enqueued::Existing(State::Ready); 40]);
    scene.claim_and_compare(&[jobs, few.to_vec()].concat()).await;
    assert_eq!(scene.apart(), (37, 0));
}

#[tokio::test]
async fn what_is_refused_leaves_no_payload() {
    let scene = Scene::new().await;
    let (short, long) = (job(9), job(500 << 10));
    scene.store.enqueue([short.clone(), long.clone()].into()).await.unwrap();
    assert_eq!(scene.apart(), (1, 0));
    for taken in [&short, &long] {
        // Another payload of the same length, and one that stands apart where the first does not.
        for length in [taken.payload.len(), 300 << 10] {
            let mut batch = jobs();
            batch.push(job(length).with_id(taken.id));
            let refused = scene.store.enqueue(batch.as_slice().into()).await;
            assert!(matches!(refused, Err(StoreError::IdTaken { id }) if id == taken.id), "{refused:?}");
            assert_eq!(scene.apart(), (1, 0));
        }
    }
    let large = [jobs(), vec![job((1 << 20) + 1)]].concat();
    assert!(matches!(scene.store.enqueue(large.into()).await, Err(StoreError::TooLarge { .. })));
    assert_eq!(scene.apart(), (1, 0));
    scene.claim_and_compare(&[short, long]).await;
}

#[tokio::test]
async fn a_definition_that_changed_meanwhile_leaves_no_payload() {
    let scene = Scene::new().await;
    scene.store.enqueue([job(1)].into()).await.unwrap();
    let options = RedisOptions::parse(&scene.server.url()).unwrap().namespace(&scene.namespace).unwrap();
    let other = RedisStore::open_with(options).await.unwrap();
    let caps = Caps { payload: 100, ..Caps::default() };
    other.define(&name("bad"), &QueueConfig { caps, ..QueueConfig::default() }).await.unwrap();
    let refused = scene.store.enqueue(jobs().into()).await;
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
    assert_eq!(scene.apart(), (0, 0));
}

#[tokio::test]
async fn a_repeated_call_leaves_no_payload_where_its_jobs_have_gone() {
    let scene = Scene::new().await;
    let retention = Retention { completed: Keep::NONE, ..Retention::default() };
    scene.store.define(&name("bad"), &QueueConfig { retention, ..QueueConfig::default() }).await.unwrap();
    let (call, jobs) = (CallId::new(), jobs());
    scene.store.enqueue_once(call, jobs.as_slice().into()).await.unwrap();
    let repeat = scene.store.enqueue_once(call, jobs.as_slice().into()).await.unwrap();
    assert_eq!((repeat, scene.apart()), (vec![Enqueued::Repeated; 40], (36, 0)));
    let claimed = scene.claim_and_compare(&jobs).await;
    let settlements: Vec<_> = claimed.iter().map(completed).collect();
    scene.store.settle(settlements.into()).await.unwrap();
    assert_eq!(scene.apart(), (0, 0));
    let repeat = scene.store.enqueue_once(call, jobs.as_slice().into()).await.unwrap();
    assert_eq!((repeat, scene.apart()), (vec![Enqueued::Repeated; 40], (0, 0)));
}

#[tokio::test]
async fn a_script_that_fails_leaves_no_payload() {
    let scene = Scene::new().await;
    scene.store.enqueue([job(1)].into()).await.unwrap();
    scene.spoil("meta");
    let error = scene.store.enqueue(jobs().into()).await.unwrap_err();
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    assert_eq!(scene.apart(), (0, 0));
    // As a call for several queues, which begins in this one.
    let elsewhere = NewJob::new("k", "", Options::new().queue("good")).unwrap();
    scene.store.enqueue([jobs(), vec![elsewhere]].concat().into()).await.unwrap_err();
    assert_eq!(scene.apart(), (0, 0));
}

#[tokio::test]
async fn contents_that_cannot_be_written_are_not_accepted() {
    let scene = Scene::new().await;
    scene.spoil("contents");
    let mut batch = jobs();
    batch[1].queue = name("good");
    let call = CallId::new();
    let error = scene.store.enqueue_once(call, batch.as_slice().into()).await.unwrap_err();
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    // What stands in the stream itself goes on.
    let few = [job(1), NewJob::new("k", "", Options::new().queue("good")).unwrap()];
    assert_eq!(scene.store.enqueue(few.clone().into()).await.unwrap(), [Enqueued::New; 2]);
    scene.server.command(&["DEL", &scene.key("contents")]);
    let repeat = scene.store.enqueue_once(call, batch.as_slice().into()).await.unwrap();
    assert_eq!((repeat, scene.apart()), (vec![Enqueued::New; 40], (36 - 1, 0)));
    scene.claim_and_compare(&[batch, few.to_vec()].concat()).await;
}

/// Each of two calls has a job of its own under one id.
#[tokio::test]
async fn of_two_long_payloads_for_one_id_one_is_refused() {
    let scene = Scene::new().await;
    let options = RedisOptions::parse(&scene.server.url()).unwrap().namespace(&scene.namespace).unwrap();
    let store = RedisStore::open_with(options).await.unwrap();
    for _ in 0..10 {
        let first = job(300 << 10);
        let second = job(300 << 10).with_id(first.id);
        let (one, other) =
            tokio::join!(scene.store.enqueue([first.clone()].into()), store.enqueue([second.clone()].into()));
        let (stored, refused) = if one.is_ok() { (first, other) } else { (second, one) };
        assert!(matches!(refused, Err(StoreError::IdTaken { .. })), "{refused:?}");
        scene.claim_and_compare(&[stored]).await;
    }
}

#[tokio::test]
async fn a_call_for_several_queues_leaves_nothing_in_the_first() {
    let scene = Scene::new().await;
    let mut batch = jobs();
    for (place, job) in batch.iter_mut().enumerate() {
        if place % 2 == 1 {
            job.queue = name("good");
        }
    }
    let answers = scene.store.enqueue(batch.as_slice().into()).await.unwrap();
    assert_eq!((answers, scene.apart()), (vec![Enqueued::New; 40], (16, 0)));
    let again = scene.store.enqueue(batch.as_slice().into()).await.unwrap();
    assert_eq!((again, scene.apart()), (vec![Enqueued::Existing(State::Ready); 40], (16, 0)));
    scene.claim_and_compare(&batch).await;
}

#[tokio::test]
async fn a_user_without_the_right_to_transactions_stores_long_payloads() {
    for right in ["multi", "exec"] {
        let settings = RedisSettings::default().user("worker", "secret", &format!("~* &* +@all -{right}"));
        let scene = Scene::on(RedisServer::start(&settings).into()).await;
        let (one_queue, mut two_queues) = (jobs(), jobs());
        two_queues[1].queue = name("good");
        for jobs in [&one_queue, &two_queues] {
            assert_eq!(scene.store.enqueue(jobs.as_slice().into()).await.unwrap(), [Enqueued::New; 40]);
        }
        scene.claim_and_compare(&[one_queue, two_queues].concat()).await;
    }
}

/// Without MULTI the commands of the next call run one by one, so it is unknown what became of it; without EXEC none does.
#[tokio::test]
async fn a_right_to_transactions_that_is_taken_away_is_noticed() {
    for (right, is_known) in [("-multi", false), ("-exec", true)] {
        let settings = RedisSettings::default().user("worker", "secret", "~* &* +@all");
        let scene = Scene::on(RedisServer::start(&settings).into()).await;
        scene.server.command(&["ACL", "SETUSER", "worker", right]);
        let (call, jobs) = (CallId::new(), jobs());
        let first = scene.store.enqueue_once(call, jobs.as_slice().into()).await;
        let kind = first.as_ref().err().map(StoreError::kind);
        assert_eq!(kind, (!is_known).then_some(StoreErrorKind::Unknown), "{right}: {first:?}");
        scene.store.enqueue_once(call, jobs.as_slice().into()).await.unwrap();
        scene.claim_and_compare(&jobs).await;
    }
}

/// As many bytes as one call may have.
#[tokio::test]
async fn the_largest_call_is_stored() {
    let scene = Scene::new().await;
    let jobs: Vec<_> = (0..64).map(|_| job(1 << 20)).collect();
    assert_eq!(scene.store.enqueue(jobs.as_slice().into()).await.unwrap(), [Enqueued::New; 64]);
    assert_eq!(scene.apart(), (64, 0));
    scene.claim_and_compare(&jobs).await;
}
