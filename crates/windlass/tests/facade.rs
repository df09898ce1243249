//! The facade: URLs that open, URLs that say what would be right, and one job through each store.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Client, Ctx, Job, JobError, JobState, Worker, testing};

#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Double {
    number: u32,
}

impl Job for Double {
    const KIND: &'static str = "double";
    type Output = u32;
}

async fn double(job: Double, ctx: Ctx, client: Client) -> Result<u32, JobError> {
    assert!(client.job(ctx.id()).await?.is_some());
    Ok(job.number * 2)
}

async fn round_trip(url: &str) {
    let client = windlass::open(url).await.expect(url);
    let handle = client.enqueue(Double { number: 21 }).await.expect("accepted");
    let worker = Worker::new(&client).handle(double).start().expect("set up well");
    let output = tokio::time::timeout(Duration::from_secs(30), handle.output()).await;
    assert_eq!(output.expect("in time").expect("completed"), 42);
    worker.stop().await;
}

#[tokio::test]
async fn memory_runs_a_job() {
    round_trip("memory:").await;
}

#[tokio::test]
#[cfg(feature = "sqlite")]
async fn sqlite_runs_a_job_from_every_form_of_url() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().display();
    for url in [format!("sqlite://{path}/a.db"), format!("sqlite:{path}/b.db"), "sqlite::memory:".into()] {
        round_trip(&url).await;
    }
}

#[tokio::test]
#[cfg(feature = "sqlite")]
async fn jobs_outlive_their_client() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = format!("sqlite://{}/jobs.db", folder.path().display());
    let id = {
        let client = windlass::open(&url).await.expect("opens");
        client.enqueue(Double { number: 1 }).await.expect("accepted").id()
    };
    let client = windlass::open(&url).await.expect("opens again");
    assert_eq!(client.handle::<Double>(id).state().await.expect("answers"), Some(JobState::Ready));
}

#[tokio::test]
#[cfg(feature = "postgres")]
async fn postgres_runs_jobs_of_programs_and_of_those_who_speak_sql() {
    use windlass_store_testkit::servers::PostgresServer;

    let server = PostgresServer::shared();
    let schema = format!("facade_{}", std::process::id());
    let separator = if server.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}schema={schema}", server.url());
    round_trip(&url).await;

    let client = windlass::open(&url).await.expect("opens");
    let worker = Worker::new(&client).handle(double).start().expect("set up well");
    let psql = |sql: String| async move {
        tokio::task::spawn_blocking(move || PostgresServer::shared().psql(&sql))
            .await
            .expect("psql does not panic")
    };
    psql(format!("BEGIN; SELECT {schema}.enqueue('double', '{{\"number\": 1}}'); ROLLBACK")).await;
    let id = psql(format!("SELECT {schema}.enqueue('double', '{{\"number\": 4}}')")).await;
    psql(format!("SELECT {schema}.wake()")).await;
    let handle = client.handle::<Double>(id.parse().expect("an id"));
    let output = tokio::time::timeout(Duration::from_secs(30), handle.output()).await;
    assert_eq!(output.expect("in time").expect("completed"), 8);
    worker.stop().await;
    let ended = psql(format!("SELECT count(*) FROM {schema}.ended WHERE state = 4")).await;
    assert_eq!(ended, "2", "what was rolled back did not run");
    drop(client);
    psql(format!("DROP SCHEMA {schema} CASCADE")).await;
}

#[tokio::test]
#[cfg(feature = "redis")]
async fn redis_runs_jobs_on_a_server_and_on_a_cluster() {
    use windlass_store_testkit::servers::{RedisCluster, RedisServer};

    for url in [RedisServer::shared().url(), RedisCluster::shared().url()] {
        let separator = if url.contains('?') { '&' } else { '?' };
        round_trip(&format!("{url}{separator}namespace=facade-{}", std::process::id())).await;
    }
}

