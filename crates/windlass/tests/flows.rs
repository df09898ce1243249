//! Flows on every store, over two queues and three workers: outputs, fan-in, failures, callbacks and jobs that add jobs.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::flow::{OnFailure, Status};
use windlass::{Client, Ctx, Job, JobError, JobState, Options, Retry, Running, Worker};

/// Gives back its number and the numbers of all that it has waited for.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Add {
    number: u64,
}

impl Job for Add {
    const KIND: &'static str = "add";
    type Output = u64;
}

/// Splits a number into parts, and adds them up again.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Split {
    parts: u64,
}

impl Job for Split {
    const KIND: &'static str = "split";
    type Output = u64;
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Fail;

impl Job for Fail {
    const KIND: &'static str = "fail";
    type Output = ();

    fn options() -> Options {
        Options::new().retry(Retry::never())
    }
}

async fn add(job: Add, ctx: Ctx) -> Result<u64, JobError> {
    Ok(job.number + ctx.outputs::<Add>().await?.into_iter().sum::<u64>())
}

async fn split(job: Split, ctx: Ctx) -> Result<u64, JobError> {
    let parts = ctx.gather("parts", |flow| {
        flow.at_most(5);
        let queue = |number: u64| if number.is_multiple_of(2) { "one" } else { "two" };
        flow.add_all((0..job.parts).map(|number| Add { number }.with(Options::new().queue(queue(number)))));
    });
    Ok(parts.await?.outputs::<Add>()?.into_iter().sum())
}

async fn fail(_job: Fail) -> Result<(), JobError> {
    Err(JobError::new("as told"))
}

fn worker(client: &Client) -> Running {
    let worker = Worker::new(client)
        .queue("one", 8)
        .queue("two", 8)
        .handle(add)
        .handle(split)
        .handle(fail)
        .lease_unchecked(Duration::from_secs(5))
        .reap_interval(Duration::from_millis(200));
    worker.start().expect("set up well")
}

fn add_in(queue: &str, number: u64) -> windlass::worker::With<Add> {
    Add { number }.with(Options::new().queue(queue))
}

async fn outputs_go_from_queue_to_queue(client: &Client) {
    let mut flow = client.flow("diamond");
    let top = flow.add(add_in("one", 1));
    let (left, right) = (flow.add_after(top, add_in("two", 10)), flow.add_after(top, add_in("one", 100)));
    let bottom = flow.add_after((left, right), add_in("two", 1_000));
    let told = flow.on_success(add_in("one", 5));
    let flow = flow.submit().await.expect("stored");
    let view = flow.ended().await.expect("answers");
    assert!(view.tally.is_success(), "{view:?}");
    assert_eq!(client.handle::<Add>(bottom.id()).output().await.expect("completed"), 1_112);
    // It gets what all of them gave back.
    assert_eq!(client.handle::<Add>(told).output().await.expect("completed"), 1_112 + 5 + 1 + 11 + 101);
}

async fn a_wide_fan_in_comes_together(client: &Client) {
    let rounds = std::env::var("WINDLASS_FAN_IN_ROUNDS").ok();
    for round in 0..rounds.map_or(3, |rounds| rounds.parse().expect("a whole number")) {
        let mut flow = client.flow(format!("wide {round}"));
        let parts = flow.add_all((0..1_000).map(|number| add_in("one", number)));
        let sum = flow.add_after(&parts, add_in("two", 0));
        let flow = flow.submit().await.expect("stored");
        flow.ended().await.expect("answers");
        assert_eq!(client.handle::<Add>(sum.id()).output().await.expect("completed"), 499_500);
    }
}

async fn failures_mean_what_is_said(client: &Client) {
    let mut flow = client.flow("failures");
    let bad = flow.add(Fail.with(Options::new().queue("one")));
    flow.add_after(bad, add_in("two", 1));
    flow.add_after(bad.on_failure(OnFailure::Run), add_in("two", 2));
    let skipped = flow.add_after(bad.on_failure(OnFailure::Skip), add_in("one", 3));
    flow.add_after(skipped, add_in("one", 4));
    let told = flow.on_first_failure(add_in("two", 5));
    let never = flow.on_success(add_in("two", 6));
    let flow = flow.submit().await.expect("stored");
    let view = flow.ended().await.expect("answers");
    let statuses: Vec<Status> = view.nodes.iter().map(|node| node.status).collect();
    let wanted = [Status::Dead, Status::Failed, Status::Yielded, Status::Skipped, Status::Yielded];
    assert_eq!(statuses[..5], wanted, "{view:?}");
    let states = client.store().states([told, never].into()).await.expect("answers");
    assert_eq!(states, [Some(JobState::Completed), Some(JobState::Cancelled)]);
}

async fn a_job_waits_for_those_that_it_adds(client: &Client) {
    for parts in [1, 200, 1_200] {
        let handle = client.enqueue(Split { parts }).queue("two").await.expect("stored");
        let output = handle.output().await.expect("completed");
        assert_eq!(output, parts * (parts - 1) / 2, "{parts} parts");
    }
}

async fn nothing_is_left(client: &Client) {
    for queue in ["one", "two"] {
        let open = client.queue(queue).expect("a name").counts().await.expect("answers").open();
        assert_eq!(open, 0, "of {queue}");
        let notes = client.records(queue).expect("a name").list("flow-end/", None, 9).await.expect("answers");
        assert_eq!(notes.records, [], "of {queue}");
    }
}

async fn flows_hold(url: &str) {
    let clients = [windlass::open(url).await.expect("opens"), windlass::open(url).await.expect("opens")];
    let workers: Vec<Running> = clients.iter().map(worker).collect();
    let client = &clients[0];
    let all = async {
        Box::pin(outputs_go_from_queue_to_queue(client)).await;
        Box::pin(failures_mean_what_is_said(client)).await;
        Box::pin(a_job_waits_for_those_that_it_adds(client)).await;
        Box::pin(a_wide_fan_in_comes_together(client)).await;
    };
    tokio::time::timeout(Duration::from_secs(300), Box::pin(all)).await.expect("no flow is stuck");
    // What removes the last notes may still be under way.
    for worker in workers {
        worker.stop().await;
    }
    for client in &clients {
        windlass::worker::FlowKeeper::new(client).run_once().await.expect("answers");
        let keeper = windlass::worker::FlowKeeper::new(client);
        for _ in 0..2 {
            keeper.run_once().await.expect("answers");
        }
    }
    nothing_is_left(client).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(feature = "sqlite")]
async fn on_sqlite() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    flows_hold(&format!("sqlite://{}/jobs.db", folder.path().display())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(feature = "postgres")]
async fn on_postgres() {
    use windlass_store_testkit::servers::PostgresServer;
    let url = PostgresServer::shared().url();
    let separator = if url.contains('?') { '&' } else { '?' };
    flows_hold(&format!("{url}{separator}schema=flows_{}", std::process::id())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(feature = "redis")]
async fn on_redis_and_on_a_cluster() {
    use windlass_store_testkit::servers::{RedisCluster, RedisServer};
    for url in [RedisServer::shared().url(), RedisCluster::shared().url()] {
        let separator = if url.contains('?') { '&' } else { '?' };
        flows_hold(&format!("{url}{separator}namespace=flows-{}", std::process::id())).await;
    }
}
