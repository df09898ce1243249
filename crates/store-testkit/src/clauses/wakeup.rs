//! Who waits hears of what happened: every change that matters rings, and a ring before the wait is kept.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use windlass_core::bell::{Listener, Topic, Waiter};
use windlass_core::store::{ClaimAnswer, ClaimRequest};
use windlass_core::{Name, Options, Outcome};

use crate::Harness;
use crate::scene::{Scene, TTL, completed, failed, failed_for_good, ids, one, request, seconds, taken_back};

/// The longest that a ring may take; nothing on a healthy store, where it comes with the answer.
const RING_MAX: Duration = Duration::from_secs(3);

/// Waits for a ring that must have come or must be about to.
pub(super) async fn assert_rung(listener: &mut Listener, what: &str) {
    let rung = tokio::time::timeout(RING_MAX, listener.rung()).await;
    assert!(rung.is_ok(), "no ring within {RING_MAX:?} after {what}");
}

fn listen(scene: &Scene, topic: Topic) -> Listener {
    scene.store.bell().listen(topic)
}

/// A worker that waits, and what it was woken for.
#[derive(Default)]
struct Sleeper(Mutex<Vec<Option<Name>>>);

impl Waiter for Sleeper {
    fn room(&self, _queue: &Name) -> u32 {
        9
    }

    fn wake(&self, queue: Option<&Name>) {
        self.0.lock().expect("no test panics there").push(queue.cloned());
    }
}

