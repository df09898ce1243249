//! Whether claims stay fast while a transaction holds an old snapshot, so that the server can remove no dead row: a steady
//! 800 jobs a second, claimed and completed, beside a transaction that began before them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::time::{MissedTickBehavior, interval};
use tokio_postgres::NoTls;
use windlass::core::judge::judge;
use windlass::core::store::{ClaimAnswer, ClaimRequest, NewLease, QueueShare, Settlement};
use windlass::core::{Fence, LeaseId, Name, NewJob, Options, Outcome};

use crate::report::{Report, percentile};
use crate::server::Server;
use crate::subject::Subject;

/// How often jobs come, and how many at a time: 800 a second.
const TICK: Duration = Duration::from_millis(10);
const JOBS: usize = 8;
/// Parts of the time, of which the first and the last are compared.
const PARTS: u32 = 8;

/// Holds a snapshot for so long, and reports what a claim takes in the first and in the last eighth of the time.
pub(crate) async fn measure(lasting: Duration, report: &mut Report) -> Result<()> {
    let place = Subject::Postgres.place()?;
    let client = place.client().await?;
    let store = client.store();
    let (queue, kind) = (Name::new("default")?, Name::new("bench.nothing")?);
    let lease = LeaseId::new();
    let ttl = lasting + Duration::from_secs(600);
    store
        .open(&NewLease {
            id: lease,
            worker: "bench".into(),
            ttl,
            queues: vec![queue.clone()],
            kinds: Vec::new(),
        })
        .await?;
    let (holder, connection) = tokio_postgres::connect(&Server::get().url(), NoTls).await?;
    let connection = tokio::spawn(connection);
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").await?;
    let share = QueueShare { queue, limit: 100 };
    let request = ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: vec![share],
        kinds: vec![kind],
        limit: 100,
        at_once: 100,
        bytes: 1 << 20,
    };
    report.progress(&format!("postgres: a snapshot is held for {} s", lasting.as_secs()));
    let mut parts = vec![Vec::new(); PARTS as usize];
    let (started, mut ticks) = (Instant::now(), interval(TICK));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while started.elapsed() < lasting {
        ticks.tick().await;
        let job = || NewJob::new("bench.nothing", "{\"i\":1}", Options::new());
        store.enqueue((&(0..JOBS).map(|_| job()).collect::<Result<Vec<_>, _>>()?)[..].into()).await?;
        let called = Instant::now();
        let ClaimAnswer::Jobs { jobs, .. } = store.claim(request.clone()).await? else {
            bail!("the lease is lost")
        };
        let part = started.elapsed().as_secs_f64() / lasting.as_secs_f64() * f64::from(PARTS);
        parts[(part as usize).min(PARTS as usize - 1)].push(called.elapsed());
        let settle = |job: &windlass::core::job::ClaimedJob| Settlement {
            queue: job.queue.clone(),
            id: job.id,
            fence: job.fence,
            transition: judge(&job.facts, Outcome::Completed { output: None }, 0.5),
        };
        store.settle(jobs.iter().map(settle).collect::<Vec<_>>().into()).await?;
    }
    drop(holder);
    connection.abort();
    let (first, last) = (parts.first().context("eight parts")?, parts.last().context("eight parts")?);
    for percent in [50, 99] {
        let work = format!("claim beside a snapshot of {} s, p{percent}, last eighth", lasting.as_secs());
        let (first, last) = (percentile(first, percent), percentile(last, percent));
        report.latency_beside(Subject::Postgres, &work, last, "the first eighth", first);
    }
    Ok(())
}
