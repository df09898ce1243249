//! Unique keys in transactions of users, which may stay open for long: what they have taken or changed is waited for by those
//! who want the same, and by no other call.

use std::time::Duration;

use tokio_postgres::Client;
use windlass_core::store::{Amended, Enqueued, Jobs};
use windlass_core::unique::Unique;
use windlass_core::{JobId, NewJob, Options, State};

use super::bench::Bench;

fn unique(payload: &'static str, unique: Unique) -> NewJob {
    NewJob::new("k", payload, Options::new().unique(unique)).unwrap()
}

fn until_end() -> NewJob {
    unique("", Unique::key("u"))
}

/// Calls `accept` as a program does within a transaction of its user, and answers what it says.
async fn accept(client: &Client, job: &NewJob, conflict: &str) -> String {
    let key = job.unique.unwrap();
    let sql = format!(
        "SET LOCAL enable_seqscan = off; SELECT accept(clock_micros(), '{{{}}}', '{{}}', '{{default}}', '{{k}}', \
         ARRAY['{}'::bytea], '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', NULL, '{{{:?}}}', '{{{}}}', \
         '{{{conflict}}}', '{{NULL}}')",
        job.id,
        std::str::from_utf8(&job.payload).unwrap(),
        key.digest,
        key.lifetime,
    );
    let said = client.simple_query(&sql).await.unwrap();
    let row = said.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    row.unwrap()
}

async fn begin(bench: &Bench) -> Client {
    let client = bench.client().await;
    client.batch_execute("BEGIN").await.unwrap();
    client
}

async fn enqueue(bench: &Bench, job: &NewJob) -> Enqueued {
    bench.store.enqueue([job.clone()].into()).await.unwrap()[0]
}

/// Enqueues a second job while the transaction of the first is open, and answers what it was told when that has ended so.
async fn second(end: &str) -> (Bench, NewJob, NewJob, Enqueued) {
    let bench = Bench::new().await;
    let (first, second) = (until_end(), until_end());
    let client = begin(&bench).await;
    assert_eq!(accept(&client, &first, "keep").await, "{stored}");
    let call = tokio::spawn({
        let (store, second) = (bench.store.clone(), second.clone());
        async move { store.enqueue([second].into()).await.unwrap()[0] }
    });
    bench.until_a_call_waits().await;
    // A call with other keys, or none, does not wait.
    assert_eq!(enqueue(&bench, &unique("", Unique::key("v"))).await, Enqueued::New);
    bench.enqueue(2).await;
    client.batch_execute(end).await.unwrap();
    let answer = call.await.unwrap();
    (bench, first, second, answer)
}

#[tokio::test]
async fn a_second_enqueuer_gets_the_key_when_the_first_rolls_back() {
    let (bench, first, second, answer) = second("ROLLBACK").await;
    assert_eq!(answer, Enqueued::New);
    let states = bench.store.states([first.id, second.id].into()).await.unwrap();
    assert_eq!(states, [None, Some(State::Ready)]);
}

#[tokio::test]
async fn a_second_enqueuer_meets_the_first_when_it_commits() {
    let (bench, first, second, answer) = second("COMMIT").await;
    assert_eq!(answer, Enqueued::Duplicate { id: first.id, state: Some(State::Ready) });
    assert_eq!(bench.store.states([second.id].into()).await.unwrap(), [None]);
}

/// The holder runs to its end and other jobs do, while a transaction that met it stays open.
#[tokio::test]
async fn a_transaction_that_met_a_holder_holds_up_no_worker() {
    let bench = Bench::new().await;
    let holder = until_end();
    assert_eq!(enqueue(&bench, &holder).await, Enqueued::New);
    let client = begin(&bench).await;
    let met = format!("{{\"duplicate {} 2\"}}", holder.id);
    assert_eq!(accept(&client, &until_end(), "keep").await, met);
    let (jobs, _) = bench.claim_all().await;
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [holder.id]);
    bench.complete(&jobs).await;
    // In its snapshot per statement the transaction sees that, too.
    assert_eq!(accept(&client, &until_end(), "keep").await, "{stored}");
    client.batch_execute("COMMIT").await.unwrap();
}

/// A holder that an open transaction has changed is passed over until that ends; then the claim gets what counts.
#[tokio::test]
async fn a_replaced_holder_is_claimed_when_its_transaction_has_ended() {
    for (end, payload) in [("COMMIT", "new"), ("ROLLBACK", "old")] {
        let bench = Bench::new().await;
        let holder = unique("old", Unique::key("u").replace());
        assert_eq!(enqueue(&bench, &holder).await, Enqueued::New);
        let neighbours = bench.enqueue(2).await;
        let client = begin(&bench).await;
        let newer = unique("new", Unique::key("u").replace());
        assert_eq!(accept(&client, &newer, "replace").await, format!("{{\"replaced {}\"}}", holder.id));
        let (jobs, _) = bench.claim_all().await;
        assert_eq!(ids(&jobs), neighbours.iter().map(|job| job.id).collect::<Vec<_>>());
        bench.complete(&jobs).await;
        client.batch_execute(end).await.unwrap();
        let (jobs, _) = bench.claim_all().await;
        assert_eq!((ids(&jobs), &jobs[0].payload[..]), (vec![holder.id], payload.as_bytes()), "{end}");
        // What runs is not changed.
        let answer = enqueue(&bench, &unique("newest", Unique::key("u").replace())).await;
        assert_eq!(answer, Enqueued::Duplicate { id: holder.id, state: Some(State::Running) });
    }
}

