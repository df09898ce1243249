//! What queues permit and what they hold.

mod define;
mod permits;
mod remove;

use std::sync::Arc;

use async_trait::async_trait;
use redis::Value;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Counts, QueueConfig, QueueRecord, Removed};
use windlass_core::store::{Queues, SickQueue, StoreResult};
use windlass_core::{Name, State};

use crate::connect::Call;
use crate::error::Fault;
use crate::registry::Registry;
use crate::scripts::NOW;
use crate::session::Session;
use crate::walk::Walk;
use crate::{RedisStore, Tools, answer};
use define::{define, redefine};
pub(crate) use remove::{Removal, remove};

/// How many names are read at once; a queue that holds nothing is not shown, so there may be more names than queues.
const STEP: u32 = 200;

#[async_trait]
impl Queues for RedisStore {
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()> {
        config.check()?;
        let (queue, config) = (queue.clone(), config.clone());
        self.remote
            .call(Call::WRITE, async move |tools, session| define(&tools, &session, &queue, &config).await)
            .await
    }

    async fn redefine(&self, queue: &Name, before: &QueueConfig, config: &QueueConfig) -> StoreResult<bool> {
        config.check()?;
        let (queue, before, config) = (queue.clone(), before.clone(), config.clone());
        let redefine = async move |tools: Arc<Tools>, session: Session| {
            redefine(&tools, &session, &queue, &before, &config).await
        };
        self.remote.call(Call::WRITE, redefine).await
    }

    async fn now(&self) -> StoreResult<Timestamp> {
        self.remote.call(Call::READ, async move |tools, session| now(&tools, &session).await).await
    }

    async fn remove(&self, queue: &Name) -> StoreResult<Removed> {
        let queue = queue.clone();
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                remove(&tools, &session, &queue, Removal::Requested).await
            })
            .await
    }

    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>> {
        let after = after.cloned();
        self.remote
            .call(Call::READ, async move |tools, session| list(&tools, &session, after, limit).await)
            .await
    }

    /// Its own server answers, whatever becomes of the names of queues and however many hold nothing.
    async fn queue(&self, name: &Name) -> StoreResult<Option<QueueRecord>> {
        let name = name.clone();
        self.remote.call(Call::READ, async move |tools, session| look(&tools, &session, name).await).await
    }
}

/// The time of the server that has the names of queues.
async fn now(tools: &Tools, session: &Session) -> Result<Timestamp, Fault> {
    let said = session.run(&NOW, vec![tools.keys.queues()], vec![tools.clock()]).await?;
    answer::integer(said).map(Timestamp::from_micros)
}

async fn list(
    tools: &Tools,
    session: &Session,
    mut after: Option<Name>,
    limit: u32,
) -> Result<Vec<QueueRecord>, Fault> {
    let mut records = Vec::new();
    while records.len() < limit as usize {
        let (names, is_last) = page(tools, session, after.as_ref()).await?;
        let Some(last) = names.last() else { break };
        after = Some(last.clone());
        let (hasty, walk) = (session.hasty(), Walk::looking(tools, session));
        let hasty = &hasty;
        let found = walk.each(names, |name: Name| async move { look(tools, hasty, name).await }).await;
        if let Some(Err(sick)) = found.first()
            && found.iter().all(Result::is_err)
        {
            return Err(Fault::Sick(sick.clone()));
        }
        records.extend(found.into_iter().filter_map(|found| match found {
            Ok(found) => found,
            Err(sick) => Some(unasked(sick)),
        }));
        if is_last {
            break;
        }
    }
    records.truncate(limit as usize);
    Ok(records)
}

/// The names after one: from their server, or while that is away those that were seen before.
async fn page(tools: &Tools, session: &Session, after: Option<&Name>) -> Result<(Vec<Name>, bool), Fault> {
    match Registry::page(&session.hasty(), &tools.keys, after, STEP).await {
        Ok(page) => Ok(page),
        Err(fault) => {
            let names = tools.registry.all(session, &tools.keys).await.map_err(|_| fault)?;
            let names: Vec<_> = names.into_iter().filter(|name| Some(name) > after).collect();
            Ok((names, true))
        }
    }
}

/// A queue that cannot be asked: it is shown, and says so.
fn unasked(sick: SickQueue) -> QueueRecord {
    let (config, counts) = (QueueConfig::unreadable(), Counts::default());
    QueueRecord { name: sick.queue, config, counts, permits: None, unreadable: Some(sick.what) }
}

/// A queue as anyone can look at it; nothing if it was not defined and holds nothing.
async fn look(tools: &Tools, session: &Session, name: Name) -> Result<Option<QueueRecord>, Fault> {
    let Some((mut record, _version)) = read(tools, session, name).await? else { return Ok(None) };
    if let Some(rate) = record.config.rate {
        record.permits = Some(permits::left(tools, session, &record.name, rate).await?);
    }
    Ok(Some(record))
}

/// What a queue permits and holds, and the version of its definition; nothing if it was not defined and holds nothing.
pub(crate) async fn read(
    tools: &Tools,
    session: &Session,
    name: Name,
) -> Result<Option<(QueueRecord, i64)>, Fault> {
    let mut get = redis::cmd("HMGET");
    get.arg(&tools.keys.queue(&name).meta()[..]).arg("version").arg("config");
    for state in State::ALL {
        get.arg(format!("c{}", state.code()));
    }
    let mut fields = answer::array(session.command(get).await?)?.into_iter();
    let version = number(fields.next())?;
    let (config, unreadable) = match fields.next().map(answer::optional_bytes).transpose()?.flatten() {
        Some(text) => QueueConfig::read(&text),
        None => (QueueConfig::default(), None),
    };
    let counts = counts(&name, fields)?;
    let is_there = version > 0 || counts.total() > 0;
    Ok(is_there.then_some((QueueRecord { name, config, counts, permits: None, unreadable }, version)))
}

/// How many jobs are in each state.
fn counts(queue: &Name, fields: impl Iterator<Item = Value>) -> Result<Counts, Fault> {
    let mut counts = Counts::default();
    for (state, count) in State::ALL.into_iter().zip(fields) {
        let count = number(Some(count))?;
        if count < 0 {
            tracing::error!(%queue, %state, count, "a queue holds fewer jobs than none");
        }
        counts.set(state, u64::try_from(count).unwrap_or(0));
    }
    Ok(counts)
}

/// A number that may not have been written yet.
fn number(field: Option<Value>) -> Result<i64, Fault> {
    match field {
        None | Some(Value::Nil) => Ok(0),
        Some(value) => answer::integer(value),
    }
}
