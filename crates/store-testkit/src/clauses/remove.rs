//! Removing queues: only one that holds nothing goes, and it goes as if it had never been there.

use windlass_core::job::NewJob;
use windlass_core::queue::{Keep, QueueConfig, Removed, Retention};
use windlass_core::size::Caps;
use windlass_core::store::{Amended, ClaimRequest, Filter, Renewal};
use windlass_core::{JobId, LeaseId, Options, Outcome, State};

use super::at_once::{both, pair};
use crate::Harness;
use crate::scene::{QUEUE, Scene, TTL, completed, failed_for_good, ids, job, name, request, seconds, share};

/// A definition that differs from the default in what is kept and what is permitted.
fn narrow() -> QueueConfig {
    QueueConfig {
        retention: Retention { completed: Keep::FOREVER, ..Retention::default() },
        caps: Caps { payload: 2, ..Caps::default() },
        ..QueueConfig::default()
    }
}

async fn define(scene: &Scene, queue: &str, config: &QueueConfig) {
    scene.store.define(&name(queue), config).await.expect("a queue can be defined");
}

async fn remove(scene: &Scene, queue: &str) -> Removed {
    scene.store.remove(&name(queue)).await.expect("removing is answered")
}

async fn names(scene: &Scene) -> Vec<String> {
    let queues = scene.store.queues(None, 1_000).await.expect("queues can be listed");
    queues.into_iter().map(|queue| queue.name.to_string()).collect()
}

/// A job whose payload is above the cap of [`narrow`].
fn wide(queue: &str) -> NewJob {
    NewJob::new("work", "12345", Options::new().queue(queue)).expect("a proper job")
}

fn request_of(lease: LeaseId, queue: &str) -> ClaimRequest {
    ClaimRequest { queues: vec![share(queue, 9)], ..request(lease, 9) }
}

/// A queue that was defined and holds nothing goes, and its definition with it.
pub async fn an_empty_queue_goes_with_its_definition(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, "a", &narrow()).await;
    define(&scene, "b", &narrow()).await;
    let id = scene.add(Options::new().queue("c")).await;
    assert_eq!(remove(&scene, "a").await, Removed::Done);
    assert_eq!(names(&scene).await, ["b", "c"]);
    assert_eq!(remove(&scene, "a").await, Removed::Missing, "it is gone");
    // What comes there now is under the default definition.
    scene.enqueue(wide("a")).await;
    scene.store.enqueue([wide("b")].into()).await.expect_err("others keep their definition");
    let queues = scene.store.queues(None, 1).await.expect("queues can be listed");
    assert_eq!((&queues[0].name, &queues[0].config), (&name("a"), &QueueConfig::default()));
    assert_eq!(scene.state(id).await, State::Ready, "others keep their jobs");
}

/// A queue that was never defined and holds nothing cannot be removed.
pub async fn an_unknown_queue_is_missing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    assert_eq!(remove(&scene, "a").await, Removed::Missing);
    let id = scene.add(Options::new().queue("a")).await;
    scene.delete(id).await;
    assert_eq!(remove(&scene, "a").await, Removed::Missing, "without a definition it went with its last job");
    assert_eq!(names(&scene).await, [""; 0]);
}

/// Whatever state its only job is in, the queue stays as it is, and the answer counts the job.
pub async fn a_queue_with_a_job_stays(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let config = QueueConfig { retention: narrow().retention, ..QueueConfig::default() };
    let refused = async |state: State| {
        define(&scene, QUEUE, &config).await;
        match remove(&scene, QUEUE).await {
            Removed::NotEmpty(counts) => assert_eq!((counts.of(state), counts.total()), (1, 1), "{state}"),
            other => panic!("a {state} job is there, but removing answers {other:?}"),
        }
        let queues = scene.store.queues(None, 9).await.expect("queues can be listed");
        assert_eq!((queues.len(), &queues[0].config), (1, &config), "{state}");
        scene.assert_counts().await;
    };
    let scheduled = scene.add(Options::new().delay(seconds(60))).await;
    refused(State::Scheduled).await;
    scene.retry(scheduled).await;
    refused(State::Ready).await;
    let running = scene.claim_one(scene.lease().await).await;
    refused(State::Running).await;
    scene.settle(&running, completed()).await;
    refused(State::Completed).await;
    scene.delete(running.id).await;
    for (outcome, state) in [(failed_for_good(), State::Dead), (Outcome::Cancelled, State::Cancelled)] {
        let ended = scene.finished(Options::new(), outcome).await;
        refused(state).await;
        scene.delete(ended).await;
    }
    assert_eq!(remove(&scene, QUEUE).await, Removed::Done);
    assert_eq!(names(&scene).await, [""; 0]);
}

