//! Repeats a call of the client while the store does not answer: a few times, under one id.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use windlass_core::backoff::{Retries, with_retries};
use windlass_core::store::{CALL_MEMORY, StoreResult};
use windlass_core::{CallId, StoreError, StoreErrorKind};

use crate::retries::caught;

/// How often a store that does not answer is asked.
const TRIES_MAX: u32 = 5;
const PAUSE_MIN: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// No call is repeated later than this after its first try: by then the store knows it for as long again.
const REPEAT_MAX: Duration = Duration::from_secs(CALL_MEMORY.as_secs() / 2);

/// What becomes of a call that the store says it has not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It is made again: its items belong together.
    Whole,
    /// If it has several items, it comes back: it may have been too much at once. What is not fenced does so only while it
    /// is known that nothing was written.
    Halved { is_fenced: bool },
}

/// How often the store is asked, over several calls.
pub(super) fn retries() -> Retries {
    Retries::endless(PAUSE_MIN, PAUSE_MAX).tries_max(TRIES_MAX)
}

/// One call to the store, under the id that all of its tries share.
pub(super) struct OneCall {
    pub(super) id: CallId,
    begun: Begun,
    /// How its first try ended, if that was made elsewhere.
    failed: Option<StoreError>,
}

/// When a call was first made, by both clocks: one stops while the machine sleeps, the other can be set.
struct Begun(Instant, SystemTime);

impl Begun {
    fn now() -> Self {
        Self(Instant::now(), SystemTime::now())
    }

    fn may_be_repeated_after(&self, pause: Duration) -> bool {
        let elapsed = self.0.elapsed().max(self.1.elapsed().unwrap_or_default());
        elapsed + pause < REPEAT_MAX
    }
}

/// Makes a call until the store answers, a few times. After one lost answer the result stays unknown, even if later tries
/// fail cleanly. A panic in the store is a lost answer.
pub(super) async fn repeat<T, Call: Future<Output = StoreResult<Vec<T>>>>(
    items: usize,
    repeat: Repeat,
    retries: &mut Retries,
    call: impl Fn(CallId) -> Call,
) -> StoreResult<Vec<T>> {
    OneCall::new().repeat(items, repeat, retries, call).await
}

impl OneCall {
    pub(super) fn new() -> Self {
        Self { id: CallId::new(), begun: Begun::now(), failed: None }
    }

    /// Goes on with a call whose first try has failed with this error.
    pub(super) async fn repeat_after<T, Call: Future<Output = StoreResult<Vec<T>>>>(
        self,
        error: StoreError,
        items: usize,
        call: impl Fn(CallId) -> Call,
    ) -> StoreResult<Vec<T>> {
        Self { failed: Some(error), ..self }.repeat(items, Repeat::Whole, &mut retries(), call).await
    }

    async fn repeat<T, Call: Future<Output = StoreResult<Vec<T>>>>(
        self,
        items: usize,
        repeat: Repeat,
        retries: &mut Retries,
        call: impl Fn(CallId) -> Call,
    ) -> StoreResult<Vec<T>> {
        let Self { id, begun, mut failed } = self;
        let (mut is_in_doubt, mut is_halved) = (false, false);
        let call = &call;
        let ask = || {
            let failed = failed.take();
            async move {
                match failed {
                    Some(error) => Err(error),
                    None => caught(call(id)).await,
                }
            }
        };
        let pause = |error: &StoreError, pause: Duration| {
            is_in_doubt |= error.kind() == StoreErrorKind::Unknown;
            let is_over = !begun.may_be_repeated_after(pause);
            let may_be_halved = matches!(repeat, Repeat::Halved { is_fenced } if is_fenced || !is_in_doubt);
            is_halved = may_be_halved && items > 1 && !is_over;
            tracing::debug!(%error, is_over, "the store did not answer");
            async move {
                if !is_over {
                    tokio::time::sleep(pause).await;
                }
                !is_over && !is_halved
            }
        };
        let error = match with_retries(retries, ask, pause).await {
            Ok(answers) if answers.len() == items => return Ok(answers),
            Ok(answers) => return Err(miscounted(answers.len(), items)),
            Err(error) => error,
        };
        is_in_doubt |= error.kind() == StoreErrorKind::Unknown;
        let is_answer = error.kind() == StoreErrorKind::Refused;
        Err(if is_in_doubt && !is_answer && !is_halved { in_doubt(error) } else { error })
    }
}

/// An answer was lost, and the last error does not say what became of the call.
fn in_doubt(error: StoreError) -> StoreError {
    let what = format!("an answer was lost, and then: {error}");
    // The text has the error itself already; the source is what was behind it.
    let source = match error {
        StoreError::Unavailable { source, .. }
        | StoreError::Unknown { source, .. }
        | StoreError::Internal { source, .. } => source,
        _ => None,
    };
    StoreError::Unknown { what, source }
}

pub(super) fn miscounted(given: usize, asked: usize) -> StoreError {
    StoreError::Unknown { what: format!("the store gave {given} answers about {asked} items"), source: None }
}
