//! What queues permit and what they hold.

use async_trait::async_trait;
use redis::Value;
use windlass_core::queue::{Counts, QueueConfig, QueueRecord};
use windlass_core::store::{Queues, StoreResult};
use windlass_core::{Name, State};

use crate::connect::{Effect, Lane};
use crate::error::Fault;
use crate::registry::Registry;
use crate::script::{Script, script};
use crate::session::Session;
use crate::{RedisStore, Tools, answer, spread};

static DEFINE: Script = script!("queues/define", "keys");

/// How many names are read at once; a queue that holds nothing is not shown, so there may be more names than queues.
const STEP: u32 = 200;

#[async_trait]
impl Queues for RedisStore {
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()> {
        config.check()?;
        let (queue, config) = (queue.clone(), config.clone());
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            let text = serde_json::to_string(&config)
                .map_err(|error| Fault::Defect(format!("a definition has no text: {error}")))?;
            tools.registry.enter(&session, &tools.keys, [&queue]).await?;
            session.run(&DEFINE, tools.keys.queue(&queue).all(), vec![tools.clock(), text.into()]).await?;
            tools.definitions.forget(&queue);
            Ok(())
        })
        .await
    }

    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>> {
        let after = after.cloned();
        self.call(Lane::Work, Effect::Read, move |tools, session| async move {
            list(&tools, &session, after, limit).await
        })
        .await
    }
}

async fn list(
    tools: &Tools,
    session: &Session,
    mut after: Option<Name>,
    limit: u32,
) -> Result<Vec<QueueRecord>, Fault> {
    let mut records = Vec::new();
    while records.len() < limit as usize {
        let names = Registry::page(session, &tools.keys, after.as_ref(), STEP).await?;
        let is_last = names.len() < STEP as usize;
        after = names.last().cloned();
        let found = spread::each(names, |name| read(tools, session, name)).await?;
        records.extend(found.into_iter().flatten().map(|(record, _)| record));
        if is_last {
            break;
        }
    }
    records.truncate(limit as usize);
    Ok(records)
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
    let config = match fields.next().map(answer::optional_bytes).transpose()?.flatten() {
        Some(text) => serde_json::from_slice(&text)
            .map_err(|error| Fault::Corrupt(format!("the definition of queue {name}: {error}")))?,
        None => QueueConfig::default(),
    };
    let mut counts = Counts::default();
    for (state, count) in State::ALL.into_iter().zip(fields) {
        let count = number(Some(count))?;
        if count < 0 {
            tracing::error!(queue = %name, %state, count, "a queue holds fewer jobs than none");
        }
        counts.set(state, u64::try_from(count).unwrap_or(0));
    }
    let is_there = version > 0 || counts.total() > 0;
    Ok(is_there.then_some((QueueRecord { name, config, counts }, version)))
}

/// A number that may not have been written yet.
fn number(field: Option<Value>) -> Result<i64, Fault> {
    match field {
        None | Some(Value::Nil) => Ok(0),
        Some(value) => answer::integer(value),
    }
}
