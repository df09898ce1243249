//! Writing inside a transaction of the user's own: the store's own functions, called over the user's connection.

pub(crate) mod place;
mod records;

use async_trait::async_trait;
use uuid::Uuid;
use windlass_core::bell::{Rings, Topic};
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Record, RecordKey};
use windlass_core::sql::{Dialect, Line, Row, SqlError, Value};
use windlass_core::store::{Enqueued, Right, Settled, Settlement, StoreResult, Within};
use windlass_core::{Bytes, Name, NewJob, State, StoreError};

use crate::PostgresStore;
use crate::connect::Call;
use crate::definitions::{self, Current, ROUNDS};
use crate::error::{Effect, Fault, ServerError, meaning};
use crate::functions::{ABORT, DEFINITIONS, ENQUEUE, ENQUEUE_ANY, Function, HOLDS, SETTLE};
use crate::jobs::enqueue::{Columns, queues, rings};
use crate::jobs::settle::{Outcomes, counts_running};
use crate::jobs::unique::Keys;
use crate::row;

#[async_trait]
impl Within for PostgresStore {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn enqueue(&self, line: &mut Line, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        self.check_place(line).await?;
        let mut definitions = self.definitions(queues(jobs)).await?;
        for _ in 0..ROUNDS {
            let columns = Columns::of(jobs, &definitions)?;
            let statement =
                self.text_with_transaction(if columns.are_general() { &ENQUEUE_ANY } else { &ENQUEUE });
            let mut values = enqueue_values(&columns, definitions.version);
            if columns.are_general() {
                values.extend(key_values(&columns));
            }
            let rows = run(line, &statement, values).await?;
            let said = rows.iter().map(|row| row.text(0));
            let said = said.collect::<Result<Vec<_>, SqlError>>().map_err(misread)?;
            if let Some(answers) = columns.answers(jobs, &definitions, said).map_err(written)? {
                let is_heard = |answer: &Enqueued| matches!(answer, Enqueued::New | Enqueued::Replaced(_));
                if let (true, Some(row)) = (answers.iter().any(is_heard), rows.first()) {
                    let xid = row.text(1).map_err(misread)?.to_owned();
                    self.remote.tools().wakeups.watch(xid, rings(jobs));
                }
                return Ok(answers);
            }
            // Whatever the transaction can see is what counts in it.
            self.remote.tools().definitions.forget();
            definitions = self.definitions_over(line, queues(jobs)).await?;
        }
        Err(never_still())
    }

    async fn complete(&self, line: &mut Line, settlement: &Settlement) -> StoreResult<Settled> {
        self.check_place(line).await?;
        let statement = self.text_with_transaction(&SETTLE);
        let names = || std::iter::once(&settlement.queue);
        let mut definitions = self.definitions(names()).await?;
        for _ in 0..ROUNDS {
            let cap = definitions.of(&settlement.queue).caps.output;
            if let Err(error) = settlement.transition.check_output(cap) {
                let holds = run(line, self.text(&HOLDS), holds_values(settlement)).await?;
                if !holds.is_empty() {
                    return Ok(Settled::Refused(error));
                }
                return self.abort(line).await;
            }
            let rows = run(line, &statement, settle_values(settlement, &definitions)).await?;
            let Some(row) = rows.first() else { return self.abort(line).await };
            if row.text(0).map_err(misread)? != "stale" {
                let xid = row.text(3).map_err(misread)?.to_owned();
                let mut rings = Rings::about(Topic::Finish);
                if counts_running(definitions.of(&settlement.queue)) {
                    rings.add_entered(State::Ready, &settlement.queue);
                }
                self.remote.tools().wakeups.watch(xid, rings);
                let state: State = row::state(row.int(2).map_err(misread)?).map_err(written)?;
                return Ok(Settled::Applied(state));
            }
            self.remote.tools().definitions.forget();
            definitions = self.definitions_over(line, names()).await?;
        }
        Err(never_still())
    }

    async fn read_records(
        &self,
        line: &mut Line,
        queue: &Name,
        keys: &[RecordKey],
    ) -> StoreResult<Vec<Option<Record>>> {
        self.read_over(line, queue, keys).await
    }

    async fn write_records(
        &self,
        line: &mut Line,
        queue: &Name,
        what: &FollowUps,
    ) -> StoreResult<Vec<Enqueued>> {
        self.write_over(line, queue, what).await
    }
}

impl PostgresStore {
    /// Lets the transaction fail. A savepoint that it is rolled back to brings it back to life, and with it this job to the
    /// next attempt.
    async fn abort(&self, line: &mut Line) -> StoreResult<Settled> {
        match line.run(self.text(&ABORT), Vec::new()).await {
            Err(SqlError::Answered { .. }) => Ok(Settled::Fenced),
            Err(error) => Err(failed(error)),
            Ok(_) => {
                Err(Fault::Defect("a transaction went on that must not".to_owned()).into_error(Effect::Write))
            }
        }
    }

    /// The statement that calls a function.
    fn text(&self, function: &Function) -> &str {
        self.remote.connections().statements.of(function)
    }

    /// The same, telling also the transaction it is part of.
    fn text_with_transaction(&self, function: &Function) -> String {
        self.text(function).replacen("SELECT *", "SELECT *, pg_current_xact_id()::text", 1)
    }

    async fn definitions(&self, queues: impl Iterator<Item = &Name>) -> StoreResult<Current> {
        let queues: Vec<Name> = queues.cloned().collect();
        self.remote
            .call(Call::READ, async move |tools, session| tools.definitions.of(&session, queues.iter()).await)
            .await
    }

