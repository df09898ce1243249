//! Queues with rules: what the server keeps of them, and what stands in their way.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "isolation/bench.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod bench;

use std::time::Duration;

use windlass_core::job::ClaimedJob;
use windlass_core::queue::{Pause, Pauses, QueueConfig, Rate, Removed};
use windlass_core::store::{ClaimAnswer, ClaimRequest, Jobs, QueueShare, Queues};
use windlass_core::{NewJob, Options};
use windlass_store_postgres::{PostgresOptions, PostgresStore};

use bench::{Bench, lock, name, url};

const HOUR: Duration = Duration::from_secs(3_600);

fn concurrency(jobs: u32) -> QueueConfig {
    QueueConfig { concurrency: Some(jobs), ..QueueConfig::default() }
}

async fn define(bench: &Bench, config: &QueueConfig) {
    bench.store.define(&name("default"), config).await.unwrap();
}

async fn claim(bench: &Bench, request: ClaimRequest) -> (Vec<ClaimedJob>, Option<Duration>) {
    let answer = bench.store.claim(request).await.unwrap();
    let ClaimAnswer::Jobs { jobs, next_due, .. } = answer else { panic!("the lease is lost") };
    (jobs, next_due)
}

/// A claim in a second queue as well, which has a job.
async fn with_other_queue(bench: &Bench) -> ClaimRequest {
    let other = NewJob::new("k", "", Options::new().queue("other")).unwrap();
    bench.store.enqueue([other].into()).await.unwrap();
    let queues = ["default", "other"].map(|queue| QueueShare { queue: name(queue), limit: 9 });
    ClaimRequest { queues: queues.to_vec(), ..bench.request(9) }
}

fn counted(bench: &Bench) -> String {
    bench.psql("SELECT counted_from FROM queues")
}

/// Jobs that were claimed before the queue had a concurrency are counted, also when claims no longer look at the counters.
#[tokio::test]
async fn what_ran_before_is_counted() {
    let bench = Bench::new().await;
    bench.enqueue(20).await;
    let (before, _) = claim(&bench, bench.request(4)).await;
    define(&bench, &concurrency(5)).await;
    let (first, _) = claim(&bench, bench.request(9)).await;
    assert_eq!((before.len(), first.len()), (4, 1));
    assert_eq!(claim(&bench, bench.request(9)).await.0, [], "the counters say so");
    let marked = "SELECT count(*) FROM running WHERE queue = 'default'";
    assert_eq!(bench.psql(marked), "1", "of those that it has claimed itself");

    // Two minutes later, while one of them is locked.
    bench.psql("UPDATE queues SET counted_from = 1");
    let client = bench.client().await;
    lock(&client, "running", &[before[0].id]).await;
    bench.complete(&first).await;
    assert_eq!(claim(&bench, bench.request(9)).await.0.len(), 1);
    assert!(
        bench.psql(marked) == "4" && counted(&bench).len() > 6,
        "the locked one is left to the next time"
    );
    assert_eq!(claim(&bench, bench.request(9)).await.0, []);
    client.batch_execute("ROLLBACK").await.unwrap();

    bench.psql("UPDATE queues SET counted_from = 1");
    bench.complete(&before[1..2]).await;
    assert_eq!(claim(&bench, bench.request(9)).await.0.len(), 1);
    assert_eq!((bench.psql(marked).as_str(), counted(&bench).as_str()), ("5", "0"));
    assert_eq!(claim(&bench, bench.request(9)).await.0, [], "the index says so");
    bench.complete(&before[2..]).await;
    assert_eq!(claim(&bench, bench.request(9)).await.0.len(), 2);

    define(&bench, &QueueConfig::default()).await;
    assert_eq!(claim(&bench, bench.request(3)).await.0.len(), 3);
    assert_eq!((bench.psql(marked).as_str(), counted(&bench).as_str()), ("5", ""), "they pay nothing");
    define(&bench, &concurrency(8)).await;
    assert_eq!(claim(&bench, bench.request(9)).await.0, []);
}

