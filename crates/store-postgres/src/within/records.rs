//! Records in a transaction of the user's own. A conflict is answered, not raised: the transaction goes on.

use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Record, RecordKey, Version};
use windlass_core::sql::{Line, SqlError, Value};
use windlass_core::store::{Enqueued, StoreResult};
use windlass_core::{Bytes, Name, StoreError};

use super::{enqueue_values, ints, key_values, misread, never_still, run, texts, written};
use crate::PostgresStore;
use crate::definitions::{Current, ROUNDS};
use crate::functions::{RECORDS_READ, RECORDS_WRITE};
use crate::jobs::enqueue::{Columns, is_heard, queues, rings};
use crate::records::READ_STEP;
use crate::records::changes::Changes;
use crate::row;

impl PostgresStore {
    pub(super) async fn read_over(
        &self,
        line: &mut Line,
        queue: &Name,
        keys: &[RecordKey],
    ) -> StoreResult<Vec<Option<Record>>> {
        self.check_place(line).await?;
        let mut found = vec![None; keys.len()];
        for (step, keys) in keys.chunks(READ_STEP).enumerate() {
            let values = vec![queue.as_str().into(), texts(keys)];
            for row in run(line, self.text(&RECORDS_READ), values).await? {
                let place = place(row.int(0), keys.len())?;
                let record = |key| {
                    Ok(Record {
                        key,
                        version: Version(row.int(1)?.cast_unsigned()),
                        written_at: row::time(row.int(2)?),
                        expires_at: row.optional_int(3)?.map(row::time),
                        value: row.bytes(4)?.clone(),
                    })
                };
                found[step * READ_STEP + place] = Some(record(keys[place].clone()).map_err(misread)?);
            }
        }
        Ok(found)
    }

    pub(super) async fn write_over(
        &self,
        line: &mut Line,
        queue: &Name,
        what: &FollowUps,
    ) -> StoreResult<Vec<Enqueued>> {
        what.check_in(queue)?;
        if what.is_empty() {
            return Ok(Vec::new());
        }
        self.check_place(line).await?;
        let statement = self.text_with_transaction(&RECORDS_WRITE);
        let changes = Changes::of(what.records.iter().map(|write| (queue, write)));
        let mut definitions = match what.jobs.is_empty() {
            true => Current::new(0, Vec::new(), Vec::new()),
            false => self.definitions(queues(&what.jobs)).await?,
        };
        for _ in 0..ROUNDS {
            let columns = Columns::of(&what.jobs, &definitions)?;
            let mut values = enqueue_values(&columns, definitions.version);
            values.extend(key_values(&columns));
            values.push(queue.as_str().into());
            values.extend(change_values(&changes));
            let rows = run(line, &statement, values).await?;
            let said = rows.iter().map(|row| row.text(0));
            let said = said.collect::<Result<Vec<_>, SqlError>>().map_err(misread)?;
            if said.first() == Some(&"conflict") {
                let found = rows.iter().map(|row| {
                    Ok((place(row.int(1), what.records.len())?, row.optional_int(2).map_err(misread)?))
                });
                let found = found.collect::<StoreResult<_>>()?;
                return Err(changes.conflict(&what.records, found).map_err(written)?);
            }
            if what.jobs.is_empty() {
                return Ok(Vec::new());
            }
            let is_heard = said.iter().any(|said| is_heard(said));
            if let Some(answers) = columns.answers(&what.jobs, &definitions, said).map_err(written)? {
                if let (true, Some(row)) = (is_heard, rows.first()) {
                    let xid = row.text(3).map_err(misread)?.to_owned();
                    self.remote.tools().wakeups.watch(xid, rings(&what.jobs));
                }
                return Ok(answers);
            }
            // Whatever the transaction can see is what counts in it.
            self.remote.tools().definitions.forget();
            definitions = self.definitions_over(line, queues(&what.jobs)).await?;
        }
        Err(never_still())
    }
}

/// A place that the server counts from 1.
fn place(said: Result<i64, SqlError>, places: usize) -> StoreResult<usize> {
    let place = said.map_err(misread)?;
    let index = usize::try_from(place - 1).ok().filter(|index| *index < places);
    index.ok_or_else(|| StoreError::Corrupt(format!("an answer is about place {place}")))
}

/// The parameters of `records/write.sql` that say what becomes of records.
fn change_values(changes: &Changes<'_>) -> [Value; 6] {
    let values = changes.values.iter().map(|value| value.map(Bytes::copy_from_slice));
    [
        texts(&changes.keys),
        ints(&changes.expects),
        Value::Ints(changes.expected.clone()),
        Value::Ints(changes.versions.clone()),
        Value::Blobs(values.collect()),
        Value::Ints(changes.ttls.clone()),
    ]
}
