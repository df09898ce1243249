//! A transaction of the user's own, asked over a line: what a [`Session`](crate::session::Session) is to the writer.

use std::collections::HashMap;
use std::sync::Arc;

use windlass_core::clock::Timestamp;
use windlass_core::sql::{Line, Row, Value};
use windlass_core::{Name, NewJob};

use super::Failed;
use crate::accept::{self, Insert};
use crate::counters::{COUNT, FORGET};
use crate::keys;
use crate::moves::Moves;
use crate::row::definition::Definition;
use crate::session::CONFIG;
use crate::tallies;
use crate::transaction::{Field, Transaction};

pub(super) struct UserTx<'l> {
    line: &'l mut Line,
    pub(super) now: Timestamp,
    moves: Moves,
    definitions: Vec<(Name, Arc<Definition>)>,
}

impl<'l> UserTx<'l> {
    pub(super) fn new(line: &'l mut Line) -> Self {
        Self { line, now: Timestamp::from_micros(0), moves: Moves::default(), definitions: Vec::new() }
    }

    pub(super) async fn ask(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, Failed> {
        Ok(self.line.run(sql, values).await?)
    }
}

impl Transaction for UserTx<'_> {
    type Error = Failed;

    fn now(&self) -> Timestamp {
        self.now
    }

    fn note(&mut self, note: impl FnOnce(&mut Moves)) {
        note(&mut self.moves);
    }

    /// The rings wait for the commit, which a [`CommitWatch`](super::CommitWatch) looks for.
    async fn write_counters(&mut self) -> Result<(), Failed> {
        for (queue, deltas) in self.moves.counts.take() {
            let name = Value::from(queue.as_str());
            let counts = deltas.iter().map(|delta| Value::from(*delta));
            self.ask(COUNT, [name.clone()].into_iter().chain(counts).collect()).await?;
            if deltas.iter().sum::<i64>() < 0 {
                self.ask(FORGET, vec![name]).await?;
            }
        }
        tallies::write(self).await
    }

    async fn definition(&mut self, queue: &Name) -> Result<Arc<Definition>, Failed> {
        if let Some((_, definition)) = self.definitions.iter().find(|(name, _)| name == queue) {
            return Ok(Arc::clone(definition));
        }
        let rows = self.ask(CONFIG, vec![queue.as_str().into()]).await?;
        let stored = rows.first().map(|row| row.optional_text(0)).transpose()?.flatten();
        let definition = Arc::new(Definition::read(stored));
        self.definitions.push((queue.clone(), Arc::clone(&definition)));
        Ok(definition)
    }

    async fn run(&mut self, sql: &'static str, fields: &[Field<'_>]) -> Result<(), Failed> {
        self.ask(sql, fields.iter().map(Field::to_value).collect()).await.map(drop)
    }

    async fn find(&mut self, sql: &'static str, fields: &[Field<'_>]) -> Result<Option<Row>, Failed> {
        Ok(self.find_all(sql, fields).await?.into_iter().next())
    }

    async fn find_all(&mut self, sql: &'static str, fields: &[Field<'_>]) -> Result<Vec<Row>, Failed> {
        self.ask(sql, fields.iter().map(Field::to_value).collect()).await
    }

    async fn insert(&mut self, jobs: &[NewJob]) -> Result<Vec<Option<i64>>, Failed> {
        let mut values = Vec::with_capacity(jobs.len() * accept::FIELDS);
        for job in jobs {
            values.extend(accept::fields(job, self.now)?.iter().map(Field::to_value));
            values.extend(keys::fields(job, jobs.len()).iter().map(Field::to_value));
        }
        let inserted = self.ask(Insert::of(jobs).returning, values).await?;
        let place = |row: &Row| Ok::<_, Failed>((row.uuid(1)?, row.int(0)?));
        let mut places = inserted.iter().map(place).collect::<Result<HashMap<_, _>, _>>()?;
        Ok(jobs.iter().map(|job| places.remove(job.id.as_bytes())).collect())
    }
}
