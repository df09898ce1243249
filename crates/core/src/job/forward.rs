//! What is sent to another queue when a job dies, in the same write: the job itself, as a new one.

use bytes::Bytes;

use super::{ClaimedJob, JobRecord, META_MAX, NewJob, Spec};
use crate::flow::MEMBER;
use crate::id::JobId;
use crate::judge::Transition;
use crate::name::Name;
use crate::options::Due;
use crate::outcome::Reason;
use crate::size::bounded_text;
use crate::state::State;
use crate::unique::OnConflict;

/// The name in meta of the job that died.
pub const FORWARD_OF: &str = "windlass.forward_of";
/// The name in meta of the queue that it died in.
pub const FORWARDED_FROM: &str = "windlass.forwarded_from";
/// The name in meta of why it died.
pub const FORWARD_REASON: &str = "windlass.reason";
/// The name in meta of the error that it died of, cut to what is left there.
pub const FORWARD_ERROR: &str = "windlass.error";

/// What is sent on of a job that dies: all but its keys, which are those of its queue.
#[derive(Debug, Clone, Copy)]
pub struct Forward<'a> {
    id: JobId,
    queue: &'a Name,
    kind: &'a Name,
    payload: &'a Bytes,
    priority: i16,
    tags: &'a [Name],
    spec: &'a Spec,
}

impl<'a> Forward<'a> {
    /// Of a job in the hands of a worker.
    pub fn of_claimed(job: &'a ClaimedJob) -> Self {
        let ClaimedJob { id, queue, kind, payload, priority, tags, facts, .. } = job;
        Self { id: *id, queue, kind, payload, priority: *priority, tags, spec: &facts.spec }
    }

    /// Of a job as anyone can look at it.
    pub fn of_record(job: &'a JobRecord) -> Self {
        let JobRecord { id, queue, kind, payload, priority, tags, spec, .. } = job;
        Self { id: *id, queue, kind, payload, priority: *priority, tags, spec }
    }

    /// The job to enqueue with this transition, where its [spec](Spec::forward_dead) names a queue and it dies. `death` tells
    /// the deaths of one job apart: the id follows from it, so that it is the same however often it is made.
    pub fn follows(&self, death: &str, transition: &Transition) -> Option<NewJob> {
        if transition.state != State::Dead {
            return None;
        }
        self.job(death, transition.reason, transition.error.as_deref())
    }

    /// The job to enqueue for one that is dead of this.
    pub fn job(&self, death: &str, reason: Option<Reason>, error: Option<&str>) -> Option<NewJob> {
        let to = self.spec.forward_dead.as_ref()?;
        // Once is enough: it may die there, too, and must not wander.
        let mut spec = Spec { forward_dead: None, ..self.spec.clone() };
        spec.meta.remove(MEMBER);
        let mut add = |key: &str, value: String| spec.meta.insert(key.to_owned(), value);
        add(FORWARD_OF, self.id.to_string());
        add(FORWARDED_FROM, self.queue.to_string());
        if let Some(reason) = reason {
            add(FORWARD_REASON, reason.to_string());
        }
        let used: usize = spec.meta.iter().map(|(key, value)| key.len() + value.len()).sum();
        let room = META_MAX.saturating_sub(used + FORWARD_ERROR.len());
        if let Some(error) = error.filter(|_| room > 0) {
            spec.meta.insert(FORWARD_ERROR.to_owned(), bounded_text(error, room));
        }
        Some(NewJob {
            id: JobId::from_key("windlass.forward", &format!("{} {death}", self.id)),
            queue: to.clone(),
            kind: self.kind.clone(),
            payload: self.payload.clone(),
            priority: self.priority,
            due: Due::Now,
            expires: None,
            key: None,
            unique: None,
            on_conflict: OnConflict::Keep,
            spec,
            tags: self.tags.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn spec(meta: BTreeMap<String, String>) -> Spec {
        Spec { forward_dead: Name::new("mail.dead").ok(), meta, ..Spec::default() }
    }

    #[test]
    fn what_is_sent_on_says_where_it_is_from() {
        let (queue, kind) = (Name::new("mail").unwrap(), Name::new("send").unwrap());
        let (spec, payload) = (spec([("tenant".into(), "acme".into())].into()), Bytes::from_static(b"{}"));
        let (tags, id) = ([Name::new("eu").unwrap()], JobId::new());
        let forward = Forward {
            id,
            queue: &queue,
            kind: &kind,
            payload: &payload,
            priority: 3,
            tags: &tags,
            spec: &spec,
        };
        let made = || forward.job("1-2", Some(Reason::Permanent), Some("no such mailbox")).unwrap();
        let job = made();
        assert_eq!((job.queue.as_str(), &job.kind, &job.payload), ("mail.dead", &kind, &payload));
        assert_eq!((job.priority, &job.tags[..]), (3, &tags[..]));
        assert_eq!(job.spec.forward_dead, None, "it does not wander");
        let id = id.to_string();
        let expected = [
            ("tenant", "acme"),
            (FORWARD_ERROR, "no such mailbox"),
            (FORWARD_OF, &id),
            (FORWARDED_FROM, "mail"),
            (FORWARD_REASON, Reason::Permanent.as_str()),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(job.spec.meta, expected.into());
        assert_eq!(made().id, job.id);
        assert_ne!(forward.job("2-2", None, None).unwrap().id, job.id, "another death");
    }

    #[test]
    fn an_error_takes_what_is_left_of_the_meta() {
        let (name, payload) = (Name::new("q").unwrap(), Bytes::new());
        let long = "ä".repeat(META_MAX);
        for used in [0, META_MAX - 400, META_MAX] {
            let spec = spec([("k".into(), "v".repeat(used))].into());
            let forward = Forward {
                id: JobId::new(),
                queue: &name,
                kind: &name,
                payload: &payload,
                priority: 0,
                tags: &[],
                spec: &spec,
            };
            let meta = forward.job("", None, Some(&long)).unwrap().spec.meta;
            let size: usize = meta.iter().map(|(key, value)| key.len() + value.len()).sum();
            assert!(size <= META_MAX || !meta.contains_key(FORWARD_ERROR), "{size}");
        }
    }
}
