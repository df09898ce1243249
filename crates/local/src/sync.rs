//! The locks of this crate. Its own tests, which are all about interleavings, run them under a scheduler that
//! tries many; everything else gets those of the standard library. Nothing in here is locked while code of
//! users runs, so a lock is never found poisoned by them.

#[cfg(test)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, Ordering};
#[cfg(test)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks, and goes on where another thread panicked: what a lock guards is whole between any two of its lines.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
