//! The client's lanes: single calls share a store call, and a store that is away for a moment is asked again.
//!
//! Repeating is safe, because callers make the ids and reports are fenced. A refusal of one job in a batch
//! never refuses its neighbours.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use windlass_core::batch::{Lane, lane};
use windlass_core::store::{Enqueued, Progress, Settled, StoreResult};
use windlass_core::{JobId, NewJob, Store, StoreError, StoreErrorKind};

use crate::supervise::panic_text;

/// What one caller gets.
pub(super) type Answer<T> = Result<T, StoreError>;

/// Calls that wait; beyond it, callers wait too.
const WAITING_MAX: usize = 8_192;
/// Items of one store call.
const BATCH_MAX: usize = 1_000;
/// How often a call is tried while the store is away.
const TRIES_MAX: u32 = 5;
const BACKOFF_FIRST: Duration = Duration::from_millis(25);

/// A lane for enqueues.
pub(super) fn enqueues(store: Arc<dyn Store>) -> Lane<NewJob, Answer<Enqueued>> {
    let call = move |jobs: Arc<[NewJob]>| {
        let store = Arc::clone(&store);
        async move { store.enqueue(&jobs).await }
    };
    spawn(|job| job.id, call)
}

/// A lane for progress reports.
pub(super) fn reports(store: Arc<dyn Store>) -> Lane<Progress, Answer<Settled>> {
    let call = move |reports: Arc<[Progress]>| {
        let store = Arc::clone(&store);
        async move { store.progress(&reports).await }
    };
    spawn(|report| report.id, call)
}

