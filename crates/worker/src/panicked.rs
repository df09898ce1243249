//! Panics of handlers: caught, with their place in the source.
//!
//! What a panic carries does not say where it came from; only the panic hook of the program is told. So a hook is
//! put in front of the one that is there when the first worker starts: it notes the place for the thread that
//! panics, and calls the other. A program that sets a hook later and does not call the one before it loses the
//! places and nothing else.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::retries::panic_text;

thread_local! {
    /// Where this thread has panicked last.
    static PLACE: Cell<Option<Box<str>>> = const { Cell::new(None) };
}

/// A caught panic.
pub(crate) struct Panicked {
    carried: Box<dyn Any + Send>,
    place: Option<Box<str>>,
}

impl Panicked {
    /// What it said, and where.
    pub(crate) fn text(&self) -> String {
        let text = panic_text(&*self.carried);
        match (&self.place, text.strip_prefix("panicked")) {
            (Some(place), Some(rest)) => format!("panicked at {place}{rest}"),
            _ => text,
        }
    }

    /// Forgets it. What a panic carries may panic in its own destructor; a few bytes are the better loss.
    pub(crate) fn forget(self) {
        std::mem::forget(self.carried);
    }

    /// Goes on with it on this thread, from the place where it began.
    pub(crate) fn resume(self) -> ! {
        PLACE.set(self.place);
        resume_unwind(self.carried)
    }
}

/// Runs something that may panic.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    // What is there belongs to a panic that was caught by others.
    PLACE.take();
    catch_unwind(AssertUnwindSafe(work)).map_err(|carried| Panicked { carried, place: PLACE.take() })
}

/// Has the places of panics noted from now on.
pub(crate) fn note_places() {
    static ONCE: Once = Once::new();
    // A hook cannot be set by a thread that panics; the next worker does it.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            let place = panic.location().map(|place| place.to_string().into_boxed_str());
            // A thread that ends has no place for it any more.
            let _ = PLACE.try_with(|noted| noted.set(place));
            before(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_panic_has_its_place_and_the_programs_own_hook_still_hears_it() {
        let heard = Arc::new(AtomicU32::new(0));
        let (hears, before) = (Arc::clone(&heard), take_hook());
        set_hook(Box::new(move |panic| {
            hears.fetch_add(1, Ordering::SeqCst);
            before(panic);
        }));
        note_places();
        note_places();

        let line = line!() + 1;
        let Err(panicked) = catch(|| panic!("boom"));
        let text = panicked.text();
        assert!(text.starts_with(&format!("panicked at crates/worker/src/panicked.rs:{line}:")), "{text}");
        assert!(text.ends_with(": boom"), "{text}");
        assert!(heard.load(Ordering::SeqCst) >= 1, "the hook before ours is called");

        let moved = std::thread::spawn(move || match catch(|| panicked.resume()) {
            Ok(()) => unreachable!("a panic that goes on never returns"),
            Err(panicked) => panicked.text(),
        });
        assert_eq!(moved.join().unwrap(), text, "the place goes along to another thread");

        assert!(catch_unwind(|| panic!("caught by others")).is_err());
        let Err(other) = catch(|| resume_unwind(Box::new("from elsewhere")));
        assert_eq!(
            other.text(),
            "panicked: from elsewhere",
            "a place of another panic is not taken for its own"
        );

        let Err(wordless) = catch(|| panic_any(7));
        assert!(wordless.text().ends_with(" without a text"), "{}", wordless.text());
    }
}
