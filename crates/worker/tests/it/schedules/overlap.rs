//! Slots that meet the job of an earlier one.

use std::sync::Arc;

use windlass_core::schedule::Overlap;
use windlass_core::store::NewLease;
use windlass_core::store::{ClaimAnswer, ClaimRequest, QueueShare, Settlement};
use windlass_core::{ClaimedJob, Fence, LeaseId, Name, Outcome, State, judge};
use windlass_worker::Client;

use super::{HOUR, Report, made, scene, slots};

/// A worker that has claimed jobs and takes its time.
struct Slow {
    client: Client,
    lease: LeaseId,
}

impl Slow {
    async fn new(client: &Client) -> Self {
        let lease = LeaseId::new();
        let (queues, kinds) = (vec![name("reports")], vec![name("report")]);
        let ttl = 10_000 * HOUR;
        let new = NewLease { id: lease, worker: "slow".into(), queues, kinds, ttl };
        client.store().open(&new).await.unwrap();
        Self { client: client.clone(), lease }
    }

    async fn claim(&self) -> Vec<ClaimedJob> {
        let request = ClaimRequest {
            lease: self.lease,
            nonce: Fence::nonce(),
            queues: vec![QueueShare { queue: name("reports"), limit: 10 }],
            kinds: vec![name("report")],
            limit: 10,
            at_once: 10,
            bytes: usize::MAX,
        };
        match self.client.store().claim(request).await.unwrap() {
            ClaimAnswer::Jobs { jobs, .. } => jobs,
            ClaimAnswer::LeaseLost => panic!("it lives for years"),
        }
    }

    async fn complete(&self, job: &ClaimedJob) {
        let transition = judge(&job.facts, Outcome::Completed { output: None }, 0.5);
        let end = Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition };
        self.client.store().settle(Arc::from([end])).await.unwrap();
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Only ticks: the jobs are the slow worker's.
async fn tick(client: &Client) {
    async fn other(_job: Other) -> Result<(), windlass_worker::JobError> {
        Ok(())
    }
    windlass_worker::Worker::new(client).handle(other).queue("reports", 9).drain().await.unwrap();
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Other;
impl windlass_worker::Job for Other {
    const KIND: &'static str = "other";
    type Output = ();
}

/// Four hours of an hourly schedule whose first job runs through all of them and ends then; and the slots that have jobs.
async fn four_hours(overlap: Overlap) -> (Client, Vec<String>, Vec<String>) {
    let (client, clock) = scene().await;
    client.schedule("s").every(HOUR).overlap(overlap).enqueue(Report::default()).await.unwrap();
    let slow = Slow::new(&client).await;
    clock.advance(HOUR);
    tick(&client).await;
    let running = slow.claim().await.remove(0);
    for _ in 0..3 {
        clock.advance(HOUR);
        tick(&client).await;
    }
    let meanwhile = slots(&client).await;
    slow.complete(&running).await;
    // The tick looks again within half a minute.
    clock.advance(std::time::Duration::from_secs(30));
    tick(&client).await;
    let after = slots(&client).await;
    (client, meanwhile, after)
}

#[tokio::test]
async fn each_policy_has_its_way() {
    let all = ["01T01:00", "01T02:00", "01T03:00", "01T04:00"];
    let (_, meanwhile, after) = four_hours(Overlap::Allow).await;
    assert_eq!((&meanwhile[..], &after[..]), (&all.map(str::to_owned)[..], &all.map(str::to_owned)[..]));

    let (client, meanwhile, after) = four_hours(Overlap::Skip).await;
    assert_eq!((meanwhile.len(), after.len()), (1, 1));
    assert_eq!(client.schedule("s").get().await.unwrap().unwrap().record.state.skipped, 3);

    let (_, meanwhile, after) = four_hours(Overlap::WaitOne).await;
    assert_eq!((meanwhile.len(), &after[..]), (1, &["01T01:00".to_owned(), "01T02:00".to_owned()][..]));

    let (client, meanwhile, after) = four_hours(Overlap::WaitAll).await;
    assert_eq!((meanwhile.len(), &after[..]), (1, &["01T01:00".to_owned(), "01T02:00".to_owned()][..]));
    assert_eq!(client.schedule("s").get().await.unwrap().unwrap().record.state.waiting.len(), 2);
}

#[tokio::test]
async fn the_running_job_is_asked_to_stop_and_the_newest_slot_follows() {
    let (client, clock) = scene().await;
    let draft = client.schedule("s").every(HOUR).overlap(Overlap::CancelRunning);
    draft.enqueue(Report::default()).await.unwrap();
    let slow = Slow::new(&client).await;
    clock.advance(HOUR);
    tick(&client).await;
    let running = slow.claim().await.remove(0);
    clock.advance(HOUR);
    tick(&client).await;
    assert!(client.job(running.id).await.unwrap().unwrap().cancel_requested);
    assert_eq!(made(&client).await.len(), 1, "it has not ended");
    let transition = judge(&running.facts, Outcome::Cancelled, 0.5);
    let (queue, id, fence) = (running.queue.clone(), running.id, running.fence);
    let end = Settlement { queue, id, fence, transition };
    client.store().settle(Arc::from([end])).await.unwrap();
    clock.advance(std::time::Duration::from_secs(30));
    tick(&client).await;
    assert_eq!(slots(&client).await, ["01T01:00", "01T02:00"]);
    assert_eq!(client.job(id).await.unwrap().unwrap().state, State::Cancelled);
}
