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
        let (queue, config) = (queue.clone(), config.text());
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
        let config: Option<String> = found.get(1)?;
        let (config, mut unreadable) = row::definition(config.as_deref());
        let mut counts = Counts::default();
        for (column, state) in State::ALL.into_iter().enumerate() {
            let count: i64 = found.get(column + 2)?;
            if count < 0 {
                unreadable.get_or_insert_with(|| format!("it counts {count} jobs that are {state}"));
            }
            counts.set(state, u64::try_from(count).unwrap_or_default());
        }
        let name = row::readable(row::name(found, 0))?.unwrap_or_else(Name::unreadable);
        queues.push(QueueRecord { name, config, counts, unreadable });
    }
    Ok(queues)
}
