//! Unique keys as an enqueue says them, and what it is answered about jobs that met the holder of theirs. Keys are taken by
//! `accept` and given up by `moves`, see `migrations/0005_unique.sql`.

use std::borrow::Cow;

use uuid::Uuid;
use windlass_core::job::NewJob;
use windlass_core::store::Enqueued;
use windlass_core::unique::{Digest, Lifetime, OnConflict, UniqueKey};

use crate::error::Fault;
use crate::jobs::enqueue::unless_all;
use crate::row;

/// One column each, in the order of the jobs' ids; none where no job has a key.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pub(crate) digests: Vec<Option<Uuid>>,
    pub(crate) lifetimes: Vec<Option<Cow<'static, str>>>,
    /// None: the holder stays as it is.
    pub(crate) conflicts: Vec<Option<&'static str>>,
    pub(crate) waits: Vec<Option<i64>>,
}

impl Keys {
    pub(crate) fn of<'j>(jobs: impl Iterator<Item = &'j NewJob> + Clone) -> Self {
        let unique = || jobs.clone().map(|job| job.unique);
        if unique().all(|key| key.is_none()) {
            return Self::default();
        }
        Self {
            digests: unique().map(|key| key.map(|key| Uuid::from_bytes(key.digest.0))).collect(),
            lifetimes: unique().map(|key| key.map(|key| lifetime(key.lifetime))).collect(),
            conflicts: unless_all(None, jobs.clone().map(|job| conflict(job.on_conflict))),
            waits: unless_all(None, jobs.map(|job| wait(job.on_conflict))),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// The digests as `accept` takes them.
    pub(crate) fn texts(&self) -> Vec<Option<String>> {
        self.digests.iter().map(|digest| digest.map(|digest| digest.simple().to_string())).collect()
    }
}

fn lifetime(lifetime: Lifetime) -> Cow<'static, str> {
    match lifetime {
        Lifetime::Start => "start".into(),
        Lifetime::End => "end".into(),
        _ => lifetime.to_string().into(),
    }
}

/// What `keys_take` calls it.
fn conflict(on_conflict: OnConflict) -> Option<&'static str> {
    match on_conflict {
        OnConflict::Replace => Some("replace"),
        OnConflict::Debounce { .. } => Some("debounce"),
        _ => None,
    }
}

fn wait(on_conflict: OnConflict) -> Option<i64> {
    match on_conflict {
        OnConflict::Debounce { wait_max } => wait_max.map(row::micros),
        _ => None,
    }
}

/// The answer for a job that met the holder of its key: `duplicate`, the holder's id and its state if it is still there, or
/// `replaced` and the id. Nothing for any other answer.
pub(super) fn met(said: &str) -> Option<Result<Enqueued, Fault>> {
    let misread = || Fault::Corrupt(format!("a job was answered with {said:?}"));
    let mut words = said.split(' ');
    let is_replaced = match words.next()? {
        "duplicate" => false,
        "replaced" => true,
        _ => return None,
    };
    let id = words.next().and_then(|id| id.parse().ok()).ok_or_else(misread);
    let state = words.next().map(|code| code.parse().map_err(|_| misread()).and_then(row::state));
    let answer = |(id, state)| {
        if is_replaced { Enqueued::Replaced(id) } else { Enqueued::Duplicate { id, state } }
    };
    Some(id.and_then(|id| Ok((id, state.transpose()?))).map(answer))
}

/// The key that a row has in these two columns.
pub(crate) fn stored(digest: Option<Uuid>, lifetime: Option<&str>) -> Result<Option<UniqueKey>, Fault> {
    let Some((digest, lifetime)) = digest.zip(lifetime) else { return Ok(None) };
    let lifetime: Lifetime = lifetime.parse().map_err(Fault::Corrupt)?;
    Ok(Some(UniqueKey { digest: Digest(digest.into_bytes()), lifetime }))
}

#[cfg(test)]
mod tests {
    use windlass_core::{JobId, State};

    use super::*;

    #[test]
    fn answers_name_the_holder() {
        let id = JobId::new();
        let read = |said: &str| met(said).unwrap().unwrap();
        assert_eq!(
            read(&format!("duplicate {id} 3")),
            Enqueued::Duplicate { id, state: Some(State::Running) }
        );
        assert_eq!(read(&format!("duplicate {id}")), Enqueued::Duplicate { id, state: None });
        assert_eq!(read(&format!("replaced {id}")), Enqueued::Replaced(id));
        assert!(met("new").is_none() && met("known 2").is_none());
        assert!(met("duplicate").unwrap().is_err() && met(&format!("duplicate {id} x")).unwrap().is_err());
    }
}
