//! Dead jobs that are looked after, on every store: sent on, sent back by rules, found by an index, followed when they expired.
#![cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::core::fingerprint::Fingerprint;
use windlass::core::job::{FORWARD_ERROR, FORWARD_OF, OnDead};
use windlass::core::retry::Policy;
use windlass::core::store::{Filter, Seen};
use windlass::core::{Name, Options};
use windlass::worker::{DeadFilter, DeadRule, Redriver};
use windlass::{Client, Job, JobError, JobId, JobState, Worker};
use windlass_store_testkit::servers::{PostgresServer, RedisServer};

#[derive(Serialize, Deserialize)]
struct Fail {
    why: String,
}

impl Job for Fail {
    const KIND: &'static str = "fail";
    type Output = ();

    fn options() -> Options {
        Options::new().retry(Policy::never())
    }
}

async fn fail(job: Fail) -> Result<(), JobError> {
    Err(JobError::new(job.why))
}

async fn run_all(client: &Client) {
    Worker::new(client).handle(fail).drain().await.unwrap();
}

/// One that holds nothing back: nothing is on its way here.
fn redriver(client: &Client) -> Redriver {
    Redriver::new(Arc::clone(client.store())).hold_back(Duration::ZERO)
}

async fn in_queue(client: &Client, queue: &str) -> Vec<windlass::JobRecord> {
    let filter = Filter { queue: Some(Name::new(queue).unwrap()), ..Filter::default() };
    client.list(&filter, None, 100).await.unwrap().jobs
}

async fn bury(client: &Client, why: &str) -> JobId {
    let id = client.enqueue(Fail { why: why.into() }).await.unwrap().id();
    run_all(client).await;
    id
}

async fn all_of_it(url: &str) {
    let client = windlass::open(url).await.expect(url);
    rules_stop(&client).await;
    deaths_are_sent_on(&client).await;
    the_index_is_complete(&client).await;
    what_expires_is_followed(&client).await;
    what_was_sent_back_is_left_alone(&client).await;
}

async fn rules_stop(client: &Client) {
    let id = bury(client, "timed out after 3s").await;
    let rule = DeadRule::new("default", "outages").unwrap().error("timed out").after(Duration::ZERO).most(2);
    client.set_dead_rule(&rule).await.unwrap();
    let mut sent_back = 0;
    for _ in 0..5 {
        sent_back += redriver(client).run_once().await.unwrap().redriven;
        run_all(client).await;
    }
    let job = client.job(id).await.unwrap().unwrap();
    assert_eq!((sent_back, job.fence, job.state), (2, 3, JobState::Dead));
    assert_eq!(client.redriven(&job).await.unwrap().unwrap().count, 2);
    assert!(client.remove_dead_rule("default", "outages").await.unwrap());
}

async fn deaths_are_sent_on(client: &Client) {
    let id = client.enqueue(Fail { why: "gone".into() }).forward_dead("letters").await.unwrap().id();
    run_all(client).await;
    // Between queues of a store that keeps them apart it is on its way for a moment.
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while in_queue(client, "letters").await.is_empty() {
            client.store().tidy(100).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.expect("it comes");
    let sent_on = in_queue(client, "letters").await;
    let meta = &sent_on[0].spec.meta;
    assert_eq!((meta[FORWARD_OF].as_str(), meta[FORWARD_ERROR].as_str()), (id.to_string().as_str(), "gone"));
    assert_eq!(sent_on[0].payload, client.job(id).await.unwrap().unwrap().payload);
}

async fn the_index_is_complete(client: &Client) {
    let refused = Fingerprint::of("fail", "order 1 refused");
    let letters = client.dead(DeadFilter::new().queue("default").unwrap().fingerprint(refused));
    let mut ids = vec![bury(client, "order 1 refused").await, bury(client, "order 22 refused").await];
    client.index_dead("default").await.unwrap();
    assert_eq!(letters.indexed(None, 10).await.unwrap(), None);
    redriver(client).run_once().await.unwrap();
    ids.push(bury(client, "order 333 refused").await);
    let page = letters.indexed(None, 10).await.unwrap().unwrap();
    let found: Vec<_> = page.letters.iter().map(|letter| letter.job.id).collect();
    ids.reverse();
    assert_eq!(found, ids, "the newest death first, also what died since the round");
    assert!(page.looked <= 3, "not at the others");
    client.store().retry([ids[2]].into()).await.unwrap();
    assert_eq!(letters.indexed(None, 10).await.unwrap().unwrap().letters.len(), 2);
    redriver(client).run_once().await.unwrap();
    assert!(client.forget_dead_index("default").await.unwrap());
    run_all(client).await;
}

async fn what_expires_is_followed(client: &Client) {
    let hook = OnDead::kind("alert").unwrap().queue("ops").unwrap();
    let late = client.enqueue(Fail { why: String::new() }).delay(Duration::from_secs(60));
    let late = late.expires_in(Duration::from_millis(1)).on_dead(hook).await.unwrap();
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while late.state().await.unwrap() != Some(JobState::Dead) {
            client.store().promote(100).await.unwrap();
        }
    });
    waited.await.expect("it expires");
    assert_eq!(redriver(client).run_once().await.unwrap().followed, 1);
    assert_eq!(redriver(client).run_once().await.unwrap().followed, 0);
    assert_eq!(in_queue(client, "ops").await.len(), 1);
}

async fn what_was_sent_back_is_left_alone(client: &Client) {
    let id = bury(client, "again").await;
    let seen = Seen::of(&client.job(id).await.unwrap().unwrap());
    client.store().retry([id].into()).await.unwrap();
    client.store().delete_seen([seen].into()).await.unwrap();
    run_all(client).await;
    client.store().delete_seen([seen].into()).await.unwrap();
    assert_eq!(client.job(id).await.unwrap().unwrap().fence, 2, "it is there, and has run");
}

#[tokio::test]
async fn on_memory() {
    all_of_it("memory:").await;
}

#[tokio::test]
async fn on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    all_of_it(&format!("sqlite://{}/jobs.db", folder.path().display())).await;
}

#[tokio::test]
async fn on_postgres() {
    let server = PostgresServer::shared();
    let schema = format!("dead_{}", std::process::id());
    let url = server.url();
    let mark = if url.contains('?') { '&' } else { '?' };
    all_of_it(&format!("{url}{mark}schema={schema}")).await;
    server.psql(&format!("DROP SCHEMA {schema} CASCADE"));
}

#[tokio::test]
async fn on_redis() {
    let url = RedisServer::shared().url();
    let mark = if url.contains('?') { '&' } else { '?' };
    all_of_it(&format!("{url}{mark}namespace=dead-{}", std::process::id())).await;
}
