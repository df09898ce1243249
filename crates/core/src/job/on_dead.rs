//! What is enqueued when a job dies, in the same write.

use serde::{Deserialize, Serialize};

use super::{JobInvalid, JobRecord, NewJob};
use crate::id::{Fence, JobId};
use crate::judge::Transition;
use crate::name::Name;
use crate::options::Options;
use crate::outcome::Reason;
use crate::size::bounded_text;
use crate::state::State;

/// The kind, and perhaps the queue, of the job that is enqueued when a job dies. Its payload is a [`DeadJob`].
///
/// It is enqueued by the worker or the reaper that writes the death, in the same write. A job that
/// [expires](Options::expires_in) before it starts dies inside the store: maintenance finds it and enqueues this about a minute
/// later, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OnDead {
    /// What is enqueued.
    pub kind: Name,
    /// Where; in the queue of the job that died if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Name>,
}

/// A job that died: the payload of what is enqueued for it. The job itself is among the dead, with payload and attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeadJob {
    /// Its id.
    pub id: JobId,
    /// The queue it died in.
    pub queue: Name,
    /// Its kind.
    pub kind: Name,
    /// Why it is dead.
    pub reason: Option<Reason>,
    /// The error of its last attempt, cut to a few kilobytes.
    pub error: Option<String>,
    /// How many attempts it used.
    pub attempts: u32,
}

/// What tells the death of a job that did not start in time from its others: there is one, for a job that is sent back does
/// not expire again.
pub const EXPIRED: &str = "expired";
/// Bytes of an error that are handed on.
const ERROR_MAX: usize = 4_096;

impl OnDead {
    /// A job of this kind, in the queue of the job that dies.
    ///
    /// # Errors
    /// When the kind is not a name.
    pub fn kind(kind: impl AsRef<str>) -> Result<Self, JobInvalid> {
        let kind = Name::new(kind).map_err(|error| JobInvalid::Name { what: "kind", error })?;
        Ok(Self { kind, queue: None })
    }

    /// The same, in this queue.
    ///
    /// # Errors
    /// When it is not a name.
    pub fn queue(mut self, queue: impl AsRef<str>) -> Result<Self, JobInvalid> {
        self.queue = Some(Name::new(queue).map_err(|error| JobInvalid::Name { what: "queue", error })?);
        Ok(self)
    }

    /// The job to enqueue with this transition; nothing if the job does not die by it. The id follows from the job and its
    /// attempt, so that it is the same however often it is made.
    pub fn follows(
        &self,
        (id, queue, kind): (JobId, &Name, &Name),
        fence: Fence,
        transition: &Transition,
    ) -> Option<NewJob> {
        if transition.state != State::Dead {
            return None;
        }
        let dead = DeadJob {
            id,
            queue: queue.clone(),
            kind: kind.clone(),
            reason: transition.reason,
            error: transition.error.as_deref().map(|text| bounded_text(text, ERROR_MAX)),
            attempts: transition.counters.attempt,
        };
        Some(self.job(&dead, &fence.to_string()))
    }

    /// The job to enqueue for one that died inside the store, because it did not start in time. It does so once.
    pub fn for_expired(&self, job: &JobRecord) -> NewJob {
        let dead = DeadJob {
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            reason: job.reason,
            error: None,
            attempts: job.counters.attempt,
        };
        self.job(&dead, EXPIRED)
    }

    fn job(&self, dead: &DeadJob, death: &str) -> NewJob {
        let DeadJob { id, queue, .. } = dead;
        let payload = serde_json::to_vec(dead).expect("names and texts are JSON");
        let options = Options::new().queue(self.queue.as_ref().unwrap_or(queue).as_str());
        let job = NewJob::new(&self.kind, payload, options).expect("its names were checked");
        job.with_id(JobId::from_key("windlass.on_dead", &format!("{id} {death}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Counters, Facts, Spec};
    use crate::judge;
    use crate::outcome::{Failure, Outcome};

    #[test]
    fn only_a_death_is_followed() {
        let hook = OnDead::kind("alert").unwrap().queue("ops").unwrap();
        let (queue, kind) = (Name::new("mail").unwrap(), Name::new("send").unwrap());
        let facts = Facts { counters: Counters::default(), spec: Spec::default() };
        let id = JobId::new();
        let follows = |outcome| {
            hook.follows((id, &queue, &kind), Fence { number: 3, nonce: 1 }, &judge(&facts, outcome, 0.5))
        };
        assert_eq!(follows(Outcome::Completed { output: None }), None);
        assert_eq!(follows(Outcome::Cancelled), None);
        let job = follows(Outcome::Fail { failure: Failure::error("no such mailbox") }).unwrap();
        assert_eq!((job.kind.as_str(), job.queue.as_str()), ("alert", "ops"));
        let dead: DeadJob = serde_json::from_slice(&job.payload).unwrap();
        assert_eq!(
            (dead.id, dead.reason, dead.error.as_deref()),
            (id, Some(Reason::Permanent), Some("no such mailbox"))
        );
        assert_eq!(follows(Outcome::Fail { failure: Failure::error("no such mailbox") }).unwrap().id, job.id);
    }
}
