//! Enqueue over a line. An error makes the caller roll back to its savepoint, so nothing is undone here.

use std::collections::HashMap;

use windlass_core::sql::{Row, Value};
use windlass_core::store::{Enqueued, Taken};
use windlass_core::{Bytes, NewJob, State};

use super::{Failed, UserTx};
use crate::error::Fault;
use crate::jobs::enqueue::{EXISTING, INLINE_MAX, INSERT_PAYLOAD, MANY};
use crate::row;

const INSERT: &str = concat!(include_str!("../../queries/jobs/insert.sql"), "RETURNING seq, id");
const INSERT_16: &str = concat!(include_str!("../../queries/jobs/insert_16.sql"), "RETURNING seq, id");

pub(super) async fn enqueue(tx: &mut UserTx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Failed> {
    let mut answers = Vec::with_capacity(jobs.len());
    let mut many = jobs.chunks_exact(MANY);
    for chunk in &mut many {
        if has_too_large(tx, chunk).await? {
            // One by one, so that the first job that something is wrong with names the refusal.
            for job in chunk {
                answers.push(accept(tx, job).await?);
            }
        } else {
            insert(tx, INSERT_16, chunk, &mut answers).await?;
        }
    }
    for job in many.remainder() {
        answers.push(accept(tx, job).await?);
    }
    for (job, answer) in jobs.iter().zip(&answers) {
        if *answer == Enqueued::New {
            tx.deltas.add(&job.queue, job.entry(tx.now).0, 1);
        }
    }
    Ok(answers)
}

async fn has_too_large(tx: &mut UserTx<'_>, jobs: &[NewJob]) -> Result<bool, Failed> {
    for job in jobs {
        if job.check_payload(tx.config(&job.queue).await?.caps.payload).is_err() {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn accept(tx: &mut UserTx<'_>, job: &NewJob) -> Result<Enqueued, Failed> {
    let cap = tx.config(&job.queue).await?.caps.payload;
    if let Err(too_large) = job.check_payload(cap) {
        // A repeat is answered even if the cap has shrunk since.
        return Ok(existing(tx, job).await?.ok_or(too_large)?);
    }
    let mut answers = Vec::with_capacity(1);
    insert(tx, INSERT, std::slice::from_ref(job), &mut answers).await?;
    Ok(answers[0])
}

/// Inserts as many jobs as the statement takes; those whose id is there are compared with what is there.
async fn insert(
    tx: &mut UserTx<'_>,
    sql: &str,
    jobs: &[NewJob],
    answers: &mut Vec<Enqueued>,
) -> Result<(), Failed> {
    let mut values = Vec::new();
    for job in jobs {
        values.extend(fields(tx, job)?);
    }
    let inserted = tx.run(sql, values).await?;
    let place = |row: &Row| Ok::<_, Failed>((row.uuid(1)?, row.int(0)?));
    let mut places = inserted.iter().map(place).collect::<Result<HashMap<_, _>, _>>()?;
    for job in jobs {
        // Of two with one id in a call, the first was inserted.
        if let Some(seq) = places.remove(job.id.as_bytes()) {
            if job.payload.len() > INLINE_MAX {
                let payload = Value::Bytes(Some(job.payload.clone()));
                tx.run(INSERT_PAYLOAD, vec![seq.into(), payload]).await?;
            }
            answers.push(Enqueued::New);
        } else {
            let missing = || Fault::Corrupt(format!("job {} is in an index only", job.id));
            answers.push(existing(tx, job).await?.ok_or_else(missing)?);
        }
    }
    Ok(())
}

/// The parameters of one row, as `jobs/insert.sql` takes them.
fn fields(tx: &UserTx<'_>, job: &NewJob) -> Result<[Value; 11], Failed> {
    let now = tx.now;
    let (state, due_at) = job.entry(now);
    let inline: Option<Bytes> = (job.payload.len() <= INLINE_MAX).then(|| job.payload.clone());
    Ok([
        Value::Uuid(*job.id.as_bytes()),
        job.queue.as_str().into(),
        job.kind.as_str().into(),
        i64::from(state.code()).into(),
        i64::from(job.priority).into(),
        due_at.as_micros().into(),
        now.as_micros().into(),
        job.expires.map(|expiry| now.plus(expiry).as_micros()).into(),
        job.spec.text().into(),
        row::stored_tags(&job.tags)?.into(),
        inline.into(),
    ])
}

/// The answer for a job whose id may be there; nothing if it is not.
async fn existing(tx: &mut UserTx<'_>, job: &NewJob) -> Result<Option<Enqueued>, Failed> {
    let rows = tx.run(EXISTING, vec![Value::Uuid(*job.id.as_bytes())]).await?;
    let Some(found) = rows.first() else { return Ok(None) };
    let code = found.int(0)?;
    let unknown = || Fault::Corrupt(format!("a job has state {code}"));
    let state = State::from_code(code).ok_or_else(unknown)?;
    let taken = Taken { state, queue: found.text(1)?, kind: found.text(2)?, payload: found.bytes(3)? };
    Ok(Some(taken.answer(job)?))
}