/// A claim that meets another one in a limited queue does not wait for it, and is told to come back soon.
#[tokio::test]
async fn a_locked_definition_holds_up_its_queue_only() {
    let bench = Bench::new().await;
    bench.enqueue(3).await;
    define(&bench, &concurrency(9)).await;
    let client = bench.client().await;
    client.batch_execute("BEGIN; SELECT 1 FROM queues FOR NO KEY UPDATE").await.unwrap();
    let (jobs, again) = claim(&bench, with_other_queue(&bench).await).await;
    assert_eq!(jobs.iter().map(|job| job.queue.as_str()).collect::<Vec<_>>(), ["other"]);
    assert!(again.is_some_and(|again| again < Duration::from_millis(300)), "{again:?}");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(claim(&bench, bench.request(9)).await.0.len(), 3);
}

/// Such a definition has no rules, as everywhere.
#[tokio::test]
async fn rules_that_do_not_read_harm_nothing() {
    let bench = Bench::new().await;
    define(&bench, &concurrency(1)).await;
    for text in [
        "{\"concurrency\":",
        "{\"concurrency\":\"many\"}",
        "{\"rate\":{\"jobs\":1}}",
        "{\"rate\":{\"jobs\":1,\"per\":60000000,\"shape\":\"other\"}}",
        "{\"pauses\":{\"queue\":{\"until\":\"noon\"}}}",
        "[7]",
    ] {
        bench.psql(&format!(
            "UPDATE queues SET config = '{text}'; UPDATE settings SET value = value + 1 WHERE name = 'definitions'"
        ));
        bench.enqueue(2).await;
        let (jobs, next) = claim(&bench, with_other_queue(&bench).await).await;
        assert_eq!((jobs.len(), next), (3, None), "{text}");
    }
}

#[tokio::test]
async fn what_was_spent_does_not_pile_up() {
    let bench = Bench::new().await;
    let rate = Rate::new(5, HOUR);
    define(&bench, &QueueConfig { rate: Some(rate), ..QueueConfig::default() }).await;
    bench.psql("INSERT INTO spent SELECT 'default', i, 1 FROM generate_series(1, 150) AS i");
    bench.psql("INSERT INTO spent VALUES ('other', 1, 1)");
    bench.enqueue(4).await;
    for left in ["51", "1", "1"] {
        let (jobs, _) = claim(&bench, bench.request(1)).await;
        assert_eq!(jobs.len(), 1);
        bench.complete(&jobs).await;
        // Those that count stand at one instant, or two if the hour is divided between them.
        let spent =
            "SELECT count(*) - count(*) FILTER (WHERE back_at > 1000) + 1 FROM spent WHERE queue = 'default'";
        assert_eq!(bench.psql(spent), left);
    }
    assert_eq!(bench.psql("SELECT sum(jobs) FROM spent WHERE back_at > 1000"), "3");
    let (jobs, next) = claim(&bench, bench.request(9)).await;
    assert_eq!((jobs.len(), next), (1, None), "a permit is left");
    bench.complete(&jobs).await;
    bench.psql("DELETE FROM ended; DELETE FROM jobs; DELETE FROM moved; DELETE FROM counted");
    assert_eq!(bench.store.remove(&name("default")).await.unwrap(), Removed::Done);
    assert_eq!(bench.psql("SELECT queue FROM spent"), "other");
}

/// What another process has defined holds at once, whatever this one remembers, and whether there is a job or not.
#[tokio::test]
async fn what_others_define_holds_at_once() {
    let bench = Bench::new().await;
    let options = PostgresOptions::parse(url()).unwrap().schema(&bench.schema).unwrap();
    let elsewhere = PostgresStore::open_with(options).await.unwrap();
    bench.enqueue(2).await;
    assert_eq!(claim(&bench, bench.request(1)).await.0.len(), 1, "the definition is known now");
    let until = Some(bench.store.now().await.unwrap().plus(HOUR));
    let queue = Some(Pause { until, ..Pause::default() });
    let paused = QueueConfig { pauses: Pauses { queue, ..Pauses::default() }, ..QueueConfig::default() };
    elsewhere.define(&name("default"), &paused).await.unwrap();
    for _ in 0..2 {
        let (jobs, next) = claim(&bench, bench.request(1)).await;
        assert!(jobs.is_empty() && next.is_some_and(|next| next > HOUR / 2 && next <= HOUR), "{next:?}");
        bench.psql("DELETE FROM waiting");
    }
    elsewhere.define(&name("default"), &QueueConfig::default()).await.unwrap();
    assert_eq!(claim(&bench, bench.request(1)).await, (Vec::new(), None));
}