#[tokio::test]
async fn unknown_urls_say_what_is_supported() {
    for (url, wanted) in [
        ("mysql://user:secret@host/jobs", "no store is called \"mysql\": memory:"),
        ("host/jobs?password=secret", "this is not a store URL: memory:"),
        ("postgress://user:secret@host/jobs", "no store is called \"postgress\": memory:"),
        ("reddis://:secret@localhost", "no store is called \"reddis\": memory:"),
        ("jobs.db", "\"jobs.db\" is not a store URL: memory:"),
        ("", "\"\" is not a store URL: memory:"),
    ] {
        let error = windlass::open(url).await.expect_err(url).to_string();
        assert!(error.starts_with(wanted), "{url}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[tokio::test]
#[cfg(not(feature = "sqlite"))]
async fn a_feature_that_is_off_is_named() {
    let error = windlass::open("sqlite://jobs.db").await.expect_err("no such store here").to_string();
    assert!(error.contains("feature `sqlite`"), "{error}");
}

#[tokio::test]
#[cfg(not(feature = "postgres"))]
async fn postgres_that_is_off_is_named() {
    let error =
        windlass::open("postgres://localhost/jobs").await.expect_err("no such store here").to_string();
    assert!(error.contains("feature `postgres`"), "{error}");
}

#[tokio::test]
#[cfg(not(feature = "redis"))]
async fn redis_that_is_off_is_named() {
    let error = windlass::open("rediss://localhost").await.expect_err("no such store here").to_string();
    assert!(error.contains("feature `redis`"), "{error}");
}

#[tokio::test]
async fn tests_can_ask_what_was_enqueued() {
    let (client, clock) = testing::client();
    for number in 0..1_500 {
        client.enqueue(Double { number }).delay(Duration::from_secs(60)).await.expect("accepted");
    }
    let jobs = testing::enqueued::<Double>(&client).await;
    assert_eq!(
        (jobs.len(), &jobs[0], &jobs[1_499]),
        (1_500, &Double { number: 0 }, &Double { number: 1_499 })
    );
    testing::assert_enqueued::<Double>(&client, |job| job.number == 77).await;
    clock.advance(Duration::from_secs(60));
    let drained = Worker::new(&client).handle(double).drain().await.expect("drains");
    assert_eq!(drained.completed, 1_500);
    assert!(testing::enqueued::<Double>(&client).await.is_empty());
}

#[tokio::test]
#[should_panic(expected = "none of 1 enqueued jobs of kind `double` is the wanted one")]
async fn asserting_what_was_not_enqueued_fails() {
    let (client, _clock) = testing::client();
    client.enqueue(Double { number: 1 }).await.expect("accepted");
    testing::assert_enqueued::<Double>(&client, |job| job.number == 2).await;
}

/// What the root of the crate exports is what a newcomer reads first; everything else is under `worker` and `core`. What
/// features add is not counted.
#[test]
fn the_root_has_fewer_than_forty_names() {
    let source = include_str!("../src/lib.rs");
    let lines: Vec<&str> = source.lines().filter(|line| !line.starts_with("//")).collect();
    let is_always_there = |place: &usize| *place == 0 || !lines[place - 1].starts_with("#[cfg(feature");
    let code: String =
        (0..lines.len()).filter(is_always_there).map(|place| lines[place]).collect::<Vec<_>>().join(" ");
    let names: Vec<_> = code
        .split(';')
        .filter_map(|item| item.split_once("pub use ").or_else(|| item.split_once("pub mod ")))
        .flat_map(|(_, names)| names.rsplit("::{").next().unwrap_or(names).split(','))
        .map(|name| name.trim().trim_end_matches('}'))
        .filter(|name| !name.is_empty())
        .collect();
    assert!(names.contains(&"Worker") && names.contains(&"testing"), "{names:?}");
    assert!(names.len() < 40, "{} names: {names:?}", names.len());
}
