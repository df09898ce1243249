//! Gates where something is in the way of a key, and gates that do not fit their jobs, as a defect would leave them.

use windlass_core::job::ClaimedJob;
use windlass_core::queue::{KeyRules, Pause, Pauses, QueueConfig, Removed};
use windlass_core::store::{ClaimAnswer, Jobs, Maintenance, Queues};
use windlass_core::{JobId, StoreErrorKind};

use super::bench::{Bench, lock, name};
use super::keys::{accept, add, bench, ids};

fn config(concurrency: u32) -> QueueConfig {
    let keys = KeyRules { concurrency: Some(concurrency), ..KeyRules::default() };
    QueueConfig { keys: Some(keys), ..QueueConfig::default() }
}

async fn claim(bench: &Bench) -> Vec<ClaimedJob> {
    bench.claim_all().await.0
}

const CLOSED: &str = "9223372036854775807";

#[tokio::test]
async fn a_locked_job_gives_its_turn_to_the_next_of_its_key() {
    let bench = bench(9).await;
    let jobs = add(&bench, &["a", "a", "a", "b"]).await;
    let client = bench.client().await;
    lock(&client, "waiting", &jobs[..1]).await;
    let mut found = ids(&claim(&bench).await);
    found.sort_unstable();
    assert_eq!(found, jobs[1..]);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(ids(&claim(&bench).await), jobs[..1], "its gate was kept");
}

/// Parts are rounded up, so that the last gates of a round may not be asked. They stay, whatever the first ones could not give.
#[tokio::test]
async fn a_locked_job_costs_no_other_key_its_gate() {
    let bench = bench(9).await;
    let keys = ["a", "b", "c", "d", "e", "f", "g"].repeat(3);
    let jobs = add(&bench, &keys).await;
    let client = bench.client().await;
    lock(&client, "waiting", &jobs[..1]).await;
    let request = bench.request(10);
    let ClaimAnswer::Jobs { jobs: some, .. } = bench.store.claim(request).await.unwrap() else {
        panic!("the lease lives")
    };
    let mut found = ids(&some);
    client.batch_execute("COMMIT").await.unwrap();
    for _ in 0..3 {
        found.extend(ids(&claim(&bench).await));
    }
    found.sort_unstable();
    assert_eq!(found, jobs, "each has its turn");
}

/// What a claim is told of is asked before it is written: of the gates that it asked those are written that have jobs left, and
/// all that it did not ask.
#[tokio::test]
async fn gates_that_come_into_being_are_written_where_they_are_left() {
    let bench = bench(2).await;
    let jobs = add(&bench, &["a", "b", "b", "c", "c", "c", "d", "e", "e"]).await;
    let request = bench.request(4);
    let ClaimAnswer::Jobs { jobs: found, .. } = bench.store.claim(request).await.unwrap() else {
        panic!("the lease lives")
    };
    assert_eq!(ids(&found), [0, 1, 3, 6].map(|place: usize| jobs[place]));
    let gates = || bench.psql("SELECT key, open_at FROM gates ORDER BY key");
    let runs = || bench.psql("SELECT turn, first, last, keys, count FROM gate_runs ORDER BY turn, first");
    assert_eq!(gates(), "b|0\nc|0\ne|0");
    assert_eq!(runs(), "0|e|e|{e}|1\n1000|b|c|{b,c}|2");
    // Those that are known already, and one that comes back.
    let more = add(&bench, &["a", "c"]).await;
    let request = bench.request(3);
    let ClaimAnswer::Jobs { jobs: found, .. } = bench.store.claim(request).await.unwrap() else {
        panic!("the lease lives")
    };
    assert_eq!(ids(&found), [more[0], jobs[7], jobs[2]], "with the turn of the first");
    assert_eq!(gates(), "c|0\ne|0");
    assert_eq!(runs(), "1000|c|c|{c}|1\n1000|e|e|{e}|1", "one was not asked");
    assert_eq!(ids(&claim(&bench).await), [jobs[4], jobs[8]]);
    assert_eq!(gates(), format!("c|{CLOSED}"), "two of its jobs run");
    assert_eq!(runs(), "");
}

/// A program of before knows nothing of runs: what it forgets stays in them, and comes into being once more.
#[tokio::test]
async fn a_gate_that_is_left_in_a_run_is_asked_once() {
    let bench = bench(9).await;
    let jobs = add(&bench, &["a", "a", "b", "b", "c", "c"]).await;
    let ClaimAnswer::Jobs { jobs: found, .. } = bench.store.claim(bench.request(3)).await.unwrap() else {
        panic!("the lease lives")
    };
    assert_eq!(ids(&found), [0, 2, 4].map(|place: usize| jobs[place]));
    bench.psql("DELETE FROM gates WHERE key IN ('a', 'c')");
    let more = add(&bench, &["a", "c"]).await;
    // One that comes before it, and one that stays in its run.
    let ClaimAnswer::Jobs { jobs: found, .. } = bench.store.claim(bench.request(1)).await.unwrap() else {
        panic!("the lease lives")
    };
    assert_eq!(ids(&found), [jobs[1]]);
    let mut found = ids(&claim(&bench).await);
    found.sort_unstable();
    assert_eq!(found, [jobs[3], jobs[5], more[0], more[1]], "each of them once");
    assert_eq!(bench.psql("SELECT count(*) FROM gates UNION ALL SELECT count(*) FROM gate_runs"), "0\n0");
}

