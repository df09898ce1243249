//! What a queue hands out, through the client and a worker: pauses, limits, and changes that do not undo each other.

use std::time::Duration;

use windlass_core::State;
use windlass_core::queue::{JobDefaults, QueueConfig, Rate, Shape};
use windlass_core::retry::Policy;
use windlass_worker::{Pausing, Wakeups};

use crate::support::{Act, PATIENCE, eventually, probe, scene, worker};

#[tokio::test]
async fn a_paused_queue_waits_until_it_is_resumed() {
    let (client, stage) = scene();
    let queue = client.queue("default").unwrap();
    queue.pause(Pausing::new().by("ada").why("the mail server is ill")).await.unwrap();
    let pause = queue.definition().await.unwrap().pauses.queue.unwrap();
    assert_eq!((pause.by.as_str(), pause.why.as_str(), pause.until), ("ada", "the mail server is ill", None));
    let running = worker(&client, &stage).start().unwrap();
    let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
    let other = client.enqueue(probe(Act::Succeed)).queue("other").await.unwrap();
    assert_eq!(handle.state().await.unwrap(), Some(State::Ready));
    assert!(queue.resume().await.unwrap());
    assert!(!queue.resume().await.unwrap(), "it is not paused any more");
    handle.output().await.unwrap();
    assert_eq!(other.state().await.unwrap(), Some(State::Ready), "no worker serves it");
    running.stop().await;
}

#[tokio::test]
async fn a_pause_may_be_of_a_kind_and_for_a_time() {
    let (client, stage) = scene();
    let queue = client.queue("default").unwrap();
    queue.pause_kind("probe", Pausing::new().for_time(Duration::from_millis(300))).await.unwrap();
    let until = queue.definition().await.unwrap().pauses.kinds.values().next().unwrap().until;
    assert!(until.is_some());
    let running = worker(&client, &stage).start().unwrap();
    // The worker comes back by itself when the time is over.
    client.enqueue(probe(Act::Succeed)).await.unwrap().output().await.unwrap();
    assert!(queue.resume_kind("probe").await.unwrap(), "it is over, and stands there still");
    assert!(queue.resume_kind("two words").await.is_err());
    running.stop().await;
}

#[tokio::test]
async fn a_limit_holds_for_a_worker_with_more_slots() {
    let (client, stage) = scene();
    let queue = client.queue("default").unwrap();
    queue.change(|config| config.concurrency = Some(2)).await.unwrap();
    for _ in 0..6 {
        client.enqueue(probe(Act::Wait)).await.unwrap();
    }
    let running = worker(&client, &stage).concurrency(10).start().unwrap();
    for released in 0..6 {
        stage.until_started(2.min(6 - released) + released).await;
        let counts = queue.counts().await.unwrap();
        assert!(counts.of(State::Running) <= 2, "{counts:?}");
        stage.release(1);
        let is_completed = async || queue.counts().await.unwrap().of(State::Completed) > released;
        eventually("one more has completed", is_completed).await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_do_not_bind_keep_no_job_waiting() {
    let (client, stage) = scene();
    let rate = Rate::new(1_000_000, Duration::from_secs(1));
    client.queue("default").unwrap().change(|config| config.rate = Some(rate)).await.unwrap();
    client.enqueue_all((0..3_000).map(|_| probe(Act::Succeed))).await.unwrap();
    // Nothing but a slot that becomes free makes the worker ask.
    let running = worker(&client, &stage).concurrency(2).poll_interval(3 * PATIENCE).wakeups(Wakeups::Off);
    let running = running.start().unwrap();
    stage.until_ended(3_000).await;
    running.stop().await;
}

#[tokio::test]
async fn changes_of_two_programs_do_not_undo_each_other() {
    let (client, _) = scene();
    let queue = client.queue("mail").unwrap();
    let rate = Rate::new(100, Duration::from_secs(1)).shape(Shape::Bucket { burst: 10 });
    let (limits, pauses) = tokio::join!(
        queue.change(|config| config.rate = Some(rate)),
        queue.pause(Pausing::new().why("both")),
    );
    limits.unwrap();
    pauses.unwrap();
    let config = queue.definition().await.unwrap();
    assert!(config.rate == Some(rate) && config.pauses.queue.is_some(), "{config:?}");
    let error = queue.change(|config| config.concurrency = Some(0)).await.unwrap_err();
    assert_eq!(error.to_string(), "a concurrency of 0: pause the queue instead");
    queue.define(&QueueConfig::default()).await.unwrap();
}

#[tokio::test]
async fn a_queue_says_what_jobs_do_not_say() {
    let (client, _) = scene();
    let defaults = JobDefaults {
        retry: Some(Policy::fixed(9, Duration::from_secs(1))),
        timeout: Some(Duration::from_secs(5)),
        priority: Some(3),
        on_dead: None,
        forward_dead: None,
    };
    let queue = client.queue("default").unwrap();
    queue.change(|config| config.defaults = defaults.clone()).await.unwrap();
    let plain = client.enqueue(probe(Act::Succeed)).await.unwrap().id();
    let said =
        client.enqueue(probe(Act::Succeed)).priority(0).timeout(Duration::from_secs(1)).await.unwrap().id();
    let many = client.enqueue_all([probe(Act::Succeed), probe(Act::Succeed)]).await.unwrap();
    let found = async |id| {
        let record = client.job(id).await.unwrap().unwrap();
        (record.priority, record.spec.timeout, record.spec.retry.attempts_max())
    };
    // The job type says how often to try, which the queue does not change.
    assert_eq!(found(plain).await, (3, Some(Duration::from_secs(5)), 3));
    assert_eq!(found(said).await, (0, Some(Duration::from_secs(1)), 3));
    assert_eq!(found(many[1].id()).await, (3, Some(Duration::from_secs(5)), 3));
    let bad = queue.change(|config| config.defaults.timeout = Some(Duration::ZERO)).await.unwrap_err();
    assert!(bad.to_string().starts_with("defaults of its jobs: a timeout of zero"), "{bad}");
}
