//! What queues permit and what they hold.

use async_trait::async_trait;
use tokio_postgres::Row;
use windlass_core::queue::{Counts, QueueConfig, QueueRecord, Removed, check_rules};
use windlass_core::store::{Queues, StoreResult};
use windlass_core::{Name, State};

use crate::connect::Call;
use crate::error::Fault;
use crate::functions::{DEFINE, FOLD, QUEUES, REMOVE};
use crate::row::{self, at};
use crate::session::Session;
use crate::{PostgresStore, Tools};

/// How many loose rows of the counters are folded at once.
pub(crate) const FOLD_MAX: i64 = 20_000;

#[async_trait]
impl Queues for PostgresStore {
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()> {
        config.check()?;
        let (queue, config) = (queue.clone(), config.clone());
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                let payload_max = i64::try_from(config.caps.payload).unwrap_or(i64::MAX);
                let (name, text, rules) = (queue.as_str(), config.text(), i64::from(config.rules()));
                let row = session.call_one(&DEFINE, &[&name, &text, &payload_max, &rules]).await?;
                tools.definitions.forget();
                let unknown: Option<i64> = at(&row, 0)?;
                unknown.map_or(Ok(()), |rules| Ok(check_rules(&queue, row::rules(rules))?))
            })
            .await
    }

    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>> {
        let after = after.cloned();
        self.remote
            .call(Call::READ, async move |_, session| list(&session, after.as_ref(), limit).await)
            .await
    }

    async fn remove(&self, queue: &Name) -> StoreResult<Removed> {
        let queue = queue.clone();
        self.remote
            .call(Call::WRITE, async move |tools, session| remove(&tools, &session, &queue).await)
            .await
    }
}

async fn remove(tools: &Tools, session: &Session, queue: &Name) -> Result<Removed, Fault> {
    let row = session.call_one(&REMOVE, &[&queue.as_str()]).await?;
    match at(&row, 0)? {
        "rules" => check_rules(queue, row::rules(at(&row, 1)?))?,
        "full" => return counts(&row, queue.as_str()).map(Removed::NotEmpty),
        "missing" => return Ok(Removed::Missing),
        _ => tools.definitions.forget(),
    }
    Ok(Removed::Done)
}

pub(crate) async fn list(
    session: &Session,
    after: Option<&Name>,
    limit: u32,
) -> Result<Vec<QueueRecord>, Fault> {
    // No name is empty, so all come after the empty text.
    let after = after.map_or("", Name::as_str);
    let rows = session.call(&QUEUES, &[&after, &i64::from(limit)]).await?;
    rows.iter().map(record).collect()
}

/// Folds the rows that calls have added to the counters. Answers how many.
pub(crate) async fn fold(session: &Session, most: i64) -> Result<i64, Fault> {
    at(&session.call_one(&FOLD, &[&most]).await?, 0)
}

fn record(found: &Row) -> Result<QueueRecord, Fault> {
    let counts = counts(found, at(found, 0)?)?;
    let config: Option<&str> = at(found, 1)?;
    let read = |text: &str| QueueConfig::read(text.as_bytes());
    let (config, unreadable) = config.map_or_else(Default::default, read);
    Ok(QueueRecord { name: row::name(found, 0)?, config, counts, unreadable })
}

/// The counts that rows have from their third column on.
fn counts(found: &Row, queue: &str) -> Result<Counts, Fault> {
    let mut counts = Counts::default();
    for (column, state) in (2..).zip(State::ALL) {
        let count: i64 = at(found, column)?;
        if count < 0 {
            tracing::error!(queue, %state, count, "a queue holds fewer jobs than none");
        }
        counts.set(state, u64::try_from(count).unwrap_or(0));
    }
    Ok(counts)
}
