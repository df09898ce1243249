//! Follow-ups of attempts of which some stand in the way: their neighbours are written, and nothing of themselves.

use std::time::Duration;

use windlass_core::follow_ups::FollowUps;
use windlass_core::job::{ClaimedJob, NewJob};
use windlass_core::outcome::Failure;
use windlass_core::queue::QueueConfig;
use windlass_core::record::{Expect, RecordWrite};
use windlass_core::size::Caps;
use windlass_core::store::{
    AttemptWrite, AttemptWritten, Jobs, Progress, Queues, Records, Right, Settled, Settlement,
};
use windlass_core::unique::Unique;
use windlass_core::{JobId, Options, Outcome, State, StoreError, StoreErrorKind};
use windlass_store_postgres::{PostgresOptions, PostgresStore};

use super::bench::{Bench, COMPLETED, lock, name, new_job, settlement, url};
use super::records::{put, value, write};

fn jobs(jobs: impl Into<Vec<NewJob>>) -> FollowUps {
    FollowUps { jobs: jobs.into(), records: Vec::new() }
}

fn records(records: impl Into<Vec<RecordWrite>>) -> FollowUps {
    FollowUps { jobs: Vec::new(), records: records.into() }
}

fn end(job: &ClaimedJob, outcome: Outcome, then: FollowUps) -> AttemptWrite {
    let Settlement { queue, id, fence, transition } = settlement(job, outcome);
    AttemptWrite { queue, id, fence, transition: Some(transition), then }
}

fn checkpoint(job: &ClaimedJob, then: FollowUps) -> AttemptWrite {
    AttemptWrite { transition: None, ..end(job, COMPLETED, then) }
}

fn failed() -> Outcome {
    Outcome::Retry { failure: Failure::error("it failed") }
}

impl Bench {
    async fn running(&self, count: usize) -> Vec<ClaimedJob> {
        self.enqueue(count).await;
        let (jobs, _) = self.claim_all().await;
        assert_eq!(jobs.len(), count);
        jobs
    }

    async fn follow(&self, items: Vec<AttemptWrite>) -> Vec<AttemptWritten> {
        self.store.write_fenced(Right::Fence, items.into()).await.unwrap()
    }

    async fn state(&self, id: JobId) -> Option<State> {
        self.store.states([id].into()).await.unwrap().remove(0)
    }
}

#[tokio::test]
async fn what_stands_in_the_way_holds_up_no_neighbour() {
    let bench = Bench::new().await;
    write(&bench.store, [put("there", "1")]).await.unwrap();
    let running = bench.running(40).await;
    let taken = bench.enqueue(1).await.remove(0);
    let mut items: Vec<_> = running
        .iter()
        .enumerate()
        .map(|(i, job)| {
            let then = FollowUps { jobs: vec![new_job()], records: vec![put(&format!("{i}"), "")] };
            end(job, COMPLETED, then)
        })
        .collect();
    let another = NewJob::new("another", "", Options::new()).unwrap().with_id(taken.id);
    items[5].then.jobs.push(another);
    items[10].then.jobs.push(NewJob::new("k", "", Options::new().key("no-keys-here")).unwrap());
    items[15].then.records.push(put("there", "2").expect(Expect::Absent));
    bench.complete(&running[20..21]).await;
    bench.store.cancel([running[25].id].into()).await.unwrap();
    items[25] = end(&running[25], failed(), items[25].then.clone());
    items[30].then.records.push(put("29", "after its neighbour"));
    items[35].then.jobs = vec![new_job().with_id(running[35].id)];
    let answers = bench.follow(items.clone()).await;
    for (i, (item, answer)) in items.iter().zip(answers).enumerate() {
        let (is_followed, state) = match i {
            5 | 35 => {
                assert!(matches!(answer, AttemptWritten::Refused(StoreError::IdTaken { .. })), "{answer:?}");
                (false, State::Running)
            }
            10 => {
                assert!(matches!(answer, AttemptWritten::Refused(StoreError::NoKeys { .. })), "{answer:?}");
                (false, State::Running)
            }
            15 => {
                let AttemptWritten::Refused(StoreError::Conflict { key, .. }) = &answer else {
                    panic!("{answer:?}")
                };
                assert_eq!(key.as_str(), "there");
                (false, State::Running)
            }
            20 => {
                assert!(matches!(answer, AttemptWritten::Fenced), "{answer:?}");
                (false, State::Completed)
            }
            25 => {
                assert!(matches!(answer, AttemptWritten::Applied(State::Cancelled)), "{answer:?}");
                (false, State::Cancelled)
            }
            _ => {
                assert!(matches!(answer, AttemptWritten::Applied(State::Completed)), "{i}: {answer:?}");
                (true, State::Completed)
            }
        };
        assert_eq!(bench.state(item.id).await, Some(state), "{i}");
        if i != 35 {
            assert_eq!(bench.state(item.then.jobs[0].id).await.is_some(), is_followed, "{i}");
        }
        assert_eq!(value(&bench.store, &format!("{i}")).await.is_some(), is_followed, "{i}");
    }
    assert_eq!(value(&bench.store, "29").await.as_deref(), Some("after its neighbour"));
    let counts = "SELECT sum(ready), sum(running), sum(completed), sum(cancelled) FROM counts";
    assert_eq!(bench.psql(counts), "35|4|35|1");
}

