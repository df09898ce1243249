//! One lost answer, one job that kills its worker, one store that comes and goes: nothing else is harmed.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::job::ClaimedJob;
use windlass_core::outcome::Reason;
use windlass_core::retry::Policy;
use windlass_core::store::{Begin, ClaimAnswer, ClaimRequest, NewLease, QueueShare, Settlement};
use windlass_core::{Fence, LeaseId, Name, Outcome, State, Store, judge};
use windlass_worker::{Client, Handle};

use crate::faulty::{Call, Fault, Faulty};
use crate::support::{Act, PATIENCE, Probe, end_of, eventually, probe, scene, scene_on, until_begun, worker};

/// Claims jobs under a lease of its own, as another worker would.
async fn claim(store: &dyn Store, limit: u32) -> (LeaseId, Vec<ClaimedJob>) {
    let queue = Name::new("default").unwrap();
    let id = LeaseId::new();
    let lease = NewLease {
        id,
        worker: "gone".into(),
        ttl: 3 * PATIENCE,
        queues: vec![queue.clone()],
        kinds: Vec::new(),
    };
    store.open(&lease).await.unwrap();
    let request = ClaimRequest {
        lease: id,
        nonce: Fence::nonce(),
        queues: vec![QueueShare { queue, limit }],
        kinds: vec![Name::new("probe").unwrap()],
        limit,
        at_once: limit,
        bytes: usize::MAX,
    };
    let ClaimAnswer::Jobs { jobs, .. } = store.claim(request.clone()).await.unwrap() else {
        panic!("it lives")
    };
    (id, jobs)
}

/// Makes suspects of all jobs that are ready: they begin, and their worker dies.
async fn stall_all(client: &Client) {
    let store = client.store();
    let (lease, jobs) = claim(&**store, 100).await;
    let begin = |job: &ClaimedJob| Begin { queue: job.queue.clone(), id: job.id, fence: job.fence };
    store.begin(jobs.iter().map(begin).collect::<Vec<_>>().into()).await.unwrap();
    store.close(lease).await.unwrap();
    let reaper = windlass_worker::Reaper::new(Arc::clone(store));
    assert_eq!(reaper.run_once().await.unwrap().jobs, jobs.len() as u64);
    // Their rest is over.
    store.retry(jobs.iter().map(|job| job.id).collect::<Vec<_>>().into()).await.unwrap();
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_given_back_at_once() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = worker(&client, &stage).lease(3 * PATIENCE).start().unwrap();
    // A long job has the same lease.
    let long = client.enqueue(probe(Act::Wait)).await.unwrap();
    stage.until_started(1).await;
    store.fail(Call::Claim, Fault::Unknown, 1);
    let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
    let record = end_of(&handle).await;
    assert_eq!((record.state, record.fence), (State::Completed, 2));
    assert_eq!((record.counters.attempt, record.counters.stalls), (1, 0), "it is not punished");
    stage.release(1);
    assert_eq!(end_of(&long).await.fence, 1);
    running.stop().await;
}

#[tokio::test]
async fn lost_claim_answers_kill_no_job() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    // The store has them before a worker asks, so that every cut takes many.
    let once = client.enqueue_all((0..10).map(|_| probe(Act::Succeed))).retry(Policy::never()).await.unwrap();
    let default = client.enqueue_all((0..10).map(|_| probe(Act::Succeed))).await.unwrap();
    store.fail(Call::Claim, Fault::Unknown, 4);
    // The first look after them fails as well.
    store.fail(Call::Held, Fault::Unavailable, 2);
    let running = worker(&client, &stage).lease(3 * PATIENCE).start().unwrap();
    for handle in once.iter().chain(&default) {
        let record = end_of(handle).await;
        assert_eq!((record.state, record.counters.attempt, record.counters.stalls), (State::Completed, 1, 0));
    }
    assert_eq!(store.failed(Call::Claim), 4);
    assert!(stage.starts().values().all(|starts| *starts == 1), "each ran once");
    running.stop().await;
}

