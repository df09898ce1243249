//! Dead letters: found, grouped, sampled, sent back, edited and run again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass_core::fingerprint::Fingerprint;
use windlass_core::{JobId, State};
use windlass_worker::{Client, DeadFilter};

use crate::support::{Act, Stage, probe, scene, worker};

/// So many jobs that die of each of these errors.
async fn kill(client: &Client, stage: &Stage, errors: &[&str]) -> Vec<JobId> {
    let jobs = errors.iter().map(|error| probe(Act::Error((*error).to_owned())));
    let handles = client.enqueue_all(jobs).await.unwrap();
    worker(client, stage).drain().await.unwrap();
    handles.iter().map(windlass_worker::Handle::id).collect()
}

#[tokio::test]
async fn dead_jobs_are_found_by_what_they_died_of() {
    let (client, stage) = scene();
    let ids = kill(&client, &stage, &["order 1 refused", "order 22 refused", "timed out"]).await;
    client.enqueue(probe(Act::Succeed)).await.unwrap();
    worker(&client, &stage).drain().await.unwrap();
    let count = async |filter| client.dead(filter).count(1_000).await.unwrap();
    assert_eq!(count(DeadFilter::new()).await, (3, true));
    assert_eq!(count(DeadFilter::new().error("REFUSED")).await.0, 2);
    let fingerprint = Fingerprint::of("probe", "order 333 refused");
    assert_eq!(count(DeadFilter::new().fingerprint(fingerprint)).await.0, 2);
    assert_eq!(count(DeadFilter::new().kind("other").unwrap()).await.0, 0);
    assert_eq!(count(DeadFilter::new().field("act.Error", "timed out")).await.0, 1);
    assert_eq!(count(DeadFilter::new().field("act.Nothing", "timed out")).await.0, 0);
    let died = client.job(ids[0]).await.unwrap().unwrap().finished_at.unwrap();
    assert_eq!(count(DeadFilter::new().before(std::time::SystemTime::from(died))).await.0, 0);
    let groups = client.dead(DeadFilter::new()).groups(1_000).await.unwrap();
    let seen: Vec<_> = groups.groups.iter().map(|group| (group.count, group.pattern.as_str())).collect();
    assert_eq!((seen, groups.is_all), (vec![(2, "order # refused"), (1, "timed out")], true));
    let sample = client.dead(DeadFilter::new()).sample(2, 1_000).await.unwrap();
    assert_eq!(sample.len(), 2);
    assert!(client.dead(DeadFilter::new()).count(2).await.unwrap().1, "one page has them all");
}

#[tokio::test]
async fn a_replay_sends_each_job_back_once() {
    let (client, stage) = scene();
    let errors: Vec<_> = (0..30).map(|i| format!("{i} failed")).collect();
    let errors: Vec<_> = errors.iter().map(String::as_str).collect();
    kill(&client, &stage, &errors).await;
    let dead = client.dead(DeadFilter::new());
    let first = dead.replay().most(10).run().await.unwrap();
    assert_eq!((first.replayed, first.is_stopped), (10, false));
    // They die again, and are not sent back again by the same replay.
    worker(&client, &stage).drain().await.unwrap();
    let rest = dead.replay().begun_at(std::time::SystemTime::from(first.began)).run().await.unwrap();
    assert_eq!((rest.replayed, rest.began), (20, first.began));
    worker(&client, &stage).drain().await.unwrap();
    let again = dead.replay().begun_at(std::time::SystemTime::from(first.began)).run().await.unwrap();
    assert_eq!(again.replayed, 0);
    assert!(stage.starts().values().all(|starts| *starts == 6), "three attempts, twice");
}

#[tokio::test]
async fn a_replay_that_is_asked_to_stop_has_counted_all_that_it_sent_back() {
    let (client, stage) = scene();
    kill(&client, &stage, &["failed"; 250]).await;
    let dead = client.dead(DeadFilter::new());
    let stop = Arc::new(AtomicBool::new(false));
    let replay = dead.replay().stop_on(Arc::clone(&stop));
    let first = replay.run_with(|so_far| stop.store(so_far.replayed > 0, Ordering::Relaxed)).await.unwrap();
    assert!(first.is_interrupted && !first.is_stopped, "{first:?}");
    assert!((1..250).contains(&first.replayed), "{first:?}");
    assert_eq!(dead.count(1_000).await.unwrap(), (250 - first.replayed, true));
    let rest = dead.replay().begun_at(first.began).run().await.unwrap();
    assert_eq!((rest.replayed, rest.is_interrupted), (250 - first.replayed, false));
}

#[tokio::test]
async fn a_replay_stops_when_jobs_die_again() {
    let (client, stage) = scene();
    let errors = vec!["failed"; 300];
    kill(&client, &stage, &errors).await;
    let running = worker(&client, &stage).concurrency(8).start().unwrap();
    let summary = client.dead(DeadFilter::new()).replay().rate(200).stop_after(5).run().await.unwrap();
    assert!(summary.is_stopped && summary.died_again >= 5 && summary.replayed < 300, "{summary:?}");
    running.stop().await;
}

#[tokio::test]
async fn an_ended_job_runs_again_as_a_new_one() {
    let (client, stage) = scene();
    let done = client.enqueue(probe(Act::Succeed)).delay(Duration::ZERO).await.unwrap();
    assert_eq!(client.run_again(done.id()).await.unwrap(), None, "it has not ended");
    worker(&client, &stage).drain().await.unwrap();
    let again = client.run_again(done.id()).await.unwrap().unwrap();
    let record = client.job(again).await.unwrap().unwrap();
    assert_eq!(record.spec.meta["windlass.again_of"], done.id().to_string());
    assert_eq!((record.state, record.counters.attempt), (State::Ready, 0));

    let dead = kill(&client, &stage, &["bad input"]).await[0];
    let good = serde_json::to_vec(&probe(Act::Succeed)).unwrap();
    let edited = client.edit_again(dead, good.clone(), "ann", "a typo").await.unwrap().unwrap();
    assert!(client.edit_again(dead, good, "bob", "again").await.unwrap_err().is_conflict());
    worker(&client, &stage).drain().await.unwrap();
    assert_eq!(client.job(edited).await.unwrap().unwrap().state, State::Completed);
    let record = client.job(dead).await.unwrap().unwrap();
    let edit = client.edit_of(&record).await.unwrap().unwrap();
    assert_eq!((edit.new, edit.by.as_str(), edit.why.as_str()), (edited, "ann", "a typo"));
    assert_eq!(edit.before.unwrap().as_bytes(), &record.payload[..]);
}