/// Its attempt does not free a unique key for a job that comes before its end.
#[tokio::test]
async fn unique_keys_of_neighbours_are_free_in_their_order() {
    let bench = Bench::new().await;
    let unique = |key| NewJob::new("k", "", Options::new().unique(Unique::key(key))).unwrap();
    bench.store.enqueue([unique("a"), unique("b"), unique("c")].into()).await.unwrap();
    let (running, _) = bench.claim_all().await;
    let next = [unique("b"), unique("a"), unique("c")];
    let items = running.iter().zip(&next).map(|(job, next)| end(job, COMPLETED, jobs([next.clone()])));
    for answer in bench.follow(items.collect()).await {
        assert!(matches!(answer, AttemptWritten::Applied(State::Completed)), "{answer:?}");
    }
    assert_eq!(bench.state(next[0].id).await, None, "the key was held when its attempt ended");
    assert_eq!(bench.state(next[1].id).await, Some(State::Ready));
    assert_eq!(bench.state(next[2].id).await, Some(State::Ready), "its own key is free");
}

#[tokio::test]
async fn an_attempt_that_ends_in_an_open_transaction_is_waited_for() {
    let bench = Bench::new().await;
    let running = bench.running(2).await;
    let client = bench.client().await;
    lock(&client, "running", &[running[0].id]).await;
    let next = [new_job(), new_job()];
    let items = [0, 1].map(|i| end(&running[i], COMPLETED, jobs([next[i].clone()])));
    let store = bench.store.clone();
    let call = tokio::spawn(async move { store.write_fenced(Right::Fence, items.into()).await });
    bench.until_a_call_waits().await;
    // As a handler that completes its job in its own transaction.
    let gone = format!(
        "DELETE FROM running USING jobs AS j WHERE running.seq = j.seq AND j.id = '{}'",
        running[0].id
    );
    client.batch_execute(&format!("{gone}; COMMIT")).await.unwrap();
    let answers = call.await.unwrap().unwrap();
    assert!(
        matches!(answers[..], [AttemptWritten::Fenced, AttemptWritten::Applied(State::Completed)]),
        "{answers:?}"
    );
    assert_eq!(bench.state(next[0].id).await, None);
    assert_eq!(bench.state(next[1].id).await, Some(State::Ready));
}

