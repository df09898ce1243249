//! Records and follow-ups where this store can fail in its own way: calls of many items, files that are cut off, other
//! processes, rows that do not read, and transactions of the user's own.

mod batch;
mod look;
mod within;

use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Expect, Record, RecordKey, RecordWrite, Version};
use windlass_core::store::{AttemptWrite, AttemptWritten, Enqueued, Records, Right, StoreResult};
use windlass_core::{CallId, ClaimedJob, NewJob, State, StoreError};
use windlass_store_sqlite::SqliteStore;

use super::{completed, name};

fn key(text: &str) -> RecordKey {
    RecordKey::new(text).unwrap()
}

fn put(text: &str, value: impl Into<windlass_core::Bytes>) -> RecordWrite {
    RecordWrite::put(key(text), value)
}

fn only(records: impl Into<Vec<RecordWrite>>) -> FollowUps {
    FollowUps { records: records.into(), ..FollowUps::default() }
}

fn jobs(jobs: impl Into<Vec<NewJob>>) -> FollowUps {
    FollowUps { jobs: jobs.into(), ..FollowUps::default() }
}

async fn write(store: &SqliteStore, what: FollowUps) -> StoreResult<Vec<Enqueued>> {
    Records::write(store, CallId::new(), &name("default"), what).await
}

async fn find(store: &SqliteStore, text: &str) -> Option<Record> {
    Records::read(store, &name("default"), [key(text)].into()).await.unwrap().remove(0)
}

/// The end of an attempt, and what follows.
fn end(job: &ClaimedJob, then: FollowUps) -> AttemptWrite {
    let settlement = completed(std::slice::from_ref(job)).remove(0);
    AttemptWrite {
        queue: settlement.queue,
        id: settlement.id,
        fence: settlement.fence,
        transition: Some(settlement.transition),
        then,
    }
}

async fn write_fenced(store: &SqliteStore, items: impl Into<Vec<AttemptWrite>>) -> Vec<AttemptWritten> {
    store.write_fenced(Right::Fence, items.into().into()).await.unwrap()
}

/// The answer in a word.
fn word(answer: &AttemptWritten) -> &'static str {
    match answer {
        AttemptWritten::Applied(State::Completed) => "completed",
        AttemptWritten::Applied(_) => "goes on",
        AttemptWritten::Fenced => "fenced",
        AttemptWritten::Refused(StoreError::IdTaken { .. }) => "taken",
        AttemptWritten::Refused(StoreError::Conflict { .. }) => "conflict",
        AttemptWritten::Refused(StoreError::Corrupt(_)) => "corrupt",
        AttemptWritten::Refused(_) => "refused",
    }
}

fn words(answers: &[AttemptWritten]) -> Vec<&'static str> {
    answers.iter().map(word).collect()
}