/// Jobs that become due wake workers by the name of their queue.
pub async fn a_promotion_names_its_queue(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let delayed = || Options::new().delay(seconds(5));
    scene.add(delayed()).await;
    let job = scene.add(delayed().queue("other")).await;
    h.advance(seconds(5)).await;
    let queues = ["default", "other"].map(|queue| Name::new(queue).expect("it is a name"));
    let sleepers = queues.clone().map(|queue| {
        let sleeper = Arc::new(Sleeper::default());
        let enrolled = scene.store.bell().enroll(&[queue], &[], Arc::clone(&sleeper) as _);
        (sleeper, enrolled)
    });
    let promoted = scene.store.promote(9).await.expect("promoting is answered").promoted;
    assert_eq!(promoted, 2, "{job} and the other");
    let began = Instant::now();
    for (queue, (sleeper, _)) in queues.iter().zip(&sleepers) {
        let is_woken = || sleeper.0.lock().expect("no test panics there").contains(&Some(queue.clone()));
        while !is_woken() {
            assert!(began.elapsed() < RING_MAX, "no worker of {queue} was woken for it");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let is_other = |woken: &Option<Name>| woken.as_ref().is_some_and(|woken| woken != queue);
        assert!(!sleeper.0.lock().expect("no test panics there").iter().any(is_other), "only of {queue}");
    }
}

/// Everything that makes jobs ready or scheduled rings about work.
pub async fn work_rings(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut work = listen(&scene, Topic::Work);
    scene.add(Options::new()).await;
    assert_rung(&mut work, "an enqueue").await;
    let delayed = scene.add(Options::new().delay(seconds(5)).priority(9)).await;
    assert_rung(&mut work, "an enqueue for later").await;

    let lease = scene.lease().await;
    for (outcome, what) in [(Outcome::Returned, "a return"), (failed(), "a failure")] {
        let job = scene.claim_one(lease).await;
        let mut work = listen(&scene, Topic::Work);
        scene.settle(&job, outcome).await;
        assert_rung(&mut work, what).await;
    }

    h.advance(seconds(5)).await;
    let mut work = listen(&scene, Topic::Work);
    scene.store.promote(9).await.expect("promoting is answered");
    assert_rung(&mut work, "a promotion").await;

    let job = scene.claim_one(lease).await;
    assert_eq!(job.id, delayed);
    scene.settle(&job, failed_for_good()).await;
    let mut work = listen(&scene, Topic::Work);
    scene.retry(delayed).await;
    assert_rung(&mut work, "a retry by hand").await;

    scene.claim_one(lease).await;
    h.advance(TTL).await;
    let lost = one(scene.store.lost(9).await.expect("lost jobs can be read"));
    let mut work = listen(&scene, Topic::Work);
    scene.store.reap([taken_back(&lost)].into()).await.expect("reaping is answered");
    assert_rung(&mut work, "a reap").await;
}

/// A request to stop rings about cancelling.
pub async fn cancel_rings(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    let mut cancel = listen(&scene, Topic::Cancel);
    scene.cancel(job.id).await;
    assert_rung(&mut cancel, "a request to cancel").await;
}

/// Every end rings about finishing, and so does a removal.
pub async fn finish_rings(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for outcome in [completed(), failed_for_good(), Outcome::Cancelled] {
        let job = scene.running(Options::new()).await;
        let mut finish = listen(&scene, Topic::Finish);
        scene.settle(&job, outcome).await;
        assert_rung(&mut finish, "an end").await;
    }

    let waiting = scene.add(Options::new()).await;
    let mut finish = listen(&scene, Topic::Finish);
    scene.cancel(waiting).await;
    assert_rung(&mut finish, "a cancelled job that waited").await;

    scene.add(Options::new().expires_in(seconds(5))).await;
    scene.add(Options::new().queue("other").expires_in(seconds(5))).await;
    h.advance(seconds(5)).await;
    let mut finish = listen(&scene, Topic::Finish);
    scene.claim(scene.lease().await, 1).await;
    assert_rung(&mut finish, "a claim that found an expired job").await;
    let mut finish = listen(&scene, Topic::Finish);
    scene.store.promote(9).await.expect("promoting is answered");
    assert_rung(&mut finish, "a promotion that found an expired job").await;

    let gone = scene.add(Options::new()).await;
    let mut finish = listen(&scene, Topic::Finish);
    scene.delete(gone).await;
    assert_rung(&mut finish, "a removal").await;
}

/// A ring that no listener waited for at that instant is found by the next wait, once.
pub async fn a_ring_before_the_wait_is_kept(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut early = listen(&scene, Topic::Work);
    scene.add(Options::new()).await;
    // Time and other calls pass; nothing of it may use the ring up.
    let lease = scene.lease().await;
    h.advance(seconds(1)).await;
    scene.ask(&ClaimRequest { limit: 0, ..request(lease, 1) }).await;
    assert_rung(&mut early, "an enqueue before the wait").await;
}

/// A worker that is woken finds the job: the last ring of an enqueue comes after its job, or the claim that follows it does.
pub async fn a_ring_comes_after_its_job(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = scene.lease().await;
    for round in 0..20 {
        let (store, mut work) = (scene.store.clone(), listen(&scene, Topic::Work));
        let worker = tokio::spawn(async move {
            loop {
                assert_rung(&mut work, "an enqueue").await;
                match store.claim(request(lease, 1)).await.expect("a claim is answered") {
                    // The ring of another call may come first.
                    ClaimAnswer::Jobs { jobs, .. } if jobs.is_empty() => {}
                    ClaimAnswer::Jobs { jobs, .. } => return ids(&jobs),
                    ClaimAnswer::LeaseLost => panic!("the lease lives"),
                }
            }
        });
        let id = scene.add(Options::new()).await;
        assert_eq!(worker.await.expect("the ring comes"), [id], "round {round}");
    }
}

/// Workers that sleep until it rings are woken for every job, and each job goes to one of them.
pub async fn those_who_wait_get_every_job_once(h: &impl Harness) {
    const WORKERS: usize = 3;
    let scene = Scene::new(h).await;
    let (got, mut handed_out) = tokio::sync::mpsc::unbounded_channel();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..WORKERS {
        let (store, got) = (scene.store.clone(), got.clone());
        let (mut work, request) = (listen(&scene, Topic::Work), request(scene.lease().await, 4));
        workers.spawn(async move {
            loop {
                match store.claim(request.clone()).await.expect("a claim is answered") {
                    ClaimAnswer::Jobs { jobs, .. } if jobs.is_empty() => work.rung().await,
                    ClaimAnswer::Jobs { jobs, .. } => {
                        ids(&jobs).into_iter().for_each(|id| got.send(id).expect("the clause counts them"));
                    }
                    ClaimAnswer::LeaseLost => panic!("the lease lives"),
                }
            }
        });
    }
    drop(got);
    for round in 0..40 {
        let mut missing = scene.add_many(1 + round % 7).await;
        while !missing.is_empty() {
            let next = tokio::time::timeout(RING_MAX, handed_out.recv()).await;
            if let Some(ended) = workers.try_join_next() {
                panic!("a worker ended: {ended:?}");
            }
            let id = next.unwrap_or_else(|_| panic!("round {round}: no worker came for {missing:?}"));
            let id = id.expect("the workers live");
            let place = missing.iter().position(|each| *each == id);
            missing.swap_remove(place.unwrap_or_else(|| panic!("{id} was handed out twice")));
        }
    }
    workers.shutdown().await;
    assert_eq!(handed_out.recv().await, None, "a job was handed out twice");
    scene.assert_counts().await;
}

/// Every listener hears every ring.
pub async fn every_listener_hears(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut listeners: Vec<_> = (0..5).map(|_| listen(&scene, Topic::Work)).collect();
    scene.add(Options::new()).await;
    for listener in &mut listeners {
        assert_rung(listener, "an enqueue").await;
    }
}