    /// The definitions as the transaction sees them.
    async fn definitions_over(
        &self,
        line: &mut Line,
        queues: impl Iterator<Item = &Name>,
    ) -> StoreResult<Current> {
        let mut names: Vec<Name> = queues.cloned().collect();
        names.sort_unstable();
        names.dedup();
        let asked = names.iter().map(|name| Some(name.as_str().to_owned())).collect();
        let rows = run(line, self.text(&DEFINITIONS), vec![Value::Texts(asked)]).await?;
        let mut found = Vec::new();
        for row in rows.iter().skip(1) {
            let name = Name::new(row.text(1).map_err(misread)?)
                .map_err(|error| StoreError::Corrupt(error.to_string()))?;
            let (config, rules) = (row.text(2).map_err(misread)?, row.int(3).map_err(misread)?);
            let definition = definitions::readable(&name, config, rules);
            found.push((name, definition));
        }
        let first =
            rows.first().ok_or_else(|| StoreError::Corrupt("the definitions have no version".to_owned()))?;
        Ok(Current::new(first.int(0).map_err(misread)?, names, found))
    }
}

async fn run(line: &mut Line, sql: &str, values: Vec<Value>) -> StoreResult<Vec<Row>> {
    line.run(sql, values).await.map_err(failed)
}

/// What an error of the user's connection means.
fn failed(error: SqlError) -> StoreError {
    match error {
        SqlError::Answered { code, text, .. } => {
            ServerError { meaning: meaning(&code), code, text, is_last: false }.into_error(Effect::Write)
        }
        SqlError::Broken { .. } => {
            StoreError::Unknown { what: "the connection broke".to_owned(), source: Some(Box::new(error)) }
        }
        error => misread(error),
    }
}

fn misread(error: SqlError) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

fn written(fault: Fault) -> StoreError {
    fault.into_error(Effect::Write)
}

fn never_still() -> StoreError {
    StoreError::Internal { what: "the definitions of queues never stand still".to_owned(), source: None }
}

fn uuids(ids: &[Uuid]) -> Value {
    Value::Uuids(ids.iter().map(|id| *id.as_bytes()).collect())
}

fn texts<T: AsRef<str>>(texts: &[T]) -> Value {
    Value::Texts(texts.iter().map(|text| Some(text.as_ref().to_owned())).collect())
}

fn ints(numbers: &[i64]) -> Value {
    Value::Ints(numbers.iter().copied().map(Some).collect())
}

/// The parameters of `jobs/enqueue.sql`, and the first ones of `jobs/enqueue_any.sql`.
fn enqueue_values(columns: &Columns<'_>, version: i64) -> Vec<Value> {
    let payloads = columns.payloads.iter().map(|payload| Some(Bytes::copy_from_slice(payload)));
    vec![
        version.into(),
        uuids(&columns.ids),
        ints(&columns.places),
        texts(&columns.queues),
        texts(&columns.kinds),
        Value::Blobs(payloads.collect()),
        ints(&columns.priorities),
        Value::Ints(columns.delays.clone()),
        Value::Ints(columns.times.clone()),
        Value::Ints(columns.expiries.clone()),
        Value::Texts(columns.specs.clone()),
        Value::Texts(columns.tags.clone()),
        // It is never repeated: its fate is that of the transaction.
        Value::Uuids(Vec::new()),
        ints(&columns.fits),
    ]
}

/// The parameters of `jobs/enqueue_any.sql` that follow.
fn key_values(columns: &Columns<'_>) -> [Value; 5] {
    let Keys { digests: _, lifetimes, conflicts, waits } = &columns.keys;
    let lifetimes = lifetimes.iter().map(|lifetime| lifetime.as_deref().map(str::to_owned));
    let conflicts = conflicts.iter().map(|conflict| conflict.map(str::to_owned));
    [
        Value::Texts(columns.keys.texts()),
        Value::Texts(lifetimes.collect()),
        Value::Texts(conflicts.collect()),
        Value::Ints(waits.clone()),
        Value::Texts(columns.lines.clone()),
    ]
}

fn fence_values(settlement: &Settlement) -> [Value; 4] {
    [
        Value::Uuids(vec![*settlement.id.as_bytes()]),
        texts(&[settlement.queue.as_str()]),
        ints(&[row::to_stored(settlement.fence.number)]),
        ints(&[row::to_stored(settlement.fence.nonce)]),
    ]
}

fn holds_values(settlement: &Settlement) -> Vec<Value> {
    std::iter::once(Value::from(Right::Fence.as_str())).chain(fence_values(settlement)).collect()
}

fn settle_values(settlement: &Settlement, definitions: &Current) -> Vec<Value> {
    let outcomes = Outcomes::of(&[settlement], definitions);
    let reasons = outcomes.reasons.iter().map(|reason| reason.map(str::to_owned));
    let outputs = outcomes.outputs.iter().map(|output| output.map(Bytes::copy_from_slice));
    let [ids, queues, fences, nonces] = fence_values(settlement);
    vec![
        definitions.version.into(),
        Right::Fence.as_str().into(),
        ids,
        queues,
        fences,
        nonces,
        ints(&outcomes.states),
        Value::Ints(outcomes.delays.clone()),
        ints(&outcomes.attempts),
        ints(&outcomes.stalls),
        ints(&outcomes.ambiguous),
        ints(&outcomes.backoffs),
        Value::Texts(reasons.collect()),
        texts(&outcomes.endings),
        Value::Texts(outcomes.errors.clone()),
        Value::Blobs(outputs.collect()),
        ints(&outcomes.dropped),
    ]
}
