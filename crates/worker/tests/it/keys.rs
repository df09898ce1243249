//! Jobs with a key, and queues with a capacity, through the client and a worker.

use std::time::Duration;

use windlass_core::queue::KeyRules;
use windlass_core::store::Enqueued;
use windlass_core::{Name, NewJob, Options, State, StoreError};
use windlass_worker::{Error, Job, JobError, Pausing, Worker};

use crate::support::{Act, PATIENCE, Probe, eventually, probe, scene, worker};

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

#[tokio::test]
async fn the_first_key_gives_its_queue_rules() {
    let (client, stage) = scene();
    let handle = client.enqueue(probe(Act::Succeed)).key("acme").await.unwrap();
    assert_eq!(client.job(handle.id()).await.unwrap().unwrap().key, Some(name("acme")));
    assert_eq!(client.queue("default").unwrap().definition().await.unwrap().keys, Some(KeyRules::default()));
    let all = [probe(Act::Succeed).with(Options::new().key("a")), probe(Act::Succeed).with(Options::new())];
    let more = client.enqueue_all(all).queue("other").await.unwrap();
    let running = worker(&client, &stage).queue("other", 5).start().unwrap();
    handle.output().await.unwrap();
    for handle in more {
        handle.output().await.unwrap();
    }
    let bad = client.enqueue(probe(Act::Succeed)).key("two words").await.unwrap_err();
    assert!(bad.to_string().starts_with("bad key: "), "{bad}");
    running.stop().await;
}

#[tokio::test]
async fn a_queue_that_was_removed_gets_its_rules_again() {
    let (client, _) = scene();
    let id = client.enqueue(probe(Act::Succeed)).key("a").await.unwrap().id();
    client.delete(id).await.unwrap();
    client.queue("default").unwrap().remove().await.unwrap();
    let handle = client.enqueue(probe(Act::Succeed)).key("a").await.unwrap();
    assert!(handle.is_new());
    let batch = [probe(Act::Succeed)];
    client.delete(handle.id()).await.unwrap();
    client.queue("default").unwrap().remove().await.unwrap();
    assert!(client.enqueue_all(batch).key("a").await.unwrap()[0].is_new());
}

#[tokio::test]
async fn one_job_of_a_key_at_a_time() {
    let (client, stage) = scene();
    let queue = client.queue("default").unwrap();
    let one = KeyRules { concurrency: Some(1), ..KeyRules::default() };
    queue.change(|config| config.keys = Some(one.clone())).await.unwrap();
    for key in ["a", "a", "a", "b"] {
        client.enqueue(probe(Act::Wait)).key(key).await.unwrap();
    }
    let running = worker(&client, &stage).concurrency(10).start().unwrap();
    stage.until_started(2).await;
    for released in 1..=4 {
        assert!(queue.counts().await.unwrap().of(State::Running) <= 2);
        stage.release(1);
        let is_completed = async || queue.counts().await.unwrap().of(State::Completed) >= released;
        eventually("one more has completed", is_completed).await;
    }
    running.stop().await;
}

