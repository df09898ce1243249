//! Jobs with a key that run count for it only where that can matter, and each of them from then on.

use std::time::Duration;

use windlass_core::Outcome;
use windlass_core::job::ClaimedJob;
use windlass_core::queue::{Keep, KeyRules, QueueConfig, Rate, Retention};
use windlass_core::store::{ClaimAnswer, Jobs, Queues};

use super::bench::{Bench, name, settlement};
use super::keys::{add, bench, ids};

fn limited(concurrency: Option<u32>) -> QueueConfig {
    let keys = KeyRules { concurrency, ..KeyRules::default() };
    QueueConfig { keys: Some(keys), ..QueueConfig::default() }
}

async fn define(bench: &Bench, config: &QueueConfig) {
    bench.store.define(&name("default"), config).await.unwrap();
}

async fn claim(bench: &Bench) -> Vec<ClaimedJob> {
    bench.claim_all().await.0
}

fn counted(bench: &Bench) -> String {
    bench.psql("SELECT key FROM gate_jobs ORDER BY key")
}

#[tokio::test]
async fn jobs_count_from_the_definition_on_that_says_how_many() {
    let bench = bench(9).await;
    define(&bench, &limited(None)).await;
    let jobs = add(&bench, &["a", "a", "b"]).await;
    let request = bench.request(2);
    let ClaimAnswer::Jobs { jobs: found, .. } = bench.store.claim(request).await.unwrap() else {
        panic!("the lease lives")
    };
    assert_eq!(ids(&found), [jobs[0], jobs[2]]);
    assert_eq!(counted(&bench), "", "nothing has to be held");
    define(&bench, &limited(Some(1))).await;
    assert_eq!(counted(&bench), "a\nb");
    assert!(claim(&bench).await.is_empty(), "one runs already");
    bench.complete(&found).await;
    assert_eq!(ids(&claim(&bench).await), [jobs[1]]);
    assert_eq!(counted(&bench), "a");
}

/// What counts for nothing is not left over either: a call that ends a job beside the definition has given its place back.
#[tokio::test]
async fn a_job_that_a_transaction_ends_does_not_begin_to_count() {
    let bench = bench(9).await;
    define(&bench, &limited(None)).await;
    let jobs = add(&bench, &["a", "a"]).await;
    let request = bench.request(1);
    assert!(matches!(bench.store.claim(request).await.unwrap(), ClaimAnswer::Jobs { .. }));
    let client = bench.client().await;
    client.batch_execute("BEGIN; DELETE FROM running").await.unwrap();
    define(&bench, &limited(Some(1))).await;
    assert_eq!(counted(&bench), "");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(ids(&claim(&bench).await), [jobs[1]]);
}

#[tokio::test]
async fn jobs_count_from_the_moment_on_at_which_so_many_could_run() {
    let bench = bench(9).await;
    define(&bench, &limited(None)).await;
    define(&bench, &limited(Some(20_000))).await;
    let jobs = add(&bench, &["a", "a", "a"]).await;
    let others_run = |from, to| {
        bench.psql(&format!(
            "INSERT INTO running (
                 seq, lease, nonce, fence, claimed_at, due_at, backoff, attempt, stalls, ambiguous, cancel, worker
             )
             SELECT -4 * n, -1, 0, 1, 0, 0, 0, 1, 0, 0, false, '' FROM generate_series({from}, {to}) AS n"
        ))
    };
    for (place, job) in jobs[..2].iter().enumerate() {
        let answer = bench.store.claim(bench.request(1)).await.unwrap();
        let ClaimAnswer::Jobs { jobs: found, ample, .. } = answer else { panic!("the lease lives") };
        assert_eq!((ids(&found), ample), (vec![*job], vec![name("default")]));
        assert_eq!(counted(&bench), "", "fewer run in all");
        others_run(1_000 * place, 1_000 * place + 999);
    }
    assert_eq!(ids(&claim(&bench).await), jobs[2..]);
    assert_eq!(counted(&bench), "a\na\na");
    define(&bench, &limited(Some(3))).await;
    let more = add(&bench, &["a", "b"]).await;
    assert_eq!(ids(&claim(&bench).await), more[1..], "three of its jobs run");
}

/// Each end opens the gate of its key, also where it is closed for another reason than those that run.
#[tokio::test]
async fn an_end_is_told_to_gates_that_are_closed_and_to_no_others() {
    let rate = Some(Rate::new(1, Duration::from_secs(3_600)));
    for keep in [Keep::FOREVER, Keep::NONE] {
        let bench = bench(9).await;
        let keys = KeyRules { rate, ..KeyRules::default() };
        let retention = Retention { completed: keep, cancelled: keep, ..Retention::default() };
        define(&bench, &QueueConfig { keys: Some(keys), retention, ..QueueConfig::default() }).await;
        let told =
            || bench.psql("DELETE FROM gate_reports RETURNING keys, is_ended").replace("\nDELETE 1", "");
        add(&bench, &["0", "a", "b", "c", "d"]).await;
        let found = claim(&bench).await;
        assert_eq!(counted(&bench), "");
        bench.complete(&found[..1]).await;
        assert_eq!(bench.psql("SELECT count(*) FROM gate_reports"), "0", "no gate is closed");
        add(&bench, &["a", "b", "c", "d"]).await;
        assert!(claim(&bench).await.is_empty(), "the next may start in an hour");
        bench.complete(&found[1..2]).await;
        assert_eq!(told(), "{a}|t", "one alone, {keep:?}");
        bench.complete(&found[2..4]).await;
        let two = told();
        assert!(["{b,c}|t", "{c,b}|t"].contains(&two.as_str()), "{two}, {keep:?}");
        bench.store.settle([settlement(&found[4], Outcome::Cancelled)].into()).await.unwrap();
        assert_eq!(told(), "{d}|t", "one that did not complete, {keep:?}");
    }
}
