//! Asking a store that is away for a moment again.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use tokio::time::Instant;
use windlass_core::store::{CALL_MEMORY, StoreResult};
use windlass_core::{CallId, StoreError, StoreErrorKind};

use super::lane::Call;
use crate::supervise::panic_text;

/// How often a store that does not answer is asked.
const TRIES_MAX: u32 = 5;
const PAUSE_FIRST: Duration = Duration::from_millis(25);
/// No call is repeated later than this after its first try: by then the store knows it for as long again.
const REPEAT_MAX: Duration = Duration::from_secs(CALL_MEMORY.as_secs() / 2);

/// What becomes of a call that the store says it has not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It is made again: its items belong together.
    AsItWas,
    /// If it has several items, it comes back: it may have been too much at once.
    Halved,
}

/// How often the store may still be asked, over several calls. An answer sets it back.
#[derive(Debug)]
pub(super) struct Tries {
    left: u32,
    pause: Duration,
}

impl Tries {
    pub(super) fn new() -> Self {
        Self { left: TRIES_MAX, pause: PAUSE_FIRST }
    }

    /// The store has not answered the last calls: a single try tells whether it answers the next.
    pub(super) fn last() -> Self {
        Self { left: 1, pause: PAUSE_FIRST }
    }

    pub(super) fn are_left(&self) -> bool {
        self.left > 0
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        self.pause *= 2;
    }
}

/// When a call was first made, by both clocks: one stands still while the machine sleeps, the other can be set.
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

/// Makes a call until the store answers, a few times, under one id. Once an answer has been lost, that the store was
/// away afterwards says nothing about what became of the call. A panic in the store is a lost answer.
pub(super) async fn insist<C: Call>(
    call: &C,
    items: &[C::Item],
    repeat: Repeat,
    tries: &mut Tries,
) -> StoreResult<Vec<C::Answer>> {
    let (id, begun) = (CallId::new(), Begun::now());
    let mut is_in_doubt = false;
    loop {
        tries.left = tries.left.saturating_sub(1);
        let asked = AssertUnwindSafe(call.ask(id, items)).catch_unwind().await;
        let error = match asked {
            Ok(Ok(answers)) => {
                *tries = Tries::new();
                let (given, asked) = (answers.len(), items.len());
                return if given == asked { Ok(answers) } else { Err(miscounted(given, asked)) };
            }
            Ok(Err(error)) => error,
            Err(panic) => StoreError::Unknown { what: panic_text(&*panic), source: None },
        };
        is_in_doubt |= error.kind() == StoreErrorKind::Unknown;
        if !error.is_transient() {
            *tries = Tries::new();
        }
        let is_over = !tries.are_left() || !begun.may_be_repeated_after(tries.pause);
        if !error.is_transient() || is_over {
            let is_answer = error.kind() == StoreErrorKind::Refused;
            return Err(if is_in_doubt && !is_answer { in_doubt(error) } else { error });
        }
        tracing::debug!(%error, tries_left = tries.left, "the store did not answer, asking again");
        tries.pause().await;
        if repeat == Repeat::Halved && items.len() > 1 && (C::IS_FENCED || !is_in_doubt) {
            return Err(error);
        }
    }
}

/// An answer was lost, and the last error does not say what became of the call.
fn in_doubt(error: StoreError) -> StoreError {
    let what = format!("an answer was lost, and then: {error}");
    // The error itself stands in the text already; only what lies behind it is told apart.
    let source = match error {
        StoreError::Unavailable { source, .. }
        | StoreError::Unknown { source, .. }
        | StoreError::Internal { source, .. } => source,
        _ => None,
    };
    StoreError::Unknown { what, source }
}

fn miscounted(given: usize, asked: usize) -> StoreError {
    StoreError::Unknown { what: format!("the store gave {given} answers about {asked} items"), source: None }
}