#[tokio::test]
async fn a_queue_is_not_removed_beside_a_transaction_that_enqueues_with_a_key() {
    let bench = bench(9).await;
    let (client, job) = (bench.client().await, JobId::new());
    client.batch_execute(&format!("BEGIN; {}", accept(job, "a"))).await.unwrap();
    let error = bench.store.remove(&name("default")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    client.batch_execute("COMMIT").await.unwrap();
    assert!(matches!(bench.store.remove(&name("default")).await.unwrap(), Removed::NotEmpty(_)));
    assert_eq!(ids(&claim(&bench).await), [job], "it stands behind a gate that claims ask");
}

#[tokio::test]
async fn a_definition_opens_the_gates_whose_rules_it_changes() {
    let bench = bench(1).await;
    add(&bench, &["a", "a", "b", "b"]).await;
    assert_eq!(claim(&bench).await.len(), 2);
    let gates = || bench.psql("SELECT key, open_at FROM gates ORDER BY key");
    assert_eq!(gates(), format!("a|{CLOSED}\nb|{CLOSED}"));
    let pauses = Pauses { keys: [(name("b"), Pause::default())].into(), ..Pauses::default() };
    let paused = QueueConfig { pauses, ..config(1) };
    bench.store.define(&name("default"), &paused).await.unwrap();
    assert_eq!(gates(), format!("a|{CLOSED}\nb|1"), "only that one may give more by now");
    bench.store.define(&name("default"), &config(2)).await.unwrap();
    assert_eq!(gates(), "a|1\nb|1");
    assert_eq!(claim(&bench).await.len(), 2);
}

#[tokio::test]
async fn a_paused_queue_asks_no_gate() {
    let bench = bench(1).await;
    let keys = [(name("a"), Pause::default())].into();
    let pauses = Pauses { queue: Some(Pause::default()), keys, ..Pauses::default() };
    bench.store.define(&name("default"), &QueueConfig { pauses, ..config(1) }).await.unwrap();
    add(&bench, &["a", "b"]).await;
    assert_eq!(claim(&bench).await, []);
    let gates = bench.psql("SELECT key, turn, open_at FROM gates ORDER BY key");
    assert_eq!(gates, "a|0|0\nb|0|0", "the gate of a paused key is closed when it is asked");
}

/// Each damage is planted by SQL; the next round of maintenance mends it, and the one after that finds nothing to mend.
#[tokio::test]
async fn gates_that_do_not_fit_their_jobs_are_mended() {
    let bench = bench(1).await;
    let jobs = add(&bench, &["lost", "counted", "shut", "shut", "full", "full"]).await;
    let found = claim(&bench).await;
    assert_eq!(found.len(), 4);
    let full: Vec<_> = found.iter().filter(|job| job.id == jobs[4]).cloned().collect();
    let others: Vec<_> = found.into_iter().filter(|job| job.id != jobs[4]).collect();
    bench.complete(&others).await;
    assert_eq!(ids(&claim(&bench).await), [jobs[3]], "the others have no more, or are full");
    // A line without a gate, a job that counts and does not run, gates that are closed without a reason, one that is in no run.
    let lost = add(&bench, &["lost"]).await;
    let counted = add(&bench, &["counted"]).await;
    let shut = add(&bench, &["shut", "open"]).await;
    let out = add(&bench, &["out"]).await;
    bench.psql(&format!(
        "DELETE FROM gate_reports WHERE keys <> '{{full}}';
         INSERT INTO gate_jobs (seq, queue, key) VALUES (2000000002, 'default', 'counted');
         INSERT INTO gates (queue, key, turn, open_at) VALUES
             ('default', 'counted', 0, {CLOSED}), ('default', 'shut', 0, {CLOSED}), ('default', 'open', 0, {CLOSED});
         INSERT INTO gates (queue, key, turn, open_at, in_run) VALUES ('default', 'out', 0, 0, true)"
    ));
    assert_eq!(claim(&bench).await, [], "no gate that is open has jobs");
    for _ in 0..3 {
        bench.store.tidy(1_000).await.unwrap();
    }
    let reports = bench.psql("SELECT keys, is_ended FROM gate_reports ORDER BY id");
    assert_eq!(reports, "{counted}|t\n{lost}|f\n{open}|t", "what is full, or runs, stays as it is");
    let mut found = ids(&claim(&bench).await);
    found.sort_unstable();
    assert_eq!(found, [lost[0], counted[0], shut[1], out[0]]);
    bench.complete(&full).await;
    assert_eq!(ids(&claim(&bench).await), [jobs[5]]);
}
