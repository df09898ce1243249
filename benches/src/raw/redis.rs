//! Redis: keys as the store has them, several connections, a script a batch. The scripts are those of the rivals'
//! table, so that both speak of one limit.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, ensure};
use redis::aio::MultiplexedConnection;
use redis::{Client, Script};
use windlass::JobId;

use super::at_once;
use crate::ours::BULK;
use crate::report::Whole;
use crate::subject::{Finished, Place, Subject};

/// How many jobs one claim and one completion move.
const BATCH: u32 = 100;
const KIND: &str = "bench.nothing";
/// The part of a record that is the same for all jobs: state, counters, fence, times, lengths.
const HEAD_BYTES: usize = 85;
const SEQ_AT: usize = 39;
/// What a claim adds to a record: nonce, lease, the moment, and the worker's name.
const CLAIM_BYTES: usize = 8 + 16 + 8 + 2 + 12;

/// On one connection, since the bulks of ours are sent one after the other as well.
pub(super) async fn enqueue(subject: Subject, jobs: u32) -> Result<f64> {
    let place = subject.place()?;
    let mut raw = Raw::connect(&place, Finished::Kept, 1).await?;
    let started = Instant::now();
    raw[0].insert_all(jobs).await?;
    Ok(f64::from(jobs) / started.elapsed().as_secs_f64())
}

pub(super) async fn drain(subject: Subject, jobs: u32, finished: Finished, connections: u32) -> Result<f64> {
    let place = subject.place()?;
    let mut raw = Raw::connect(&place, finished, connections).await?;
    raw[0].insert_all(jobs).await?;
    let started = Instant::now();
    at_once(raw, |mut raw| async move { raw.run_rest().await }).await?;
    Ok(f64::from(jobs) / started.elapsed().as_secs_f64())
}

pub(super) async fn whole(
    subject: Subject,
    jobs: u32,
    finished: Finished,
    connections: u32,
) -> Result<Whole> {
    let place = subject.place()?;
    let raw = Raw::connect(&place, finished, connections).await?;
    let share = jobs.div_ceil(connections);
    let cpu = subject.server_cpu()?;
    let started = Instant::now();
    at_once(raw, |mut raw| async move {
        for start in (0..share).step_by(BULK as usize) {
            let bulk = BULK.min(share - start);
            raw.insert_all(bulk).await?;
            // What others have inserted is as good as what this one has.
            for _ in 0..BULK / BATCH {
                raw.run_batch().await?;
            }
        }
        raw.run_rest().await
    })
    .await?;
    Whole::ended(share * connections, started.elapsed(), cpu)
}

pub(super) async fn latency(subject: Subject, samples: u32) -> Result<Vec<Duration>> {
    let place = subject.place()?;
    let mut all = Raw::connect(&place, Finished::Kept, 1).await?;
    let raw = &mut all[0];
    let mut latencies = Vec::new();
    for _ in 0..samples {
        // The same pause as ours has, so that processors are equally awake.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let started = Instant::now();
        raw.insert_all(1).await?;
        let claimed = raw.claim(1).await?;
        latencies.push(started.elapsed());
        raw.settle(&claimed).await?;
    }
    Ok(latencies)
}

/// One connection with its scripts.
struct Raw {
    connection: MultiplexedConnection,
    insert: Script,
    claim: Script,
    settle: Script,
    seq: u64,
}

impl Raw {
    async fn connect(place: &Place, finished: Finished, connections: u32) -> Result<Vec<Self>> {
        let client = Client::open(place.database()?.url())?;
        let settle = match finished {
            Finished::Kept => include_str!("../../rivals/redis/raw/scripts/keep.lua"),
            Finished::Deleted => include_str!("../../rivals/redis/raw/scripts/delete.lua"),
        };
        let mut all = Vec::new();
        for _ in 0..connections {
            all.push(Self {
                connection: client.get_multiplexed_async_connection().await?,
                insert: Script::new(include_str!("../../rivals/redis/raw/scripts/insert.lua")),
                claim: Script::new(include_str!("../../rivals/redis/raw/scripts/claim.lua")),
                settle: Script::new(settle),
                seq: now(),
            });
        }
        Ok(all)
    }

    async fn insert_all(&mut self, jobs: u32) -> Result<()> {
        for start in (0..jobs).step_by(BULK as usize) {
            let numbers = start..jobs.min(start + BULK);
            let (mut call, mut members) = (self.insert.key("raw:jobs"), Vec::new());
            call.key("raw:ready").arg(numbers.len());
            for number in numbers {
                self.seq += 1;
                let (id, seq) = (*JobId::new().as_bytes(), self.seq.to_be_bytes());
                let mut record = vec![b'0'; HEAD_BYTES];
                record[SEQ_AT..SEQ_AT + seq.len()].copy_from_slice(&seq);
                record.extend(KIND.as_bytes());
                record.extend(format!("{{\"i\":{number}}}").as_bytes());
                members.push([&seq[..], &seq, &id].concat());
                call.arg(&id[..]).arg(record);
            }
            for member in &members {
                call.arg("0").arg(&member[..]);
            }
            let _: () = call.invoke_async(&mut self.connection).await?;
        }
        Ok(())
    }

    /// Runs until nothing waits. What others have claimed at that moment, they will settle.
    async fn run_rest(&mut self) -> Result<()> {
        while self.run_batch().await? {}
        Ok(())
    }

    async fn run_batch(&mut self) -> Result<bool> {
        let claimed = self.claim(BATCH).await?;
        if !claimed.is_empty() {
            self.settle(&claimed).await?;
        }
        Ok(!claimed.is_empty())
    }

    /// Answers ids with records.
    async fn claim(&mut self, limit: u32) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut call = self.claim.key("raw:ready");
        call.key("raw:jobs").key("raw:running").arg(limit).arg(&[b'c'; CLAIM_BYTES][..]);
        Ok(call.invoke_async(&mut self.connection).await?)
    }

    async fn settle(&mut self, claimed: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut call = self.settle.key("raw:running");
        call.key("raw:jobs").key("raw:completed").arg(now());
        for (id, record) in claimed {
            std::hint::black_box(record);
            call.arg(&id[..]);
        }
        let ended: usize = call.invoke_async(&mut self.connection).await?;
        ensure!(ended == claimed.len(), "a raw settle found {ended} of {} jobs", claimed.len());
        Ok(())
    }
}

/// Microseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_micros().try_into().unwrap_or(u64::MAX)
}
