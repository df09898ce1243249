//! The raw limit: batches of the same keys, filled, claimed and completed by a script each, on a few connections.
//! What a queue also needs (leases, fences, retries, wake-ups, counts, a list of all jobs) is not there, so none on
//! these keys can be faster.

#[path = "../../../protocol.rs"]
mod protocol;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail, ensure};
use redis::aio::MultiplexedConnection;
use redis::{Client, Script};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::protocol::{Finished, Nothing, Place, Rival, Starts};

/// How many jobs a claim takes and a completion ends.
const BATCH: usize = 100;
/// The producers' own connections, beside those that run.
const INSERTING_CONNECTIONS: usize = 2;
const KIND: &str = "rivals.nothing";
/// The part of a record that is the same for all jobs: state, counters, fence, times, lengths.
const HEAD_BYTES: usize = 85;
const SEQ_AT: usize = 39;
/// What a claim adds to a record: nonce, lease, the moment, and the worker's name.
const CLAIM_BYTES: usize = 8 + 16 + 8 + 2 + 12;

#[derive(Clone)]
struct Raw {
    place: Place,
    inserting: Vec<MultiplexedConnection>,
    turn: Arc<AtomicUsize>,
    seq: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
}

impl Raw {
    async fn work(self, mut connection: MultiplexedConnection, starts: Starts) -> Result<()> {
        let claim = Script::new(include_str!("../scripts/claim.lua"));
        let complete = Script::new(match self.place.finished {
            Finished::Kept => include_str!("../scripts/keep.lua"),
            Finished::Deleted => include_str!("../scripts/delete.lua"),
        });
        let added = vec![b'c'; CLAIM_BYTES];
        while !self.stopping.load(Ordering::Relaxed) {
            let mut call = claim.key("raw:ready");
            call.key("raw:jobs").key("raw:running").arg(BATCH).arg(&added[..]);
            let claimed: Vec<(Vec<u8>, Vec<u8>)> = call.invoke_async(&mut connection).await?;
            if claimed.is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            let mut call = complete.key("raw:running");
            call.key("raw:jobs").key("raw:completed").arg(now());
            for (id, record) in &claimed {
                let payload = &record[HEAD_BYTES + KIND.len()..record.len() - CLAIM_BYTES];
                let _: Nothing = serde_json::from_slice(payload)?;
                starts.note();
                call.arg(&id[..]);
            }
            let ended: usize = call.invoke_async(&mut connection).await?;
            ensure!(ended == claimed.len(), "{ended} of {} claimed jobs were running", claimed.len());
        }
        Ok(())
    }
}

impl Rival for Raw {
    const CRATE: &str = "redis";
    const IS_QUEUE: bool = false;
    type Worker = Vec<JoinHandle<Result<()>>>;

    async fn open(place: &Place) -> Result<Self> {
        let mut inserting = Vec::new();
        for _ in 0..INSERTING_CONNECTIONS {
            inserting.push(connect(place).await?);
        }
        let (turn, stopping) = Default::default();
        Ok(Self { place: place.clone(), inserting, turn, seq: Arc::new(now().into()), stopping })
    }

    async fn enqueue(&mut self, _job: Nothing) -> Result<()> {
        bail!("records without a queue are inserted in bulk only")
    }

    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        let insert = Script::new(include_str!("../scripts/insert.lua"));
        let first = self.seq.fetch_add(jobs.len() as u64, Ordering::Relaxed);
        let (mut call, mut members) = (insert.key("raw:jobs"), Vec::with_capacity(jobs.len()));
        call.key("raw:ready").arg(jobs.len());
        for (seq, job) in (first..).zip(&jobs) {
            let id = Uuid::now_v7().into_bytes();
            let mut record = vec![b'0'; HEAD_BYTES];
            record[SEQ_AT..SEQ_AT + 8].copy_from_slice(&seq.to_be_bytes());
            record.extend(KIND.as_bytes());
            record.extend(serde_json::to_vec(job)?);
            members.push([&seq.to_be_bytes()[..], &seq.to_be_bytes(), &id].concat());
            call.arg(&id[..]).arg(record);
        }
        for member in &members {
            call.arg("0").arg(&member[..]);
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % INSERTING_CONNECTIONS;
        let _: () = call.invoke_async(&mut self.inserting[turn]).await?;
        Ok(())
    }

    async fn start(&self, starts: Starts) -> Result<Self::Worker> {
        let mut loops = Vec::new();
        for _ in 0..self.place.connections {
            let connection = connect(&self.place).await?;
            loops.push(tokio::spawn(self.clone().work(connection, starts.clone())));
        }
        Ok(loops)
    }

    async fn stop(&self, loops: Self::Worker) -> Result<()> {
        self.stopping.store(true, Ordering::Relaxed);
        for work in loops {
            work.await??;
        }
        Ok(())
    }

    async fn close(self) -> Result<()> {
        Ok(())
    }
}

async fn connect(place: &Place) -> Result<MultiplexedConnection> {
    Ok(Client::open(&place.at[..])?.get_multiplexed_async_connection().await?)
}

/// Microseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_micros().try_into().unwrap_or(u64::MAX)
}

#[tokio::main]
async fn main() -> Result<()> {
    protocol::run::<Raw>(include_str!("../Cargo.lock")).await
}