#[tokio::test]
async fn a_paused_key_waits_until_it_is_resumed() {
    let (client, stage) = scene();
    let queue = client.queue("default").unwrap();
    queue.pause_key("a", Pausing::new().by("ada")).await.unwrap();
    let paused = client.enqueue(probe(Act::Succeed)).key("a").await.unwrap();
    let running = worker(&client, &stage).start().unwrap();
    client.enqueue(probe(Act::Succeed)).key("b").await.unwrap().output().await.unwrap();
    assert_eq!(paused.state().await.unwrap(), Some(State::Ready));
    assert!(queue.resume_key("a").await.unwrap());
    assert!(!queue.resume_key("a").await.unwrap());
    paused.output().await.unwrap();
    running.stop().await;
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Limited {
    delay: Duration,
}

impl Job for Limited {
    const KIND: &'static str = "limited";
    type Output = ();

    fn key(&self) -> Option<String> {
        self.delay.is_zero().then(|| "own".to_owned())
    }
}

#[tokio::test]
async fn a_job_type_may_name_its_key() {
    let (client, _) = scene();
    let job = || Limited { delay: Duration::ZERO };
    let own = client.enqueue(job()).await.unwrap().id();
    let said = client.enqueue(job()).key("said").await.unwrap().id();
    let all = [job().with(Options::new().priority(1)), job().with(Options::new().key("with"))];
    let all = client.enqueue_all(all).await.unwrap();
    let call = client.enqueue_all([job()]).key("call").await.unwrap();
    for (id, key) in
        [(own, "own"), (said, "said"), (all[0].id(), "own"), (all[1].id(), "with"), (call[0].id(), "call")]
    {
        assert_eq!(client.job(id).await.unwrap().unwrap().key, Some(name(key)));
    }
}

#[tokio::test]
async fn a_rate_limit_rests_the_key_or_the_queue() {
    let (client, stage) = scene();
    let long = Duration::from_secs(3_600);
    let keyed = client.enqueue(Limited { delay: long }).key("a").await.unwrap();
    let running = worker(&client, &stage)
        .handle(async |job: Limited| Err::<(), _>(JobError::rate_limited(job.delay)))
        .start()
        .unwrap();
    let is_scheduled = async || keyed.state().await.unwrap() == Some(State::Scheduled);
    eventually("the job comes back later", is_scheduled).await;
    let record = client.job(keyed.id()).await.unwrap().unwrap();
    assert_eq!(record.counters.attempt, 0, "it cost no attempt");
    let queue = client.queue("default").unwrap();
    let config = queue.definition().await.unwrap();
    let pause = &config.pauses.keys[&name("a")];
    assert!(pause.until.is_some() && pause.why.starts_with("rate limited for "), "{pause:?}");
    let other = client.enqueue(probe(Act::Succeed)).key("a").await.unwrap();
    client.enqueue(probe(Act::Succeed)).key("b").await.unwrap().output().await.unwrap();
    assert_eq!(other.state().await.unwrap(), Some(State::Ready), "its key rests");
    client.enqueue(Limited { delay: long }).await.unwrap();
    eventually("the queue rests", async || queue.definition().await.unwrap().pauses.queue.is_some()).await;
    running.stop().await;
}

#[tokio::test]
async fn producers_wait_for_room() {
    let (client, stage) = scene();
    let queue = client.queue("default").unwrap();
    queue.change(|config| config.capacity = Some(2)).await.unwrap();
    queue.below(1).await.unwrap();
    for _ in 0..2 {
        client.enqueue(probe(Act::Succeed)).await.unwrap();
    }
    let full = client.enqueue(probe(Act::Succeed)).await.unwrap_err();
    assert!(matches!(full, Error::Store(StoreError::QueueFull { capacity: 2, waiting: 2, .. })), "{full}");
    let late =
        client.enqueue(probe(Act::Succeed)).wait_for_room(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(late, Error::Store(StoreError::QueueFull { .. })), "{late}");
    let waiting =
        tokio::spawn(client.enqueue_all([probe(Act::Succeed)]).wait_for_room(PATIENCE).into_future());
    let running = worker(&client, &stage).start().unwrap();
    assert!(waiting.await.unwrap().unwrap()[0].is_new());
    queue.below(1).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn a_job_by_hand_may_have_a_key() {
    let (client, _) = scene();
    let job = NewJob::new(Probe::KIND, "{}", Options::new().key("a")).unwrap();
    assert_eq!(client.enqueue_new(job.clone()).await.unwrap(), Enqueued::New);
    assert_eq!(client.enqueue_new(job).await.unwrap(), Enqueued::Existing(State::Ready));
    let _: Worker = Worker::new(&client);
}

#[tokio::test]
async fn a_full_queue_refuses_its_own_jobs_only() {
    let (client, _) = scene();
    client.queue("full").unwrap().change(|config| config.capacity = Some(3)).await.unwrap();
    client.enqueue(probe(Act::Succeed)).queue("full").await.unwrap();
    // They share calls: what is in flight gathers the others.
    let enqueue =
        |queue: &'static str| tokio::spawn(client.enqueue(probe(Act::Succeed)).queue(queue).into_future());
    let full: Vec<_> = (0..20).map(|_| enqueue("full")).collect();
    let other: Vec<_> = (0..20).map(|_| enqueue("other")).collect();
    let mut accepted = 0;
    for enqueued in full {
        match enqueued.await.unwrap() {
            Ok(_) => accepted += 1,
            Err(Error::Store(StoreError::QueueFull { capacity: 3, .. })) => {}
            Err(error) => panic!("neither accepted nor full: {error}"),
        }
    }
    assert_eq!(accepted, 2, "as many as there was room for");
    for enqueued in other {
        assert!(enqueued.await.unwrap().unwrap().is_new());
    }
}
