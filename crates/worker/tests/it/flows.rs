//! Flows: jobs start when those that they wait for have ended, whatever becomes of workers and movers.

mod faults;
mod gather;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::flow::{FlowInvalid, MEMBER, OnFailure, Status};
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::unique::Unique;
use windlass_core::{JobId, Options, State};
use windlass_store_memory::MemoryStore;
use windlass_worker::{Client, Ctx, Error, FlowKeeper, FlowNode, FlowView, Job, JobError, Moved, Worker};

/// A job that does as it is told, and gives back its name and what it got.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) fails: bool,
}

impl Job for Part {
    const KIND: &'static str = "part";
    type Output = String;
}

pub(crate) fn part(name: impl Into<String>) -> Part {
    Part { name: name.into(), fails: false }
}

pub(crate) fn failing(name: impl Into<String>) -> Part {
    Part { name: name.into(), fails: true }
}

pub(crate) async fn run(job: Part, ctx: Ctx) -> Result<String, JobError> {
    if job.fails {
        return Err(JobError::fail("as told"));
    }
    let got = ctx.outputs::<Part>().await?;
    Ok(if got.is_empty() { job.name } else { format!("{}({})", job.name, got.join(",")) })
}

pub(crate) fn scene() -> Client {
    Client::new(Arc::new(MemoryStore::new()))
}

pub(crate) async fn work(client: &Client) -> u64 {
    let worker = Worker::new(client).queue("default", 4).queue("other", 4).handle(run);
    worker.drain().await.unwrap().total()
}

pub(crate) fn statuses(view: &FlowView) -> Vec<&'static str> {
    view.nodes.iter().map(|node| node.status.as_str()).collect()
}

#[tokio::test]
async fn a_job_gets_what_those_before_it_gave_back() {
    let client = scene();
    let mut flow = client.flow("diamond");
    let top = flow.add(part("top"));
    let (left, right) = (flow.add_after(top, part("left")), flow.add_after(top, part("right")));
    let bottom = flow.add_after((left, right), part("bottom"));
    let flow = flow.submit().await.unwrap();
    let states = client.store().states([top.id(), bottom.id()].into()).await.unwrap();
    assert_eq!(states, [Some(State::Ready), Some(State::Blocked)]);
    assert_eq!(work(&client).await, 4);
    let output = client.handle::<Part>(bottom.id()).output().await.unwrap();
    assert_eq!(output, "bottom(left(top),right(top))");
    let view = flow.view().await.unwrap();
    assert!(view.is_over && view.tally.is_success(), "{view:?}");
    let totals = client.records("default").unwrap().totals().await.unwrap();
    assert_eq!(totals.count, 1, "the flow that is over, and nothing else");
}

#[tokio::test]
async fn jobs_may_be_in_other_queues_and_keep_nothing() {
    let client = scene();
    let retention = Retention { completed: Keep::NONE, ..Retention::default() };
    client.define_queue("other", QueueConfig { retention, ..QueueConfig::default() }).await.unwrap();
    let mut flow = client.flow("far");
    let near = flow.add(part("near"));
    let far = flow.add_after(near, part("far").with(Options::new().queue("other")));
    let last = flow.add_after(far, part("last"));
    let flow = flow.submit().await.unwrap();
    work(&client).await;
    assert_eq!(client.handle::<Part>(last.id()).output().await.unwrap(), "last(far(near))");
    assert!(flow.ended().await.unwrap().tally.is_success());
}

#[tokio::test]
async fn a_failure_means_what_its_edge_says() {
    for (policy, wanted) in [
        (OnFailure::Fail, ["dead", "failed", "failed", "completed"]),
        (OnFailure::Run, ["dead", "completed", "completed", "completed"]),
        (OnFailure::Skip, ["dead", "skipped", "completed", "completed"]),
        (OnFailure::CancelRest, ["dead", "cancelled", "cancelled", "completed"]),
    ] {
        let client = scene();
        let mut flow = client.flow("policy");
        let first = flow.add(failing("first"));
        let second = flow.add_after(first.on_failure(policy), part("second"));
        flow.add_after(second, part("third"));
        flow.add(part("beside"));
        let flow = flow.submit().await.unwrap();
        work(&client).await;
        let view = flow.view().await.unwrap();
        assert_eq!(statuses(&view), wanted, "{policy:?}");
        assert!(view.is_over);
        let open = client.queue("default").unwrap().counts().await.unwrap().open();
        assert_eq!(open, 0, "none waits for ever");
    }
}

