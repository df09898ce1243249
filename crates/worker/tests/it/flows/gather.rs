//! Jobs that add others and wait for them without a slot.

use serde::{Deserialize, Serialize};
use windlass_core::State;
use windlass_worker::{Ctx, Job, JobError, Worker};

use super::{Part, failing, part, run, scene};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Campaign {
    chunks: usize,
    fails: bool,
}

impl Job for Campaign {
    const KIND: &'static str = "campaign";
    type Output = (usize, usize);
}

async fn campaign(job: Campaign, ctx: Ctx) -> Result<(usize, usize), JobError> {
    let gathered = ctx.gather("chunks", |flow| {
        flow.at_most(7);
        for chunk in 0..job.chunks {
            flow.add(if job.fails && chunk == 1 { failing("bad") } else { part(chunk.to_string()) });
        }
    });
    let gathered = gathered.await?;
    Ok((gathered.outputs::<Part>()?.len(), gathered.failed().count()))
}

#[tokio::test]
async fn a_job_waits_for_those_that_it_adds() {
    for (chunks, fails, wanted) in
        [(20, false, (20, 0)), (20, true, (19, 1)), (0, false, (0, 0)), (2_500, false, (2_500, 0))]
    {
        let client = scene();
        let handle = client.enqueue(Campaign { chunks, fails }).await.unwrap();
        let worker = || Worker::new(&client).handle(run).handle(campaign);
        let drained = worker().drain().await.unwrap();
        assert_eq!(drained.snoozed, 1, "{chunks} chunks");
        let job = client.job(handle.id()).await.unwrap().unwrap();
        assert_eq!((job.state, job.counters.attempt), (State::Completed, 1), "the wait cost no attempt");
        assert_eq!(handle.output().await.unwrap(), wanted);
        assert_eq!(client.queue("default").unwrap().counts().await.unwrap().open(), 0);
    }
}