#[tokio::test]
async fn a_claim_asks_for_less_while_the_store_does_not_answer() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    store.fail(Call::Claim, Fault::Unavailable, 4);
    let running = worker(&client, &stage).start().unwrap();
    end_of(&client.enqueue(probe(Act::Succeed)).await.unwrap()).await;
    let asked = store.claimed_bytes();
    assert!(asked[..5].windows(2).all(|pair| pair[1] == pair[0] / 2), "never repeated as it was: {asked:?}");
    eventually("it asks for as much as before", async || {
        client.enqueue(probe(Act::Succeed)).await.unwrap();
        store.claimed_bytes().last() == Some(&asked[0])
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn jobs_that_were_lost_with_a_worker_run_one_at_a_time() {
    let (client, stage) = scene();
    let suspects = client.enqueue_all((0..4).map(|_| probe(Act::Wait))).await.unwrap();
    stall_all(&client).await;
    let innocent = client.enqueue_all((0..3).map(|_| probe(Act::Wait))).await.unwrap();
    let running = worker(&client, &stage).concurrency(8).start().unwrap();
    for handle in &innocent {
        until_begun(&client, handle).await;
    }
    let begun = async || {
        let mut begun = 0;
        for handle in &suspects {
            begun += usize::from(client.job(handle.id()).await.unwrap().unwrap().has_begun);
        }
        begun
    };
    eventually("one of them runs", async || begun().await == 1).await;
    eventually("the others do not even wait here", async || running.health().buffered == 0).await;
    assert_eq!((begun().await, stage.present()), (1, 4), "beside those that never stalled");
    // The others follow, one by one.
    for ended in 1..=7 {
        stage.release(1);
        stage.until_ended(ended).await;
    }
    for handle in suspects.iter().chain(&innocent) {
        assert_eq!(end_of(handle).await.state, State::Completed);
    }
    assert!(stage.starts().values().all(|starts| *starts == 1));
    running.stop().await;
}

#[tokio::test]
async fn a_job_with_a_history_begins_when_the_store_knows() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let handle = client.enqueue(probe(Act::Wait)).await.unwrap();
    // A worker had it and was gone before it could say whether it began.
    give_back(&client, 1).await;
    store.fail(Call::Begin, Fault::Unavailable, u32::MAX);
    let running = worker(&client, &stage).start().unwrap();
    eventually("the store cannot be told", async || store.failed(Call::Begin) > 2).await;
    assert_eq!(stage.started(), 0);
    store.heal();
    stage.until_started(1).await;
    assert!(client.job(handle.id()).await.unwrap().unwrap().has_begun, "it is known at the very start");
    stage.release(1);
    assert_eq!(end_of(&handle).await.counters.attempt, 1);
    running.stop().await;
}

/// Gives back what is ready, as a worker that stops: all of it has a history then.
async fn give_back(client: &Client, limit: u32) {
    let (lease, jobs) = claim(&**client.store(), limit).await;
    let back = jobs.iter().map(|job| Settlement {
        queue: job.queue.clone(),
        id: job.id,
        fence: job.fence,
        transition: judge(&job.facts, Outcome::Returned, 0.5),
    });
    client.store().settle(back.collect::<Vec<_>>().into()).await.unwrap();
    client.store().close(lease).await.unwrap();
}

#[tokio::test]
async fn a_job_that_was_passed_over_because_its_row_is_locked_starts_all_the_same() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let handles = client.enqueue_all((0..8).map(|_| probe(Act::Succeed))).await.unwrap();
    give_back(&client, 8).await;
    store.stick(handles.iter().map(Handle::id));
    let running = worker(&client, &stage).concurrency(8).start().unwrap();
    stage.until_ended(8).await;
    store.stick([]);
    for handle in &handles {
        let record = end_of(handle).await;
        assert_eq!((record.state, record.fence), (State::Completed, 2), "{record:?}");
    }
    running.stop().await;
}

/// Lets a job kill every worker that runs it until it is dead, and answers how often it started.
async fn poison(client: &Client, stage: &crate::support::Stage, poison: &Handle<Probe>) -> u32 {
    let starts = || stage.starts().get(&poison.id()).copied().unwrap_or(0);
    loop {
        let before = starts();
        let lease = Duration::from_millis(300);
        let running = worker(client, stage).concurrency(10).lease_unchecked(lease).start().unwrap();
        let is_dead = async || poison.state().await.unwrap() == Some(State::Dead);
        eventually("it starts or is dead", async || starts() > before || is_dead().await).await;
        if starts() == before {
            running.stop_now().await;
            return before;
        }
        running.abort();
    }
}

#[tokio::test]
async fn a_job_that_kills_its_worker_takes_no_other_along() {
    let (client, stage) = scene();
    let culprit = client.enqueue(probe(Act::Wait)).priority(9).max_stalls(1).await.unwrap();
    let innocent = client
        .enqueue_all((0..30).map(|_| probe(Act::Linger(150))))
        .max_stalls(1)
        .retry(Policy::fixed(3, Duration::ZERO))
        .await
        .unwrap();
    let starts = poison(&client, &stage, &culprit).await;
    assert!(starts <= 3, "once unseen, and then a stall each: {starts}");
    let record = client.job(culprit.id()).await.unwrap().unwrap();
    assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::Stalled)));
    assert_eq!(record.stalls().count(), 2, "{record:?}");
    assert!(record.last_error().is_some_and(|error| error.contains("lost its lease")), "{record:?}");
    let running = worker(&client, &stage).concurrency(10).start().unwrap();
    for handle in &innocent {
        let record = end_of(handle).await;
        assert_eq!(record.state, State::Completed, "{record:?}");
        assert!(record.counters.stalls <= 1, "{record:?}");
    }
    running.stop().await;
}