/// What jobs of before have left behind (places in orders, records, requests to stop) neither keeps a queue nor comes
/// back with it.
pub async fn a_queue_goes_whatever_it_held_before(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = scene.lease().await;
    for _ in 0..2 {
        define(&scene, QUEUE, &QueueConfig::default()).await;
        let waiting = scene.add_many(30).await;
        scene.add(Options::new().delay(seconds(5)).expires_in(seconds(900))).await;
        scene.add(Options::new().priority(7)).await;
        let running = scene.claim(lease, 12).await;
        scene.cancel(running[0].id).await;
        for (job, outcome) in
            running.iter().zip([completed(), failed_for_good(), Outcome::Cancelled].iter().cycle())
        {
            scene.settle(job, outcome.clone()).await;
        }
        scene.cancel(waiting[20]).await;
        assert!(matches!(remove(&scene, QUEUE).await, Removed::NotEmpty(counts) if counts.total() == 32));
        for job in scene.list(&Filter::default()).await {
            assert!(matches!(scene.delete(job.id).await, Amended::Done(_)));
        }
        assert_eq!(remove(&scene, QUEUE).await, Removed::Done);
        assert_eq!(names(&scene).await, [""; 0]);
        assert_eq!(scene.list(&Filter::default()).await, []);
    }
    let again = scene.add_many(3).await;
    assert_eq!(scene.claim(lease, 9).await.iter().map(|job| job.id).collect::<Vec<JobId>>(), again);
    scene.assert_counts().await;
}

/// Workers that serve a queue keep their lease when it is removed, and a job that another program enqueues there, which
/// has used the queue before, is found by all.
pub async fn a_removed_queue_comes_back(h: &impl Harness) {
    let (here, there) = pair(h).await;
    let lease = there.lease().await;
    for scene in [&here, &there] {
        let before = scene.add(Options::new().queue("a")).await;
        assert_eq!(scene.delete(before).await, Amended::Done(State::Ready));
    }
    define(&there, "a", &narrow()).await;
    assert_eq!(remove(&there, "a").await, Removed::Done);
    let renewal = there.store.renew(lease, TTL, 9).await.expect("a renewal is answered");
    assert_eq!(renewal, Renewal::Renewed { cancel: Vec::new(), lost: Vec::new() }, "workers notice nothing");
    assert_eq!(there.ask(&request_of(lease, "a")).await, (Vec::new(), None));
    let job = wide("a");
    let later = here.add(Options::new().queue("a").delay(seconds(3))).await;
    here.enqueue(job.clone()).await;
    for scene in [&here, &there] {
        assert_eq!(names(scene).await, ["a"]);
        assert_eq!(scene.list(&Filter::default()).await.len(), 2);
        scene.assert_counts().await;
    }
    h.advance(seconds(3)).await;
    assert_eq!(there.store.promote(9).await.expect("promoting is answered").promoted, 1);
    assert_eq!(ids(&there.ask(&request_of(lease, "a")).await.0), [job.id, later]);
    h.advance(TTL).await;
    assert_eq!(here.lost().await.len(), 2, "they can be taken back");
}

/// What a program knows of a definition that was removed does not count, also when the queue has another one by now.
pub async fn a_definition_of_before_does_not_count(h: &impl Harness) {
    let (here, there) = pair(h).await;
    define(&here, "a", &narrow()).await;
    for scene in [&here, &there] {
        scene.store.enqueue([wide("a")].into()).await.expect_err("the cap holds");
    }
    assert_eq!(remove(&here, "a").await, Removed::Done);
    let id = there.enqueue(wide("a")).await;
    there.delete(id).await;
    define(&here, "a", &narrow()).await;
    there.store.enqueue([wide("a")].into()).await.expect_err("the cap holds again");
    assert_eq!(remove(&there, "a").await, Removed::Done);
    let wider = QueueConfig { caps: Caps { payload: 5, ..Caps::default() }, ..narrow() };
    define(&there, "a", &wider).await;
    here.enqueue(wide("a")).await;
}

/// While a queue is removed again and again, each job that is accepted is there and found, and none is removed.
pub async fn a_removal_and_an_enqueue_agree(h: &impl Harness) {
    let (here, there) = pair(h).await;
    for _ in 0..5 {
        let (adding, removing) = (here.store.clone(), there.store.clone());
        let add = async move {
            let mut added = Vec::new();
            for number in 0..12 {
                let new = job(Options::new().queue("a"));
                adding.enqueue([new.clone()].into()).await.expect("a proper job is accepted");
                match number % 4 {
                    3 => added.push(new.id),
                    _ => drop(adding.delete([new.id].into()).await.expect("deleting is answered")),
                }
                if number == 7 {
                    adding.delete(added.clone().into()).await.expect("deleting is answered");
                    added.clear();
                }
            }
            added
        };
        let remove_often = async move {
            // Few changes of definitions: a call that meets one begins anew, and not for ever.
            for _ in 0..8 {
                removing.define(&name("a"), &QueueConfig::default()).await.expect("a queue can be defined");
                removing.remove(&name("a")).await.expect("removing is answered");
            }
        };
        let (added, ()) = both(add, remove_often).await;
        for scene in [&here, &there] {
            assert_eq!(names(scene).await, ["a"]);
            assert_eq!(scene.count("a", State::Ready).await, added.len() as u64);
            assert_eq!(scene.list(&Filter::default()).await.len(), added.len());
            scene.assert_counts().await;
        }
        assert!(matches!(remove(&there, "a").await, Removed::NotEmpty(counts) if counts.total() == 1));
        here.store.delete(added.clone().into()).await.expect("deleting is answered");
    }
}
