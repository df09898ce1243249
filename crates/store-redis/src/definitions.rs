//! Definitions of queues, kept here as long as they are current.
//!
//! What a definition decides (is a payload too large, is an ended job kept) is decided here, by the rules of the core.
//! Each write says by which version of its queue's definition it was decided; when that is not the current one, the
//! script writes nothing and answers `stale`, and the call begins anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::Value;
use windlass_core::queue::{QueueConfig, RULE_OF_KEYS, check_rules};
use windlass_core::{Name, StoreError};

use crate::answer;
use crate::error::Fault;
use crate::keys::Keys;
use crate::session::Session;

/// How often a call begins anew before it gives up; a definition changes rarely, and not in the same instant again.
pub(crate) const ROUNDS: usize = 20;

/// The most queues that are remembered.
const QUEUES_MAX: usize = 10_000;

/// What this process knows of the definitions.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    known: Mutex<HashMap<Name, Arc<Definition>>>,
}

/// The definition of one queue.
#[derive(Debug, Default)]
pub(crate) struct Definition {
    /// 0 as long as there is none.
    pub(crate) version: i64,
    pub(crate) config: QueueConfig,
    /// The newest rule that it uses.
    rules: u32,
}

impl Definition {
    /// The version as scripts are told it.
    pub(crate) fn version(&self) -> bytes::Bytes {
        self.version.to_string().into()
    }

    /// Whether the queue takes jobs that have a key.
    pub(crate) fn takes_keys(&self) -> bool {
        self.rules >= RULE_OF_KEYS
    }

    /// Fails when the queue uses a rule that this program does not know.
    pub(crate) fn check_rules(&self, queue: &Name) -> Result<(), StoreError> {
        check_rules(queue, self.rules)
    }
}

impl Definitions {
    /// The definition of a queue: the remembered one, or as it is now.
    pub(crate) async fn of(
        &self,
        session: &Session,
        keys: &Keys,
        queue: &Name,
    ) -> Result<Arc<Definition>, Fault> {
        if let Some(definition) = self.known().get(queue) {
            return Ok(Arc::clone(definition));
        }
        let definition = Arc::new(load(session, keys, queue).await?);
        // Where this program stays out it writes nothing, and so would not hear that the rule has gone.
        if definition.check_rules(queue).is_ok() {
            let mut known = self.known();
            if known.len() >= QUEUES_MAX {
                known.clear();
            }
            known.insert(queue.clone(), Arc::clone(&definition));
        }
        Ok(definition)
    }

    /// Forgets a definition that is not of this version.
    pub(crate) fn expect(&self, queue: &Name, version: i64) {
        let mut known = self.known();
        if known.get(queue).is_some_and(|definition| definition.version != version) {
            known.remove(queue);
        }
    }

    /// Forgets a definition.
    pub(crate) fn forget(&self, queue: &Name) {
        self.known().remove(queue);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Name, Arc<Definition>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That a definition changed each time that a call looked at it.
pub(crate) fn never_stands_still() -> Fault {
    Fault::Defect("the definition of a queue never stands still".to_owned())
}

/// The definition of a queue as it is now.
pub(crate) async fn load(session: &Session, keys: &Keys, queue: &Name) -> Result<Definition, Fault> {
    let mut get = redis::cmd("HMGET");
    get.arg(&keys.queue(queue).meta()[..]).arg("version").arg("config").arg("rules");
    let [version, config, rules] = <[Value; 3]>::try_from(answer::array(session.command(get).await?)?)
        .map_err(|_| Fault::Corrupt("a queue's definition is not whole".to_owned()))?;
    match (version, answer::optional_bytes(config)?) {
        (Value::Nil, _) | (_, None) => Ok(Definition::default()),
        (version, Some(text)) => {
            let (config, unreadable) = QueueConfig::read(&text);
            if let Some(why) = &unreadable {
                tracing::warn!(%queue, why, "the definition of a queue does not read: nothing of it is removed");
            }
            Ok(Definition { version: answer::integer(version)?, config, rules: self::rules(rules)? })
        }
    }
}

/// The newest rule that a queue uses; it may not say any.
pub(crate) fn rules(stored: Value) -> Result<u32, Fault> {
    match stored {
        Value::Nil => Ok(0),
        rules => Ok(u32::try_from(answer::integer(rules)?).unwrap_or(u32::MAX)),
    }
}
