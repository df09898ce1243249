//! The shared work on the Rust crate graphile_worker, with its local queue and batched completions. It deletes
//! finished jobs.

#[path = "../../../protocol.rs"]
mod protocol;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker, WorkerContext,
    WorkerOptions, WorkerUtils,
};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::protocol::{Nothing, Place, Rival, Starts};

/// Enough slots that none waits for another.
const SLOTS: usize = 24;
/// How many jobs its local queue holds: a large number.
const LOCAL_QUEUE: usize = 5_000;
/// For completions to gather, and between looks for jobs. The first is at the upper end of what its
/// documentation recommends; the second lets the local queue be filled again at once.
const BREATH: Duration = Duration::from_millis(5);
const CONNECTIONS: u32 = 20;

#[derive(Clone)]
struct Graphile {
    pool: PgPool,
    utils: Arc<WorkerUtils>,
    worker: Arc<Worker>,
    /// Where the handler finds whom to tell. The worker is made before that is known.
    starts: Heard,
    running: Arc<Mutex<Option<JoinHandle<()>>>>,
}

#[derive(Debug, Clone, Default)]
struct Heard(Arc<OnceLock<Starts>>);

impl TaskHandler for Nothing {
    const IDENTIFIER: &'static str = "rivals.nothing";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(starts) = context.get_ext::<Heard>().and_then(|heard| heard.0.get()) {
            starts.note();
        }
        Ok::<(), String>(())
    }
}

impl Rival for Graphile {
    const CRATE: &str = "graphile_worker";
    type Worker = ();

    async fn open(place: &Place) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&place.at).await?;
        let starts = Heard::default();
        let worker = WorkerOptions::default()
            .pg_pool(pool.clone())
            .concurrency(SLOTS)
            .local_queue(LocalQueueConfig::default().with_size(LOCAL_QUEUE))
            .complete_job_batch_delay(BREATH)
            .poll_interval(BREATH)
            .add_extension(starts.clone())
            .define_job::<Nothing>()
            .init()
            .await?;
        let utils = worker.create_utils();
        utils.migrate().await?;
        Ok(Self { pool, utils: Arc::new(utils), worker: Arc::new(worker), starts, running: Arc::default() })
    }

    async fn enqueue(&mut self, job: Nothing) -> Result<()> {
        self.utils.add_job(job, JobSpec::default()).await?;
        Ok(())
    }

    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        let specify = |job| {
            let payload = serde_json::to_value(job)?;
            anyhow::Ok(RawJobSpec {
                identifier: Nothing::IDENTIFIER.into(),
                payload,
                spec: JobSpec::default(),
            })
        };
        let jobs: Vec<_> = jobs.into_iter().map(specify).collect::<Result<_>>()?;
        self.utils.add_raw_jobs(&jobs).await?;
        Ok(())
    }

    async fn start(&self, starts: Starts) -> Result<()> {
        self.starts.0.set(starts).ok().context("started before")?;
        let worker = self.worker.clone();
        let running = tokio::spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("graphile_worker ended: {error}");
            }
        });
        *self.running.lock().await = Some(running);
        Ok(())
    }

    async fn stop(&self, (): ()) -> Result<()> {
        let left = "SELECT EXISTS (SELECT 1 FROM graphile_worker._private_jobs)";
        while sqlx::query_scalar(left).fetch_one(&self.pool).await? {
            let running = self.running.lock().await;
            ensure!(running.as_ref().is_some_and(|running| !running.is_finished()), "the worker ended");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    async fn close(self) -> Result<()> {
        self.worker.request_shutdown();
        if let Some(running) = self.running.lock().await.take() {
            running.await?;
        }
        self.pool.close().await;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    protocol::run::<Graphile>(include_str!("../Cargo.lock")).await
}
