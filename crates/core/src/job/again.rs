//! New jobs that are made of old ones.

use super::{JobRecord, NewJob};
use crate::flow::MEMBER;
use crate::id::JobId;
use crate::name::Name;
use crate::options::Due;
use crate::state::State;
use crate::unique::OnConflict;

/// The name in meta of the job that a new one was made of.
pub const AGAIN_OF: &str = "windlass.again_of";

impl JobRecord {
    /// The same job for another queue, as one that is handed in anew: with fresh attempts, an expiry that counts anew,
    /// and an id of its own ([`JobId::moved_to`]). A job that was scheduled keeps its instant.
    pub fn moved_to(&self, queue: &Name) -> NewJob {
        let Self { kind, payload, priority, key, unique, spec, tags, enqueued_at, due_at, .. } = self;
        NewJob {
            id: self.id.moved_to(queue),
            queue: queue.clone(),
            kind: kind.clone(),
            payload: payload.clone(),
            priority: *priority,
            due: if self.state == State::Scheduled { Due::At(*due_at) } else { Due::Now },
            expires: self.expires_at.map(|expires_at| expires_at.since(*enqueued_at)),
            key: key.clone(),
            unique: *unique,
            on_conflict: OnConflict::Keep,
            spec: spec.clone(),
            tags: tags.clone(),
        }
    }

    /// The same job for the same queue once more, under an id of its own: due now, with fresh attempts, without its expiry,
    /// and with a link to this one in its meta.
    pub fn again(&self, id: JobId) -> NewJob {
        let mut job = self.moved_to(&self.queue).with_id(id);
        (job.due, job.expires) = (Due::Now, None);
        // The flow of the first one has heard of its end.
        job.spec.meta.remove(MEMBER);
        job.spec.meta.insert(AGAIN_OF.to_owned(), self.id.to_string());
        job
    }
}
