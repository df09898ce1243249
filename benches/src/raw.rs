//! The raw limit of each store: the leanest hand-written batch of the same row operations, with the same
//! durability and on the same schema, and nothing of a queue around it.

mod memory;
mod sqlite;

use std::time::Duration;

use anyhow::Result;

use crate::subject::Subject;

/// How many jobs one raw claim and one raw settle move.
const BATCH: u32 = 500;

/// Jobs per second of inserting, 1,000 a batch.
pub(crate) async fn enqueue(subject: Subject, jobs: u32) -> Result<f64> {
    match subject {
        Subject::Memory => Ok(memory::enqueue(jobs)),
        _ => sqlite::enqueue(subject, jobs).await,
    }
}

/// Jobs per second of claiming and settling rows that are there, 500 a batch.
pub(crate) async fn drain(subject: Subject, jobs: u32) -> Result<f64> {
    match subject {
        Subject::Memory => Ok(memory::drain(jobs)),
        _ => sqlite::drain(subject, jobs).await,
    }
}

/// Jobs per second of inserting, claiming and settling in turn.
pub(crate) async fn whole(subject: Subject, jobs: u32) -> Result<f64> {
    match subject {
        Subject::Memory => Ok(memory::whole(jobs)),
        _ => sqlite::whole(subject, jobs).await,
    }
}

/// The time of one insert and one claim, each in a commit of its own.
pub(crate) async fn latency(subject: Subject, samples: u32) -> Result<Vec<Duration>> {
    match subject {
        Subject::Memory => memory::latency(samples),
        _ => sqlite::latency(subject, samples).await,
    }
}
