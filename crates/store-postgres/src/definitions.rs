//! Definitions of queues, kept here as long as they are current.
//!
//! What a definition decides (is a payload too large, is an ended job kept) is decided here, by the rules of the
//! core. Each write says by which version of the definitions it was decided; when that is not the current one, the
//! server writes nothing and answers `stale`, and the call begins anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::queue::{QueueConfig, check_rules};
use windlass_core::{Name, StoreError};

use crate::error::Fault;
use crate::functions::DEFINITIONS;
use crate::row;
use crate::session::Session;

/// How often a call begins anew before it gives up; a definition changes rarely, and not in the same instant again.
pub(crate) const ROUNDS: usize = 20;

/// The most queues that are remembered.
const QUEUES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Definitions {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    version: i64,
    queues: HashMap<Name, Arc<Definition>>,
}

/// What is stored of a queue.
#[derive(Debug, Default)]
pub(crate) struct Definition {
    pub(crate) config: QueueConfig,
    /// The newest rule that it uses.
    pub(crate) rules: u32,
}

/// The definitions of some queues, all of one version.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) version: i64,
    queues: Vec<(Name, Arc<Definition>)>,
}

impl Current {
    /// The definitions of these queues: those that were found, and the default one for the others.
    pub(crate) fn new(version: i64, queues: Vec<Name>, found: Vec<(Name, Definition)>) -> Self {
        let mut found: HashMap<_, _> = found.into_iter().collect();
        let queues = queues.into_iter().map(|name| {
            let definition = found.remove(&name).unwrap_or_default();
            (name, Arc::new(definition))
        });
        Self { version, queues: queues.collect() }
    }

    /// The definition of one of the queues that were asked for.
    pub(crate) fn of(&self, queue: &Name) -> &QueueConfig {
        let found = self.queues.iter().find(|(name, _)| name == queue);
        &found.expect("every queue of a call is asked for").1.config
    }

    /// Whether one of the queues has rules.
    pub(crate) fn have_rules(&self) -> bool {
        self.queues.iter().any(|(_, definition)| definition.rules > 0)
    }

    /// Whether one of the queues has a capacity.
    pub(crate) fn have_capacity(&self) -> bool {
        self.queues.iter().any(|(_, definition)| definition.config.capacity.is_some())
    }

    /// The queues that have limits, of those that this program knows the rules of.
    pub(crate) fn limited(&self) -> Vec<Name> {
        let is_limited = |(name, definition): &&(Name, Arc<Definition>)| {
            definition.config.limits() && check_rules(name, definition.rules).is_ok()
        };
        self.queues.iter().filter(is_limited).map(|(name, _)| name.clone()).collect()
    }

    /// Fails when one of the queues uses a rule that this program does not know.
    pub(crate) fn check_rules(&self) -> Result<(), StoreError> {
        self.queues.iter().try_for_each(|(name, definition)| check_rules(name, definition.rules))
    }

    /// Fails when this queue does.
    pub(crate) fn check_rules_of(&self, queue: &Name) -> Result<(), StoreError> {
        self.unknown().find(|(name, _)| *name == queue).map_or(Ok(()), |(_, error)| Err(error))
    }

    /// The queues that use a rule which this program does not know, and what there is to say.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = (&Name, StoreError)> {
        let check = |(name, definition): &(Name, Arc<Definition>)| check_rules(name, definition.rules).err();
        self.queues.iter().filter_map(move |queue| Some((&queue.0, check(queue)?)))
    }
}

impl Definitions {
    /// The definitions of these queues: remembered ones, or as they are now.
    pub(crate) async fn of(
        &self,
        session: &Session,
        queues: impl Iterator<Item = &Name>,
    ) -> Result<Current, Fault> {
        let mut names: Vec<&Name> = Vec::new();
        for name in queues {
            // Calls are about few queues, and mostly about the one before.
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if let Some(current) = self.remembered(&names) {
            return Ok(current);
        }
        self.now(session, &names).await
    }

    /// The definitions of these queues as they are now.
    pub(crate) async fn now(&self, session: &Session, queues: &[&Name]) -> Result<Current, Fault> {
        let (version, found) = load(session, queues).await?;
        let current = Current::new(version, queues.iter().copied().cloned().collect(), found);
        self.remember(version, &current.queues);
        Ok(current)
    }

    /// The version by which a queue is known to have no rules, or 0 if it is not known; nothing where it has some.
    pub(crate) fn version_without_rules(&self, queue: &Name) -> Option<i64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.queues.get(queue) {
            None => Some(0),
            Some(definition) => (definition.rules == 0).then_some(known.version),
        }
    }

    /// Forgets what is not of this version.
    pub(crate) fn expect(&self, version: i64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.version != version {
            known.queues.clear();
        }
    }

    /// Forgets everything.
    pub(crate) fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).queues.clear();
    }

    fn remembered(&self, names: &[&Name]) -> Option<Current> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |name: &&Name| Some(((*name).clone(), Arc::clone(known.queues.get(*name)?)));
        let queues = names.iter().map(find).collect::<Option<Vec<_>>>()?;
        Some(Current { version: known.version, queues })
    }

    fn remember(&self, version: i64, queues: &[(Name, Arc<Definition>)]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.version != version || known.queues.len() + queues.len() > QUEUES_MAX {
            known.queues.clear();
        }
        known.version = version;
        // Where this program stays out it writes nothing, and so would not hear that the rule has gone.
        let is_usable =
            |(name, definition): &&(Name, Arc<Definition>)| check_rules(name, definition.rules).is_ok();
        known.queues.extend(queues.iter().filter(is_usable).cloned());
    }
}

/// The definition of a queue. One that does not read keeps everything; other queues are not affected.
pub(crate) fn readable(queue: &Name, stored: &str, rules: i64) -> Definition {
    let (config, unreadable) = QueueConfig::read(stored.as_bytes());
    if let Some(why) = unreadable {
        tracing::warn!(%queue, why, "the definition of a queue does not read, so nothing of it is removed: define it anew");
    }
    Definition { config, rules: row::rules(rules) }
}

async fn load(session: &Session, names: &[&Name]) -> Result<(i64, Vec<(Name, Definition)>), Fault> {
    let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    let rows = session.call(&DEFINITIONS, &[&names]).await?;
    let first = rows.first().ok_or_else(|| Fault::Corrupt("the definitions have no version".to_owned()))?;
    let version: Option<i64> = row::at(first, 0)?;
    let version = version.ok_or_else(|| Fault::Corrupt("the definitions have no version".to_owned()))?;
    let mut found = Vec::new();
    for row in &rows[1..] {
        let name = row::name(row, 1)?;
        let definition = readable(&name, row::at(row, 2)?, row::at(row, 3)?);
        found.push((name, definition));
    }
    Ok((version, found))
}
