//! What queues permit and what they hold.

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use windlass_core::bell::Rings;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Counts, Permits, QueueConfig, QueueRecord, Removed, Spent, check_rules};
use windlass_core::store::{Queues, StoreResult};
use windlass_core::{Name, State};

use crate::connect::Call;
use crate::definitions::ROUNDS;
use crate::error::Fault;
use crate::functions::{DEFINE, FOLD, NOW, QUEUES, REMOVE};
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
                define(&tools, &session, &queue, &config, None).await.map(drop)
            })
            .await
    }

    async fn redefine(&self, queue: &Name, before: &QueueConfig, config: &QueueConfig) -> StoreResult<bool> {
        config.check()?;
        let (queue, before, config) = (queue.clone(), before.clone(), config.clone());
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                redefine(&tools, &session, &queue, &before, &config).await
            })
            .await
    }

    async fn now(&self) -> StoreResult<Timestamp> {
        self.remote
            .call(Call::READ, async move |_, session| {
                at(&session.call_one(&NOW, &[]).await?, 0).map(row::time)
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

/// Sets a definition, if the definitions have this version still. Answers whether they have.
async fn define(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    config: &QueueConfig,
    version: Option<i64>,
) -> Result<bool, Fault> {
    let payload_max = i64::try_from(config.caps.payload).unwrap_or(i64::MAX);
    let (name, text, rules) = (queue.as_str(), config.text(), i64::from(config.rules()));
    let is_counted = config.concurrency.is_some();
    let capacity = config.capacity.map(|capacity| i64::try_from(capacity).unwrap_or(i64::MAX));
    let fields: [&(dyn ToSql + Sync); 7] =
        [&name, &text, &payload_max, &rules, &is_counted, &capacity, &version];
    let row = session.call_one(&DEFINE, &fields).await?;
    tools.definitions.forget();
    match at(&row, 0)? {
        "rules" => check_rules(queue, row::rules(at(&row, 1)?))?,
        "stale" => return Ok(false),
        _ => tools.ring(Rings::entered(State::Ready, queue)),
    }
    Ok(true)
}

/// Sets a definition if it is the one that the caller has read. Read here, since texts of the same definition may differ.
async fn redefine(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    before: &QueueConfig,
    config: &QueueConfig,
) -> Result<bool, Fault> {
    for _ in 0..ROUNDS {
        let current = tools.definitions.now(session, &[queue]).await?;
        current.check_rules()?;
        if current.of(queue) != before {
            return Ok(false);
        }
        if define(tools, session, queue, config, Some(current.version)).await? {
            return Ok(true);
        }
    }
    Err(Fault::Defect("the definitions of queues never stand still".to_owned()))
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
    let permits = permits(found, &config)?;
    Ok(QueueRecord { name: row::name(found, 0)?, config, counts, permits, unreadable })
}

/// What the rate of a queue permits, by what was spent of it.
fn permits(found: &Row, config: &QueueConfig) -> Result<Option<Permits>, Fault> {
    let (Some(rate), Some(spent)) = (config.rate, at::<Option<Vec<i64>>>(found, 10)?) else {
        return Ok(None);
    };
    let pairs = spent.chunks_exact(2).map(|pair| (row::time(pair[0]), u64::try_from(pair[1]).unwrap_or(0)));
    Ok(Some(rate.permits(pairs.map(|(back_at, jobs)| Spent { back_at, jobs }), row::time(at(found, 9)?))))
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