#[tokio::test]
async fn callbacks_come_once_also_for_an_empty_flow() {
    for (fails, wanted) in [(false, ["on end", "on success"]), (true, ["on end", "on first failure"])] {
        for jobs in [0, 3] {
            let client = scene();
            let mut flow = client.flow("callbacks");
            for job in 0..jobs {
                flow.add(if fails { failing(job.to_string()) } else { part(job.to_string()) });
            }
            let ids = [
                flow.on_end(part("on end")),
                flow.on_success(part("on success")),
                flow.on_first_failure(part("on first failure")),
            ];
            let flow = flow.submit().await.unwrap();
            work(&client).await;
            let mut ran = Vec::new();
            for id in ids {
                let Some(job) = client.job(id).await.unwrap() else { continue };
                if job.state == State::Completed {
                    ran.push(serde_json::from_slice::<Part>(&job.payload).unwrap().name);
                    assert_eq!(job.fence, 1);
                }
            }
            ran.sort();
            let wanted = if jobs == 0 { ["on end", "on success"] } else { wanted };
            assert_eq!(ran, wanted, "{jobs} jobs");
            assert!(flow.view().await.unwrap().is_over);
        }
    }
}

#[tokio::test]
async fn a_flow_that_makes_no_sense_is_refused() {
    let client = scene();
    let mut other = client.flow("other");
    other.add_all([part("a"), part("b")]);
    let far = other.add(part("c"));
    let mut flow = client.flow("wrong");
    flow.add_after(far, part("alone"));
    let error = flow.submit().await.unwrap_err();
    assert!(matches!(error, Error::Flow(FlowInvalid::Foreign { node: 0 })), "{error}");
    let mut flow = client.flow("late");
    flow.add(part("x").with(Options::new().delay(Duration::from_secs(1))));
    assert!(matches!(flow.submit().await.unwrap_err(), Error::Flow(FlowInvalid::Due { node: 0 })));
    let mut flow = client.flow("unique");
    flow.add(part("x").with(Options::new().unique(Unique::key("x"))));
    assert!(matches!(flow.submit().await.unwrap_err(), Error::Flow(FlowInvalid::Unique { node: 0 })));
    let mut flow = client.flow("");
    flow.add(part("x"));
    assert!(matches!(flow.submit().await.unwrap_err(), Error::Flow(FlowInvalid::Name { .. })));
    let mut flow = client.flow("none");
    flow.at_most(0).add(part("x"));
    assert!(matches!(flow.submit().await.unwrap_err(), Error::Flow(FlowInvalid::NoneAlive)));
    assert_eq!(client.queues(None, 9).await.unwrap().len(), 0, "nothing was stored");
}

#[tokio::test]
async fn a_flow_that_is_submitted_again_is_there_once() {
    let client = scene();
    let submit = async |parts: u32| {
        let id = JobId::from_key("import", "monday");
        let mut flow = client.flow("import").with_id(id);
        let all = flow.add_all((0..parts).map(|n| part(n.to_string())));
        flow.add_after(&all, part("last"));
        flow.submit().await.unwrap()
    };
    let first = submit(3).await;
    assert_eq!(submit(3).await.id(), first.id());
    assert_eq!(work(&client).await, 4);
    assert!(submit(3).await.view().await.unwrap().is_over);
    assert_eq!(work(&client).await, 0);
}

#[tokio::test]
async fn only_so_many_are_alive() {
    let client = scene();
    let mut flow = client.flow("few");
    let ids: Vec<_> = flow.add_all((0..10).map(|n| part(n.to_string()))).iter().map(FlowNode::id).collect();
    flow.at_most(3);
    let flow = flow.submit().await.unwrap();
    let states = client.store().states(ids.into()).await.unwrap();
    assert_eq!(states.iter().filter(|state| **state == Some(State::Ready)).count(), 3);
    assert_eq!(work(&client).await, 10);
    assert!(flow.view().await.unwrap().tally.is_success());
}

#[tokio::test]
async fn a_large_flow_begins_when_all_of_it_is_stored() {
    let client = scene();
    let mut flow = client.flow("large");
    let parts = flow.add_all((0..3_000).map(|n| part(n.to_string())));
    let last = flow.add_after(&parts, part("last"));
    let flow = flow.submit().await.unwrap();
    assert_eq!(work(&client).await, 3_001);
    let output = client.handle::<Part>(last.id()).output().await.unwrap();
    assert_eq!(output.split(',').count(), 3_000);
    assert!(output.starts_with("last(0,1,2,"), "in the order of the flow");
    assert!(flow.view().await.unwrap().tally.is_success());
    let totals = client.records("default").unwrap().totals().await.unwrap();
    assert!(totals.count < 5, "outputs and notes are gone: {totals:?}");
}

