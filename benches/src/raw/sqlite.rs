//! SQLite: the store's own schema and settings, one connection, prepared statements, one transaction a batch.

use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::{Connection, params};
use windlass::JobId;

use super::BATCH;
use crate::ours::BULK;
use crate::subject::{Place, Subject};

const INSERT: &str = "INSERT INTO windlass_jobs (id, queue, kind, state, priority, due_at, enqueued_at, fence, \
     attempt, stalls, ambiguous, cancel, backoff, payload) VALUES ";
const ROW: &str = "(?, 'default', 'bench.nothing', 2, 0, 1, 1, 0, 0, 0, 0, 0, 0, ?)";
/// Rows that one raw insert statement carries.
const ROWS: u32 = 16;
const CLAIM: &str = "UPDATE OR FAIL windlass_jobs SET state = 3, fence = fence + 1, attempt = attempt + 1, \
     nonce = ?2, claimed_at = ?3, lease = 1, worker = 'raw' WHERE seq IN (SELECT seq FROM windlass_jobs \
     WHERE state = 2 AND queue = 'default' AND kind = 'bench.nothing' \
     ORDER BY priority DESC, due_at, seq LIMIT ?1) RETURNING seq, id, fence, payload";
const SETTLE: &str = "UPDATE OR FAIL windlass_jobs SET state = 4, finished_at = ?3 \
     WHERE seq IN (SELECT value FROM json_each(?1)) AND state = 3 AND nonce = ?2";
const NONCE: i64 = 0x5eed;

pub(super) async fn enqueue(subject: Subject, jobs: u32) -> Result<f64> {
    let place = subject.place()?;
    let mut connection = open(&place).await?;
    let started = Instant::now();
    insert_all(&mut connection, jobs)?;
    Ok(f64::from(jobs) / started.elapsed().as_secs_f64())
}

pub(super) async fn drain(subject: Subject, jobs: u32) -> Result<f64> {
    let place = subject.place()?;
    let mut connection = open(&place).await?;
    insert_all(&mut connection, jobs)?;
    let started = Instant::now();
    let mut settled = 0;
    while settled < jobs {
        settled += run_batch(&mut connection)?;
    }
    Ok(f64::from(jobs) / started.elapsed().as_secs_f64())
}

pub(super) async fn whole(subject: Subject, jobs: u32) -> Result<f64> {
    let place = subject.place()?;
    let mut connection = open(&place).await?;
    let started = Instant::now();
    for _ in 0..jobs / BULK {
        insert_all(&mut connection, BULK)?;
        let mut settled = 0;
        while settled < BULK {
            settled += run_batch(&mut connection)?;
        }
    }
    Ok(f64::from(jobs / BULK * BULK) / started.elapsed().as_secs_f64())
}

pub(super) async fn latency(subject: Subject, samples: u32) -> Result<Vec<Duration>> {
    let place = subject.place()?;
    let mut connection = open(&place).await?;
    let mut latencies = Vec::new();
    for _ in 0..samples {
        // The same pause as ours has, so that disk and processor are equally awake.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let started = Instant::now();
        insert_all(&mut connection, 1)?;
        let claimed = claim(&mut connection, 1)?;
        latencies.push(started.elapsed());
        settle(&mut connection, &claimed)?;
    }
    Ok(latencies)
}

/// Lets the store create its schema, then takes the file over with the settings that the store uses.
async fn open(place: &Place) -> Result<Connection> {
    drop(place.client().await?);
    let connection = Connection::open(place.path()?)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = wal; PRAGMA synchronous = {}; PRAGMA cache_size = -65536;",
        place.subject.synchronous()
    ))?;
    connection.execute_batch("INSERT OR IGNORE INTO windlass_queues (name) VALUES ('default')")?;
    Ok(connection)
}

fn insert_all(connection: &mut Connection, jobs: u32) -> Result<()> {
    for start in (0..jobs).step_by(BULK as usize) {
        let end = jobs.min(start + BULK);
        let transaction = connection.transaction()?;
        {
            for first in (start..end).step_by(ROWS as usize) {
                insert_rows(&transaction, first..end.min(first + ROWS))?;
            }
            transaction
                .prepare_cached("UPDATE windlass_queues SET ready = ready + ?1 WHERE name = 'default'")?
                .execute([end - start])?;
        }
        transaction.commit()?;
    }
    Ok(())
}

fn insert_rows(transaction: &rusqlite::Transaction<'_>, numbers: std::ops::Range<u32>) -> Result<()> {
    let mut insert =
        transaction.prepare_cached(&format!("{INSERT}{}", vec![ROW; numbers.len()].join(",")))?;
    for (place, number) in (1..).step_by(2).zip(numbers) {
        insert.raw_bind_parameter(place, &JobId::new().as_bytes()[..])?;
        insert.raw_bind_parameter(place + 1, format!("{{\"i\":{number}}}").into_bytes())?;
    }
    insert.raw_execute()?;
    Ok(())
}

fn run_batch(connection: &mut Connection) -> Result<u32> {
    let claimed = claim(connection, BATCH)?;
    settle(connection, &claimed)?;
    Ok(u32::try_from(claimed.len())?)
}

/// Claims in one statement and answers the rows' numbers.
fn claim(connection: &mut Connection, limit: u32) -> Result<Vec<i64>> {
    let transaction = connection.transaction()?;
    let mut claimed = Vec::new();
    {
        let mut update = transaction.prepare_cached(CLAIM)?;
        let mut rows = update.query(params![limit, NONCE, 1_i64])?;
        while let Some(row) = rows.next()? {
            std::hint::black_box((
                row.get::<_, Vec<u8>>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, Vec<u8>>(3)?,
            ));
            claimed.push(row.get(0)?);
        }
        drop(rows);
        count(&transaction, "ready", "running", claimed.len())?;
    }
    transaction.commit()?;
    Ok(claimed)
}

/// Settles in one statement, each row only if it still runs under this claim.
fn settle(connection: &mut Connection, claimed: &[i64]) -> Result<()> {
    let transaction = connection.transaction()?;
    let seqs = serde_json::to_string(claimed)?;
    let changed = transaction.prepare_cached(SETTLE)?.execute(params![seqs, NONCE, 2_i64])?;
    anyhow::ensure!(changed == claimed.len(), "a raw settle found {changed} of {} rows", claimed.len());
    count(&transaction, "running", "completed", claimed.len())?;
    transaction.commit()?;
    Ok(())
}

fn count(transaction: &rusqlite::Transaction<'_>, from: &str, to: &str, jobs: usize) -> Result<()> {
    let update =
        format!("UPDATE windlass_queues SET {from} = {from} - ?1, {to} = {to} + ?1 WHERE name = 'default'");
    transaction.prepare_cached(&update)?.execute([i64::try_from(jobs)?])?;
    Ok(())
}
