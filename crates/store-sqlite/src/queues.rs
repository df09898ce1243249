//! What queues permit and what they hold.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use windlass_core::queue::{Counts, QueueConfig, QueueRecord};
use windlass_core::store::{Queues, StoreResult};
use windlass_core::{Name, State};

use crate::error::Fault;
use crate::{SqliteStore, row};

const DEFINE: &str = include_str!("../queries/queues/define.sql");
const LIST: &str = include_str!("../queries/queues/list.sql");

#[async_trait]
impl Queues for SqliteStore {
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()> {
        config.check()?;
        let (queue, config) = (queue.clone(), row::json(config)?);
        self.write(1, move |session| {
            session.prepare(DEFINE)?.execute([queue.as_str(), &config])?;
            session.forget_configs();
            Ok(())
        })
        .await
    }

    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>> {
        let after = after.cloned();
        self.read(move |connection, _| list(connection, after.as_ref(), limit)).await
    }
}

fn list(connection: &Connection, after: Option<&Name>, limit: u32) -> Result<Vec<QueueRecord>, Fault> {
    let mut statement = connection.prepare_cached(LIST)?;
    // No name is empty, so all come after the empty text.
    let mut rows = statement.query(params![after.map_or("", Name::as_str), limit])?;
    let mut queues = Vec::new();
    while let Some(found) = rows.next()? {
        let mut counts = Counts::default();
        for (column, state) in State::ALL.into_iter().enumerate() {
            let count: i64 = found.get(column + 2)?;
            let count = u64::try_from(count)
                .map_err(|_| Fault::Corrupt(format!("a queue holds {count} jobs that are {state}")))?;
            counts.set(state, count);
        }
        let config: Option<String> = found.get(1)?;
        queues.push(QueueRecord {
            name: row::name(found, 0)?,
            config: row::config(config.as_deref())?,
            counts,
        });
    }
    Ok(queues)
}