#[tokio::test]
async fn what_is_split_is_there_once_and_in_order() {
    let client = scene();
    for (count, size, wanted) in
        [(0, 3, vec![]), (7, 3, vec!["0..3", "3..6", "6..7"]), (2, 0, vec!["0..1", "1..2"])]
    {
        let mut flow = client.flow("split");
        let ranges = flow.add_ranges(0..count, size, |range| part(format!("{range:?}")));
        let chunk = |items: Vec<u64>| part(format!("{}..{}", items[0], items[items.len() - 1] + 1));
        let chunks = flow.add_chunks(0..count, size as usize, chunk);
        let told = flow.on_end(part("all"));
        flow.submit().await.unwrap();
        work(&client).await;
        for nodes in [ranges, chunks] {
            let mut outputs = Vec::new();
            for node in nodes {
                outputs.push(client.handle::<Part>(node.id()).output().await.unwrap());
            }
            assert_eq!(outputs, wanted);
        }
        let twice = wanted.iter().chain(&wanted).copied().collect::<Vec<_>>().join(",");
        let told = client.handle::<Part>(told).output().await.unwrap();
        assert_eq!(told, if twice.is_empty() { "all".to_owned() } else { format!("all({twice})") });
    }
    let mut endless = client.flow("endless");
    endless.add_chunks(std::iter::repeat(0_u8), 1, |_items| part("x"));
    assert!(matches!(endless.submit().await.unwrap_err(), Error::Flow(FlowInvalid::Nodes { .. })));
    let mut endless = client.flow("endless");
    endless.add_ranges(5..u64::MAX, 1, |_range| part("x"));
    assert!(matches!(endless.submit().await.unwrap_err(), Error::Flow(FlowInvalid::Nodes { .. })));
}

#[tokio::test]
async fn a_whole_flow_is_cancelled() {
    let client = scene();
    let mut flow = client.flow("unwanted");
    let first = flow.add(part("first"));
    flow.add_after(first, part("second"));
    let told = flow.on_end(part("told"));
    let flow = flow.submit().await.unwrap();
    flow.cancel().await.unwrap();
    assert_eq!(work(&client).await, 1, "the callback only");
    let view = flow.ended().await.unwrap();
    assert_eq!(statuses(&view), ["cancelled", "cancelled", "completed"]);
    assert!(view.is_cancelled);
    assert_eq!(client.job(told).await.unwrap().unwrap().state, State::Completed);
    assert_eq!(client.queue("default").unwrap().counts().await.unwrap().open(), 0);
}

#[tokio::test]
async fn a_job_of_a_flow_stays_in_its_queue_and_its_copies_are_of_none() {
    let client = scene();
    let mut flow = client.flow("still");
    let first = flow.add(failing("first"));
    let second = flow.add_after(first.on_failure(OnFailure::Run), part("second"));
    let flow = flow.submit().await.unwrap();
    let moved = client.move_job(second.id(), "other").await.unwrap();
    assert_eq!(moved, Moved::Refused(State::Blocked), "it would start before its time");
    work(&client).await;
    let view = flow.view().await.unwrap();
    assert_eq!(statuses(&view), ["dead", "completed"]);
    assert_eq!(flow.cancel().await.unwrap(), view, "it is over");
    let again = client.run_again(first.id()).await.unwrap().unwrap();
    let copy = client.job(again).await.unwrap().unwrap();
    assert!(!copy.spec.meta.contains_key(MEMBER), "{:?}", copy.spec.meta);
}

#[tokio::test]
async fn dead_parts_are_sent_back() {
    let client = scene();
    let mut flow = client.flow("again");
    let first = flow.add(part("first"));
    let second = flow.add_after(first, failing("second"));
    let third = flow.add_after(second, part("third"));
    let flow = flow.submit().await.unwrap();
    work(&client).await;
    let view = flow.view().await.unwrap();
    assert_eq!((statuses(&view), view.is_over), (vec!["completed", "dead", "failed"], true));
    flow.retry().await.unwrap();
    work(&client).await;
    assert_eq!(statuses(&flow.view().await.unwrap()), ["completed", "dead", "failed"], "it fails again");
    flow.retry().await.unwrap();
    // This time it does what it should.
    let worker = Worker::new(&client).handle(|job: Part, ctx: Ctx| run(part(job.name), ctx));
    worker.drain().await.unwrap();
    let view = flow.view().await.unwrap();
    assert_eq!(statuses(&view), ["completed", "completed", "completed"]);
    assert_eq!(client.handle::<Part>(third.id()).output().await.unwrap(), "third(second(first))");
}

#[tokio::test]
async fn ends_without_a_note_are_found() {
    let client = scene();
    let mut flow = client.flow("by hand");
    let (first, second) = (flow.add(part("first")), flow.add(part("second")));
    let third = flow.add_after((first, second.on_failure(OnFailure::Run)), part("third"));
    flow.add_after(third.on_failure(OnFailure::Run), part("fourth"));
    let flow = flow.submit().await.unwrap();
    client.delete(first.id()).await.unwrap();
    client.cancel(second.id()).await.unwrap();
    client.cancel(third.id()).await.unwrap();
    assert_eq!(work(&client).await, 0);
    let keeper = FlowKeeper::new(&client);
    assert_eq!(keeper.run_once().await.unwrap().unnoted, 2);
    assert_eq!(work(&client).await, 1);
    let view = flow.view().await.unwrap();
    assert_eq!(view.nodes[2].status, Status::Failed);
    assert_eq!(statuses(&view), ["cancelled", "cancelled", "failed", "completed"]);
    assert_eq!(keeper.run_once().await.unwrap().unnoted, 0);
}
