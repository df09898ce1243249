//! The shared work on Windlass, through its front door, whatever the store. It keeps finished jobs or deletes them, as
//! it is told, and has a rule that never binds if it is told so.

use std::time::Duration;

use anyhow::Result;
use windlass::queue::{Keep, QueueConfig, Rate, Retention, Unique};
use windlass::{Client, Job, JobError, Running, State, Worker};

use crate::protocol::{CONCURRENCY, Finished, Nothing, Place, Rival, Rule, Starts};

/// More than is ever reached.
const FAR: u32 = 1_000_000;
/// How long to wait between two looks whether a flow is left.
const LOOK: Duration = Duration::from_millis(1);

#[derive(Clone)]
pub(crate) struct Windlass {
    client: Client,
    rule: Rule,
}

impl Job for Nothing {
    const KIND: &'static str = "rivals.nothing";
    type Output = ();
}

impl Rival for Windlass {
    const CRATE: &str = "windlass";
    const HAS_FLOWS: bool = true;
    type Worker = Running;

    async fn open(place: &Place) -> Result<Self> {
        let client = windlass::open(url(place)).await?;
        let mut config = QueueConfig::default();
        if place.finished == Finished::Deleted {
            config.retention = Retention { completed: Keep::count(0), ..Retention::default() };
        }
        match place.rule {
            Rule::Rate => config.rate = Some(Rate::new(FAR, Duration::from_secs(1))),
            Rule::Concurrency => config.concurrency = Some(FAR),
            Rule::Unique | Rule::None => {}
        }
        if config != QueueConfig::default() {
            client.define_queue("default", config).await?;
        }
        Ok(Self { client, rule: place.rule })
    }

    async fn enqueue(&mut self, job: Nothing) -> Result<()> {
        self.client.enqueue(job).await?;
        Ok(())
    }

    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        let jobs = self.client.enqueue_all(jobs);
        let jobs = if self.rule == Rule::Unique { jobs.unique(Unique::payload()) } else { jobs };
        jobs.await?;
        Ok(())
    }

    async fn start(&self, starts: Starts) -> Result<Running> {
        let worker = Worker::with_state(&self.client, starts).concurrency(CONCURRENCY.into());
        Ok(worker.handle(nothing).start()?)
    }

    async fn stop(&self, worker: Running) -> Result<()> {
        worker.stop().await;
        Ok(())
    }

    async fn submit_flow(&mut self, children: u32) -> Result<()> {
        let mut flow = self.client.flow("rivals");
        let children = flow.add_all((0..children).map(|i| Nothing { i }));
        flow.add_after(&children, Nothing { i: 0 });
        flow.submit().await?;
        Ok(())
    }

    async fn flows_over(&self) -> Result<()> {
        let home = self.client.queue("default")?.name().clone();
        while !self.client.open_flows(&home, None, 1).await?.flows.is_empty() {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    async fn close(self) -> Result<()> {
        Ok(())
    }
}

/// A file is told by its path, a server by its URL.
fn url(place: &Place) -> String {
    if place.at.contains("://") {
        return place.at.clone();
    }
    format!("sqlite://{}?synchronous={}", place.at, place.synchronous)
}

async fn nothing(_job: Nothing, State(starts): State<Starts>) -> Result<(), JobError> {
    starts.note();
    Ok(())
}
