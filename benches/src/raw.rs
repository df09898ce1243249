//! The raw limit of each store: the leanest hand-written batch of the same row operations, with the same
//! durability and on the same schema, and nothing of a queue around it.

mod memory;
mod postgres;
mod redis;
mod sqlite;

use std::time::Duration;

use anyhow::Result;

use crate::report::Whole;
use crate::subject::{Finished, Subject};

/// How many jobs one raw claim and one raw settle move; on Redis fewer, since a script keeps all other calls waiting.
const BATCH: u32 = 500;

/// How many connections serve the raw limit best, where a store has several.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connections {
    pub(crate) drain: u32,
    pub(crate) whole: u32,
}

impl Connections {
    /// Tries some numbers, each twice; of calls under way none is much above what ours has by default.
    pub(crate) async fn find(subject: Subject, jobs: u32) -> Result<Self> {
        let (mut best, mut drain_max, mut whole_max) = (Self { drain: 1, whole: 1 }, 0.0, 0.0);
        let tried = match subject {
            Subject::Postgres | Subject::PostgresOff => [2, 4, 8, 8, 4, 2],
            // Ours has one, with an enqueue, a claim and a settle under way at once; here each has one call under way.
            Subject::Redis | Subject::RedisNone => [1, 2, 4, 4, 2, 1],
            Subject::Memory | Subject::SqliteFull | Subject::SqliteNormal => return Ok(best),
        };
        for connections in tried {
            let rate = drain(subject, jobs / 2, Finished::Kept, connections).await?;
            if rate > drain_max {
                (drain_max, best.drain) = (rate, connections);
            }
            let whole = whole(subject, jobs / 2, Finished::Kept, connections).await?;
            if whole.rate > whole_max {
                (whole_max, best.whole) = (whole.rate, connections);
            }
        }
        Ok(best)
    }

    /// To be said after the name of a raw limit.
    pub(crate) fn label(name: &str, connections: u32) -> String {
        if connections == 1 { name.to_owned() } else { format!("{name}, {connections} at once") }
    }
}

/// Jobs per second of inserting, 1,000 a batch.
pub(crate) async fn enqueue(subject: Subject, jobs: u32) -> Result<f64> {
    match subject {
        Subject::Memory => Ok(memory::enqueue(jobs)),
        Subject::SqliteFull | Subject::SqliteNormal => sqlite::enqueue(subject, jobs).await,
        Subject::Postgres | Subject::PostgresOff => postgres::enqueue(subject, jobs).await,
        Subject::Redis | Subject::RedisNone => redis::enqueue(subject, jobs).await,
    }
}

/// Jobs per second of claiming and settling rows that are there, in batches. Deleting is for servers only.
pub(crate) async fn drain(subject: Subject, jobs: u32, finished: Finished, connections: u32) -> Result<f64> {
    match subject {
        Subject::Memory => Ok(memory::drain(jobs)),
        Subject::SqliteFull | Subject::SqliteNormal => sqlite::drain(subject, jobs).await,
        Subject::Postgres | Subject::PostgresOff => {
            postgres::drain(subject, jobs, finished, connections).await
        }
        Subject::Redis | Subject::RedisNone => redis::drain(subject, jobs, finished, connections).await,
    }
}

/// Jobs per second of inserting, claiming and settling in turn. Deleting is for servers only.
pub(crate) async fn whole(
    subject: Subject,
    jobs: u32,
    finished: Finished,
    connections: u32,
) -> Result<Whole> {
    match subject {
        Subject::Memory => Ok(Whole::of(memory::whole(jobs))),
        Subject::SqliteFull | Subject::SqliteNormal => sqlite::whole(subject, jobs).await.map(Whole::of),
        Subject::Postgres | Subject::PostgresOff => {
            postgres::whole(subject, jobs, finished, connections).await
        }
        Subject::Redis | Subject::RedisNone => redis::whole(subject, jobs, finished, connections).await,
    }
}

/// As [`whole`], in one narrow table with nothing of the store's schema; for PostgreSQL only.
pub(crate) async fn bare(subject: Subject, jobs: u32, connections: u32) -> Result<Whole> {
    postgres::bare(subject, jobs, connections).await
}

/// The time of one insert and one claim, each in a commit of its own.
pub(crate) async fn latency(subject: Subject, samples: u32) -> Result<Vec<Duration>> {
    match subject {
        Subject::Memory => memory::latency(samples),
        Subject::SqliteFull | Subject::SqliteNormal => sqlite::latency(subject, samples).await,
        Subject::Postgres | Subject::PostgresOff => postgres::latency(subject, samples).await,
        Subject::Redis | Subject::RedisNone => redis::latency(subject, samples).await,
    }
}

/// Runs the same on all connections at once.
async fn at_once<T, F>(connections: Vec<T>, work: impl Fn(T) -> F) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let loops: Vec<_> = connections.into_iter().map(|connection| tokio::spawn(work(connection))).collect();
    for each in loops {
        each.await??;
    }
    Ok(())
}
