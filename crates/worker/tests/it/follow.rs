//! What attempts leave behind: jobs and records that come with their end, checkpoints, and things that are done once.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::follow_ups::FollowUps;
use windlass_core::job::{DeadJob, OnDead};
use windlass_core::outcome::Reason;
use windlass_core::record::{Expect, RecordKey, RecordWrite};
use windlass_core::retry::{Jitter, Policy};
use windlass_core::store::Filter;
use windlass_core::{JobId, Options, State};
use windlass_worker::{Client, Ctx, Error, Job, JobError, State as Shared, Worker};

use crate::faulty::{Call, Fault, Faulty};
use crate::support::{PATIENCE, end_of, eventually, scene};

/// What a step does beside its work.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Step {
    Chain(u32),
    FailWithFollowUp,
    RefusedFollowUp,
    Conflict,
    Count,
    Once {
        key: String,
        body: u32,
        fails: bool,
    },
    /// A result that is too large to be kept.
    OnceLarge,
    /// Gives up waiting for its own body, and tries again.
    OnceTwice,
    Die,
}

impl Job for Step {
    const KIND: &'static str = "step";
    type Output = u32;

    fn options() -> Options {
        Options::new().retry(Policy::fixed(3, Duration::ZERO).jitter(Jitter::None))
    }
}

/// How often bodies have run, by key.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<BTreeMap<String, u32>>>, Arc<AtomicU32>);

impl Runs {
    fn add(&self, key: &str) -> u32 {
        let mut runs = self.0.lock().unwrap();
        let count = runs.entry(key.to_owned()).or_default();
        *count += 1;
        *count
    }

    fn of(&self, key: &str) -> u32 {
        self.0.lock().unwrap().get(key).copied().unwrap_or(0)
    }
}

async fn step(job: Step, ctx: Ctx, Shared(runs): Shared<Runs>) -> Result<u32, JobError> {
    match job {
        Step::Chain(0) => Ok(0),
        Step::Chain(left) => {
            ctx.then(Step::Chain(left - 1).with(Options::new().queue("default"))).await?;
            ctx.then_write(RecordWrite::put(RecordKey::new(format!("chain/{left}"))?, "1"))?;
            Ok(left)
        }
        Step::FailWithFollowUp => {
            ctx.then(Step::Count).await?;
            if ctx.attempt() < 3 { Err(JobError::new("not yet")) } else { Ok(ctx.attempt()) }
        }
        Step::RefusedFollowUp => {
            ctx.then(Step::Count.with(Options::new()).id(ctx.id())).await?;
            Ok(1)
        }
        Step::Conflict => {
            let key = RecordKey::new("there")?;
            ctx.then_write(RecordWrite::put(key, "2").expect(Expect::Absent))?;
            Ok(1)
        }
        Step::Count => {
            let before: u32 = ctx.recall("count").await?.unwrap_or(0);
            runs.1.fetch_max(before, Ordering::SeqCst);
            ctx.checkpoint("count", &(before + 1)).await?;
            if ctx.attempt() < 3 { Err(JobError::new("again")) } else { Ok(before + 1) }
        }
        Step::Once { key, body, fails } => {
            let (own, attempt) = (key.clone(), ctx.attempt());
            let run = move || async move {
                let count = runs.add(&own);
                tokio::task::yield_now().await;
                if fails && attempt == 1 { Err(JobError::new("the body fails")) } else { Ok(count) }
            };
            ctx.once(key, Duration::from_secs(60), run).body(&body).await
        }
        Step::OnceLarge => {
            let run = move || async move {
                runs.add("large");
                Ok("x".repeat(300 << 10))
            };
            ctx.once("large", Duration::from_secs(60), run).await.map(|_text| 1)
        }
        Step::OnceTwice => {
            let never = || std::future::pending::<Result<u32, JobError>>();
            let first = ctx.once("twice", Duration::from_secs(60), never).into_future();
            let dropped = tokio::time::timeout(Duration::from_millis(20), first).await;
            assert!(dropped.is_err(), "its body does not end");
            let second = move || async move { Ok(runs.add("twice")) };
            ctx.once("twice", Duration::from_secs(60), second).await
        }
        Step::Die => Err(JobError::fail("no such mailbox")),
    }
}

fn worker(client: &Client, runs: &Runs) -> Worker<Runs> {
    Worker::with_state(client, runs.clone()).handle(step).concurrency(64)
}

async fn jobs(client: &Client, state: State) -> usize {
    let filter = Filter { state: Some(state), ..Filter::default() };
    client.list(&filter, None, 1_000).await.unwrap().jobs.len()
}