fn ids(jobs: &[windlass_core::job::ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// An enqueue that waits for a holder which is being claimed meets it as one that runs, or finds the key free.
#[tokio::test]
async fn a_replacement_that_waits_for_a_claim_changes_nothing_that_runs() {
    for until_start in [false, true] {
        let bench = Bench::new().await;
        let key = || {
            if until_start { Unique::key("u").replace().until_start() } else { Unique::key("u").replace() }
        };
        let holder = unique("old", key());
        assert_eq!(enqueue(&bench, &holder).await, Enqueued::New);
        let client = begin(&bench).await;
        let claim = "WITH gone AS (DELETE FROM waiting RETURNING *), taken AS (
                INSERT INTO running (seq, lease, nonce, fence, claimed_at, due_at, backoff, attempt, stalls, ambiguous,
                    cancel, worker)
                SELECT seq, 1, 1, 1, 1, due_at, 0, 1, 0, 0, false, 'w' FROM gone
            ) SELECT moves('default', 2, 3, NULL, array_agg(seq)) FROM gone";
        client.batch_execute(claim).await.unwrap();
        let newer = unique("new", key());
        let call = tokio::spawn({
            let (store, newer) = (bench.store.clone(), newer.clone());
            async move { store.enqueue([newer].into()).await.unwrap()[0] }
        });
        bench.until_a_call_waits().await;
        client.batch_execute("COMMIT").await.unwrap();
        let expected = match until_start {
            true => Enqueued::New,
            false => Enqueued::Duplicate { id: holder.id, state: Some(State::Running) },
        };
        assert_eq!(call.await.unwrap(), expected);
        let record = bench.store.get([holder.id].into()).await.unwrap().remove(0).unwrap();
        assert_eq!(&record.payload[..], b"old");
    }
}

/// Who retries by hand waits for the transaction that has the key, and holds up no other job meanwhile.
#[tokio::test]
async fn a_retry_comes_back_for_a_key_that_is_being_taken() {
    let bench = Bench::new().await;
    let (first, other) = (until_end(), unique("", Unique::key("v")));
    for job in [&first, &other] {
        assert_eq!(enqueue(&bench, job).await, Enqueued::New);
    }
    let ids = [first.id, other.id];
    assert_eq!(bench.store.cancel(ids.into()).await.unwrap(), [Amended::Done(State::Cancelled); 2]);
    let (client, second) = (begin(&bench).await, until_end());
    assert_eq!(accept(&client, &second, "keep").await, "{stored}");
    let retry = tokio::spawn({
        let store = bench.store.clone();
        async move { store.retry(ids.into()).await.unwrap() }
    });
    while bench.store.states([other.id].into()).await.unwrap() != [Some(State::Ready)] {
        assert!(!retry.is_finished(), "it does not wait");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(retry.await.unwrap(), [Amended::Held(second.id), Amended::Done(State::Ready)]);
}

/// A job that ends within a transaction holds its key until the commit: the next one waits for that.
#[tokio::test]
async fn a_key_is_free_when_the_end_of_its_job_is_committed() {
    let bench = Bench::new().await;
    let holder = until_end();
    assert_eq!(enqueue(&bench, &holder).await, Enqueued::New);
    let (jobs, _) = bench.claim_all().await;
    let running = Enqueued::Duplicate { id: holder.id, state: Some(State::Running) };
    let moves = format!(
        "BEGIN; SELECT moves('default', 3, 4, NULL, ARRAY[seq]) FROM jobs WHERE id = '{}'",
        holder.id
    );
    let client = bench.client().await;
    client.batch_execute(&moves).await.unwrap();
    let call = tokio::spawn({
        let store = bench.store.clone();
        async move { store.enqueue([until_end()].into()).await.unwrap()[0] }
    });
    bench.until_a_call_waits().await;
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(call.await.unwrap(), running);
    bench.complete(&jobs).await;
    assert_eq!(bench.psql("SELECT count(*) FROM keys").trim(), "0");
    assert_eq!(enqueue(&bench, &until_end()).await, Enqueued::New);
}

/// A program of before keys retries by hand: it is refused where the job would run beside the holder of its key.
#[tokio::test]
async fn a_retry_by_an_earlier_program_takes_the_key_or_fails() {
    let bench = Bench::new().await;
    let first = until_end();
    assert_eq!(enqueue(&bench, &first).await, Enqueued::New);
    assert_eq!(bench.store.cancel([first.id].into()).await.unwrap(), [Amended::Done(State::Cancelled)]);
    let client = bench.client().await;
    let moves =
        format!("SELECT moves('default', 6, 2, NULL, ARRAY[seq]) FROM jobs WHERE id = '{}'", first.id);
    let second = until_end();
    assert_eq!(enqueue(&bench, &second).await, Enqueued::New);
    let refused = client.batch_execute(&moves).await.unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains(&second.id.to_string()), "{refused:?}");
    assert_eq!(bench.store.delete([second.id].into()).await.unwrap(), [Amended::Done(State::Ready)]);
    client.batch_execute(&moves).await.unwrap();
    assert!(enqueue(&bench, &until_end()).await.is_duplicate());
}
