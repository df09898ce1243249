//! Jobs that an open transaction has locked, as that of a handler which completes its job, and their neighbours.

use std::time::Duration;

use windlass_core::store::{Amended, Jobs, Leases, Settled};
use windlass_core::{JobId, LeaseId, State, StoreErrorKind};
use windlass_store_postgres::PostgresOptions;

use super::bench::{Bench, lock, set_aside, url};

#[tokio::test]
async fn however_many_jobs_are_locked_the_reaper_gets_the_free_ones() {
    let bench = Bench::new().await;
    bench.enqueue(30).await;
    let (jobs, _) = bench.claim_all().await;
    bench.store.close(bench.lease).await.unwrap();
    let locked: Vec<JobId> = jobs[..20].iter().map(|job| job.id).collect();
    let client = bench.client().await;
    lock(&client, "running", &locked).await;
    let mut reaped = Vec::new();
    for _ in 0..2 {
        // Fewer than are locked.
        let lost = bench.store.lost(5).await.unwrap();
        assert_eq!(lost.len(), 5);
        let settlements: Vec<_> = lost.iter().map(set_aside).collect();
        assert_eq!(
            bench.store.reap(settlements.as_slice().into()).await.unwrap(),
            [Settled::Applied(State::Ready); 5]
        );
        reaped.extend(lost.iter().map(|job| job.id));
    }
    assert!(reaped.iter().all(|id| !locked.contains(id)));
    assert_eq!(bench.store.lost(5).await.unwrap(), [], "what is left is locked");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(bench.store.lost(100).await.unwrap().len(), 20);
}

#[tokio::test]
async fn a_locked_job_does_not_hold_up_its_neighbours() {
    let bench = Bench::new().await;
    let jobs = bench.enqueue(5).await;
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    for (verb, before) in [("cancel", State::Ready), ("retry", State::Cancelled), ("delete", State::Ready)] {
        let client = bench.client().await;
        lock(&client, if before == State::Ready { "waiting" } else { "ended" }, &ids[2..3]).await;
        let (store, asked) = (bench.store.clone(), ids.clone());
        let call = tokio::spawn(async move {
            match verb {
                "cancel" => store.cancel(asked.as_slice().into()).await,
                "retry" => store.retry(asked.as_slice().into()).await,
                _ => store.delete(asked.as_slice().into()).await,
            }
        });
        // The others are done while the locked one still waits.
        let done = |records: Vec<Option<windlass_core::JobRecord>>| {
            records.iter().filter(|record| record.as_ref().is_none_or(|job| job.state != before)).count()
        };
        while done(bench.store.get(ids.as_slice().into()).await.unwrap()) < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!call.is_finished(), "{verb}: there is no answer before the lock is gone");
        client.batch_execute("COMMIT").await.unwrap();
        let state = if verb == "cancel" { State::Cancelled } else { State::Ready };
        assert_eq!(call.await.unwrap().unwrap(), [Amended::Done(state); 5], "{verb}");
    }
    assert_eq!(bench.psql("SELECT count(*) FROM jobs"), "0");
}

#[tokio::test]
async fn a_running_job_that_is_locked_is_asked_to_stop_when_it_is_free() {
    let bench = Bench::new().await;
    bench.enqueue(2).await;
    let (jobs, _) = bench.claim_all().await;
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    let client = bench.client().await;
    lock(&client, "running", &ids[..1]).await;
    let (store, asked) = (bench.store.clone(), ids.clone());
    let call = tokio::spawn(async move { store.cancel(asked.as_slice().into()).await });
    while !bench.store.get((&ids[1..]).into()).await.unwrap()[0].as_ref().unwrap().cancel_requested {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // As a handler that completes its job in its own transaction.
    let end = "DELETE FROM running WHERE seq = (SELECT seq FROM jobs WHERE id = $1::text::uuid)";
    client.execute(end, &[&ids[0].to_string()]).await.unwrap();
    let ended = "INSERT INTO ended (seq, finished_at, due_at, fence, backoff, attempt, stalls, ambiguous, state, queue)
        SELECT seq, 1, 1, 1, 0, 1, 0, 0, 4, 'default' FROM jobs WHERE id = $1::text::uuid";
    client.execute(ended, &[&ids[0].to_string()]).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    let answers = call.await.unwrap().unwrap();
    assert_eq!(answers, [Amended::Refused(State::Completed), Amended::Done(State::Running)]);
}

#[tokio::test]
async fn a_job_that_stays_locked_is_given_up_and_named() {
    let schema = format!("locked_{}_{:x}", std::process::id(), fastrand::u32(..));
    let options = PostgresOptions::parse(url()).unwrap().schema(&schema).unwrap();
    let bench = Bench::open(schema, options.lock_timeout(Duration::from_millis(300)).unwrap()).await;
    let jobs = bench.enqueue(2).await;
    let client = bench.client().await;
    lock(&client, "waiting", &[jobs[0].id]).await;
    let alone = bench.store.cancel([jobs[0].id].into()).await.unwrap_err();
    assert_eq!(alone.kind(), StoreErrorKind::Unavailable, "nothing was changed");
    assert!(alone.to_string().contains(&jobs[0].id.to_string()), "{alone}");
    // Its neighbour is cancelled, so the answer must not say that nothing was changed.
    let both = bench.store.cancel([jobs[0].id, jobs[1].id].into()).await.unwrap_err();
    assert_eq!(both.kind(), StoreErrorKind::Unknown, "{both}");
    let states = bench.store.get([jobs[0].id, jobs[1].id].into()).await.unwrap();
    let states: Vec<_> = states.iter().map(|job| job.as_ref().unwrap().state).collect();
    assert_eq!(states, [State::Ready, State::Cancelled]);
}

#[tokio::test]
async fn what_a_claim_took_is_found_by_its_nonce_also_while_the_claim_is_on_its_way() {
    let bench = Bench::new().await;
    bench.enqueue(3).await;
    let other = LeaseId::new();
    bench.open_lease(other).await;
    let request = bench.request(2);
    let queues = [super::bench::name("default")];
    // The claim has taken its jobs and not ended yet.
    let client = bench.client().await;
    client.batch_execute("BEGIN; LOCK TABLE moved IN EXCLUSIVE MODE").await.unwrap();
    let (store, asked) = (bench.store.clone(), request.clone());
    let claim = tokio::spawn(async move { store.claim(asked.clone()).await });
    bench.until_a_call_waits().await;
    let (store, nonce, lease) = (bench.store.clone(), request.nonce, bench.lease);
    let asked = queues.clone();
    let held = tokio::spawn(async move { store.held(lease, nonce, asked.clone().into(), 100).await });
    client.batch_execute("COMMIT").await.unwrap();
    claim.await.unwrap().unwrap();
    let held = held.await.unwrap().unwrap();
    assert_eq!(held.len(), 2);
    assert!(held.iter().all(|job| !job.has_begun && job.unreadable.is_none()));
    assert_eq!(bench.store.held(other, nonce, queues.clone().into(), 100).await.unwrap(), []);
    assert_eq!(bench.store.held(lease, nonce ^ 1, queues.clone().into(), 100).await.unwrap(), []);
    let settlements: Vec<_> = held.iter().map(set_aside).collect();
    assert_eq!(
        bench.store.settle(settlements.as_slice().into()).await.unwrap(),
        [Settled::Applied(State::Ready); 2]
    );
    let (jobs, _) = bench.claim_all().await;
    assert_eq!(jobs.len(), 3);
    assert!(jobs.iter().all(|job| job.facts.counters.attempt == 1 && job.facts.counters.stalls == 0));
}