#[tokio::test]
async fn a_chain_goes_on_with_each_end() {
    let (client, _) = scene();
    let running = worker(&client, &Runs::default()).start().unwrap();
    client.enqueue(Step::Chain(20)).await.unwrap();
    eventually("the chain ends", async || jobs(&client, State::Completed).await == 21).await;
    let page = client.records("default").unwrap().list("chain/", None, 100).await.unwrap();
    assert_eq!(page.records.len(), 20);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_comes_once_whatever_becomes_of_calls() {
    for fault in [Fault::Unavailable, Fault::Unknown, Fault::Vanished] {
        let store = Faulty::new();
        let client = Client::new(Arc::clone(&store) as _);
        let running = worker(&client, &Runs::default()).start().unwrap();
        let ends = Arc::clone(&store);
        let stutter = tokio::spawn(async move {
            for _ in 0..10 {
                ends.fail(Call::WriteFenced, fault, 1);
                tokio::time::sleep(Duration::from_millis(40)).await;
            }
        });
        client.enqueue_all((0..10).map(|_| Step::Chain(10))).await.unwrap();
        eventually("all chains end", async || jobs(&client, State::Completed).await >= 110).await;
        stutter.await.unwrap();
        eventually("nothing is left", async || {
            let counts = client.queue("default").unwrap().counts().await.unwrap();
            counts.open() == 0
        })
        .await;
        assert_eq!(jobs(&client, State::Completed).await, 110, "after {fault:?}, each came once");
        running.stop().await;
    }
}

#[tokio::test]
async fn only_the_attempt_that_completes_is_followed() {
    let (client, _) = scene();
    let drained = {
        client.enqueue(Step::FailWithFollowUp).await.unwrap();
        worker(&client, &Runs::default()).drain().await.unwrap()
    };
    assert_eq!(
        (drained.completed, drained.retried),
        (2, 4),
        "the follow-up came once, and was tried three times"
    );
}

#[tokio::test]
async fn a_refused_follow_up_fails_the_attempt() {
    let (client, _) = scene();
    client.records("default").unwrap().put("there", &1).await.unwrap();
    let running = worker(&client, &Runs::default()).start().unwrap();
    for (job, word) in [(Step::RefusedFollowUp, "is taken"), (Step::Conflict, "\"there\"")] {
        let end = end_of(&client.enqueue(job).await.unwrap()).await;
        assert_eq!((end.state, end.counters.attempt), (State::Dead, 3));
        let error = end.last_error().unwrap();
        assert!(
            error.starts_with("what should follow the job was refused") && error.contains(word),
            "{error}"
        );
    }
    assert_eq!(jobs(&client, State::Ready).await, 0);
    running.stop().await;
}

#[tokio::test]
async fn checkpoints_outlive_attempts_and_go_with_the_job() {
    let (client, _) = scene();
    let runs = Runs::default();
    let job = client.enqueue(Step::Count).await.unwrap();
    worker(&client, &runs).drain().await.unwrap();
    assert_eq!(job.output().await.unwrap(), 3);
    assert_eq!(runs.1.load(Ordering::SeqCst), 2, "the third attempt saw what the second had written");
    let totals = client.records("default").unwrap().totals().await.unwrap();
    assert_eq!(totals.count, 0, "they went with the completion");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_attempts_with_one_key_one_runs_the_body() {
    let (client, _) = scene();
    let runs = Runs::default();
    let running = worker(&client, &runs).start().unwrap();
    let key = |i: u32| format!("payment/{}", i % 10);
    let all = (0..640).map(|i| Step::Once { key: key(i), body: i % 10, fails: false });
    for (i, handle) in client.enqueue_all(all).await.unwrap().into_iter().enumerate() {
        let output = tokio::time::timeout(PATIENCE, handle.output()).await.unwrap().unwrap();
        assert_eq!(output, 1, "job {i} has the winner's result");
    }
    for i in 0..10 {
        assert_eq!(runs.of(&key(i)), 1);
    }
    running.stop().await;
}

#[tokio::test]
async fn a_key_is_free_after_a_failure_and_refuses_another_body() {
    let (client, _) = scene();
    let runs = Runs::default();
    let once = |body, fails| Step::Once { key: "k".into(), body, fails };
    let first = client.enqueue(once(1, true)).await.unwrap();
    worker(&client, &runs).drain().await.unwrap();
    assert_eq!((first.output().await.unwrap(), runs.of("k")), (2, 2), "the second attempt did it");
    let again = client.enqueue(once(1, false)).await.unwrap();
    let other = client.enqueue(once(2, false)).await.unwrap();
    worker(&client, &runs).drain().await.unwrap();
    assert_eq!((again.output().await.unwrap(), runs.of("k")), (2, 2));
    let refused = client.job(other.id()).await.unwrap().unwrap();
    assert_eq!((refused.state, refused.reason), (State::Dead, Some(Reason::Permanent)));
    assert!(refused.last_error().unwrap().contains("another body"));
}

#[tokio::test]
async fn a_body_whose_result_cannot_be_kept_does_not_run_again() {
    let (client, _) = scene();
    let runs = Runs::default();
    for _ in 0..2 {
        let job = client.enqueue(Step::OnceLarge).await.unwrap();
        worker(&client, &runs).drain().await.unwrap();
        let end = client.job(job.id()).await.unwrap().unwrap();
        assert_eq!((end.state, end.reason), (State::Dead, Some(Reason::Permanent)));
        assert!(end.last_error().unwrap().contains("was not kept"));
    }
    assert_eq!(runs.of("large"), 1);
}

#[tokio::test]
async fn a_body_that_its_own_attempt_gave_up_is_begun_anew() {
    let (client, _) = scene();
    let runs = Runs::default();
    let job = client.enqueue(Step::OnceTwice).await.unwrap();
    tokio::time::timeout(PATIENCE, worker(&client, &runs).drain()).await.unwrap().unwrap();
    assert_eq!(job.output().await.unwrap(), 1);
}

#[tokio::test]
async fn each_death_under_an_id_that_is_used_again_is_followed() {
    let (client, _) = scene();
    let id = JobId::from_key("order", "42");
    for deaths in 1..=2 {
        client.enqueue(Step::Die).id(id).on_dead(OnDead::kind("alert").unwrap()).await.unwrap();
        worker(&client, &Runs::default()).drain().await.unwrap();
        assert_eq!(jobs(&client, State::Ready).await, deaths);
        client.delete(id).await.unwrap();
    }
}

#[tokio::test]
async fn a_key_of_an_attempt_that_was_lost_is_taken_over() {
    let (client, _) = scene();
    // What an attempt leaves that ended without a word: its job runs no longer under that fence.
    let lost = serde_json::json!({"is": "running", "job": JobId::new(), "fence": 7});
    client.records("default").unwrap().put("once/k", &lost).await.unwrap();
    let runs = Runs::default();
    let job = client.enqueue(Step::Once { key: "k".into(), body: 1, fails: false }).await.unwrap();
    worker(&client, &runs).drain().await.unwrap();
    assert_eq!((job.output().await.unwrap(), runs.of("k")), (1, 1));
}

#[tokio::test]
async fn a_death_enqueues_what_was_asked_for() {
    let (client, _) = scene();
    let hook = OnDead::kind("alert").unwrap().queue("ops").unwrap();
    let job = client.enqueue(Step::Die).on_dead(hook.clone()).await.unwrap();
    let fine = client.enqueue(Step::Chain(0)).on_dead(hook).await.unwrap();
    worker(&client, &Runs::default()).drain().await.unwrap();
    assert_eq!(fine.state().await.unwrap(), Some(State::Completed));
    let ops = client.queue("ops").unwrap();
    assert_eq!(ops.counts().await.unwrap().of(State::Ready), 1);
    let filter = Filter { state: Some(State::Ready), ..Filter::default() };
    let alert = client.list(&filter, None, 10).await.unwrap().jobs.remove(0);
    assert_eq!((alert.kind.as_str(), alert.queue.as_str()), ("alert", "ops"));
    let dead: DeadJob = serde_json::from_slice(&alert.payload).unwrap();
    assert_eq!((dead.id, dead.reason, dead.attempts), (job.id(), Some(Reason::Permanent), 1));
    assert_eq!(dead.error.as_deref(), Some("no such mailbox"));
}

#[tokio::test]
async fn records_are_written_with_jobs_or_not_at_all() {
    let (client, _) = scene();
    let records = client.records("default").unwrap();
    let version = records.put("k", &1).if_absent().await.unwrap();
    assert!(records.put("k", &2).if_absent().await.unwrap_err().is_conflict());
    let job = windlass_core::NewJob::new("step", "null", Options::new()).unwrap();
    let write = RecordWrite::put(RecordKey::new("k").unwrap(), "3");
    let both = |expect| FollowUps { jobs: vec![job.clone()], records: vec![write.clone().expect(expect)] };
    assert!(records.write(both(Expect::Absent)).await.unwrap_err().is_conflict());
    assert_eq!(jobs(&client, State::Ready).await, 0);
    records.write(both(Expect::Version(version))).await.unwrap();
    assert_eq!(jobs(&client, State::Ready).await, 1);
    assert_eq!(records.get::<u32>("k").await.unwrap().unwrap().value, 3);
    records.remove("k").await.unwrap();
    assert!(records.get::<u32>("k").await.unwrap().is_none());
    assert!(matches!(records.put("", &1).await, Err(Error::RecordKey(_))));
}
