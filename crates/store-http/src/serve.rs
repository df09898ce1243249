//! What a server answers to a verb: whether the caller may, and what its store says. Knows no HTTP.
//!
//! Called by the route of `windlass-server`, in work of its own: once a call has begun it runs to its end, whatever its caller
//! does.

mod rings;

use std::collections::HashMap;
use std::sync::Arc;

use windlass_core::{Bytes, JobId, JobRecord, Name, Store, StoreError};

use crate::wire::verbs::{Visit, visit};
use crate::wire::{Answer, Sort, Touch, Verb, WireError};

pub use rings::{Ringing, pass};

/// What stands in place of an error that is masked, and of other content.
const MASKED: &str = "(masked)";
const MASKED_JSON: &[u8] = b"\"(masked)\"";

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowed {
    /// Looks.
    Look,
    /// Enqueues, works, and changes jobs and queues.
    Change,
    /// Also removes what was defined.
    Remove,
}

/// Who calls, as far as it matters here.
#[derive(Debug, Clone)]
pub struct Grant {
    /// What it may do.
    pub may: Allowed,
    /// The only queues that it reaches; all with nothing.
    pub queues: Option<Arc<[Name]>>,
    /// The queue of the server's own records, which no call reaches.
    pub closed: Name,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Refusal {
    /// There is no such verb.
    NoVerb,
    /// The request does not read.
    Malformed(String),
    /// The caller may not.
    Forbidden(String),
    /// The store's error.
    Store(StoreError),
}

impl Refusal {
    /// What is sent beside the problem.
    pub fn problem(&self) -> WireError {
        let refused = |text: &str| WireError::of(&StoreError::Refused(text.to_owned()));
        match self {
            Self::NoVerb => refused("the server does not know this call: upgrade it"),
            Self::Malformed(text) | Self::Forbidden(text) => refused(text),
            Self::Store(error) => WireError::of(error),
        }
    }
}

impl Grant {
    /// Whether it may see and change what is of this queue.
    pub fn reaches(&self, queue: &Name) -> bool {
        *queue != self.closed && self.queues.as_ref().is_none_or(|queues| queues.contains(queue))
    }

    fn permit(&self, sort: Sort) -> Result<(), Refusal> {
        let needed = match sort {
            Sort::Read => Allowed::Look,
            Sort::Work | Sort::Lease | Sort::Change => Allowed::Change,
            Sort::Remove => Allowed::Remove,
        };
        let name = match needed {
            Allowed::Look => "viewer",
            Allowed::Change => "operator",
            Allowed::Remove => "admin",
        };
        if self.may >= needed {
            return Ok(());
        }
        Err(Refusal::Forbidden(format!("this token may not: use one of role {name}")))
    }

    async fn may_touch(&self, reach: Touch<'_>, store: &dyn Store) -> Result<(), Refusal> {
        match reach {
            Touch::Any | Touch::Answer => Ok(()),
            Touch::Store if self.queues.is_none() => Ok(()),
            Touch::Store => {
                let text = "this is about the whole store, and the token is limited to queues";
                Err(Refusal::Forbidden(text.to_owned()))
            }
            Touch::Queues(queues) => self.all(queues.into_iter()),
            Touch::Content(queue) => {
                self.all([queue].into_iter())?;
                if self.is_masked(queue, store).await? {
                    let text = format!("what queue {queue} keeps is masked: use a token of role operator");
                    return Err(Refusal::Forbidden(text));
                }
                Ok(())
            }
            Touch::Jobs(_) if self.queues.is_none() => Ok(()),
            Touch::Jobs(ids) => self.all_jobs(&ids, store).await,
        }
    }

    fn all<'n>(&self, mut queues: impl Iterator<Item = &'n Name>) -> Result<(), Refusal> {
        match queues.find(|queue| !self.reaches(queue)) {
            None => Ok(()),
            Some(queue) => Err(Refusal::Forbidden(format!("this token does not reach queue {queue}"))),
        }
    }

    /// Whether what is in a queue is kept from this caller. A definition that does not read may have said so.
    async fn is_masked(&self, queue: &Name, store: &dyn Store) -> Result<bool, Refusal> {
        if self.may > Allowed::Look {
            return Ok(false);
        }
        let queue = store.queue(queue).await.map_err(Refusal::Store)?;
        Ok(queue.is_some_and(|queue| queue.config.masked || queue.unreadable.is_some()))
    }

    /// Takes out what is masked.
    async fn mask(&self, jobs: Vec<&mut JobRecord>, store: &dyn Store) -> Result<(), Refusal> {
        let mut known: HashMap<Name, bool> = HashMap::new();
        for job in jobs {
            let is_masked = match known.get(&job.queue) {
                Some(is_masked) => *is_masked,
                None => self.is_masked(&job.queue, store).await?,
            };
            known.insert(job.queue.clone(), is_masked);
            if is_masked {
                job.payload = Bytes::from_static(MASKED_JSON);
                for content in [&mut job.output, &mut job.progress].into_iter().flatten() {
                    *content = Bytes::from_static(MASKED_JSON);
                }
                let errors = job.attempts.iter_mut().filter_map(|attempt| attempt.error.as_mut());
                errors.for_each(|error| MASKED.clone_into(error));
            }
        }
        Ok(())
    }

    /// Looks where jobs are. A job does not change its queue, so the answer holds.
    async fn all_jobs(&self, ids: &[JobId], store: &dyn Store) -> Result<(), Refusal> {
        const AT_ONCE: usize = 100;
        for part in ids.chunks(AT_ONCE) {
            let jobs = store.get(part.into()).await.map_err(Refusal::Store)?;
            self.all(jobs.iter().flatten().map(|job| &job.queue))?;
        }
        Ok(())
    }
}

/// What kind of call a verb is; nothing where there is no such verb.
pub fn sort(verb: &str) -> Option<Sort> {
    struct SortOf;
    impl Visit for SortOf {
        type Out = Sort;
        fn visit<V: Verb>(self) -> Sort {
            V::SORT
        }
    }
    visit(verb, SortOf)
}

/// Answers a verb.
///
/// # Errors
/// When the caller may not, the request makes no sense, or the store has an error.
pub async fn answer(store: &dyn Store, caller: &Grant, verb: &str, body: &[u8]) -> Result<Vec<u8>, Refusal> {
    visit(verb, Ask { store, caller, body }).ok_or(Refusal::NoVerb)?.await
}

struct Ask<'a> {
    store: &'a dyn Store,
    caller: &'a Grant,
    body: &'a [u8],
}

impl<'a> Visit for Ask<'a> {
    type Out = std::pin::Pin<Box<dyn Future<Output = Result<Vec<u8>, Refusal>> + Send + 'a>>;

    fn visit<V: Verb>(self) -> Self::Out {
        Box::pin(self.ask::<V>())
    }
}

impl Ask<'_> {
    async fn ask<V: Verb>(self) -> Result<Vec<u8>, Refusal> {
        let Self { store, caller, body } = self;
        caller.permit(V::SORT)?;
        let asked: V = serde_json::from_slice(body).map_err(|error| Refusal::Malformed(error.to_string()))?;
        caller.may_touch(asked.reach(), store).await?;
        let mut answer = asked.run(store).await.map_err(Refusal::Store)?;
        answer.keep(&|queue| caller.reaches(queue));
        if caller.may == Allowed::Look {
            caller.mask(answer.jobs(), store).await?;
        }
        serde_json::to_vec(&answer).map_err(|error| {
            let what = format!("an answer cannot be written: {error}");
            Refusal::Store(StoreError::Internal { what, source: None })
        })
    }
}

#[cfg(test)]
mod tests;
