//! How this crate repeats store calls: the pauses between tries, and what a panic in a store means. The loop itself is
//! [`with_retries`](windlass_core::backoff::with_retries).

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use windlass_core::StoreError;
use windlass_core::backoff::{Retries, Transient, pause};
use windlass_core::store::StoreResult;

use crate::error::Error;

const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause after a failure.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long a background part waits after so many failures in a row.
pub(crate) fn backoff(failures: u32) -> Duration {
    pause(failures, PAUSE_MIN, PAUSE_MAX)
}

/// About this interval, so that workers which started together do not stay in step.
pub(crate) fn spread(interval: Duration) -> Duration {
    interval.mul_f64(0.75 + fastrand::f64() / 2.0)
}

/// Repeats a call of a background part until the store answers.
pub(crate) fn endless() -> Retries {
    Retries::endless(PAUSE_MIN, PAUSE_MAX)
}

/// Waits for all of the pause, and goes on.
pub(crate) fn wait<E>(_error: &E, pause: Duration) -> impl Future<Output = bool> + use<E> {
    async move {
        tokio::time::sleep(pause).await;
        true
    }
}

impl Transient for Error {
    fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_transient())
    }
}

/// A store call whose panic is a lost answer.
pub(crate) async fn caught<T>(call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|panic| Err(lost(&*panic)))
}

/// What a panic in a store call, or around it, means to the caller.
pub(crate) fn lost(panic: &(dyn Any + Send)) -> StoreError {
    StoreError::Unknown { what: panic_text(panic), source: None }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.map_or_else(|| "panicked without a text".to_owned(), |text| format!("panicked: {text}"))
}