fn spawn<T, R, F, Fut>(id: fn(&T) -> JobId, call: F) -> Lane<T, Answer<R>>
where
    T: Clone + Send + Sync + 'static,
    R: Send + 'static,
    F: Fn(Arc<[T]>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = StoreResult<Vec<R>>> + Send,
{
    let (lane, driver) = lane(WAITING_MAX, BATCH_MAX);
    let call = Arc::new(call);
    tokio::spawn(driver.run(move |items: Vec<T>| {
        let call = Arc::clone(&call);
        async move {
            let count = items.len();
            let flushed = AssertUnwindSafe(flush(items.into(), id, &*call)).catch_unwind().await;
            // A panic around the call concerns those who wait for it, and nobody who comes later.
            flushed.unwrap_or_else(|panic| {
                copies(StoreError::Unknown { what: panic_text(&*panic), source: None }, count)
            })
        }
    }));
    lane
}

/// One answer per item, whatever happens. An item that is refused by name is taken out and the others go
/// again, so each round answers at least one.
async fn flush<T, R, F, Fut>(mut items: Arc<[T]>, id: fn(&T) -> JobId, call: &F) -> Vec<Answer<R>>
where
    T: Clone,
    F: Fn(Arc<[T]>) -> Fut,
    Fut: Future<Output = StoreResult<Vec<R>>>,
{
    let mut refused: Vec<(usize, StoreError)> = Vec::new();
    let mut answers = loop {
        let error = match insistent(|| call(Arc::clone(&items))).await {
            Ok(answers) => break answers.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => error,
        };
        let named = blamed(&error).and_then(|job| items.iter().position(|item| id(item) == job));
        match named {
            Some(position) if items.len() > 1 => {
                refused.push((position, error));
                let others = items.iter().enumerate().filter(|(index, _)| *index != position);
                items = others.map(|(_, item)| item.clone()).collect();
            }
            _ => break copies(error, items.len()),
        }
    };
    // Positions count in what was left at the time, so they go back in the opposite order.
    for (position, error) in refused.into_iter().rev() {
        answers.insert(position.min(answers.len()), Err(error));
    }
    answers
}

/// The job that a refusal is about.
fn blamed(error: &StoreError) -> Option<JobId> {
    match error {
        StoreError::TooLarge { id, .. } | StoreError::IdTaken { id } => Some(*id),
        _ => None,
    }
}

/// Calls until the store answers, a few times. A panic in the store is an answer too. Once a call has been lost, that
/// the store was away afterwards says nothing about what became of it.
pub(super) async fn insistent<R, Fut>(call: impl Fn() -> Fut) -> StoreResult<R>
where
    Fut: Future<Output = StoreResult<R>>,
{
    let mut backoff = BACKOFF_FIRST;
    let mut tries_left = TRIES_MAX;
    let mut is_in_doubt = false;
    loop {
        tries_left -= 1;
        let answer = AssertUnwindSafe(call()).catch_unwind().await;
        let answer = answer.unwrap_or_else(|_panic| Err(internal("the store panicked")));
        is_in_doubt |= matches!(&answer, Err(error) if error.kind() == StoreErrorKind::Unknown);
        match answer {
            Err(error) if error.is_transient() && tries_left > 0 => {
                tracing::debug!(%error, tries_left, "the store did not answer, asking again");
                tokio::time::sleep(backoff.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                backoff *= 2;
            }
            Err(error) if is_in_doubt && error.kind() != StoreErrorKind::Refused => {
                let what = format!("an answer was lost, and then: {error}");
                // The error itself stands in the text already; only what lies behind it is told apart.
                let source = match error {
                    StoreError::Unavailable { source, .. }
                    | StoreError::Unknown { source, .. }
                    | StoreError::Internal { source, .. } => source,
                    _ => None,
                };
                return Err(StoreError::Unknown { what, source });
            }
            answer => return answer,
        }
    }
}

fn internal(what: &str) -> StoreError {
    StoreError::Internal { what: what.into(), source: None }
}

/// The same error for each of `count` callers.
fn copies<R>(error: StoreError, count: usize) -> Vec<Answer<R>> {
    if count == 1 {
        return vec![Err(error)];
    }
    let error = Arc::new(error);
    (0..count).map(|_| Err(copy(&error))).collect()
}

/// An error of the same kind and text whose source is the original's.
fn copy(error: &Arc<StoreError>) -> StoreError {
    let source = || -> Option<Box<dyn StdError + Send + Sync>> {
        error.source().is_some().then(|| Box::new(Shared(Arc::clone(error))) as _)
    };
    match &**error {
        StoreError::Unavailable { what, .. } => {
            StoreError::Unavailable { what: what.clone(), source: source() }
        }
        StoreError::Unknown { what, .. } => StoreError::Unknown { what: what.clone(), source: source() },
        other => StoreError::Internal { what: other.to_string(), source: source() },
    }
}

/// The source of an error that several callers hold.
struct Shared(Arc<StoreError>);

impl Shared {
    fn source_text(&self) -> String {
        self.0.source().map_or_else(|| self.0.to_string(), ToString::to_string)
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source_text())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl StdError for Shared {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source().and_then(StdError::source)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// What a caller is told when the store answers with these errors, one after the other.
    async fn told(answers: impl IntoIterator<Item = StoreError>) -> StoreErrorKind {
        error_after(answers).await.kind()
    }

    async fn error_after(answers: impl IntoIterator<Item = StoreError>) -> StoreError {
        let answers = RefCell::new(answers.into_iter());
        let call = async || Err::<(), _>(answers.borrow_mut().next().expect("no more tries than answers"));
        insistent(call).await.expect_err("no answer is a result")
    }

    fn away() -> StoreError {
        StoreError::Unavailable { what: "down".into(), source: None }
    }

    fn lost() -> StoreError {
        StoreError::Unknown { what: "broke".into(), source: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_stays_unknown_when_the_store_is_away_afterwards() {
        assert_eq!(told([away(), away(), away(), away(), away()]).await, StoreErrorKind::Unavailable);
        assert_eq!(told([lost(), away(), away(), away(), away()]).await, StoreErrorKind::Unknown);
        assert_eq!(told([away(), lost(), internal("defect")]).await, StoreErrorKind::Unknown);
        let taken = StoreError::IdTaken { id: JobId::new() };
        assert_eq!(told([lost(), taken]).await, StoreErrorKind::Refused);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_is_told_with_its_cause_and_once() {
        let lost = || StoreError::Unknown { what: "broke".into(), source: Some("pulled out".into()) };
        let error = error_after([lost(), lost(), lost(), lost(), lost()]).await;
        assert_eq!(error.to_string().matches("broke").count(), 1, "{error}");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("pulled out"));
    }
}
