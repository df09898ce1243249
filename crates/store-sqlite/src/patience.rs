//! Waiting for the write lock of the file, which other processes want too.
//!
//! SQLite calls [`wait`] whenever a lock is held. Sleeps are short and uneven, so that processes do not march
//! in step. A process that commits without pause would still keep the others out, because the lock is free
//! for microseconds only: a writer that has waited for a while asks for a turn through a few bytes in the bell file,
//! and a writer that sees the request after its commit lets the lock lie for longer than one sleep.

use std::cell::RefCell;
use std::fs::File;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::wakeup::{read_at, write_at};

/// How long a caller waits for the lock before it hears that the store is unavailable.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The longest of the sleeps.
const SLEEP_MAX: Duration = Duration::from_millis(2);
/// After how long a waiter asks for a turn, and how long until it asks again.
const ASK_AFTER: Duration = Duration::from_millis(4);
/// Where the request stands in the bell file.
const REQUEST_AT: u64 = 4096;

thread_local! {
    static WAIT: RefCell<Wait> = RefCell::new(Wait::default());
}

#[derive(Default)]
struct Wait {
    began: Option<Instant>,
    asked: Option<Instant>,
    turns: Option<Arc<File>>,
    /// Less than [`PATIENCE`] for what can as well be done later.
    limit: Option<Duration>,
}

/// Does something that waits for locks no longer than this.
pub(crate) fn at_most<T>(limit: Duration, act: impl FnOnce() -> T) -> T {
    WAIT.with_borrow_mut(|wait| wait.limit = Some(limit));
    let done = act();
    WAIT.with_borrow_mut(|wait| (wait.limit, wait.began) = (None, None));
    done
}

/// The busy handler of every connection. `count` is how often it has been called for the same lock.
pub(crate) fn wait(count: i32) -> bool {
    let patient = WAIT.with_borrow_mut(|wait| wait.goes_on(count == 0));
    if patient {
        let longest = SLEEP_MAX.min(Duration::from_micros(100 << count.clamp(0, 5)));
        thread::sleep(longest.mul_f64(0.1 + 0.9 * fastrand::f64()));
    }
    patient
}

impl Wait {
    fn goes_on(&mut self, is_new: bool) -> bool {
        let now = Instant::now();
        if is_new {
            (self.began, self.asked) = (Some(now), Some(now));
        }
        let waited = self.began.map_or(Duration::ZERO, |began| now - began);
        if self.limit.is_none() && self.asked.is_none_or(|asked| now - asked > ASK_AFTER) {
            self.asked = Some(now);
            if let Some(file) = &self.turns {
                // A request that cannot be written only costs fairness.
                let _ = write_at(file, &fastrand::u64(1..).to_le_bytes(), REQUEST_AT);
            }
        }
        waited < self.limit.unwrap_or(PATIENCE)
    }
}

/// How a writer notices that another process waits for a turn.
pub(crate) struct Turns {
    file: Arc<File>,
    seen: u64,
}

impl Turns {
    /// For the thread that calls this: its own waits ask for turns through the same file.
    pub(crate) fn of_this_thread(file: Arc<File>) -> Self {
        WAIT.with_borrow_mut(|wait| wait.turns = Some(Arc::clone(&file)));
        let mut turns = Self { file, seen: 0 };
        turns.seen = turns.request();
        turns
    }

    /// Called with the lock held: requests up to now, its own among them, are as good as met.
    pub(crate) fn taken(&mut self) {
        if WAIT.with_borrow_mut(|wait| wait.began.take()).is_some() {
            self.seen = self.request();
        }
    }

    /// Called after a commit: leaves the lock to others, if one has asked for it since. Answers whether it did.
    pub(crate) fn give(&mut self) -> bool {
        let request = self.request();
        let is_asked = request != self.seen;
        if is_asked {
            self.seen = request;
            thread::sleep(SLEEP_MAX + SLEEP_MAX / 4);
        }
        is_asked
    }

    fn request(&self) -> u64 {
        let mut bytes = [0; 8];
        match read_at(&self.file, &mut bytes, REQUEST_AT) {
            Ok(8) => u64::from_le_bytes(bytes),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_met_once() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let mut turns = Turns { file: Arc::clone(&file), seen: 0 };
        assert!(!turns.give(), "no process asked");
        write_at(&file, &7u64.to_le_bytes(), REQUEST_AT).unwrap();
        let before = Instant::now();
        assert!(turns.give());
        assert!(before.elapsed() > SLEEP_MAX, "for longer than one sleep");
        assert!(!turns.give(), "the request was met");
    }

    #[test]
    fn patience_ends() {
        let mut wait = Wait::default();
        assert!(wait.goes_on(true));
        wait.began = Instant::now().checked_sub(PATIENCE);
        assert!(!wait.goes_on(false));
    }
}