/// An attempt that writes while it runs does not end before that is written, and may report meanwhile.
#[tokio::test]
async fn an_attempt_does_not_end_while_it_writes() {
    let bench = Bench::new().await;
    write(&bench.store, [put("k", "0")]).await.unwrap();
    let job = bench.running(1).await.remove(0);
    let client = bench.client().await;
    client.batch_execute("BEGIN; SELECT FROM queue_records FOR UPDATE").await.unwrap();
    let (store, item) = (bench.store.clone(), checkpoint(&job, records([put("k", "1")])));
    let step = tokio::spawn(async move { store.write_fenced(Right::Fence, [item].into()).await });
    bench.until_a_call_waits().await;
    let (queue, id, fence) = (job.queue.clone(), job.id, job.fence);
    let report = Progress { queue, id, fence, progress: "half".into() };
    assert_eq!(bench.store.progress([report].into()).await.unwrap(), [Settled::Applied(State::Running)]);
    let (store, settlement) = (bench.store.clone(), settlement(&job, COMPLETED));
    let ending = tokio::spawn(async move { store.settle([settlement].into()).await });
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE ";
    let waiting = format!("{waiting} '%{}%'", bench.schema);
    while bench.psql(&waiting).parse::<u32>().unwrap() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client.batch_execute("COMMIT").await.unwrap();
    let written = step.await.unwrap().unwrap();
    assert!(matches!(written[..], [AttemptWritten::Applied(State::Running)]), "{written:?}");
    assert_eq!(ending.await.unwrap().unwrap(), [Settled::Applied(State::Completed)]);
    assert_eq!(value(&bench.store, "k").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_definition_of_another_program_counts() {
    let bench = Bench::new().await;
    let running = bench.running(3).await;
    let options = PostgresOptions::parse(url()).unwrap().schema(&bench.schema).unwrap();
    let other = PostgresStore::open_with(options).await.unwrap();
    let caps = Caps { payload: 3, output: 3, ..Caps::default() };
    other.define(&name("default"), &QueueConfig { caps, ..QueueConfig::default() }).await.unwrap();
    let large = NewJob::new("k", "1234", Options::new()).unwrap();
    let output = Outcome::Completed { output: Some("1234".into()) };
    let next = [new_job(), new_job()];
    let items = vec![
        end(&running[0], COMPLETED, jobs([next[0].clone(), large])),
        end(&running[1], output, jobs([next[1].clone()])),
        end(&running[2], COMPLETED, jobs([new_job()])),
    ];
    let answers = bench.follow(items).await;
    for answer in &answers[..2] {
        assert!(matches!(answer, AttemptWritten::Refused(StoreError::TooLarge { .. })), "{answer:?}");
    }
    assert!(matches!(answers[2], AttemptWritten::Applied(State::Completed)), "{answers:?}");
    for job in next {
        assert_eq!(bench.state(job.id).await, None);
    }
}

#[tokio::test]
async fn a_queue_with_rules_to_come_refuses_what_is_for_it_alone() {
    let bench = Bench::new().await;
    let running = bench.running(3).await;
    bench.store.cancel([running[2].id].into()).await.unwrap();
    bench.psql(
        "INSERT INTO queues (name, config, payload_max, rules) VALUES ('newer', '{}', 1048576, 99);
         UPDATE settings SET value = value + 1 WHERE name = 'definitions'",
    );
    let for_newer = || NewJob::new("k", "", Options::new().queue("newer")).unwrap();
    let newer = for_newer();
    let next = new_job();
    let items = vec![
        end(&running[0], COMPLETED, jobs([newer.clone()])),
        end(&running[1], COMPLETED, jobs([next.clone()])),
        end(&running[2], failed(), jobs([for_newer()])),
    ];
    let answers = bench.follow(items).await;
    assert!(matches!(answers[2], AttemptWritten::Applied(State::Cancelled)), "{answers:?}");
    assert!(matches!(answers[0], AttemptWritten::Refused(StoreError::UnknownRules { .. })), "{answers:?}");
    assert!(matches!(answers[1], AttemptWritten::Applied(State::Completed)), "{answers:?}");
    assert_eq!((bench.state(newer.id).await, bench.state(next.id).await), (None, Some(State::Ready)));
    assert_eq!(bench.state(running[0].id).await, Some(State::Running));
}

/// A user's transaction that has written a record may stay open.
#[tokio::test]
async fn a_locked_record_holds_up_no_other_attempt() {
    let schema = format!("locked_{}_{:x}", std::process::id(), fastrand::u32(..));
    let options = PostgresOptions::parse(url()).unwrap().schema(&schema).unwrap();
    let bench = Bench::open(schema, options.lock_timeout(Duration::from_millis(300)).unwrap()).await;
    write(&bench.store, [put("1", "0")]).await.unwrap();
    let running = bench.running(3).await;
    let client = bench.client().await;
    client.batch_execute("BEGIN; UPDATE queue_records SET version = 1").await.unwrap();
    let items = running.iter().enumerate().map(|(i, job)| {
        let then = FollowUps { jobs: vec![new_job()], records: vec![put(&i.to_string(), "1")] };
        end(job, COMPLETED, then)
    });
    let items: Vec<_> = items.collect();
    let error = bench.store.write_fenced(Right::Fence, items.as_slice().into()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unknown, "{error}");
    let states: Vec<_> = bench.store.states(running.iter().map(|job| job.id).collect()).await.unwrap();
    assert_eq!(states, [State::Completed, State::Running, State::Completed].map(Some));
    client.batch_execute("COMMIT").await.unwrap();
    let answers = bench.follow(items).await;
    assert!(matches!(answers[1], AttemptWritten::Applied(State::Completed)), "{answers:?}");
    assert_eq!(value(&bench.store, "1").await.as_deref(), Some("1"));
}
