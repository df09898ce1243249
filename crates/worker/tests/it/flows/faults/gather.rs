//! Jobs that gather others, while their processes die: the others are added once, and the job comes back with what they gave.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::retry::{Jitter, Policy};
use windlass_core::store::Jobs;
use windlass_core::{Options, State, Store};
use windlass_store_memory::MemoryStore;
use windlass_worker::{Client, Ctx, FlowKeeper, Job, JobError, Reaper, Worker};

use super::super::{Part, part, run};
use super::shaky::{Fate, Shaky};
use super::{LEASE, QUEUES, ROUNDS_MAX, for_seeds};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Campaign {
    chunks: usize,
    queues: usize,
}

impl Job for Campaign {
    const KIND: &'static str = "campaign";
    type Output = Vec<String>;

    fn options() -> Options {
        Options::new().max_stalls(1_000).retry(Policy::fixed(1_000, Duration::ZERO).jitter(Jitter::None))
    }
}

async fn campaign(job: Campaign, ctx: Ctx) -> Result<Vec<String>, JobError> {
    let gathered = ctx.gather("chunks", |flow| {
        for chunk in 0..job.chunks {
            let options = Campaign::options().queue(QUEUES[chunk % job.queues]);
            flow.add(part(chunk.to_string()).with(options));
        }
    });
    Ok(gathered.await?.outputs::<Part>()?)
}

async fn drained(client: &Client) -> windlass_worker::Result<u64> {
    let worker = Worker::new(client).handle(run).handle(campaign).lease_unchecked(LEASE);
    let worker = QUEUES.into_iter().fold(worker, |worker, queue| worker.queue(queue, 4));
    Ok(worker.drain().await?.total())
}

#[test]
fn a_job_comes_back_with_all_that_it_gathers() {
    for_seeds(320, async |seed| {
        let clock = ManualClock::at(Timestamp::from_micros(1_000_000_000));
        let store = Arc::new(MemoryStore::with_clock(Arc::new(clock.clone())));
        let client = Client::new(Arc::clone(&store) as _);
        let (chunks, queues) = ([1, 12][seed as usize % 2], [1, 2][seed as usize / 2 % 2]);
        let handle = client.enqueue(Campaign { chunks, queues }).await.unwrap();
        let killed = Shaky::new(&store, seed, 0, Fate::Killed(1 + seed as u32 / 4));
        let dying = Client::new(Arc::clone(&killed) as _);
        let _never_ends = tokio::time::timeout(Duration::from_secs(60), drained(&dying)).await;
        let keeper = FlowKeeper::new(&client);
        let mut is_over = false;
        for round in 0..ROUNDS_MAX {
            clock.advance(2 * LEASE);
            Reaper::new(Arc::clone(&store) as Arc<dyn Store>).run_once().await.unwrap();
            keeper.run_once().await.unwrap();
            drained(&client).await.unwrap();
            let on_the_way = std::mem::take(&mut *killed.on_the_way.lock().unwrap());
            // Maintenance delivers what a process has left, some time after its death.
            if round >= 3 && !on_the_way.is_empty() {
                store.enqueue(on_the_way.into()).await.unwrap();
            } else {
                *killed.on_the_way.lock().unwrap() = on_the_way;
            }
            is_over = client.job(handle.id()).await.unwrap().unwrap().state == State::Completed;
            if is_over {
                break;
            }
        }
        assert!(is_over, "it never came back: {:?}", client.job(handle.id()).await.unwrap());
        let wanted: Vec<String> = (0..chunks).map(|chunk| chunk.to_string()).collect();
        assert_eq!(handle.output().await.unwrap(), wanted);
        for queue in QUEUES {
            assert_eq!(client.queue(queue).unwrap().counts().await.unwrap().open(), 0, "left in {queue}");
        }
    });
}
